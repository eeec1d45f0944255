// One sample in a dialog: large pictures, all figures, the same sample in other runs. Its address can be shared.
const dialog = document.getElementById('detail');
let current = null;

const addressOf = (entry) => `#sample-${encodeURIComponent(entry.sample.id)}${entry.run ? `:${entry.run}` : ''}`;

// Replaced, not added: the way back leads to where one came from, not through every sample.
function remember(address) {
  try { history.replaceState(null, '', address); } catch { /* inside another page it may be forbidden */ }
}

function openSample(place, run) {
  const entry = entryAt(run, place);
  if (!entry) return;
  current = entry;
  // What has the focus is about to be made anew: whoever goes through samples by keys must not lose their place.
  const held = ['previous', 'next'].find((name) => document.activeElement?.classList.contains(name));
  const again = dialog.open;
  showSample();
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector(`.${held}:not(:disabled)`) ?? (again ? document.getElementById('detail-title') : dialog)).focus({ preventScroll: true });
  dialog.scrollTop = 0;
  remember(addressOf(entry));
}

function openAddress() {
  const match = /^#sample-([^:]+)(?::(\d+))?$/.exec(location.hash);
  if (!match) return;
  let name = match[1];
  try { name = decodeURIComponent(name); } catch { return; }
  const found = entries.filter((each) => each.sample.id === name);
  const entry = found.find((each) => each.run === Number(match[2] ?? -1)) ?? found[0];
  if (entry) openSample(entry.place, entry.run);
}

function neighbour(step) {
  const list = listed.includes(current) ? listed : entries.filter((each) => each.run === current.run);
  return list[list.indexOf(current) + step];
}

function go(step) {
  const next = neighbour(step);
  if (next) openSample(next.place, next.run);
}

const FIGURES = [
  ['loss', (entry) => number(value(entry, 'loss'))],
  ['l0', (entry) => number(value(entry, 'l0'))], ['l1', (entry) => number(value(entry, 'l1'))],
  ['l2', (entry) => number(value(entry, 'l2'))], ['linf', (entry) => number(value(entry, 'linf'))],
  ['soft sparsity', (entry) => number(value(entry, 'sparsity'))],
];
const EVIDENCE = [
  ['a longer search may gain', (entry) => (known(value(entry, 'gain')) ? `at most ${percent(value(entry, 'gain'), 2)}` : 'not known')],
  ['searches that ended here', (entry) => (value(entry, 'searches') ? `${whole(value(entry, 'agreement'))} of ${whole(value(entry, 'searches'))}` : '–')],
  ['stationarity', (entry) => percent(value(entry, 'stationarity'), 2)], ['violation', (entry) => number(value(entry, 'violation'))],
];

function showSample() {
  const entry = current, run = page.runs[entry.run], status = value(entry, 'status');
  const position = listed.indexOf(entry);
  const turn = (step, name, word) => h('button', { type: 'button', disabled: !neighbour(step), onclick: () => go(step), 'aria-label': word, class: step < 0 ? 'previous' : 'next' }, name);
  const found = broken(entry);
  const attacks = run.attacks.filter((each) => run.rows[`radius:${each.name}`]);
  const others = entries.filter((each) => each.sample === entry.sample);
  clear(dialog).append(
    h('div', { class: 'detail-top' },
      h('div', null, h('h3', { id: 'detail-title', tabindex: '-1' }, `Sample ${entry.sample.id}: ${classOf(entry)} → ${verdict(entry)}`),
        h('p', { class: 'note' }, `${run.name}${position >= 0 ? ` · ${position + 1} of ${listed.length}` : ''}`)),
      h('nav', { 'aria-label': 'Samples' }, turn(-1, '←', 'Previous sample'), turn(1, '→', 'Next sample'),
        h('button', { type: 'button', class: 'close', onclick: () => dialog.close() }, 'Close'))),
    run.pictures ? trio(entry) : '',
    h('div', { class: 'columns' },
      pairs([
        [radiusName(entry), found ? h('strong', null, number(value(entry, 'radius'), 5)) : '–'],
        ['metric', run.metric], ['found by', value(entry, 'attack') || '–'],
        ['ended', [badge(entry), run.targeted && wrongAlready(entry) ? '' : ` ${page.status_sentences[status] ?? ''}`]],
        [run.targeted ? 'wanted class' : 'label', entry.sample.class], ['model says', value(entry, 'clean_label')], ['at the point', found ? value(entry, 'adversarial_label') : '–'],
        ['passes', whole(value(entry, 'passes'))],
      ]),
      pairs([
        ...(found ? [...FIGURES, ...(known(run.eps) ? [] : EVIDENCE)].map(([name, show]) => [name, show(entry)]) : []),
        ...(wrongAlready(entry) ? [] : attacks).map((each) => {
          const radius = value(entry, `radius:${each.name}`);
          return [`by ${each.name}`, radius === 'none' ? (known(run.eps) ? 'none' : 'nothing nearer') : known(radius) ? number(radius) : 'not asked'];
        }),
      ])),
    found && !known(run.eps) && meanings(EVIDENCE.map(([name]) => [name, GLOSSARY[name] ?? GLOSSARY.gain])),
    others.length > 1 ? othersTable(entry, others) : '');
}

function othersTable(entry, others) {
  const small = (picture, alt) => (picture ? h('img', { src: data(picture), alt, width: 48, height: 48 }) : '–');
  return h('div', { class: 'others scroll', tabindex: '0', role: 'region', 'aria-label': 'The same sample in all runs' }, h('table', null,
    h('caption', null, 'The same sample in all runs'),
    h('thead', null, h('tr', null, ['run', 'adversarial', 'added', 'taken for', 'radius', 'attack', 'status', ''].map((head, i) => h('th', { scope: 'col', class: i > 0 && i < 4 ? 'text' : null }, head)))),
    h('tbody', null, others.map((each) => h('tr', { 'aria-current': each === entry ? 'true' : null },
      h('th', { scope: 'row' }, runName(each.run)),
      h('td', { class: 'text' }, small(value(each, 'adversarial_picture'), `Adversarial point of ${page.runs[each.run].name}`)),
      h('td', { class: 'text' }, small(value(each, 'perturbation_picture'), `What ${page.runs[each.run].name} added, amplified`)),
      h('td', { class: 'text' }, verdict(each)), h('td', null, broken(each) ? number(value(each, 'radius')) : '–'),
      h('td', null, value(each, 'attack') || '–'), h('td', null, badge(each)),
      h('td', null, each === entry ? '' : h('button', { type: 'button', onclick: () => openSample(each.place, each.run) }, 'Show')))))));
}

dialog.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest('.scroll')) return; // they scroll a table there
  if (event.key === 'ArrowRight') { go(1); event.preventDefault(); }
  if (event.key === 'ArrowLeft') { go(-1); event.preventDefault(); }
});
dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener('close', () => remember(location.pathname + location.search));
addEventListener('hashchange', openAddress);
