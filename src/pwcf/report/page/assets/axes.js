// Scales and ticks.
function scale({ low, high, log }, from, to) {
  const place = log ? Math.log : (value) => value;
  const span = place(high) - place(low) || 1;
  const at = (value) => from + ((place(Math.min(Math.max(value, low), high)) - place(low)) / span) * (to - from);
  at.left = from;
  at.right = to;
  at.back = (pixel) => {
    const share = Math.min(1, Math.max(0, (pixel - from) / (to - from)));
    return log ? Math.exp(place(low) + share * span) : low + share * span;
  };
  return at;
}

function ticks({ low, high, log }, count) {
  if (log) {
    const found = [];
    for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high) + 1e-9; power += 1) found.push(10 ** power);
    return found;
  }
  const rough = (high - low) / Math.max(1, count);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5].find((factor) => factor * size >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-9); i += 1) found.push(Number((i * step).toPrecision(10)));
  return found;
}

// A line of ticks at the foot of a plot, and lines up through it.
function footAxis(x, axis, { top, bottom, width, title, text = number }) {
  const list = ticks(axis, Math.max(2, Math.floor(width / 90)));
  return [
    list.map((value) => svg('line', { class: 'grid', x1: x(value), x2: x(value), y1: top, y2: bottom })),
    list.map((value) => svg('text', { x: x(value), y: bottom + 17, 'text-anchor': 'middle' }, text(value))),
    svg('line', { class: 'axis', x1: x(axis.low), x2: x(axis.high), y1: bottom, y2: bottom }),
    svg('text', { x: x(axis.high), y: bottom + 35, 'text-anchor': 'end' }, title),
  ];
}
