// Shares of a whole, run by run: a thin bar under a line that says the same in words.
function barsFigure({ title, about, lines, categories, tabular }) {
  const rowHeight = 64;
  const colours = new Map(categories.map(({ name, colour }) => [name, colour]));
  const legend = h('ul', { class: 'legend' }, categories.map(({ name, colour, hint }) => h('li', null, h('span', { class: 'item', title: hint ?? null }, swatch(colour), name))));
  const words = (line) => line.parts.filter(([, count]) => count).map(([name, count]) => `${name} ${count}`).join(', ') || 'none';
  const draw = (width) => canvas(width, lines.length * rowHeight, lines.map((line, i) => {
    const total = line.parts.reduce((sum, [, count]) => sum + count, 0) || 1;
    let from = 0;
    return [
      svg('text', { class: 'row-name', x: 0, y: i * rowHeight + 14 }, fitted(line.name, width - 4, 13)),
      svg('rect', { class: 'track', x: 0, y: i * rowHeight + 22, width, height: 14, rx: 2 }),
      line.parts.map(([name, count]) => {
        const x = (from / total) * width;
        from += count;
        return count > 0 && svg('rect', { x, y: i * rowHeight + 22, width: Math.max(0, (count / total) * width - 1.5), height: 14, rx: 2, fill: colours.get(name) },
          svg('title', null, `${name}: ${count} of ${total}`));
      }),
      svg('text', { x: 0, y: i * rowHeight + 49, class: 'mark-name' }, fitted(words(line), width - 4, 11)),
    ];
  }));
  const description = `Stacked bars. ${lines.map((line) => `${line.name}: ${words(line)}`).join('; ')}.`;
  return figure({ title, about, draw, description, after: legend, tabular });
}
