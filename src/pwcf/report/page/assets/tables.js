// Tables: {head, text?, show?, hint?} columns over lines of values; numbers to the right, sorted by their heads.
function table(columns, lines, { caption, sortable = false } = {}) {
  const body = h('tbody');
  const heads = columns.map((column) => h('th', { scope: 'col', class: column.text ? 'text' : null, title: column.hint ?? null }));
  const draw = (ordered) => {
    clear(body).append(...ordered.map((line) => h('tr', null, line.map((value, i) => {
      const shown = columns[i].show ? columns[i].show(value, line) : (known(value) ? value : '–');
      return i === 0 ? h('th', { scope: 'row' }, shown) : h('td', { class: columns[i].text ? 'text' : null }, shown);
    }))));
  };
  columns.forEach((column, i) => {
    if (!sortable) { heads[i].append(column.head); return; }
    heads[i].append(h('button', { type: 'button', onclick: () => {
      // Numbers begin with the largest, words with A.
      const first = column.text || i === 0 ? 'ascending' : 'descending';
      const other = first === 'ascending' ? 'descending' : 'ascending';
      const next = heads[i].getAttribute('aria-sort') === first ? other : first;
      heads.forEach((head) => head.removeAttribute('aria-sort'));
      heads[i].setAttribute('aria-sort', next);
      draw([...lines].sort((a, b) => compare(a[i], b[i], next === 'ascending' ? 1 : -1)));
    } }, column.head));
  });
  draw(lines);
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption ?? 'Table' },
    h('table', null, caption && h('caption', null, caption), h('thead', null, h('tr', null, heads)), body));
}

// What is not known comes last, whichever way.
function compare(a, b, way) {
  if (!known(a) || !known(b)) return known(a) ? -1 : known(b) ? 1 : 0;
  if (a === 'inf' || b === 'inf') return way * ((a === 'inf' ? 1 : 0) - (b === 'inf' ? 1 : 0));
  return way * (typeof a === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
}

const asTable = (made, title = 'Show as table') => h('details', { class: 'as-table' }, h('summary', null, title), made);
const pairs = (list) => h('dl', { class: 'pairs' }, list.map(([name, value]) => [h('dt', null, name), h('dd', null, value)]));
