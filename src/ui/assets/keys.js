// Keys: the workspace of each with its quota, what it did, and its reset.

import { exampleLine, resetOf } from './command.js';
import { foreign, guarded, h } from './element.js';
import { actionButton, commandsOf, copyMenu, emptyState, link, mark, meter, pairs, section } from './parts.js';
import { NUMBERS, count, duration } from './text.js';

/** @param {Page} page @param {KeyRow} one @returns {Node} */
function keyCard(page, one) {
  const { quota, key } = one;
  return h('article.card', { key },
    h('div.title', null, h('h3', null, foreign(key)), page.isDocument ? null : copyMenu(page, key, commandsOf(page, [resetOf(key)]))),
    one.test ? h('p', null, mark(one.test.outcome, one.test.outcome === 'failed' ? 'bad' : 'ok'), ' ', foreign(one.test.test)) : null,
    quota ? h('div', null, meter(`${quota.remaining} of ${quota.limit} requests left`, quota.remaining, quota.limit), h('p.quiet.small', null, `${quota.remaining} of ${quota.limit} left${quota.resets_in_ms ? `, full again in ${duration(quota.resets_in_ms)}` : ''}`)) : h('p.quiet', null, 'No quota yet.'),
    pairs([
      ['Requests', link(page, { view: 'activity', id: '', key, filter: 'kind:request' }, NUMBERS.format(one.requests ?? 0))],
      ['Subscriptions', link(page, { view: 'subscriptions', id: '', key, filter: '' }, String(one.subscriptions ?? 0))],
      ['Scenarios', link(page, { view: 'scenarios', id: '', key, filter: '' }, one.scenarios?.join(', ') || 'none')],
      ['Workspace', foreign(one.workspace ?? '', 'code')],
    ]),
    actionButton(page, resetOf(key)));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function keysView(page) {
  const all = (page.store.run?.keys ?? []).filter((one) => !page.route.key || one.key === page.route.key);
  const isFiltered = page.route.filter === 'is:failed';
  const keys = isFiltered ? all.filter((one) => one.test?.outcome === 'failed') : all;
  const origin = page.base.replace(/\/_emulator\/.*/, '');
  return [
    h('h2', { tabindex: -1 }, 'Keys'),
    h('p.quiet', null, isFiltered ? [`${keys.length} of ${count(all.length, 'key')}: those whose test failed. `, link(page, { filter: '' }, 'Show all')] : `${count(keys.length, 'key')}. Each has its own quota, subscriptions, scenarios and clock.`),
    keys.length ? h('div.cards', null, keys.map((one) => guarded(() => keyCard(page, one), one))) : emptyState(page, 'No key was used yet. Any key that begins with sk_test_ will do:', [exampleLine(origin, 'sk_test_local')]),
    page.isDocument ? null : section('All keys', actionButton(page, resetOf('*'))),
  ];
}
