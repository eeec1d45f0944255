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
const finite = (value) => known(value) && value !== 'inf'; // JSON has no word for infinity
const radiusText = (value) => (value === 'inf' ? h('span', { title: 'more than half stand: no point was found' }, '∞') : number(value));
function number(value, digits = 4) {
  if (!known(value)) return '–';
  if (value === 'inf') return '∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(Math.min(2, digits - 1));
  return String(Number(value.toPrecision(digits)));
}
// As share_text in pwcf/_common/wording.py: 0 and 100 only where they are exact, and a tie goes to the even digit.
function percent(value, digits = 1) {
  if (!known(value)) return '–';
  const step = 10 ** -digits, tie = (2 ** (digits + 1) * 100 * value) % 2 === 1;
  let text = (100 * value).toFixed(digits);
  if (tie && text.at(-1) % 2 === 1) text = (100 * value - step / 2).toFixed(digits);
  if (value > 0 && Number(text) === 0) return `<${step.toFixed(digits)}%`;
  if (value < 1 && Number(text) === 100) return `>${(100 - step).toFixed(digits)}%`;
  return `${text}%`;
}
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
// Beyond eight colours lines are dashed, in two ways, and their swatches too.
const DASHES = [null, '7 4', '2 3'];
const runDash = (run) => DASHES[Math.floor(page.runs[run].tone / 8) % DASHES.length];
function runSwatch(run) {
  const box = swatch(runTone(run)), dash = runDash(run);
  if (!dash) return box;
  const [on, off] = dash.split(' ').map(Number);
  box.classList.add('dashed');
  box.style.background = `repeating-linear-gradient(90deg, ${runTone(run)} 0 ${on}px, transparent ${on}px ${on + off}px)`;
  return box;
}
// Short names where these tell the runs of a plot apart.
function namesAmong(runs) {
  const count = (series) => runs.filter((run) => page.runs[run].series === series).length;
  return new Map(runs.map((run) => [run, count(page.runs[run].series) > 1 ? page.runs[run].name : page.runs[run].series]));
}
const someTargeted = page.runs.some((run) => run.targeted), allTargeted = page.runs.every((run) => run.targeted);

// A line of text that does not run out of its room: shortened, with all of it as its title.
const pen = document.createElement('canvas').getContext('2d');
function fitted(text, room, size) {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  if (pen.measureText(text).width <= room) return [text];
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join('')}…`).width > room) letters.pop();
  return [`${letters.join('').trimEnd()}…`, svg('title', null, text)];
}
