// Samples as the gallery, the plots and the detail view know them: a place in the rows of a run.
const data = (picture) => `data:image/png;base64,${picture}`;

const entries = page.runs.flatMap((run, r) => run.rows.sample.map((sample, place) => ({ run: r, place, sample: page.samples[sample] })));
const entryAt = (run, place) => entries.find((each) => each.run === run && each.place === place);
const value = (entry, column) => page.runs[entry.run].rows[column]?.[entry.place];

const wrongAlready = (entry) => value(entry, 'status') === 'already-misclassified';
const broken = (entry) => value(entry, 'found') && !wrongAlready(entry);
// What it was: its label, or, where that is the class one wants, what the model says of it.
const classOf = (entry) => (page.runs[entry.run].targeted ? value(entry, 'clean_label') : entry.sample.class);
const alreadyWord = (entry) => (page.runs[entry.run].targeted ? 'already of the wanted class' : 'wrong as it is');
const radiusName = (entry) => (known(page.runs[entry.run].eps) ? 'distance' : 'radius');

function sampleSentence(run, place) {
  const entry = { run, place, sample: page.samples[page.runs[run].rows.sample[place]] };
  return `sample ${entry.sample.id} (${classOf(entry)} → ${value(entry, 'adversarial_label')})`;
}

function verdict(entry) {
  const status = value(entry, 'status');
  if (status === 'nonfinite') return 'no logits';
  if (wrongAlready(entry)) return page.runs[entry.run].targeted ? 'as wanted already' : value(entry, 'clean_label');
  return broken(entry) ? value(entry, 'adversarial_label') : 'no point found';
}

function badge(entry) {
  const status = value(entry, 'status');
  if (wrongAlready(entry) && page.runs[entry.run].targeted) return h('span', { class: 'badge', title: 'There was nothing to attack.' }, alreadyWord(entry));
  const kind = { converged: 'good', stalled: 'bad', nonfinite: 'bad' }[status] ?? '';
  return h('span', { class: `badge ${kind}`, title: page.status_sentences[status] ?? null }, status);
}

function trio(entry) {
  const { sample } = entry;
  const adversarial = value(entry, 'adversarial_picture'), perturbation = value(entry, 'perturbation_picture');
  const absent = wrongAlready(entry) ? alreadyWord(entry) : broken(entry) ? 'no picture' : 'none found';
  const part = (picture, alt, below, none) => h('span', null,
    picture ? h('img', { src: data(picture), alt, decoding: 'async', width: 96, height: 96 }) : h('span', { class: 'none' }, none), below);
  return h('span', { class: 'trio' },
    part(sample.picture, `Sample ${sample.id}: ${classOf(entry)}`, 'original', 'original not at hand'),
    part(adversarial, `Adversarial point, taken for ${value(entry, 'adversarial_label')}`, 'adversarial', absent),
    part(perturbation, `What was added to sample ${sample.id}, amplified`, known(value(entry, 'factor')) ? `added × ${number(value(entry, 'factor'), 2)}` : 'added', '–'));
}
