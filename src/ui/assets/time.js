// Time: the clock's mode, what is due next, and moving it.

import { advance, clockMode, setClock } from './command.js';
import { foreign, h } from './element.js';
import { actionButton, link, mark, pairs, section } from './parts.js';
import { dateTime, duration, milliseconds, oneLine } from './text.js';

/** @param {Page} page @returns {(Node | null)[]} */
export function timeView(page) {
  const { run } = page.store;
  if (!run) return [h('h2', null, 'Time')];
  const { key } = page.route;
  const clock = page.store.clockOf(key) ?? run.clock;
  const moved = page.store.movedBy(key);
  const values = page.ui.forms.time ??= { by: '60s', set: '' };
  const change = (/** @type {'by' | 'set'} */ name) => (/** @type {Event} */ event) => {
    values[name] = /** @type {HTMLInputElement} */ (event.target).value;
    page.redraw();
  };
  const submit = (/** @type {() => import('./command.js').Action} */ action) => (/** @type {Event} */ event) => {
    event.preventDefault();
    page.perform(action());
  };
  const due = (run.due ?? []).filter((one) => !key || one.key === key);
  const nextMs = due[0]?.in_ms;
  const by = () => advance(milliseconds(values.by) ? values.by : '60s', key);
  const set = () => setClock(values.set || run.clock.now, key);
  const toNext = nextMs == null ? null : advance(`${Math.max(1, Math.ceil(nextMs))}ms`, key);
  return [
    h('h2', { tabindex: -1 }, 'Time'),
    h('p.sentence', null, key ? foreign(`The clock of ${oneLine(key, 60)}: `) : 'The emulator’s clock: ', clock.mode === 'frozen' ? mark('⏸ frozen', 'warn') : mark('runs', 'ok'), moved ? `, ${duration(Math.abs(moved))} ${moved > 0 ? 'ahead of' : 'behind'} real time` : '', clock.follows ? ', follows the emulator’s' : ''),
    pairs([[clock.mode === 'real' ? 'When last read' : 'Now', dateTime(clock.now)], ['Due next', nextMs == null ? 'nothing' : h('span', null, `in ${duration(nextMs)}: `, foreign(due[0].message))]]),
    page.isDocument ? null : section('Stop it and move it',
      h('div.actions', null, clock.mode === 'frozen' ? actionButton(page, clockMode('real', key)) : actionButton(page, clockMode('frozen', key)),
        key ? actionButton(page, clockMode('follow', key)) : null,
        moved ? actionButton(page, { ...setClock('now', key), id: 'real time', label: 'Back to real time' }) : null,
        toNext ? actionButton(page, { ...toNext, id: 'advance to next', label: 'Advance to what is due next' }) : null),
      h('form', { onsubmit: submit(by), key: 'advance' }, h('label', null, 'Advance by, such as 60s, 5m or 72h', h('input', { type: 'text', controlled: values.by, oninput: change('by'), pattern: '(\\d+(\\.\\d+)?(ms|s|m|h|d))+' })), actionButton(page, by(), true)),
      h('form', { onsubmit: submit(set), key: 'set' }, h('label', null, 'Set to', h('input', { type: 'text', controlled: values.set, oninput: change('set'), placeholder: run.clock.now })), actionButton(page, set(), true))),
    section('What is due', due.length ? h('ol.steps', null, due.slice(0, 50).map((one) => h('li', null, `in ${duration(one.in_ms)}: `, one.delivery ? link(page, { view: 'deliveries', id: one.delivery, filter: '' }, oneLine(one.message)) : foreign(oneLine(one.message)), one.scenario ? foreign(` (scenario ${one.scenario})`) : ''))) : h('p.quiet', null, 'Nothing waits for the clock.')),
  ];
}
