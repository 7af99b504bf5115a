// What a run met of the contract: each operation, and how many requests got each of its answers. Draws only.

import { foreign, h, prose } from './element.js';
import { fold, link, scrolled, section } from './parts.js';
import { NUMBERS } from './text.js';

/** @typedef {NonNullable<RunDocument['verification']['grid']>[number]} GridRow */

/** @param {Page} page @param {RunDocument['verification']} verification @returns {Node | null} */
export function gridPart(page, { grid: rows, coverage }) {
  // A file of an earlier version has none.
  if (!rows?.length) return null;
  const all = rows.flatMap(({ cells }) => cells);
  const statuses = [...new Set(all.map(({ status }) => status))].sort((a, b) => a - b);
  const gaps = coverage?.gaps ?? [];
  const shown = (/** @type {GridRow} */ { operation, cells }, /** @type {number} */ status) => {
    const cell = cells.find((one) => one.status === status);
    if (!cell) return h('td', null);
    return cell.requests ? h('td', null, link(page, { view: 'activity', id: '', filter: `operation:${operation} ${status}` }, NUMBERS.format(cell.requests))) : h('td.gap', null, '–', h('span.hidden', null, 'no request'));
  };
  return section('Contract',
    coverage ? h('p.sentence', null, foreign(`${coverage.summary}.`)) : null,
    scrolled('Requests by operation and status', h('table.grid', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Operation'), statuses.map((status) => h('th', { scope: 'col' }, String(status))))),
      h('tbody', null, rows.map((row) => h('tr', { key: row.operation }, h('th', { scope: 'row' }, foreign(row.operation)), statuses.map((status) => shown(row, status))))))),
    gaps.length ? fold('How to get the others', false, h('ul', null, gaps.map(({ status, operations, gap: { advice, scenario } }) => h('li', null,
      h('b', null, String(status)), ' of ', foreign(operations.join(', ')), ': ', prose(advice), scenario ? ['. ', link(page, { view: 'scenarios', id: scenario, filter: '' }, 'Scenario')] : null)))) : null);
}
