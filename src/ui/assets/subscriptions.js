// Subscriptions: what goes where in a table, one of them with its secret and actions, a form for a new one; and a form that fires an event.

import { ONE_EVENT, enable, keyWords, oneEvent, rotate, subscribe, trigger, unsubscribe } from './command.js';
import { stateOf } from './delivery.js';
import { breakable, foreign, guarded, h } from './element.js';
import { actionButton, commandsOf, copyButton, copyMenu, emptyState, filterable, fold, idPart, keyChoice, keyOf, link, mark, pairs, scrolled, section, statusMark, taking } from './parts.js';
import { count, dateTime, messageOf, oneLine, reasonOf, shortKey, timeOfDay } from './text.js';

const TAMPERS = ['', 'body', 'signature', 'secret', 'old_secret', 'timestamp', 'future_timestamp', 'headers'];

/** Event types that are known. @param {Page} page @returns {string[]} */
function types(page) {
  const data = page.store.run?.profile?.data.find((one) => one.setting === 'events.data')?.value;
  return [...new Set([...Object.keys(data ?? {}), ...(page.store.run?.subscriptions ?? []).flatMap((one) => one.events)])];
}

/** What became of the event that an action fired last: brought up to date as attempts are made. @param {Page} page @param {string} id @returns {Node | null} */
export function outcome(page, id) {
  const said = page.ui.results.get(id);
  if (!said || said.busy) return null;
  if (!said.ok) return h('p.result.bad', { role: 'alert' }, foreign(said.message));
  const { events = [], deliveries = [] } = said.data ?? {};
  const due = page.store.run?.due ?? [];
  const rows = deliveries.slice(0, 20).map((/** @type {DeliveryRow} */ one) => {
    const last = page.store.decidingAttempt.get(one.id);
    const next = due.find((each) => each.delivery === one.id);
    const isOpen = last?.failed && !last.forged && next;
    const state = last ? statusMark(last) : mark(...stateOf(one));
    return h('li.actions', { key: one.id }, state, link(page, { view: 'deliveries', id: one.id }, oneLine(one.url)), h('span.quiet', null, [last ? reasonOf(last) : '', isOpen ? oneLine(next.message, 120) : ''].filter(Boolean).join('; ')));
  });
  return h('section.next', { role: 'status' }, h('h3', null, `${count(events.length, 'event')} fired`), rows.length ? h('ul.steps', null, rows) : h('p.quiet', null, 'No delivery yet.'), deliveries.length > 20 ? h('p.quiet', null, `and ${deliveries.length - 20} more`) : null);
}

/** @param {Page} page @returns {Nodes} */
export function triggerView(page) {
  const known = types(page);
  const values = page.ui.forms.trigger ??= { ...ONE_EVENT };
  const type = values.type || known[0] || 'workflow.completed';
  const change = (/** @type {string} */ name) => (/** @type {Typed} */ event) => {
    const input = event.target;
    values[name] = input.type === 'checkbox' ? input.checked : input.type === 'number' ? Number(input.value) || 1 : input.value;
    page.redraw();
  };
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, unknown>} */ props) =>
    h('label', null, label, h('input', { ...props, controlled: String(values[name]), oninput: change(name) }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {string} */ value) =>
    h('label', null, label, h('select', { controlled: value, onchange: change(name) }, options.map(([option, text]) => h('option', { value: option }, text))));
  const check = (/** @type {string} */ name, /** @type {string} */ label) => h('label.check', null, h('input', { type: 'checkbox', onchange: change(name), checked: values[name] }), ` ${label}`);
  const key = keyOf(page, values);
  const subscriptions = (page.store.run?.subscriptions ?? []).filter((one) => one.key === key);
  // One of another key would be refused.
  const subscription = subscriptions.some((one) => one.id === values.subscription) ? values.subscription : '';
  const make = () => trigger({ ...values, type: values.type || type, key, subscription });
  const isSpecial = Boolean(values.count > 1 || values.duplicate > 1 || values.delay || values.shuffle || values.drop);
  let action = null;
  let problem = '';
  try {
    action = make();
  } catch (error) {
    problem = `Data: ${messageOf(error)}`;
  }
  const isTaken = subscriptions.some((one) => one.status === 'active');
  const matching = subscriptions.filter((one) => one.status === 'active' && (one.events.includes(type) || !one.events.length));
  return [
    h('h2', null, 'Trigger an event'),
    h('div.halves', { key: 'trigger' },
      h('form', { onsubmit: () => action && key && page.perform(make()) },
        h('div.fields', null, keyChoice(page, values), choice('type', 'Type', (known.length ? known : [type]).map((one) => [one, oneLine(one, 80)]), type),
          key ? choice('subscription', 'Receivers', [['', `all that match (${matching.length})`], .../** @type {[string, string][]} */ (subscriptions.map((one) => [one.id, oneLine(one.url, 90)]))], subscription) : null,
          choice('tamper', 'Forge on purpose', TAMPERS.map((one) => [one, one === 'timestamp' ? 'old timestamp' : one.replace('_', ' ') || 'nothing']), values.tamper)),
        h('label', null, 'Data as JSON; empty for the default', h('textarea', { controlled: values.data, oninput: change('data'), spellcheck: 'false', placeholder: '{"workflow_id":"wf_1","status":"completed"}' })),
        h('details', { open: isSpecial, key: 'more' }, h('summary', null, h('h3', null, 'More options')), h('div.more', null,
          h('div.fields', null,
            field('count', 'Events', { type: 'number', min: 1, max: 10000 }), field('duplicate', 'Copies of each', { type: 'number', min: 1, max: 100 }),
            field('delay', 'Delay, such as 5s', { type: 'text' })),
          h('div', null, check('shuffle', 'deliver out of order'), check('drop', 'never deliver it')))),
        problem ? h('p.bad', { role: 'alert' }, problem) : null,
        // Without a subscription the call would fail.
        action && isTaken ? h('div.actions', null, actionButton(page, { ...action, isQuiet: true }, true), copyMenu(page, 'trigger', commandsOf(page, [action])))
          : key ? null : h('div.actions', null, h('button.primary', { type: 'submit', disabled: true }, 'Trigger'), h('span.quiet', null, 'Choose the key whose subscriptions get the event.'))),
      h('div', null,
        isTaken || !key ? null : h('div.note', null, h('p', null, foreign(key), ' has no active subscription, so the event would go nowhere. Create one with a built-in receiver:'), actionButton(page, subscribe('https://demo.sink.localhost/hook', [], key))),
        key ? outcome(page, `trigger ${key}`) ?? (matching.length ? section('Goes to', h('ul.steps', null, matching.slice(0, 20).map((one) => h('li', null, foreign(one.url))))) : null) : null)),
  ];
}

/** The deliveries of a subscription, newest first. @param {Page} page @param {string} id */
const deliveriesOf = ({ store }, id) => store.entries.filter((entry) => entry.subscription === id && !entry.superseded).reverse();

/** Whether it works, as far as its deliveries show: the last one, and every forgery. @param {SubscriptionRow} one @param {Entry[]} deliveries newest first @returns {Node} */
function health({ status }, deliveries) {
  const [last] = deliveries;
  if (deliveries.some(({ forged, failed }) => forged && failed)) return mark('accepts forgeries', 'bad');
  if (status !== 'active') return mark(status, 'quiet');
  return last ? last.failed ? mark('failing', 'bad') : mark('healthy', 'ok') : mark('not used yet', 'info');
}

/** One event to this subscription alone. @param {SubscriptionRow} one @returns {Action} */
function testEvent(one) {
  return { ...oneEvent(one.events[0], one.key ?? '', one.id), id: `test ${one.id}`, label: 'Send a test event', isQuiet: true };
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
  const grace = /** @type {any} */ (page.store.run?.profile?.data.find(({ setting }) => setting === 'webhooks.rotation_grace'));
  return h('span.actions', null, known ? h('code', null, known) : h('span.quiet', { 'aria-hidden': 'true' }, 'whsec_••••••••'),
    known ? [h('button.plain', { onclick: hide }, 'Hide'), copyButton(page, known, 'the secret')] : h('button.plain', { onclick: reveal }, 'Reveal'),
    actionButton(page, { ...rotate(one.id, grace?.value), label: 'Rotate' }, false, 'plain'), one.signing_secrets > 1 ? h('span.quiet.small', null, 'the old one still signs') : null);
}

/** Everything about one subscription. @param {Page} page @returns {Node} */
export function subscriptionPane(page) {
  const one = page.store.run?.subscriptions?.find(({ id }) => id === page.route.id);
  if (!one) return h('p.empty', null, 'There is no subscription ', foreign(page.route.id), '. It was deleted, or the emulator was restarted.');
  const deliveries = deliveriesOf(page, one.id);
  const test = testEvent(one);
  const [toggle, remove] = [enable(one.id, one.status !== 'active'), unsubscribe(one.id)];
  return h('article', null,
    h('div', null, h('h2', null, breakable(one.url)), h('p.actions', null, health(one, deliveries), idPart(page, one.id))),
    one.description ? h('p', null, foreign(one.description)) : null,
    page.isDocument ? null : h('div.actions', null, one.status === 'active' ? actionButton(page, test, false, 'primary') : null, actionButton(page, toggle), actionButton(page, remove), copyMenu(page, one.id, commandsOf(page, [test, toggle, rotate(one.id), remove]))),
    outcome(page, test.id),
    pairs([
      ['Secret', secretPart(page, one)],
      ['Events', foreign(one.events.join(', '))],
      ['Key', filterable(page, 'key', one.key)],
      ['Since', dateTime(one.created_at)],
    ]),
    section('Last deliveries', deliveries.length ? h('ul.steps.last', null, deliveries.slice(0, 8).map((entry) => h('li', null, statusMark(entry), h('span', null, link(page, { view: 'deliveries', id: entry.id, filter: '' }, `${timeOfDay(entry.at).slice(0, 8)}${one.events.length > 1 ? ` ${entry.type}` : ''}`), foreign(` ${reasonOf(entry)}`))))) : h('p.quiet', null, 'Nothing was delivered yet.'),
      deliveries.length > 8 ? link(page, { view: 'deliveries', id: '', filter: `subscription:${one.id}` }, `All ${deliveries.length}`) : null));
}

/** @param {Page} page @param {SubscriptionRow} one @returns {Node} */
function subscriptionRow(page, one) {
  const deliveries = deliveriesOf(page, one.id);
  const [last] = deliveries;
  const isChosen = one.id === page.route.id;
  return h(isChosen ? 'tr.chosen' : 'tr', { key: one.id },
    h('th', { scope: 'row' }, h('a.go', { href: page.address({ id: isChosen ? '' : one.id, filter: '' }), 'data-id': one.id, 'aria-current': isChosen ? 'true' : null, title: one.url }, breakable(oneLine(one.url.replace(/^https:\/\//, ''), 200)))),
    h('td', null, health(one, deliveries)),
    h('td.late.wraps', null, foreign(one.events.length > 2 ? `${one.events[0]} and ${one.events.length - 1} more` : one.events.join(', '))),
    h('td.late', null, foreign(shortKey(one.key ?? '', page.store.keys()))),
    h('td.number.late', null, deliveries.length ? link(page, { view: 'deliveries', id: '', filter: `subscription:${one.id}` }, String(deliveries.length)) : h('span.quiet', null, '0')),
    h('td.number.late', null, last ? [statusMark(last), ' ', timeOfDay(last.at).slice(0, 8)] : h('span.quiet', null, '–')));
}

/** @param {Page} page @returns {Node} */
function subscribeForm(page) {
  const values = page.ui.forms.subscribe ??= { url: 'https://demo.sink.localhost/hook', events: '' };
  const key = keyOf(page, values);
  const action = () => subscribe(values.url, values.events.split(/[\s,]+/).filter(Boolean), key);
  return h('form', { onsubmit: () => key && page.perform(action()) },
    keyChoice(page, values),
    h('label', null, 'URL; https://NAME.sink.localhost/ is a receiver built into the emulator', h('input', { type: 'text', controlled: values.url, oninput: taking(page, values, 'url'), required: true })),
    h('label', null, 'Events; empty for all', h('input', { type: 'text', controlled: values.events, oninput: taking(page, values, 'events'), placeholder: 'workflow.completed, reference.matched' })),
    key ? h('div.actions', null, actionButton(page, action(), true), h('span.quiet', null, 'for ', foreign(key)), copyMenu(page, 'subscribe', commandsOf(page, [action()]))) : h('p.quiet', null, 'Choose the key that subscribes.'));
}

/** @param {Page} page @returns {Nodes} */
export function subscriptionsView(page) {
  const all = (page.store.run?.subscriptions ?? []).filter((one) => !page.route.key || one.key === page.route.key);
  return [
    h('div.title', null, h('h2', null, 'Subscriptions'), h('span.quiet', null, all.length ? count(all.length, 'subscription') : null)),
    all.length ? scrolled('Subscriptions', h('table.rows', null,
      h('thead', null, h('tr', null, ['Receiver', 'Health', 'Events', 'Key', 'Deliveries', 'Last'].map((head, i) => h(['th', 'th', 'th.late.wraps', 'th.late', 'th.number.late', 'th.number.late'][i], { scope: 'col' }, head)))),
      h('tbody', null, all.map((one) => guarded(() => subscriptionRow(page, one), one)))))
      : page.isDocument ? h('p.empty', null, 'There was no subscription.') : emptyState(page, 'No subscription. Create one below, or:', [page.cli(['subscriptions', 'create', 'https://demo.sink.localhost/hook', ...keyWords(page.route.key)])]),
    page.isDocument || !page.store.run ? null : fold('Subscribe a receiver', !all.length, subscribeForm(page)),
  ];
}
