// Ctrl-K: goes to any view, key, scenario, setting, subscription or record by a part of its name, and does what the page can do.

import { activate, advance, clockMode, oneEvent } from './command.js';
import { h, icon } from './element.js';
import { keyOf, saveReport } from './parts.js';
import { VIEWS } from './route.js';
import { wordsOf } from './settings_words.js';
import { oneLine } from './text.js';

const MAX_SHOWN_TARGETS = 18;

/** Views whose symbol has another name. @type {Record<string, any>} */
export const SYMBOL_OF = { deliveries: 'send', trigger: 'bolt', check: 'check_signature' };

/** What it is called, what it is, and where it is or what it does. @typedef {[string, string, Partial<import('./route.js').Route> | (() => unknown)]} Target */

/** What can be done at once to the chosen key, or to all. Nothing that asks first. @param {Page} page @returns {Target[]} */
function doings(page) {
  const { run } = page.store;
  const { key } = page.route;
  if (page.isDocument || !run) return [];
  /** @type {Target[]} */
  const all = [['Save the report', 'action', () => saveReport(page)]];
  const add = (/** @type {import('./command.js').Action} */ action, name = action.label) => all.push([name, 'action', async () => {
    const { message } = await page.perform({ ...action, label: name });
    page.say(`${name}. ${message}`);
  }]);
  for (const [word, name] of [['1s', '1 s'], ['1m', '1 min'], ['1h', '1 h']]) add(advance(word, key), `Advance the clock by ${name}`);
  const isRunning = (page.store.clockOf(key)?.mode ?? 'real') === 'real';
  add(clockMode(isRunning ? 'frozen' : 'real', key), isRunning ? 'Freeze the clock' : 'Run the clock');
  const whom = key ? ` for ${oneLine(key, 40)}` : ' for all keys';
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
const iconOf = (to) => { const { view = '' } = /** @type {Partial<import('./route.js').Route>} */ (to); return SYMBOL_OF[view] ?? view; };

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
