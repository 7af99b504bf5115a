// Subscriptions: what goes where, and the actions on each; a form for a new one.

import { enable, rotate, subscribe, trigger, unsubscribe } from './command.js';
import { foreign, guarded, h, icon } from './element.js';
import { actionButton, commandsOf, copyButton, copyMenu, dropDown, emptyState, filterable, keyChoice, keyOf, link, mark, pairs, statusMark } from './parts.js';
import { dateTime, reasonOf, timeOfDay } from './text.js';

/** @param {Page} page @param {SubscriptionRow} one @returns {Node} */
function lastDeliveries(page, one) {
  const last = page.store.entries.filter((entry) => entry.subscription === one.id && !entry.superseded).slice(-3).reverse();
  if (!last.length) return h('span.quiet', null, 'nothing was delivered yet');
  return h('ul.steps', null, last.map((entry) => h('li', null, statusMark(entry), ' ', link(page, { view: 'deliveries', id: entry.id, filter: '' }, `${entry.type} at ${timeOfDay(entry.at)}`), foreign(` ${reasonOf(entry)}`))));
}

/** One event to this subscription alone. @param {SubscriptionRow} one @returns {import('./command.js').Action} */
function testEvent(one) {
  const action = trigger({ type: one.events[0], data: '', key: one.key ?? '', subscription: one.id, count: 1, delay: '', tamper: '', duplicate: 1, shuffle: false, drop: false });
  return { ...action, id: `test ${one.id}`, label: 'Send a test event' };
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

/** @param {Page} page @param {SubscriptionRow} one @returns {Node} */
function subscriptionCard(page, one) {
  const test = testEvent(one);
  const [toggle, remove] = [enable(one.id, one.status !== 'active'), unsubscribe(one.id)];
  return h(one.id === page.route.id ? 'article.card.chosen' : 'article.card', { key: one.id },
    h('div.title', null, h('h3', null, foreign(one.url)), mark(one.status, one.status === 'active' ? 'ok' : 'quiet')),
    one.description ? h('p', null, foreign(one.description)) : null,
    pairs([
      ['Secret', secretPart(page, one)],
      ['Events', foreign(one.events.join(', '))],
      ['Key', filterable(page, 'key', one.key)],
      ['Id', link(page, { view: 'deliveries', id: '', filter: `subscription:${one.id}` }, one.id)],
      ['Since', dateTime(one.created_at)],
      ['Last', lastDeliveries(page, one)],
    ]),
    page.isDocument ? null : h('div.actions', null, one.status === 'active' ? actionButton(page, test) : null, copyMenu(page, one.id, commandsOf(page, [test, toggle, rotate(one.id), remove])),
      dropDown(page, `more ${one.id}`, [icon('more')], () => [actionButton(page, toggle, false, 'plain'), actionButton(page, remove, false, 'plain')], { name: `More about ${one.url}`, stays: true })));
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
  return h('form.card', { onsubmit: submit },
    h('h3', null, 'Subscribe a receiver', key ? [' of ', foreign(key)] : null),
    keyChoice(page, values),
    h('label', null, 'URL; https://NAME.sink.localhost/ is a receiver built into the emulator', h('input', { type: 'text', controlled: values.url, oninput: change('url'), required: true })),
    h('label', null, 'Events; empty for all', h('input', { type: 'text', controlled: values.events, oninput: change('events'), placeholder: 'workflow.completed, reference.matched' })),
    key ? h('div.actions', null, actionButton(page, action(), true), copyMenu(page, 'subscribe', commandsOf(page, [action()]))) : h('p.quiet', null, 'Choose the key that subscribes.'));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function subscriptionsView(page) {
  const all = (page.store.run?.subscriptions ?? []).filter((one) => !page.route.key || one.key === page.route.key);
  return [
    h('h2', { tabindex: -1 }, 'Subscriptions'),
    all.length ? h('div.cards', null, all.map((one) => guarded(() => subscriptionCard(page, one), one)))
      : page.isDocument ? h('p.empty', null, 'There was no subscription.') : emptyState(page, 'No subscription. Create one below, or:', [page.cli(['subscriptions', 'create', 'https://demo.sink.localhost/hook'])]),
    page.isDocument ? null : subscribeForm(page),
  ];
}
