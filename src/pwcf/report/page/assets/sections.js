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
    rest.length > 0 && h('details', null, h('summary', null, `${rest.length} more`), rest)), sweeps(), h('div', { class: 'cards' }, page.cards.map(card)), overview());
}

// Robust accuracy at the usual eps: what most readers come for.
function sweeps() {
  if (!page.sweeps.length) return null;
  return h('div', { class: 'sweeps' }, h('div', { class: 'panels' }, page.sweeps.map((panel) => {
    const names = sweepNames(panel);
    const show = (value, [run]) => (known(value) ? [h('strong', null, percent(value)), shareBar(value, runTone(run))] : '');
    return h('div', { class: panel.eps.length > 4 ? 'wide' : null }, table(
      [{ head: 'eps', show: (run) => [runSwatch(run), names.get(run)] }, { head: panel.targeted ? 'not yet' : 'clean', show }, ...panel.eps.map((eps) => ({ head: eps, show }))],
      panel.rows.map((row) => [row.run, row.clean, ...row.cells.map((cell) => cell && cell.robust)]),
      { caption: `${panel.targeted ? 'Share that no attack turns into the wanted class' : 'Robust accuracy'} within ${panelTitle(panel.metric, { data: panel.data })}` }),
    panel.different && h('p', { class: 'note' }, `Careful: ${panel.different}. pwcf compare takes the samples they share.`),
    asTable(table(
      [{ head: 'run', show: (run) => [runSwatch(run), names.get(run)] }, { head: 'eps' }, { head: 'robust', show: percent }, { head: '95% interval' }, { head: 'open' }].map((column) => ({ ...column, show: column.show && ((value) => column.show(value)) })),
      panel.rows.flatMap((row) => row.cells.filter(Boolean).map((cell) => [row.run, cell.at, cell.robust, `${percent(cell.low)} to ${percent(cell.high)}`, `${whole(cell.unsettled)} of ${whole(cell.samples)}`])),
      { caption: 'Open: samples counted as robust whose search did not converge; of max-loss runs all that are counted as robust' }), 'Intervals and open samples'));
  })), h('p', { class: 'note' }, `Upper bounds: the share of all samples for which no attack found a point within eps. A min-radius run answers for every eps at once${page.runs.some((run) => known(run.eps)) ? ', a max-loss run for its own' : ''}. A longer search or another attack may break more.`));
}

function sweepNames(panel) {
  const of = (rows) => namesAmong(rows.map((row) => row.run));
  const within = (row) => known(page.runs[row.run].eps);
  const radii = of(panel.rows.filter((row) => !within(row))), losses = of(panel.rows.filter(within));
  return new Map(panel.rows.map((row) => [row.run, within(row) ? `${losses.get(row.run)}${radii.size ? ', max-loss' : ''}` : radii.get(row.run)]));
}

function shareBar(share, colour = '') {
  const bar = h('span', { class: 'share', 'aria-hidden': 'true' });
  bar.style.width = `${100 * share}%`;
  bar.style.background = colour;
  return bar;
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
    ['found', (run) => `${run.overview.found} of ${run.overview.attacked}`, (found) => found, 'attacked samples with a verified adversarial point, of all attacked ones: those that are classified correctly as they are'],
    radii && ['converged', (run) => run.overview.converged, whole, GLOSSARY.converged],
    ['passes', (run) => run.overview.passes, whole, 'forward + backward, mean of attacked samples'],
    ['time', (run) => run.overview.seconds, seconds, 'of all samples together'],
  ].filter(Boolean);
  const colour = new Map(page.runs.map((run, i) => [run.name, i]));
  return h('div', null, table(
    columns.map(([head, , show, hint], i) => ({ head, hint, show: i === 0 ? (name) => runName(colour.get(name)) : (value) => show(value) })),
    page.runs.map((run) => columns.map(([, value]) => value(run))),
    { caption: 'All runs', sortable: true }),
  meanings(columns.filter(([, , , hint]) => hint).map(([head, , , hint]) => [head, hint])));
}

// What a word means, where it appears: it opens by pointer, touch and keys alike.
const meanings = (list) => h('details', { class: 'as-table' }, h('summary', null, 'What the words mean'), pairs(list));
const glossarySection = () => section('glossary', pairs(Object.entries(GLOSSARY)));

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
  return spreadsFigure(panel, { title: panelTitle(panel.name, panel), unit: `radius, ${panel.name}`, column: 'radius', marks: panel.marks, after: [ends] });
}

function thumb(each, run) {
  const shown = known(each.sample) && page.samples[each.sample];
  const name = shown ? shown.id : each.index;
  const place = shown ? page.runs[run].rows.sample.indexOf(each.sample) : -1;
  return h('button', { type: 'button', disabled: place < 0, 'aria-label': `Sample ${name}, radius ${number(each.radius, 3)}`, onclick: () => openSample(place, run) },
    shown && shown.picture && h('img', { src: data(shown.picture), alt: `Sample ${name}`, width: 48, height: 48 }), known(each.radius) ? number(each.radius, 3) : `${name}: none`);
}

// Class by class: one run with all its numbers; several beside one another.
function classTable(panel) {
  const { title, data: of, targeted, max_loss: loss, metric, eps, runs } = panel;
  const what = targeted ? 'wanted class' : 'class', names = namesAmong(runs.map((each) => each.run));
  const value = (one) => (loss ? one.robust_accuracy : one.median);
  const most = loss ? 1 : Math.max(0, ...runs.flatMap((each) => each.classes.map(value)).filter(finite)) || 1;
  const show = (run) => (each) => (!known(each) ? '–' : [loss ? percent(each) : radiusText(each), finite(each) && shareBar(each / most, runTone(run))]);
  const sentences = runs.filter((each) => each.worst).map((each) => h('p', { class: 'ends-of' }, runs.length > 1 && [runSwatch(each.run), h('strong', null, names.get(each.run)), ': '], `${runs.length > 1 ? 'worst' : 'Worst'} ${each.worst}; best ${each.best}.`));
  const labels = [...new Map(runs.flatMap((each) => each.classes.map((one) => [one.label, one]))).values()].sort((a, b) => a.label - b.label);
  const of_run = (each, label) => each.classes.find((one) => one.label === label);
  const made = runs.length > 1
    ? table([{ head: what }, ...runs.map((each) => ({ head: names.get(each.run), show: show(each.run) }))],
      labels.map((one) => [one.name, ...runs.map((each) => { const own = of_run(each, one.label); return own ? value(own) : null; })]),
      { caption: loss ? 'Robust accuracy' : 'Median radius of attacked samples', sortable: true })
    : table([{ head: what }, { head: 'samples', show: (count) => whole(count) }, { head: targeted ? 'not yet' : 'clean', show: (share) => percent(share) }, { head: 'found' },
      { head: loss ? 'robust accuracy' : 'median radius', show: show(runs[0].run) }, ...eps.map((one) => ({ head: `robust at ${one}`, show: (share) => percent(share) }))],
    labels.map((one) => [one.name, one.samples, one.clean_accuracy, `${one.found} of ${one.attacked}`, value(one), ...one.robust_at]),
    { caption: loss ? 'Robust accuracy of each class' : `Radii and robust accuracy of each class, ${metric}`, sortable: true });
  return h('div', { class: runs.length > 1 ? null : 'wide' }, h('h3', null, [title, of].filter(Boolean).join(' · ')), sentences, made);
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
  converged: 'var(--tone-2)', found: 'var(--tone-1)', 'not-found': 'var(--tone-0)', contradicted: 'var(--tone-6)', budget: 'var(--tone-4)', stalled: 'var(--tone-3)',
  'max-iterations': 'var(--tone-6)', infeasible: 'var(--tone-7)', unbounded: 'var(--tone-7)', nonfinite: 'var(--tone-5)', 'already-misclassified': 'var(--tone-5)',
};

function costSection() {
  const found = [...new Set(page.statuses.flatMap((each) => Object.keys(each)))];
  const categories = found.map((name) => ({ name, colour: STATUS_COLOURS[name] ?? 'var(--tone-5)', hint: page.status_sentences[name] }));
  const lines = page.runs.map((run, i) => ({ name: run.name, parts: found.map((name) => [name, page.statuses[i][name] ?? 0]) }));
  const sentences = meanings(found.map((name) => [name, page.status_sentences[name] ?? '']));
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
    const i = models.indexOf(line[0]);
    return [number(value), i > 0 && finite(relative[i][j]) && h('span', { class: 'note' }, `  × ${number(relative[i][j], 2)}`), shareBar(value / (most[j] || 1))];
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
