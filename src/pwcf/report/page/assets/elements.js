// Elements and texts. Whatever comes from a run is put in as text, never as markup.
const page = JSON.parse(document.getElementById('payload').textContent);
const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const clear = (element) => { element.replaceChildren(); return element; };

// Numbers
const known = (value) => value !== null && value !== undefined;
function number(value, digits = 4) {
  if (!known(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.min(2, digits - 1));
  return String(Number(value.toPrecision(digits)));
}
const percent = (value, digits = 1) => (known(value) ? `${(100 * value).toFixed(digits)} %` : '–');
const whole = (value) => (known(value) ? Math.round(value).toLocaleString('en') : '–');
const seconds = (value) => (known(value) ? `${value < 10 ? value.toFixed(1) : Math.round(value)} s` : '–');
const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

// Colours are variables of the style sheet: plots follow the theme, and print as vectors.
const tone = (index) => `var(--tone-${index % 8})`;
function swatch(colour) {
  const box = h('span', { class: 'swatch', 'aria-hidden': 'true' });
  box.style.background = colour;
  return box;
}
const runTone = (run) => tone(page.runs[run].tone);
