// The page from top to bottom.
document.getElementById('meta').textContent = [
  plural(page.runs.length, 'run'), plural(page.images, page.runs.every((run) => run.pictures) ? 'image' : 'input'), [...new Set(page.runs.map((run) => run.metric))].join(', '),
].join(' · ');
document.getElementById('footer').textContent = `Made by ${page.by} on ${page.made.replace('T', ' ').replace('+00:00', ' UTC')}. This file is complete: it loads nothing from elsewhere.`;

// The leads speak of misclassified points, which targeted runs do not look for.
if (someTargeted) document.querySelectorAll('[data-targeted]').forEach((place) => {
  const word = place.dataset.targeted;
  place.textContent = allTargeted ? word : `${place.textContent} (in targeted runs: ${word})`;
});

headline();
section('accuracy', panels(page.curves.map(curvesFigure)));
section('radii', panels(page.radii.map(radiusFigure)));
section('classes', panels(page.classes.map(classTable)));
attacksSection();
section('patterns', panels(page.sparsity.map((panel) => spreadsFigure(panel, {
  title: panelTitle(panel.name, panel), unit: `soft sparsity, ${panel.name}`, column: 'sparsity', about: `At most √entries = ${number(panel.most, 3)}.`,
}))));
costSection();
crossSection();
tablesSection();
gallerySection();
provenanceSection();
glossarySection();

const links = [...document.querySelectorAll('main > section:not([hidden])')].map((place) => {
  const link = h('a', { href: `#${place.id}` }, place.querySelector('h2').textContent);
  document.getElementById('contents').append(h('li', null, link));
  return [place, link];
});
// Where one is: the last section whose head has passed the upper third.
addEventListener('scroll', () => {
  const passed = links.filter(([place]) => place.getBoundingClientRect().top < innerHeight / 3);
  links.forEach(([place, link]) => { if (passed.at(-1)?.[0] === place) link.setAttribute('aria-current', 'true'); else link.removeAttribute('aria-current'); });
}, { passive: true });
// Paper cannot be opened: evidence, notices and provenance are, and closed again afterwards.
let opened = [];
addEventListener('beforeprint', () => {
  opened = [...document.querySelectorAll(':is(.entry, .notices, #provenance) details:not([open])')];
  opened.forEach((each) => { each.open = true; });
});
addEventListener('afterprint', () => opened.forEach((each) => { each.open = false; }));
openAddress();
document.documentElement.dataset.ready = 'true';
