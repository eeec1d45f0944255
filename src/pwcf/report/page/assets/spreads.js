// How values are spread: for each run a hill of counts, a bar from quartile to quartile with the median, a dot a sample.
function spreadsFigure(panel, { title, about, unit, column, marks = [], text = number, description, after = [] }) {
  const axis = { low: panel.low, high: panel.high, log: panel.log };
  // Many runs: lower hills, or the last is a long way from the axis.
  const low = panel.rows.length > 5;
  const hill = low ? 22 : 34, cloud = column ? (low ? 14 : 20) : 0, head = low ? 20 : 24, foot = low ? 10 : 18;
  const nameOf = rowNames(panel);
  const rowHeight = head + hill + cloud + foot;
  const top = marks.length ? 16 : 0;
  let x = null;
  let now = null; // [row, place in its dots]
  const reading = h('p', { class: 'reading', 'aria-live': 'polite' });
  const dots = panel.rows.map((row) => (column ? dotsOf(row.run, column, axis) : []));

  const yOf = (row) => top + row * rowHeight;
  const dotY = (row, dot) => yOf(row) + head + hill + 6 + dot.jitter * (cloud - 6);

  const draw = (width) => {
    x = scale(axis, 4, width - 8);
    const bottom = top + panel.rows.length * rowHeight;
    const drawn = canvas(width, bottom + 40,
      footAxis(x, axis, { top, bottom, width, title: unit, text }),
      marks.filter((mark) => mark.eps <= axis.high).map((mark, i, list) => [
        svg('line', { class: 'mark', x1: x(mark.eps), x2: x(mark.eps), y1: top, y2: bottom }),
        // A name that would run into the one before is left to the table.
        (i === 0 || x(mark.eps) - x(list[i - 1].eps) > 38) && svg('text', { class: 'mark-name', x: x(mark.eps), y: 10, 'text-anchor': 'middle' }, mark.name),
      ]),
      panel.rows.map((row, i) => spreadRow(row, nameOf(row), i, x, { yOf, head, hill, text, width })),
      dots.map((list, row) => list.map((dot) => svg('circle', { class: 'dot', cx: x(dot.value).toFixed(1), cy: dotY(row, dot).toFixed(1), r: 3, fill: runTone(panel.rows[row].run) }))));
    drawn.append(mark());
    return drawn;
  };

  const mark = () => {
    const group = svg('g', { class: 'now' });
    const dot = now && dots[now[0]][now[1]];
    if (dot) group.append(svg('circle', { class: 'dot-now', cx: x(dot.value), cy: dotY(now[0], dot), r: 6 }));
    return group;
  };
  const select = (next) => {
    now = next;
    const dot = now && dots[now[0]][now[1]];
    reading.textContent = dot ? `${nameOf(panel.rows[now[0]])}, ${sampleSentence(panel.rows[now[0]].run, dot.place)}: ${text(dot.value)}` : '';
    made.plot.querySelector('.now')?.replaceWith(mark());
    made.plot.classList.toggle('on-dot', Boolean(dot));
  };
  const nearest = (event) => {
    const at = pointerAt(made.plot, event);
    let found = null, best = 12 ** 2;
    dots.forEach((list, row) => list.forEach((dot, i) => {
      const distance = (x(dot.value) - at.x) ** 2 + (dotY(row, dot) - at.y) ** 2;
      if (distance < best) { best = distance; found = [row, i]; }
    }));
    return found;
  };
  const open = () => { if (now) openSample(dots[now[0]][now[1]].place, panel.rows[now[0]].run); };
  const keys = (event) => {
    const [row, i] = now ?? [0, -1];
    if (event.key === 'Enter' && now) { open(); return true; }
    const moves = { ArrowRight: [row, i + 1], ArrowLeft: [row, i - 1], ArrowDown: [row + 1, i], ArrowUp: [row - 1, i], Home: [row, 0], End: [row, Infinity] };
    if (!(event.key in moves)) return false;
    const next = Math.min(Math.max(moves[event.key][0], 0), dots.length - 1);
    if (!dots[next].length) return false;
    select([next, Math.min(Math.max(moves[event.key][1], 0), dots[next].length - 1)]);
    return true;
  };
  const interactive = dots.some((list) => list.length);
  const made = figure({
    title, about, draw, description: description ?? spreadsDescription(panel, unit, text),
    keys: interactive ? keys : null, after: [reading, after], tabular: spreadsTable(panel, unit, text),
  });
  if (interactive) {
    made.plot.addEventListener('pointermove', (event) => select(nearest(event)));
    made.plot.addEventListener('pointerleave', () => select(null));
    made.plot.addEventListener('click', (event) => { select(nearest(event)); open(); });
  }
  return made;
}

// Short where that tells runs apart.
function rowNames(panel) {
  const names = namesAmong(panel.rows.map((row) => row.run));
  return (row) => names.get(row.run);
}

function spreadRow(row, title, i, x, { yOf, head, hill, text, width }) {
  const base = yOf(i) + head + hill;
  const colour = runTone(row.run);
  const told = finite(row.quartiles[1]) ? `median ${text(row.quartiles[1])}` : 'none for most';
  const name = svg('text', { class: 'row-name', x: 4, y: yOf(i) + 15 }, fitted(title, width - 26 - 7 * told.length, 13));
  if (!row.count) return [name, svg('text', { x: 4, y: base }, 'no values')];
  const most = Math.max(...row.bins);
  let path = '';
  row.bins.forEach((count, bin) => {
    const [from, to] = binEnds(row, bin, x);
    path += `${bin ? 'L' : 'M'}${((from + to) / 2).toFixed(1)} ${(base - (hill * count) / most).toFixed(1)}`;
  });
  const first = binEnds(row, 0, x)[0], last = binEnds(row, row.bins.length - 1, x)[1];
  const [low, median, high] = row.quartiles;
  return [
    svg('path', { class: 'ridge', d: `M${first} ${base}L${path.slice(1)}L${last} ${base}Z`, fill: colour, stroke: colour }),
    finite(low) && svg('line', { class: 'quartiles', x1: x(low), x2: Math.max(x(finite(high) ? high : Infinity), x(low) + 1), y1: base, y2: base, stroke: colour }),
    finite(median) && svg('circle', { cx: x(median), cy: base, r: 5, fill: colour, class: 'hair-dot' }),
    name,
    svg('text', { x: x.right, y: yOf(i) + 15, 'text-anchor': 'end' }, told),
  ];
}

const binEnds = (row, bin, x) => {
  const step = (x.right - x.left) / row.bins.length;
  return [x.left + bin * step, x.left + (bin + 1) * step];
};

const DOTS = 250;

// Dots beside one another where values are alike; the same at every visit.
function dotsOf(run, column, axis) {
  const rows = page.runs[run].rows;
  if (!rows[column]) return [];
  const found = [];
  rows[column].forEach((value, place) => {
    const attacked = !['already-misclassified', 'nonfinite'].includes(rows.status[place]);
    if (known(value) && attacked && (rows.found[place] || column === 'passes') && value <= axis.high) found.push({ value: Math.max(value, axis.low), place, jitter: ((place * 0.618034) % 1) });
  });
  found.sort((a, b) => a.value - b.value);
  // More would only cover one another, and slow the page down; both ends stay.
  if (found.length <= DOTS) return found;
  return Array.from({ length: DOTS }, (_, i) => found[Math.round((i * (found.length - 1)) / (DOTS - 1))]);
}

// Infinity has no form but its own.
const shownText = (value, text) => (finite(value) ? text(value) : known(value) ? '∞' : '–');

function spreadsDescription(panel, unit, text) {
  const told = panel.rows.filter((row) => row.count).map((row) => `${rowNames(panel)(row)}: median ${shownText(row.quartiles[1], text)}, quartiles ${shownText(row.quartiles[0], text)} to ${shownText(row.quartiles[2], text)}`);
  return `Distribution of ${unit}. ${told.join('; ')}.`;
}

function spreadsTable(panel, unit, text) {
  const show = (value) => shownText(value, text);
  return table(
    [{ head: 'run' }, { head: 'samples' }, { head: 'mean', show }, { head: 'first quartile', show }, { head: 'median', show }, { head: 'third quartile', show }, { head: 'beyond the axis' }],
    panel.rows.map((row) => [page.runs[row.run].name, row.count, row.mean, ...(row.count ? row.quartiles : [null, null, null]), row.beyond]),
    { caption: unit });
}
