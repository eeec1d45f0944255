// Robust accuracy over eps: steps, points with intervals, crossings, and a hair line that reads all curves at once.
const accuracyAt = (curve, eps) => {
  let low = 0, high = curve.eps.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (curve.eps[middle] <= eps) low = middle; else high = middle - 1;
  }
  return curve.accuracy[low];
};

function curvesFigure(panel) {
  const axis = { low: 0, high: panel.reach };
  const hidden = new Set();
  const names = namesAmong(panel.curves.map((curve) => curve.run));
  // A point belongs to the curves that are called the same, if there are any.
  const pointHidden = (point) => {
    const own = panel.curves.filter((curve) => page.runs[curve.run].series === page.runs[point.run].series);
    return own.length > 0 && own.every((curve) => hidden.has(curve.run));
  };
  let reading = null;
  let x = null;
  let height = 0;
  const live = h('output', { class: 'hidden-text', 'aria-live': 'polite' });
  const at = h('p', { class: 'reading' });
  const values = new Map(panel.curves.map((curve) => [curve.run, h('span', { class: 'value' })]));

  const legend = h('ul', { class: 'legend' }, panel.curves.map((curve) => h('li', null, h('button', {
    type: 'button', 'aria-pressed': 'true',
    onclick: (event) => {
      const shown = hidden.has(curve.run);
      if (shown) hidden.delete(curve.run); else hidden.add(curve.run);
      event.currentTarget.setAttribute('aria-pressed', String(shown));
      made.redraw();
    },
  }, runSwatch(curve.run), names.get(curve.run), values.get(curve.run)))));

  const read = (eps, aloud) => {
    reading = eps;
    panel.curves.forEach((curve) => {
      values.get(curve.run).textContent = eps === null ? '' : percent(accuracyAt(curve, eps));
    });
    at.textContent = eps === null ? '' : `At eps = ${number(eps, 3)}`;
    if (aloud) live.textContent = `eps ${number(eps, 3)}: ${panel.curves.filter((curve) => !hidden.has(curve.run))
      .map((curve) => `${names.get(curve.run)} ${percent(accuracyAt(curve, eps))}`).join(', ')}`;
    const old = made?.plot.querySelector('.reading-marks');
    if (old) old.replaceWith(marks());
  };

  const marks = () => {
    const group = svg('g', { class: 'reading-marks' });
    if (reading === null) return group;
    group.append(svg('line', { class: 'hair', x1: x(reading), x2: x(reading), y1: 8, y2: height }));
    panel.curves.filter((curve) => !hidden.has(curve.run)).forEach((curve) => group.append(svg('circle', {
      class: 'hair-dot', cx: x(reading), cy: y(accuracyAt(curve, reading)), r: 4.5, fill: runTone(curve.run),
    })));
    return group;
  };
  let y = null;

  const draw = (width) => {
    const left = 40;
    height = Math.min(330, Math.max(220, width * 0.55));
    x = scale(axis, left, width - 12);
    y = scale({ low: 0, high: 1 }, height, 12);
    const drawn = canvas(width, height + 42,
      [0, .25, .5, .75, 1].map((value) => [
        svg('line', { class: 'grid', x1: left, x2: width - 12, y1: y(value), y2: y(value) }),
        svg('text', { x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, `${value * 100}`),
      ]),
      svg('text', { x: 0, y: 4 }, '%'),
      footAxis(x, axis, { top: 12, bottom: height, width, title: `eps, ${panel.metric}` }),
      panel.crossings.map((each) => [
        svg('line', { class: 'cross-line', x1: x(each.eps), x2: x(each.eps), y1: y(each.accuracy), y2: height }),
      ]),
      panel.curves.filter((curve) => !hidden.has(curve.run)).map((curve) => svg('path', {
        class: 'curve', d: steps(curve), stroke: runTone(curve.run), 'stroke-dasharray': runDash(curve.run),
      })),
      panel.crossings.map((each) => svg('circle', {
        class: 'cross-ring', cx: x(each.eps), cy: y(each.accuracy), r: 5 })),
      panel.points.filter((point) => !pointHidden(point)).map((point, i, shown) => {
        // Points of one eps stand a little beside one another where they or their intervals would hide each other.
        const near = (other) => other.eps === point.eps && other.low <= point.high && point.low <= other.high;
        const alike = shown.filter(near);
        const at = x(point.eps) + 13 * (alike.indexOf(point) - (alike.length - 1) / 2);
        return svg('g', { stroke: runTone(point.run) },
          svg('line', { class: 'error-bar', x1: at, x2: at, y1: y(point.low), y2: y(point.high) }),
          [point.low, point.high].map((end) => svg('line', { class: 'error-bar', x1: at - 4, x2: at + 4, y1: y(end), y2: y(end) })),
          svg('rect', { class: 'point', x: at - 5, y: y(point.robust) - 5, width: 10, height: 10, fill: runTone(point.run),
            transform: `rotate(45 ${at} ${y(point.robust)})` }),
          svg('title', null, pointSentence(panel, point)));
      }));
    drawn.append(marks());
    return drawn;
  };

  const steps = (curve) => {
    let path = `M${x(0).toFixed(1)} ${y(curve.accuracy[0]).toFixed(1)}`;
    for (let i = 1; i < curve.eps.length && curve.eps[i] <= axis.high; i += 1) {
      path += `H${x(curve.eps[i]).toFixed(1)}V${y(curve.accuracy[i]).toFixed(1)}`;
    }
    return `${path}H${x(axis.high).toFixed(1)}`;
  };

  const keys = (event) => {
    const step = axis.high / (event.shiftKey ? 10 : 100);
    const moves = { ArrowRight: step, ArrowLeft: -step, Home: -Infinity, End: Infinity };
    if (event.key === 'Escape' && reading !== null) { read(null); return true; }
    if (!(event.key in moves)) return false;
    read(Math.min(axis.high, Math.max(0, (reading ?? 0) + moves[event.key])), true);
    return true;
  };

  const made = figure({
    title: panelTitle(panel.metric, panel),
    description: curvesDescription(panel),
    draw, keys,
    after: [legend, at, live, crossingFacts(panel), beyondFacts(panel), pointFacts(panel)],
    tabular: curvesTable(panel, axis),
  });
  made.plot.addEventListener('pointermove', (event) => read(x.back(pointerAt(made.plot, event).x)));
  made.plot.addEventListener('pointerleave', () => read(null));
  read(null);
  return made;
}

const pointSentence = (panel, point) => `${namesAmong(panel.points.map((each) => each.run)).get(point.run)}: ${percent(point.robust)} robust at eps ${point.at} (95% interval ${percent(point.low)} to ${percent(point.high)})`;

function curvesDescription(panel) {
  const names = namesAmong(panel.curves.map((curve) => curve.run));
  const told = panel.curves.map((curve) => {
    const half = curve.eps.find((_, i) => curve.accuracy[i] <= curve.accuracy[0] / 2);
    return `${names.get(curve.run)} falls from ${percent(curve.accuracy[0])} and is halved ${known(half) ? `at eps ${number(half, 3)}` : 'nowhere in reach'}`;
  });
  return `Line plot of robust accuracy over eps in ${panel.metric}. ${told.join('; ')}.`;
}

function crossingFacts(panel) {
  if (!panel.crossings.length) return null;
  return [
    h('p', { class: 'note turns' }, 'Which model is more robust depends on eps:'),
    h('ul', { class: 'facts' }, panel.crossings.map((each) => h('li', null, `${each.before} below `, h('strong', null, number(each.eps, 3)), `, ${each.after} from there on.`)), panel.more > 0 && h('li', null, `and ${panel.more} more.`)),
  ];
}

function beyondFacts(panel) {
  return panel.beyond > 0 ? h('p', { class: 'note' }, `${panel.beyond} ${panel.beyond === 1 ? 'radius lies' : 'radii lie'} beyond the axis.`) : null;
}

function pointFacts(panel) {
  if (!panel.points.length) return null;
  return h('ul', { class: 'facts' }, panel.points.map((point) => h('li', null, runSwatch(point.run), pointSentence(panel, point), '.')));
}

function curvesTable(panel, axis) {
  const places = ticks(axis, 12), names = namesAmong(panel.curves.map((curve) => curve.run));
  return table(
    [{ head: `eps, ${panel.metric}`, show: (value) => number(value) }, ...panel.curves.map((curve) => ({ head: names.get(curve.run), show: (value) => percent(value) }))],
    places.map((eps) => [eps, ...panel.curves.map((curve) => accuracyAt(curve, eps))]),
    { caption: `Robust accuracy at some eps, ${panel.metric}` });
}
