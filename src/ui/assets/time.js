// Time: a running clock, moving it, and what is due.

import { advance, clockMode, setClock } from './command.js';
import { foreign, h } from './element.js';
import { actionButton, commandsOf, copyMenu, fold, link, mark, section, taking } from './parts.js';
import { count, dateTime, duration, milliseconds, oneLine } from './text.js';

/** @param {Page} page @returns {Nodes} */
export function timeView(page) {
  const { run } = page.store;
  if (!run) return [h('h2', null, 'Time')];
  const { key } = page.route;
  const clock = page.store.clockOf(key) ?? run.clock;
  const moved = page.store.movedBy(key);
  const values = page.ui.forms.time ??= { by: '60s', set: '' };
  const submit = (/** @type {() => import('./command.js').Action} */ action) => (/** @type {Event} */ event) => {
    event.preventDefault();
    page.perform(action());
  };
  const due = (run.due ?? []).filter((one) => !key || one.key === key);
  const nextMs = due[0]?.in_ms;
  const isDuration = Boolean(milliseconds(values.by));
  const by = () => advance(isDuration ? values.by : '60s', key);
  const set = () => setClock(values.set || run.clock.now, key);
  const own = key ? 0 : (run.keys ?? []).filter((one) => one.clock).length;
  const toNext = nextMs == null ? null : advance(`${Math.max(1, Math.ceil(nextMs))}ms`, key);
  // While it runs, the clock on the page does.
  if (clock.mode === 'real' && !page.isDocument && page.ui.forms.ticking === undefined) page.ui.forms.ticking = setTimeout(() => { page.ui.forms.ticking = undefined; if (page.route.view === 'time') page.redraw(); }, 1000);
  const step = (/** @type {string} */ by, /** @type {string} */ label) => actionButton(page, { ...advance(by, key), id: `advance ${by} ${key}`, label, isQuiet: true });
  const said = ['1s', '1m', '1h'].map((each) => page.ui.results.get(`advance ${each} ${key}`)).findLast(Boolean);
  const state = { frozen: mark('frozen', 'warn'), auto: mark('moves while a call waits', 'info'), real: mark('runs', 'ok') }[clock.mode];
  const modes = /** @type {const} */ (['real', 'frozen', 'auto']).filter((mode) => mode !== clock.mode).map((mode) => clockMode(mode, key));
  return [
    h('div.title', null, h('h2', null, 'Time'), page.isDocument ? null : copyMenu(page, 'time', commandsOf(page, [by(), ...modes, ...(toNext ? [{ ...toNext, label: 'To what is due next' }] : [])]))),
    h('div.halves', { key: 'time' },
      h('div', null,
        h('div', null, h('p.label', null, key ? foreign(`The clock of ${oneLine(key, 60)}`) : 'The emulator’s clock'), h('p.now', null, dateTime(new Date(page.store.now(Date.now(), key)).toISOString().replace(/\.\d+Z$/, 'Z'))),
          h('p.actions', null, state, h('span.quiet', null, [moved ? `${duration(Math.abs(moved))} ${moved > 0 ? 'ahead of' : 'behind'} real time` : clock.mode === 'real' ? 'real time' : '', clock.follows ? 'follows the emulator’s' : ''].filter(Boolean).join(', ')))),
        page.isDocument ? null : [
          h('div.card', null,
            h('form.line', { onsubmit: submit(by), key: 'advance' }, h('label', null, 'Advance by, such as 60s, 5m or 72h', h('input', { type: 'text', controlled: values.by, oninput: taking(page, values, 'by') })), isDuration ? actionButton(page, by(), true) : h('button.primary', { type: 'submit', disabled: true }, 'Advance')),
            isDuration ? null : h('p.bad', { role: 'status' }, 'Write it as 2h, 90m or 60s.'),
            h('div.actions', null, step('1s', '+1 s'), step('1m', '+1 min'), step('1h', '+1 h'), toNext ? actionButton(page, { ...toNext, id: 'advance to next', label: 'To what is due next' }) : null),
            own ? h('p.quiet', null, `${count(own, 'key has its own clock and is', 'keys have their own clocks and are')} not moved.`) : null,
            said && !said.busy && !said.ok ? h('p.bad', { role: 'alert' }, foreign(said.message)) : null),
          h('div', null, h('p.label', null, 'How it runs'), h('div.actions', null, modes.map((mode) => actionButton(page, mode)), key ? actionButton(page, clockMode('follow', key)) : null, moved ? actionButton(page, { ...setClock('now', key), id: 'real time', label: 'Back to real time' }) : null)),
          fold('Set it to a time', false, h('form.line', { onsubmit: submit(set), key: 'set' }, h('label', null, 'Set to', h('input', { type: 'text', controlled: values.set, oninput: taking(page, values, 'set'), placeholder: run.clock.now })), actionButton(page, set(), true, '')))]),
      section('What is due', due.length ? h('ol.agenda', null, due.slice(0, 50).map((one) => h('li', null, h('b', null, `in ${duration(one.in_ms)}`), h('span', null, one.delivery ? link(page, { view: 'deliveries', id: one.delivery, filter: '' }, oneLine(one.message)) : foreign(oneLine(one.message)), one.scenario ? foreign(` (scenario ${one.scenario})`) : ''))))
        : h('p.empty', null, 'Nothing waits for the clock.'))),
  ];
}
