// Subscriptions: what goes where in a table, one of them with its secret and actions; a form for a new one.

import { enable, oneEvent, rotate, subscribe, unsubscribe } from './command.js';
import { foreign, guarded, h } from './element.js';
import { actionButton, commandsOf, copyButton, copyMenu, emptyState, filterable, fold, idPart, keyChoice, keyOf, link, mark, pairs, scrolled, section, statusMark } from './parts.js';
import { count, dateTime, oneLine, reasonOf, shortKey, timeOfDay } from './text.js';

/** The deliveries of a subscription, newest first. @param {Page} page @param {string} id */
const deliveriesOf = ({ store }, id) => store.entries.filter((entry) => entry.subscription === id && !entry.superseded).reverse();

/** Whether it works, as far as its last delivery shows. @param {SubscriptionRow} one @param {Entry | undefined} last @returns {Node} */
function health({ status }, last) {
  if (status !== 'active') return mark(status, 'quiet');
  return last ? last.failed ? mark('failing', 'bad') : mark('healthy', 'ok') : mark('not used yet', 'info');
}

/** One event to this subscription alone. @param {SubscriptionRow} one @returns {import('./command.js').Action} */
function testEvent(one) {
  return { ...oneEvent(one.events[0], one.key ?? '', one.id), id: `test ${one.id}`, label: 'Send a test event' };
}

/** The secret, hidden until it is asked for. @param {Page} page @param {SubscriptionRow} one */
function secretPart(page, one) {
  if (page.isDocument) return one.signing_secrets > 1 ? 'two: the old one still signs' : 'one';
  const secrets = page.ui.forms.secrets ??= {};
  const reveal = async () => {
    const { ok, data } = await page.live.call('GET', `subscriptions/${encodeURIComponent(one.id)}?secret=true`);
    secrets[one.id] = ok ? data.secret : '';
    if (!ok) page.say(data.error?.message ?? 'No secret.');
    page.redraw();
  };
  const hide = () => {
    delete secrets[one.id];
    page.redraw();
  };
  const said = page.ui.results.get(`rotate ${one.id}`);
  if (said?.data?.secret && said.ok && !said.isTaken) {
    secrets[one.id] = said.data.secret;
    said.isTaken = true;
  }
  const known = secrets[one.id];
  return h('span.actions', null, known ? h('code', null, known) : h('span.quiet', { 'aria-hidden': 'true' }, 'whsec_••••••••'),
    known ? [h('button.plain', { type: 'button', onclick: hide }, 'Hide'), copyButton(page, known, 'the secret')] : h('button.plain', { type: 'button', onclick: reveal }, 'Reveal'),
    actionButton(page, { ...rotate(one.id), label: 'Rotate' }, false, 'plain'), one.signing_secrets > 1 ? h('span.quiet.small', null, 'the old one still signs') : null);
}

/** Everything about one subscription. @param {Page} page @returns {Node} */
export function subscriptionPane(page) {
  const one = page.store.run?.subscriptions?.find(({ id }) => id === page.route.id);
  if (!one) return h('p.empty', null, 'There is no subscription ', foreign(page.route.id), '. It was deleted, or the emulator was restarted.');
  const deliveries = deliveriesOf(page, one.id);
  const test = testEvent(one);
  const [toggle, remove] = [enable(one.id, one.status !== 'active'), unsubscribe(one.id)];
  return h('article', null,
    h('div', null, h('h2', null, foreign(one.url)), h('p.actions', null, health(one, deliveries[0]), idPart(page, one.id))),
    one.description ? h('p', null, foreign(one.description)) : null,
    page.isDocument ? null : h('div.actions', null, one.status === 'active' ? actionButton(page, test, false, 'primary') : null, actionButton(page, toggle), actionButton(page, remove), copyMenu(page, one.id, commandsOf(page, [test, toggle, rotate(one.id), remove]))),
    pairs([
      ['Secret', secretPart(page, one)],
      ['Events', foreign(one.events.join(', '))],
      ['Key', filterable(page, 'key', one.key)],
      ['Since', dateTime(one.created_at)],
    ]),
    section('Last deliveries', deliveries.length ? h('ul.steps', null, deliveries.slice(0, 8).map((entry) => h('li', null, statusMark(entry), ' ', link(page, { view: 'deliveries', id: entry.id, filter: '' }, `${entry.type} at ${timeOfDay(entry.at)}`), foreign(` ${reasonOf(entry)}`)))) : h('p.quiet', null, 'Nothing was delivered yet.'),
      deliveries.length > 8 ? link(page, { view: 'deliveries', id: '', filter: `subscription:${one.id}` }, `All ${deliveries.length}`) : null));
}

/** @param {Page} page @param {SubscriptionRow} one @returns {Node} */
function subscriptionRow(page, one) {
  const deliveries = deliveriesOf(page, one.id);
  const [last] = deliveries;
  const isChosen = one.id === page.route.id;
  return h(isChosen ? 'tr.chosen' : 'tr', { key: one.id },
    h('th', { scope: 'row' }, h('a.go', { href: page.address({ id: isChosen ? '' : one.id, filter: '' }), 'data-id': one.id, 'aria-current': isChosen ? 'true' : null, title: one.url }, foreign(oneLine(one.url.replace(/^https:\/\//, ''), 200)))),
    h('td', null, health(one, last)),
    h('td.late.wraps', null, foreign(one.events.length > 2 ? `${one.events[0]} and ${one.events.length - 1} more` : one.events.join(', '))),
    h('td.late', null, foreign(shortKey(one.key ?? '', page.store.keys()))),
    h('td.number.late', null, deliveries.length ? link(page, { view: 'deliveries', id: '', filter: `subscription:${one.id}` }, String(deliveries.length)) : h('span.quiet', null, '0')),
    h('td.number.later', null, last ? [statusMark(last), ' ', timeOfDay(last.at).slice(0, 8)] : h('span.quiet', null, '–')));
}

/** @param {Page} page @returns {Node} */
function subscribeForm(page) {
  const values = page.ui.forms.subscribe ??= { url: 'https://demo.sink.localhost/hook', events: '' };
  const change = (/** @type {'url' | 'events'} */ name) => (/** @type {Event} */ event) => {
    values[name] = /** @type {HTMLInputElement} */ (event.target).value;
    page.redraw();
  };
  const key = keyOf(page, values);
  const action = () => subscribe(values.url, values.events.split(/[\s,]+/).filter(Boolean), key);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (key) page.perform(action());
  };
  return h('form', { onsubmit: submit },
    keyChoice(page, values),
    h('label', null, 'URL; https://NAME.sink.localhost/ is a receiver built into the emulator', h('input', { type: 'text', controlled: values.url, oninput: change('url'), required: true })),
    h('label', null, 'Events; empty for all', h('input', { type: 'text', controlled: values.events, oninput: change('events'), placeholder: 'workflow.completed, reference.matched' })),
    key ? h('div.actions', null, actionButton(page, action(), true), h('span.quiet', null, 'for ', foreign(key)), copyMenu(page, 'subscribe', commandsOf(page, [action()]))) : h('p.quiet', null, 'Choose the key that subscribes.'));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function subscriptionsView(page) {
  const all = (page.store.run?.subscriptions ?? []).filter((one) => !page.route.key || one.key === page.route.key);
  return [
    h('div.title', null, h('h2', { tabindex: -1 }, 'Subscriptions'), h('span.quiet', null, all.length ? count(all.length, 'subscription') : null)),
    all.length ? scrolled('Subscriptions', h('table.rows', null,
      h('thead', null, h('tr', null, ['Receiver', 'Health', 'Events', 'Key', 'Deliveries', 'Last'].map((head, i) => h(['th', 'th', 'th.late', 'th.late', 'th.number.late', 'th.number.later'][i], { scope: 'col' }, head)))),
      h('tbody', null, all.map((one) => guarded(() => subscriptionRow(page, one), one)))))
      : page.isDocument ? h('p.empty', null, 'There was no subscription.') : emptyState(page, 'No subscription. Create one below, or:', [page.cli(['subscriptions', 'create', 'https://demo.sink.localhost/hook'])]),
    page.isDocument || !page.store.run ? null : fold('Subscribe a receiver', !all.length, subscribeForm(page)),
  ];
}
