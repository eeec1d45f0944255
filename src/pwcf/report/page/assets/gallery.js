// The gallery: filters, an order, and as many cards as one can look at.
// A phone shows one beside the other's place: fewer, or what follows is out of reach.
const PAGE_SIZE = matchMedia('(max-width: 40rem)').matches ? 8 : 24;
let allRuns = false; // whether cards must say whose they are
let listed = []; // what the filters leave, in order: the detail view goes through it too

const ORDERS = {
  'radius, smallest first': [(entry) => (broken(entry) ? value(entry, 'radius') : null), 1],
  'radius, largest first': [(entry) => (broken(entry) ? value(entry, 'radius') : null), -1],
  'sample number': [(entry) => entry.sample.index, 1],
  'sparsest first': [(entry) => (broken(entry) ? value(entry, 'sparsity') : null), 1],
  'least sparse first': [(entry) => (broken(entry) ? value(entry, 'sparsity') : null), -1],
  'weakest evidence first': [(entry) => (broken(entry) ? value(entry, 'gain') : null), -1],
  'strongest evidence first': [(entry) => (broken(entry) ? value(entry, 'gain') : null), 1],
  'most passes first': [(entry) => value(entry, 'passes'), -1],
};

function gallerySection() {
  if (!entries.length) return;
  const several = page.runs.length > 1;
  const distinct = (of) => [...new Set(entries.map(of).filter((each) => each !== '' && known(each)))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const choices = {
    run: several && page.runs.map((run, i) => [String(i), run.name]),
    class: distinct((entry) => entry.sample.class).map((name) => [name, name]),
    'taken for': distinct((entry) => (broken(entry) || wrongAlready(entry) ? value(entry, 'adversarial_label') : '')).map((name) => [name, name]),
    attack: distinct((entry) => value(entry, 'attack')).map((name) => [name, name]),
    status: distinct((entry) => value(entry, 'status')).map((name) => [name, name]),
    point: [['yes', 'found'], ['no', 'not found'], ['wrong', allTargeted ? 'already of the wanted class' : someTargeted ? 'wrong, or as wanted, already' : 'wrong as it is']],
  };
  const tests = {
    run: (entry, chosen) => entry.run === Number(chosen),
    class: (entry, chosen) => entry.sample.class === chosen,
    'taken for': (entry, chosen) => (broken(entry) || wrongAlready(entry)) && value(entry, 'adversarial_label') === chosen,
    attack: (entry, chosen) => value(entry, 'attack') === chosen,
    status: (entry, chosen) => value(entry, 'status') === chosen,
    point: (entry, chosen) => ({ yes: broken(entry), no: !broken(entry) && !wrongAlready(entry), wrong: wrongAlready(entry) })[chosen],
  };
  const controls = {};
  const filters = h('form', { class: 'filters', 'aria-label': 'Filter and sort the gallery', onsubmit: (event) => event.preventDefault() });
  for (const [name, options] of Object.entries(choices)) {
    if (!options || options.length < 2) continue;
    controls[name] = h('select', { name, onchange: update }, h('option', { value: '' }, 'all'), options.map(([key, text]) => h('option', { value: key }, text)));
    filters.append(h('label', null, name === 'class' && someTargeted ? (allTargeted ? 'wanted class' : 'class or wanted class') : name, controls[name]));
  }
  // One run at first, for the same sample many times over is confusing; of radii if there is one, as it has most to see.
  if (controls.run) controls.run.value = String(Math.max(0, page.runs.findIndex((run) => !known(run.eps))));
  const order = h('select', { name: 'order', onchange: update }, Object.keys(ORDERS).map((name) => h('option', null, name)));
  const search = h('input', { type: 'search', name: 'search', placeholder: 'number, class, attack …', oninput: update });
  const reset = h('button', { type: 'button', onclick: () => { Object.values(controls).forEach((each) => { each.value = ''; }); search.value = ''; update(); } }, 'Clear');
  filters.append(h('label', null, 'order', order), h('label', null, 'search', search), reset);

  const count = h('p', { class: 'count', role: 'status' });
  const cards = h('ul', { class: 'samples' });
  const more = h('button', { type: 'button', class: 'more', onclick: grow }, 'Show more');

  function update() {
    const word = search.value.trim().toLowerCase();
    listed = entries.filter((entry) => Object.entries(controls).every(([name, control]) => control.value === '' || tests[name](entry, control.value))
      && (!word || words(entry).includes(word)));
    const [key, way] = ORDERS[order.value];
    const keyed = listed.map((entry, i) => [key(entry), i, entry]);
    listed = keyed.sort((a, b) => compare(a[0], b[0], way) || a[1] - b[1]).map(([, , entry]) => entry);
    allRuns = page.runs.length > 1 && controls.run?.value === '';
    clear(cards);
    grow();
  }
  function grow() {
    const from = cards.childElementCount;
    cards.append(...listed.slice(from, from + PAGE_SIZE).map(sampleCard));
    const shown = cards.childElementCount;
    more.hidden = shown >= listed.length;
    count.textContent = listed.length ? `${plural(listed.length, 'answer')} of ${entries.length.toLocaleString('en')} match${listed.length === 1 ? 'es' : ''}, ${shown} shown.` : 'Nothing matches. Clear the filters to see all.';
  }
  const notes = [...new Set(page.runs.map((run) => run.note).filter(Boolean))];
  if (page.shown < page.total) notes.unshift(`${page.shown.toLocaleString('en')} of ${page.total.toLocaleString('en')} samples are here, evenly over the order of radii, the nearest and farthest of runs first; the numbers and plots above are of all.`);
  update();
  section('gallery', notes.map((note) => h('p', { class: 'note' }, note)), filters, count, cards, more);
}

const words = (entry) => [entry.sample.id, entry.sample.class, classOf(entry), value(entry, 'adversarial_label'), value(entry, 'attack'), value(entry, 'status'), page.runs[entry.run].name].join(' ').toLowerCase();

function cardFacts(entry) {
  const run = page.runs[entry.run], left = value(entry, 'gain');
  return [`#${entry.sample.id}`, broken(entry) && value(entry, 'attack'), allRuns && run.name,
    broken(entry) && !known(run.eps) && known(left) && `may gain ${percent(left, left < .1 ? 1 : 0)}`].filter(Boolean);
}

function sampleCard(entry) {
  const run = page.runs[entry.run];
  const radius = broken(entry) ? `${number(value(entry, 'radius'), 3)}` : '';
  return h('li', { class: 'sample' }, h('button', { type: 'button', 'aria-label': `Sample ${entry.sample.id}, ${classOf(entry)} → ${verdict(entry)}${radius && `, ${radiusName(entry)} ${radius}`}: details`, onclick: () => openSample(entry.place, entry.run) },
    run.pictures && trio(entry),
    h('span', { class: 'facts-line' }, h('span', null, `${classOf(entry)} → ${verdict(entry)}`), h('strong', null, radius)),
    h('span', { class: 'facts-line small' }, h('span', null, cardFacts(entry).join(' · ')), badge(entry))));
}
