// Keys: a table that can be sorted, and the workspace of one with its reset.

import { exampleLine, resetOf } from './command.js';
import { breakable, foreign, guarded, h, icon } from './element.js';
import { actionButton, commandsOf, copyButton, copyMenu, emptyState, idPart, link, mark, meter, pairs, scrolled, searchBox } from './parts.js';
import { NUMBERS, count, distance, duration, shortKey, timeOfDay } from './text.js';

const MAX_ROWS_OF_KEYS = 300;

/** @typedef {{one: KeyRow, refused: number, seen: number}} Known */

/** Each column: its head, what it is sorted by, and whether it begins with the most. @type {[string, (known: Known) => string | number, boolean][]} */
const COLUMNS = [
  ['Key', ({ one }) => one.key, false],
  ['Requests', ({ one }) => one.requests ?? 0, true],
  ['Refused', ({ refused }) => refused, true],
  ['Quota left', ({ one: { quota } }) => (quota?.limit ? quota.remaining / quota.limit : 2), false],
  ['Subscriptions', ({ one }) => one.subscriptions ?? 0, true],
  ['Last seen', ({ seen }) => seen, true],
];

/** The keys with what the journal says of them. @param {Page} page @returns {Known[]} */
function knownKeys({ store }) {
  /** @type {Map<string, {refused: number, seen: number}>} */
  const of = new Map();
  for (const { kind, key, status, at } of store.entries) {
    if (key === null) continue;
    const found = of.get(key) ?? { refused: 0, seen: 0 };
    if (kind === 'request' && (status >= 400 || !status)) found.refused += 1;
    found.seen = Math.max(found.seen, at);
    of.set(key, found);
  }
  return (store.run?.keys ?? []).map((one) => Object.assign({ one, refused: 0, seen: 0 }, of.get(one.key)));
}

/** @param {KeyRow['quota']} quota */
function quotaMeter(quota) {
  return quota ? h('span.quota', null, meter(`${quota.remaining} of ${quota.limit} requests left`, quota.remaining, quota.limit, quota.remaining > quota.limit / 5 ? 'quiet' : undefined), h('span', null, `${NUMBERS.format(quota.remaining)} of ${NUMBERS.format(quota.limit)}`)) : h('span.quiet', null, 'none');
}

/** @param {NonNullable<KeyRow['test']>} test */
const testMark = (test) => [mark(test.outcome, test.outcome === 'failed' ? 'bad' : 'ok'), ' ', foreign(test.test)];

/** @param {Page} page @param {Known} known @returns {Node} */
function keyRow(page, { one, refused, seen }) {
  const { key, test } = one;
  const isChosen = page.route.id === key;
  return h(isChosen ? 'tr.chosen' : 'tr', { key },
    h('th', { scope: 'row' }, h('a.go', { href: page.address({ id: isChosen ? '' : key }), 'data-id': key, 'aria-current': isChosen ? 'true' : null, title: key }, breakable(page.width && page.width < 900 ? shortKey(key, page.store.keys(), 40) : key)), test ? h('div.small', null, testMark(test)) : null),
    h('td.number', null, link(page, { view: 'activity', key, filter: 'kind:request' }, NUMBERS.format(one.requests ?? 0))),
    h('td.number', null, refused ? link(page, { view: 'activity', key, filter: 'kind:request -2xx -3xx' }, NUMBERS.format(refused)) : h('span.quiet', null, '0')),
    h('td.wide', null, quotaMeter(one.quota)),
    h('td.number.late', null, one.subscriptions ? link(page, { view: 'subscriptions', key }, String(one.subscriptions)) : h('span.quiet', null, '0')),
    h('td.number.late', null, seen ? timeOfDay(seen).slice(0, 8) : h('span.quiet', null, '–')));
}

/** Everything about one key. @param {Page} page @returns {Node} */
export function keyPane(page) {
  const { id: key } = page.route;
  const one = page.store.run?.keys?.find((each) => each.key === key);
  if (!one) return h('p.empty', null, 'No workspace has the key ', foreign(key), '. It may have been reset, or evicted.');
  const { quota, test } = one;
  return h('article', null,
    h('h2', null, foreign(key), ' ', copyButton(page, key, 'the key')),
    test ? h('p', null, testMark(test)) : null,
    pairs([
      ['Quota left', h('span', null, quotaMeter(quota), quota?.resets_in_ms ? h('span.quiet', null, ` full again in ${duration(quota.resets_in_ms)}`) : null)],
      ['Requests', link(page, { view: 'activity', key, filter: 'kind:request' }, NUMBERS.format(one.requests ?? 0))],
      ['Subscriptions', link(page, { view: 'subscriptions', key }, String(one.subscriptions ?? 0))],
      ['Scenarios', link(page, { view: 'scenarios', key }, one.scenarios?.join(', ') || 'none')],
      ['Settings', link(page, { view: 'settings', key, filter: 'changed' }, one.settings?.length ? `${one.settings.length} changed` : 'those of all keys')],
      ['Clock', link(page, { view: 'time', key }, one.clock ? `its own, ${distance(page.store.movedBy(key)) || one.clock.mode}` : 'the emulator’s')],
      ['Workspace', idPart(page, one.workspace ?? '')],
    ]),
    page.isDocument ? null : h('div.actions', null, actionButton(page, resetOf(key)), copyMenu(page, key, commandsOf(page, [resetOf(key)]))));
}

/** @param {Page} page @returns {Nodes} */
export function keysView(page) {
  const { route, ui } = page;
  const sort = ui.forms.keys ??= { by: 'Last seen', isMost: true };
  const words = route.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = knownKeys(page).filter(({ one }) => !route.key || one.key === route.key);
  const found = all.filter(({ one }) => words.every((word) => (word === 'is:failed' ? one.test?.outcome === 'failed' : `${one.key} ${one.test?.test ?? ''}`.toLowerCase().includes(word))));
  const [, valueOf] = COLUMNS.find(([name]) => name === sort.by) ?? COLUMNS[0];
  found.sort((a, b) => {
    const [one, other] = [valueOf(a), valueOf(b)];
    const order = typeof one === 'string' ? one.localeCompare(String(other)) : one - Number(other);
    return sort.isMost ? -order : order;
  });
  const head = (/** @type {typeof COLUMNS[0]} */ [name, , isMost], /** @type {number} */ i) => {
    const isBy = sort.by === name;
    const choose = () => {
      Object.assign(sort, isBy ? { isMost: !sort.isMost } : { by: name, isMost });
      page.redraw();
    };
    return h(i > 3 ? 'th.number.late' : i === 3 ? 'th.wide' : i ? 'th.number' : 'th', { scope: 'col', 'aria-sort': isBy ? (sort.isMost ? 'descending' : 'ascending') : null }, h('button.plain', { onclick: choose }, name, isBy ? icon(sort.isMost ? 'down' : 'rise') : null));
  };
  const more = found.length - MAX_ROWS_OF_KEYS;
  return [
    h('div.title', null, h('h2', null, 'Keys'),
      searchBox(page, 'A part of a key or test; is:failed'),
      h('span.quiet', null, words.length ? `${found.length} of ${count(all.length, 'key')}` : count(all.length, 'key')),
      actionButton(page, resetOf('*', page.store.run?.scenarios.filter(({ origin }) => origin === 'inline').map(({ name }) => name)))),
    found.length ? scrolled('Keys', h('table.rows', null, h('thead', null, h('tr', null, COLUMNS.map(head))),
      h('tbody', null, found.slice(0, MAX_ROWS_OF_KEYS).map((known) => guarded(() => keyRow(page, known), known.one)))))
      : all.length ? h('p.empty', null, 'No key matches.') : emptyState(page, 'No key was used yet. Any key that begins with sk_test_ will do:', [exampleLine(page.base)]),
    more > 0 ? h('p.quiet', null, `and ${NUMBERS.format(more)} more: search for a part of their name`) : null,
  ];
}
