// Trigger: a form that fires an event, with the commands that do the same.

import { ONE_EVENT, subscribe, trigger } from './command.js';
import { stateOf } from './delivery.js';
import { foreign, h } from './element.js';
import { actionButton, commandsOf, copyMenu, keyChoice, keyOf, link, mark, section, statusMark } from './parts.js';
import { count, messageOf, oneLine, reasonOf } from './text.js';

const TAMPERS = ['', 'body', 'signature', 'secret', 'old_secret', 'timestamp', 'future_timestamp', 'headers'];

/** Event types that are known. @param {Page} page @returns {string[]} */
function types(page) {
  const data = page.store.run?.profile?.data.find((one) => one.setting === 'events.data')?.value;
  return [...new Set([...Object.keys(data ?? {}), ...(page.store.run?.subscriptions ?? []).flatMap((one) => one.events)])];
}

/** What became of the event fired last for a key: brought up to date as attempts are made. @param {Page} page @param {string} key @returns {Node | null} */
function outcome(page, key) {
  const said = page.ui.results.get(`trigger ${key}`);
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

/** @param {Page} page @returns {(Node | null)[]} */
export function triggerView(page) {
  const known = types(page);
  const values = page.ui.forms.trigger ??= { ...ONE_EVENT };
  const type = values.type || known[0] || 'workflow.completed';
  const change = (/** @type {string} */ name) => (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    values[name] = input.type === 'checkbox' ? input.checked : input.type === 'number' ? Number(input.value) || 1 : input.value;
    page.redraw();
  };
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, unknown>} */ props) =>
    h('label', null, label, h('input', { ...props, controlled: String(values[name]), oninput: change(name) }));
  const choice = (/** @type {string} */ name, /** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {string} */ value) =>
    h('label', null, label, h('select', { controlled: value, onchange: change(name) }, options.map(([option, text]) => h('option', { value: option }, text))));
  const check = (/** @type {string} */ name, /** @type {string} */ label) => h('label.check', null, h('input', { type: 'checkbox', onchange: change(name), checked: values[name] }), ` ${label}`);
  const active = (page.store.run?.subscriptions ?? []).filter((one) => one.status === 'active');
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
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (action && key) page.perform(make());
  };
  const isTaken = active.some((one) => one.key === key);
  const matching = subscriptions.filter((one) => one.status === 'active' && (one.events.includes(type) || !one.events.length));
  return [
    h('h2', { tabindex: -1 }, 'Trigger an event'),
    h('div.halves', { key: 'trigger' },
      h('form', { onsubmit: submit },
        h('div.fields', null, keyChoice(page, values), choice('type', 'Type', (known.length ? known : [type]).map((one) => [one, oneLine(one, 80)]), type),
          key ? choice('subscription', 'Receivers', [['', `all that match (${matching.length})`], .../** @type {[string, string][]} */ (subscriptions.map((one) => [one.id, oneLine(one.url, 90)]))], subscription) : null,
          choice('tamper', 'Forge on purpose', TAMPERS.map((one) => [one, one.replace('_', ' ') || 'nothing']), values.tamper)),
        h('label', null, 'Data as JSON; empty for the default', h('textarea', { controlled: values.data, oninput: change('data'), spellcheck: 'false', placeholder: '{"workflow_id":"wf_1","status":"completed"}' })),
        h('details', { open: isSpecial, key: 'more' }, h('summary', null, h('h3', null, 'More options')), h('div.more', null,
          h('div.fields', null,
            field('count', 'Events', { type: 'number', min: 1, max: 10000 }), field('duplicate', 'Copies of each', { type: 'number', min: 1, max: 100 }),
            field('delay', 'Delay, such as 5s', { type: 'text' })),
          h('div', null, check('shuffle', 'deliver out of order'), check('drop', 'never deliver it')))),
        problem ? h('p.bad', { role: 'alert' }, problem) : null,
        // Without a subscription the call would fail.
        action && isTaken ? h('div.actions', null, actionButton(page, { ...action, isQuiet: true }, true), copyMenu(page, 'trigger', commandsOf(page, [action]))) : null),
      h('div', null,
        isTaken || !key ? null : h('div.note', null, h('p', null, 'This key has no active subscription, so the event would go nowhere. Create one with a built-in receiver:'), actionButton(page, subscribe('https://demo.sink.localhost/hook', [], key))),
        key ? outcome(page, key) ?? (matching.length ? section('Goes to', h('ul.steps', null, matching.slice(0, 20).map((one) => h('li', null, foreign(one.url))))) : null) : h('p.empty', null, 'Choose the key whose subscriptions get the event.'))),
  ];
}
