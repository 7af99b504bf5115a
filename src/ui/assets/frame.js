// What surrounds every view: header, rail, messages, the token’s form, the keyboard map, the title and the icon; and Ctrl-K, which goes to
// any view, key, scenario, setting, subscription or record by a part of its name, and does what the page can do.

import { activate, advance, clockMode, oneEvent } from './command.js';
import { foreign, h, icon } from './element.js';
import { keyOf, saveReport } from './parts.js';
import { GROUPS, VIEWS } from './route.js';
import { wordsOf } from './settings_words.js';
import { dateTime, distance, forKey, listed, oneLine, shortKey } from './text.js';

const MAX_SHOWN_TARGETS = 18;

/** Views whose symbol has another name. @type {Record<string, any>} */
export const SYMBOL_OF = { deliveries: 'send', trigger: 'bolt', check: 'check_signature' };

/** Label, kind, and destination or action. @typedef {[string, string, To | (() => unknown)]} Target */

/** What can be done at once to the chosen key, or to all. Nothing that asks first. @param {Page} page @returns {Target[]} */
function doings(page) {
  const { run } = page.store;
  const { key } = page.route;
  if (page.isDocument || !run) return [];
  /** @type {Target[]} */
  const all = [['Save the report', 'action', () => saveReport(page)]];
  const add = (/** @type {Action} */ action, name = action.label) => all.push([name, 'action', async () => {
    const { message } = await page.perform({ ...action, label: name });
    page.say(`${name}. ${message}`);
  }]);
  all.push(['New scenario', 'action', { view: 'scenarios', id: '', filter: 'new' }]);
  for (const [word, name] of [['1s', '1 s'], ['1m', '1 min'], ['1h', '1 h']]) add(advance(word, key), `Advance the clock by ${name}`);
  const isRunning = (page.store.clockOf(key)?.mode ?? 'real') === 'real';
  add(clockMode(isRunning ? 'frozen' : 'real', key), isRunning ? 'Freeze the clock' : 'Run the clock');
  const whom = forKey(key, ' for all keys');
  const active = page.store.activeScenarios(key);
  if (active.length) add(activate([], key, `Turn all scenarios off${whom}`));
  for (const { name } of run.scenarios) add(active.includes(name) ? activate(active.filter((one) => one !== name), key, `Turn ${name} off${whom}`) : activate([name], key, `Play ${name}${whom}`));
  const receiver = keyOf(page, {});
  const types = new Set((run.subscriptions ?? []).filter((one) => one.status === 'active' && one.key === receiver).flatMap((one) => one.events));
  for (const type of types) add(oneEvent(type, receiver), `Trigger ${oneLine(type, 60)} for ${oneLine(receiver, 40)}`);
  return all;
}

/** Everything: without a text to look for, what can be done comes after the views, else last. @param {Page} page @param {boolean} isOpen @returns {Target[]} */
function targets(page, isOpen) {
  const { run } = page.store;
  /** @type {Target[]} */
  const views = VIEWS.filter(([view]) => !(page.isDocument && ['trigger', 'check'].includes(view))).map(([view, name]) => [name, 'view', { view, id: '', filter: '' }]);
  const acts = doings(page);
  /** @type {Target[]} */
  const all = isOpen ? [...views, ...acts] : views;
  for (const key of page.store.keys()) all.push([key, 'key', { view: 'activity', id: '', filter: '', key }]);
  for (const { name, title } of run?.scenarios ?? []) all.push([title ? `${name}: ${oneLine(title, 60)}` : name, 'scenario', { view: 'scenarios', id: name, filter: '' }]);
  for (const { setting: settingName } of run?.profile?.data ?? []) all.push([`${wordsOf(settingName).title}: ${settingName}`, 'setting', { view: 'settings', id: settingName, filter: settingName }]);
  for (const { id, url } of run?.subscriptions ?? []) all.push([oneLine(url, 80), 'subscription', { view: 'subscriptions', id, filter: '' }]);
  if (!isOpen) all.push(...acts);
  return all;
}

/** What matches a text: each of its words is part of the name or the kind; an id is gone to as it is. @param {Page} page @param {string} text */
export function found(page, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = targets(page, !words.length).filter(([name, kind]) => words.every((word) => `${name} ${kind}`.toLowerCase().includes(word)));
  const id = /^(req|evt|dlv)_[\w@-]+$/.exec(text.trim());
  if (id) all.unshift([id[0], 'record', { view: id[1] === 'dlv' ? 'deliveries' : 'activity', id: id[0], filter: '' }]);
  else if (text.trim()) all.push([`Filter the activity by “${oneLine(text.trim(), 60)}”`, 'filter', { view: 'activity', id: '', filter: text.trim() }]);
  return all.slice(0, MAX_SHOWN_TARGETS);
}

/** The symbol of a view. @param {Target[2]} to */
const iconOf = (to) => { const { view = '' } = /** @type {To} */ (to); return SYMBOL_OF[view] ?? view; };

/** The dialog, which the page opens. Its list is brought up to date as one types. @param {Page} page @returns {Node} */
export function palette(page) {
  const list = h('ul', { role: 'listbox', id: 'targets', 'aria-label': 'What to go to or do' });
  let place = 0;
  /** @type {ReturnType<typeof found>} */
  let all = [];
  const input = h('input', { type: 'text', role: 'combobox', 'aria-label': 'Go to or do', 'aria-controls': 'targets', 'aria-expanded': 'true', autocomplete: 'off', spellcheck: 'false', placeholder: 'A view, key, scenario, setting, id or action' });
  const dialog = /** @type {HTMLDialogElement & import('./element.js').Built} */ (h('dialog.palette', { id: 'palette', key: 'palette', 'aria-label': 'Go to or do', island: 'palette' }, input, list));
  const choose = (/** @type {number} */ at) => {
    dialog.close();
    const to = all[at]?.[2];
    if (typeof to === 'function') to();
    else if (to) page.go(to);
  };
  const draw = () => {
    list.replaceChildren(...all.map(([name, kind, to], i) => h('li', { role: 'option', id: `target-${i}`, 'aria-selected': String(i === place), onclick: () => choose(i) }, icon(kind === 'view' ? iconOf(to) : kind === 'action' ? 'bolt' : 'find'), name, h('span.quiet.small', null, kind))));
    input.setAttribute('aria-activedescendant', all.length ? `target-${place}` : '');
    document.getElementById(`target-${place}`)?.scrollIntoView?.({ block: 'nearest' });
  };
  const search = () => {
    [all, place] = [found(page, /** @type {any} */ (input).value), 0];
    draw();
  };
  input.addEventListener('input', search);
  input.addEventListener('focus', search);
  dialog.addEventListener('keydown', (event) => {
    const by = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (by) {
      place = (place + by + all.length) % Math.max(1, all.length);
      draw();
    } else if (event.key === 'Enter') choose(place);
    else return;
    event.preventDefault();
  });
  return dialog;
}

const SHORTCUTS = [
  ['j, k', 'next row or record, the one before'], ['Enter', 'open the row'], ['Esc', 'close, go back'], ['/', 'filter'], ['p', 'pause, continue'],
  ['n', 'show new rows'], ['a', 'activity'], ['r', 'review'], ['t', 'trigger an event'], ['Ctrl K', 'go anywhere, do anything'], ['?', 'this list'],
];

/** @param {Page} page @returns {string} */
function port(page) {
  const { port, hostname } = new URL(page.base);
  return port ? `:${port}` : hostname;
}

/** @param {Page} page @returns {string} */
export function pageTitle(page) {
  const { run } = page.store;
  const { mode = 'real' } = page.store.clockOf('') ?? {};
  const clock = mode === 'real' ? '' : ` (${mode})`;
  const what = page.isDocument ? oneLine(run?.viewing ?? 'recorded run', 60) : port(page);
  return [`${page.unread ? `(${page.unread}) ` : ''}${what}${clock}`, listed(page.store.activeScenarios(page.route.key).slice(0, 2)), 'wrs-emulator'].filter(Boolean).join(' · ');
}

/** @param {Page} page @returns {Node} */
function header(page) {
  const { store, route, isDocument } = page;
  const { run } = store;
  const [phase, colour] = { live: ['live', 'ok'], connecting: ['connecting', 'quiet'], lost: ['connection lost', 'bad'], token: ['needs a token', 'warn'], document: ['recorded', 'info'] }[store.phase];
  const known = store.keys();
  const { forms } = page.ui;
  const typed = (/** @type {Typed} */ event) => {
    const { value } = event.target;
    forms.key = value;
    // One that is chosen from the list is whole.
    if (!value || known.includes(value)) chosen(event);
  };
  const shown = innerWidth < 900 ? shortKey(route.key, known) : route.key;
  const chosen = (/** @type {Typed} */ event) => {
    const typedKey = event.target.value.trim();
    const value = typedKey === shown ? route.key : typedKey;
    const like = known.filter((key) => key.includes(value));
    delete forms.key;
    const key = !value || known.includes(value) || like.length !== 1 ? value : like[0];
    if (key !== route.key) page.go({ key, ...(route.view === 'keys' || route.view === 'subscriptions' ? { id: '' } : {}) });
    else page.redraw();
  };
  const names = page.store.activeScenarios(page.route.key);
  const menu = () => {
    page.ui.menu = !page.ui.menu;
    page.redraw();
  };
  // On a narrow screen usual values are left out, and others are a symbol.
  const state = (/** @type {string} */ what, /** @type {string} */ text, /** @type {'scenarios' | 'time'} */ view, more = '') =>
    h(`a.${what}${/^(none|real)/.test(text) || isDocument ? '.usual' : ''}`, { href: page.address({ view, id: '', filter: '' }), title: `${what} ${text}` }, icon(view), h('span', null, `${what} `), h('b', null, foreign(text)), h('span', null, more));
  return h('header', null,
    h('button.menu.plain.only', { 'aria-label': 'Menu', 'aria-expanded': String(page.ui.menu), 'aria-controls': 'rail', onclick: menu }, icon('menu')),
    h('div.brand', null, h('h1', null, 'wrs-emulator'), h('span.port', null, isDocument ? foreign(oneLine(run?.viewing ?? 'report', 80)) : port(page)), h(`span.phase.${colour}`, { title: phase }, h('span', null, phase))),
    h('label.key', null, h('span', null, 'key '), h('input', { id: 'key', type: 'search', list: 'keys', 'aria-label': 'key', placeholder: run?.key ?? 'all keys', autocomplete: 'off', spellcheck: 'false', controlled: forms.key ?? shown, oninput: typed, onchange: chosen }),
      h('datalist', { id: 'keys' }, known.map((key) => h('option', { value: key })))),
    state('scenario', names.length ? oneLine(names.join(', '), 80) : 'none', 'scenarios', !route.key && run?.keys?.some((one) => String(one.scenarios) !== String(names)) ? ', some keys have others' : ''),
    state('clock', clockText(page), 'time'),
    h('button.find.plain', { onclick: () => page.palette(true) }, icon('find'), h('span', null, 'Go to'), ' ', h('kbd', null, 'Ctrl K')),
    h('button.map.plain.only', { 'aria-label': 'Keyboard map', onclick: () => page.help(true) }, h('span', null, '?')));
}

/** @param {Page} page @returns {Node} */
function rail(page) {
  const { run } = page.store;
  const counts = /** @type {Record<string, number | undefined>} */ ({ subscriptions: run?.subscriptions?.length, keys: run?.keys?.length });
  return h(page.ui.menu ? 'nav.open' : 'nav', { id: 'rail', 'aria-label': 'Views' }, GROUPS.flatMap(([group, views]) => {
    const shown = views.filter(([view]) => !(page.isDocument && (view === 'trigger' || view === 'check')));
    return shown.length ? [h('p.label', { id: `group-${group}` }, group), h('ul', { 'aria-labelledby': `group-${group}` }, shown.map(([view, name]) => h('li', null,
      h('a', { href: page.address({ view, id: '', filter: '' }), 'aria-current': view === page.route.view ? 'page' : null }, icon(SYMBOL_OF[view] ?? view), name, counts[view] ? h('span.count', null, String(counts[view])) : null))))] : [];
  }));
}

/** @param {Page} page @returns {Node} */
function tokenForm(page) {
  const submit = () => {
    page.live.token = /** @type {HTMLInputElement} */ (document.getElementById('token')).value.trim();
    page.live.start();
  };
  return h('form.token', { onsubmit: submit, key: 'token' },
    h('h2', null, 'Control token'),
    h('p', null, 'This emulator requires its control token: WRS_EMULATOR_CONTROL_TOKEN, --control-token, or the one printed at startup. The page keeps it in memory until you close the tab.'),
    page.store.message ? h('p.bad', { role: 'alert' }, page.store.message) : null,
    h('label', null, 'Token', h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true })),
    h('button.primary', { type: 'submit' }, 'Show the page'));
}

/** @param {Page} page @returns {Node} */
function helpDialog(page) {
  const toggle = (/** @type {Typed} */ event) => {
    page.ui.shortcuts = event.target.checked;
  };
  const dialog = h('dialog', { id: 'help', key: 'help', 'aria-labelledby': 'help-title' },
    h('h2', { id: 'help-title' }, 'Keyboard'),
    h('dl', null, SHORTCUTS.map(([key, what]) => h('div', null, h('dt', null, h('kbd', null, key)), h('dd', null, what)))),
    h('label.check', null, h('input', { type: 'checkbox', checked: page.ui.shortcuts, onchange: toggle }), ' use these single-key shortcuts'),
    h('button', { autofocus: true, onclick: () => page.help(false) }, 'Close'));
  // Opened by the browser, which adds attributes that must stay.
  dialog.island = 'help';
  return dialog;
}

/** @param {Page} page @returns {Node[]} */
function messages(page) {
  const { store, ui } = page;
  const dismiss = () => {
    ui.notice = '';
    page.redraw();
  };
  const lost = store.phase === 'lost' ? [h('p.message.bad', { role: 'alert', key: 'lost' }, icon('cross'), ' The connection is lost; trying again. ', foreign(store.message))] : [];
  const notice = ui.notice ? [h('p.message.info', { role: 'status', key: 'notice' }, ui.notice, h('button', { onclick: dismiss }, 'OK'))] : [];
  return [...lost, ...notice];
}

/** The clock in the header. @param {Page} page @returns {string} */
function clockText({ store, route, isDocument }) {
  const clock = store.clockOf(route.key);
  if (!clock) return store.run ? 'of each run' : '…';
  if (clock.mode !== 'real') return `${clock.mode} at ${dateTime(clock.now).slice(11, 23)}`;
  if (isDocument) return dateTime(clock.now).slice(0, 19);
  return distance(store.movedBy(route.key)) || `real${!route.key && store.run?.keys?.some((one) => one.clock) ? ', some keys have others' : ''}`;
}

/** Everything on the page. @param {Page} page @param {Node} main @param {Node | null} pane @returns {Node[]} */
export function frame(page, main, pane) {
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    const first = /** @type {HTMLElement | null} */ (document.querySelector('#main h2, #main .list'));
    first?.focus();
  };
  return [
    h('a.skip', { href: '#main', onclick: skip }, 'Skip to the content'),
    header(page),
    h('div.messages', { key: 'messages' }, messages(page)),
    h(page.ui.toast ? 'p.toast' : 'p.hidden', { role: 'status', key: 'said' }, page.said),
    h('div.body', { key: 'body' },
      rail(page),
      page.store.phase === 'token' ? h('main', { key: 'content' }, tokenForm(page))
        : h(pane ? 'main.with-pane' : 'main', { key: 'content' }, main, pane ? h('section.side', { 'aria-label': 'Details', key: 'side' }, pane) : null)),
    helpDialog(page),
    palette(page),
  ];
}
