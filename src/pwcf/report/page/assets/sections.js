// The sections, in the order of the page. One with nothing to show stays hidden.
function section(id, ...content) {
  const found = content.flat(Infinity).filter(Boolean);
  if (!found.length) return;
  const place = document.getElementById(id);
  place.append(...found);
  place.hidden = false;
}

const runName = (run) => [runSwatch(run), page.runs[run].name];

const NOTICES = 4; // at once: a wall of them is not read

function headline() {
  const notices = [
    ...page.runs.filter((run) => !run.complete).map((run) => ['Not complete', `${run.name}: ${run.overview.samples} of ${run.overview.of} samples so far.`]),
    ...page.remarks.map((remark) => ['Note', remark]),
    ...warnings().map(([sentence, names]) => ['Warning', `${sentence}${page.runs.length > 1 ? ` (${names.join('; ')})` : ''}`]),
  ].map(([word, sentence]) => h('p', { class: 'notice' }, h('strong', null, `${word}. `), sentence));
  const rest = notices.splice(NOTICES);
  section('headline', notices.length > 0 && h('div', { class: 'notices' }, notices,
    rest.length > 0 && h('details', null, h('summary', null, `${rest.length} more`), rest)), h('div', { class: 'cards' }, page.cards.map(card)), overview());
}

function warnings() {
  const found = new Map();
  page.runs.forEach((run) => run.warnings.forEach((sentence) => found.set(sentence, [...(found.get(sentence) ?? []), run.name])));
  return [...found];
}

function card({ title, about, runs, data: of }) {
  const share = about === 'robust accuracy';
  const reach = share ? 1 : Math.max(0, ...runs.flatMap((each) => [each.low, each.value, each.high]).filter(finite)) || 1;
  const several = runs.length > 1, names = namesAmong(runs.map((each) => each.run));
  return h('article', { class: several ? 'card several' : 'card' }, h('h3', null, title), h('p', { class: 'what' }, `${share ? 'Robust accuracy, 95% interval' : 'Median radius, quartiles'}${of ? ` · ${of}` : ''}`),
    runs.map((each) => h('div', { class: 'entry' },
      (several || page.runs.length > 1) && h('p', { class: 'who' }, runSwatch(each.run), names.get(each.run)),
      h('p', { class: 'number' }, share ? percent(each.value) : radiusText(each.value),
        known(each.value) && h('small', null, share ? `${percent(each.low)} to ${percent(each.high)}` : `${number(each.low)} to ${number(each.high)}`)),
      known(each.value) && range(each, reach),
      several
        ? h('details', null, h('summary', null, 'Evidence'), h('p', null, each.sentence), h('ul', null, each.evidence.map((one) => h('li', null, one))))
        : [h('p', null, each.sentence), h('ul', null, each.evidence.map((one) => h('li', null, one)))])));
}

// The number between its quartiles, or in its interval, from zero to the largest of its card.
function range(each, reach) {
  const at = (value) => `${(100 * Math.min(1, (finite(value) ? value : reach) / reach)).toFixed(2)}%`;
  const colour = runTone(each.run);
  return svg('svg', { class: 'range', 'aria-hidden': 'true' },
    svg('line', { x1: '0%', x2: '100%', y1: 7, y2: 7, class: 'axis' }),
    finite(each.low) && svg('line', { x1: at(each.low), x2: at(each.high), y1: 7, y2: 7, stroke: colour, class: 'quartiles' }),
    finite(each.value) && svg('circle', { cx: at(each.value), cy: 7, r: 5.5, fill: colour, class: 'hair-dot' }));
}

function overview() {
  const radii = page.runs.some((run) => !known(run.eps)), losses = page.runs.some((run) => known(run.eps));
  const columns = [
    ['run', (run) => run.name, null, 'what differs between the runs'],
    ['samples', (run) => run.overview.samples, whole],
    [allTargeted ? 'not yet as wanted' : 'clean accuracy', (run) => run.overview.clean, percent,
      [!allTargeted && 'share that is classified correctly as it is', someTargeted && `${allTargeted ? '' : 'targeted: '}share that is not yet of the wanted class`].filter(Boolean).join('; ')],
    losses && ['robust accuracy', (run) => run.overview.robust, percent],
    radii && ['median radius', (run) => run.overview.median, radiusText, 'of all attacked samples'],
    radii && ['mean radius', (run) => run.overview.mean, number, 'of those with a point'],
    ['attacked', (run) => run.overview.attacked, whole],
    ['found', (run) => run.overview.found, whole, 'attacked samples with a verified adversarial point'],
    radii && ['converged', (run) => run.overview.converged, whole, 'evidence says that nearby nothing is left to gain'],
    ['passes', (run) => run.overview.passes, whole, 'forward + backward, mean of attacked samples'],
    ['time', (run) => run.overview.seconds, seconds, 'of all samples together'],
  ].filter(Boolean);
  const colour = new Map(page.runs.map((run, i) => [run.name, i]));
  return table(
    columns.map(([head, , show, hint], i) => ({ head, hint, show: i === 0 ? (name) => runName(colour.get(name)) : (value) => show(value) })),
    page.runs.map((run) => columns.map(([, value]) => value(run))),
    { caption: 'All runs', sortable: true });
}

const panelTitle = (name, { data: of, targeted }) => [name, of, targeted && 'targeted'].filter(Boolean).join(', ');
const panels = (list) => (list.length ? h('div', { class: 'panels' }, list) : null);

function radiusFigure(panel) {
  const many = page.radii.reduce((sum, each) => sum + each.rows.length, 0) > 2;
  const names = rowNames(panel);
  const ends = h('details', { class: 'ends', open: many ? null : true }, h('summary', null, 'Smallest and largest radii'),
    panel.rows.map((row) => [
      h('p', null, runSwatch(row.run), names(row)),
      [['easiest', 'smallest'], ['hardest', 'largest']].map(([which, word]) => row[which].length > 0 && [
        h('p', { class: 'note' }, word), h('ul', { class: 'thumbs' }, row[which].map((each) => h('li', null, thumb(each, row.run)))),
      ]),
    ]));
  return spreadsFigure(panel, { title: panelTitle(panel.name, panel), unit: `radius, ${panel.name}`, column: 'radius', marks: panel.marks, after: [choices(panel), ends] });
}

function thumb(each, run) {
  const shown = known(each.sample) && page.samples[each.sample];
  const name = shown ? shown.id : each.index;
  const place = shown ? page.runs[run].rows.sample.indexOf(each.sample) : -1;
  return h('button', { type: 'button', disabled: place < 0, 'aria-label': `Sample ${name}, radius ${number(each.radius, 3)}`, onclick: () => openSample(place, run) },
    shown && shown.picture && h('img', { src: data(shown.picture), alt: `Sample ${name}`, width: 48, height: 48 }), known(each.radius) ? number(each.radius, 3) : `${name}: none`);
}

// What one eps would have told.
function choices(panel) {
  if (!panel.marks.length) return null;
  const lines = panel.marks.map((mark, i) => [mark.name, ...panel.rows.flatMap((row) => [row.choices[i].robust, row.choices[i].within])]);
  return h('details', { class: 'as-table' }, h('summary', null, 'What one eps would have told'), table(
    [{ head: 'eps' }, ...panel.rows.flatMap((row) => [
      { head: `${rowNames(panel)(row)}: robust`, show: percent }, { head: 'breaks', hint: 'share of attacked samples with a radius no larger: near 0 or 100% this eps tells nothing of the rest', show: percent }])].map((column) => ({ ...column, show: column.show && ((value) => column.show(value)) })),
    lines, { caption: 'Robust accuracy at usual eps, and the share of attacked samples that it breaks' }));
}

function attacksSection() {
  const several = page.runs.map((run, i) => [run, i]).filter(([run]) => run.attacks.length > 1);
  if (!several.length && !page.agreements.length) return;
  const names = [...new Set(several.flatMap(([run]) => run.attacks.map((each) => each.name)))];
  const categories = [...names.map((name, i) => ({ name, colour: tone(i) })), { name: 'not found', colour: 'var(--line)' }];
  const lines = several.map(([run]) => ({ name: run.name, parts: [...run.attacks.map((each) => [each.name, each.best]), ['not found', run.overview.attacked - run.overview.found]] }));
  const all = page.runs.flatMap((run) => run.attacks.map((each) => [run.name, each.name, each.asked, each.found, each.best, each.passes, each.seconds]));
  const tableOfAll = table([
    { head: 'run', text: true }, { head: 'attack', text: true }, { head: 'asked', show: whole, hint: 'samples it was asked about' },
    { head: 'found', show: whole, hint: 'of them with a verified point, nearer than what it was told' },
    { head: 'best', show: whole, hint: 'its point is the one that counts' }, { head: 'passes', show: whole, hint: 'mean of asked samples' },
    { head: 'time', show: (value) => seconds(value) }].map((column) => ({ ...column, show: column.show && ((value) => column.show(value)) })),
  all, { caption: 'All attacks', sortable: true });
  section('attacks', h('div', { class: 'stack' },
    lines.length > 0 && barsFigure({ title: 'Whose point counts', about: 'Of attacked samples: the attack that found the nearest point, or the first that broke it.', lines, categories, tabular: tableOfAll }),
    page.agreements.length > 0 && agreementList()));
}

function agreementList() {
  const open = page.agreements.length <= 2;
  return h('div', null, h('h3', null, 'Who breaks what'), page.agreements.map((each) => h('details', { class: 'origin', open: open ? true : null },
    h('summary', null, each.title),
    h('div', null,
      h('p', null, `Of ${plural(each.samples, 'attacked sample')}${known(each.eps) ? `, at eps ${number(each.eps, 3)} (the smallest median radius)` : ''}, all together break ${each.union}. `,
        `One after the other, always the one that adds most: ${each.union_curve.map(([name, count]) => `${name} ${count}`).join(', then ')}.`),
      table([{ head: 'breaks …' }, { head: 'in all' }, { head: 'alone', hint: 'samples that no other breaks' }, ...each.names.map((name) => ({ head: `not ${name}` }))],
        each.names.map((name, i) => [name, each.counts[i], each.alone[i], ...each.only_first[i].map((count, j) => (i === j ? '' : count))]),
        { caption: 'Separate runs about the same samples' })))));
}

const STATUS_COLOURS = {
  converged: 'var(--tone-2)', found: 'var(--tone-1)', 'not-found': 'var(--tone-0)', budget: 'var(--tone-4)', stalled: 'var(--tone-3)',
  'max-iterations': 'var(--tone-6)', infeasible: 'var(--tone-7)', unbounded: 'var(--tone-7)', nonfinite: 'var(--tone-5)', 'already-misclassified': 'var(--tone-5)',
};

function costSection() {
  const found = [...new Set(page.statuses.flatMap((each) => Object.keys(each)))];
  const categories = found.map((name) => ({ name, colour: STATUS_COLOURS[name] ?? 'var(--tone-5)', hint: page.status_sentences[name] }));
  const lines = page.runs.map((run, i) => ({ name: run.name, parts: found.map((name) => [name, page.statuses[i][name] ?? 0]) }));
  const sentences = h('details', { class: 'as-table' }, h('summary', null, 'What the words mean'), pairs(found.map((name) => [name, page.status_sentences[name] ?? ''])));
  const bars = found.length > 0 && barsFigure({ title: 'How searches ended', about: 'Of attacked samples.', lines, categories,
    tabular: table([{ head: 'run' }, ...found.map((name) => ({ head: name, show: (value) => whole(value) }))], lines.map((line) => [line.name, ...line.parts.map(([, count]) => count)]), { caption: 'How searches ended' }) });
  if (bars) bars.append(sentences);
  section('cost', h('div', { class: 'stack' }, bars, h('div', { class: 'panels' },
    page.gain && spreadsFigure(page.gain, { title: 'What may be left to gain', about: 'By what share of its radius a much longer search is likely to lower it at most, by how many independent searches agree. Smaller is better evidence.', unit: 'share of the radius', column: 'gain', text: (value) => `${number(100 * value, 2)}%` }),
    page.passes && spreadsFigure(page.passes, { title: 'Passes of each sample', about: 'Forward + backward, of all attacks, checks and evidence together.', unit: 'passes', column: 'passes', text: (value) => whole(value) }))));
}

const crossSection = () => section('cross', page.cross.map(crossTable));

function crossTable({ data: of, models, metrics, median, relative }) {
  const most = metrics.map((_, j) => Math.max(0, ...median.map((line) => line[j]).filter(finite)));
  const cell = (j) => (value, line) => {
    if (!finite(value)) return radiusText(value);
    const bar = h('span', { class: 'share', 'aria-hidden': 'true' });
    bar.style.width = `${(100 * value) / (most[j] || 1)}%`;
    const i = models.indexOf(line[0]);
    return [number(value), i > 0 && finite(relative[i][j]) && h('span', { class: 'note' }, `  × ${number(relative[i][j], 2)}`), bar];
  };
  return table([{ head: 'model' }, ...metrics.map((metric, j) => ({ head: metric, show: cell(j) }))], models.map((model, i) => [model, ...median[i]]),
    { caption: `${of ? `${of}: median` : 'Median'} radius; × is relative to ${models[0]}`, sortable: true });
}

// Tables of the registry: columns and lines as they are.
const tablesSection = () => section('tables', page.tables.length > 0 && h('div', { class: 'stack' }, page.tables.map(({ about, columns, rows }) => table(
  columns.map((head, i) => ({ head, text: rows.some((line) => typeof line[i] === 'string' && line[i] !== 'inf'),
    show: (value) => (typeof value === 'number' || value === 'inf' ? number(value) : value ?? '–') })),
  rows, { caption: about[0].toUpperCase() + about.slice(1), sortable: true }))));

function provenanceSection() {
  section('provenance', page.runs.map((run, i) => h('details', { class: 'origin', open: page.runs.length === 1 ? true : null },
    h('summary', null, runName(i), run.complete ? '' : ' (not complete)'),
    h('div', null, h('div', { class: 'command' }, h('pre', null, h('code', null, run.provenance.command)), copyButton(run.provenance.command)),
      pairs(run.provenance.pairs),
      h('h3', null, 'Attacks'), pairs(run.provenance.attacks),
      h('details', null, h('summary', null, 'All settings, as resolved'), pairs(run.provenance.settings.map(([name, value]) => [name, value === '' ? '–' : value])))))));
}

function copyButton(text) {
  if (!navigator.clipboard) return null;
  return h('button', { type: 'button', onclick: async (event) => {
    const button = event.currentTarget;
    try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; } catch { button.textContent = 'Select it by hand'; }
  } }, 'Copy');
}
