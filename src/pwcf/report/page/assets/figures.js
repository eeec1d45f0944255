// What every plot has: a caption, a description for those who do not see it, a drawing that fits its width, a table.
function figure({ title, about, description, draw, after = [], tabular, keys }) {
  const plot = h('div', { class: 'plot', role: keys ? 'group' : 'img', 'aria-label': description, tabindex: keys ? '0' : null });
  let width = 0;
  const redraw = () => { if (width) clear(plot).append(draw(width)); };
  // Drawn for the width there is, so that letters keep their size; on paper the whole drawing is scaled.
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now && now !== width && !matchMedia('print').matches) { width = now; redraw(); }
  }).observe(plot);
  if (keys) plot.addEventListener('keydown', (event) => { if (keys(event)) event.preventDefault(); });
  const made = h('figure', null,
    h('figcaption', null, title && h('h3', null, title), about && h('p', null, about)), plot, after,
    tabular && asTable(tabular));
  made.plot = plot;
  made.redraw = redraw;
  return made;
}

const canvas = (width, height, ...children) => svg('svg', {
  viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true', focusable: 'false',
}, ...children);

// Where a pointer is, in the drawing's own units.
function pointerAt(plot, event) {
  const drawn = plot.querySelector('svg');
  const box = drawn.getBoundingClientRect();
  const units = drawn.viewBox.baseVal.width / box.width;
  return { x: (event.clientX - box.left) * units, y: (event.clientY - box.top) * units };
}
