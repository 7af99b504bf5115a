// Ctrl-K: goes to any view, key, scenario, setting, subscription or record by a part of its name.

import { h, icon } from './element.js';
import { VIEWS } from './route.js';
import { oneLine } from './text.js';

const MOST_SHOWN_TARGETS = 12;

/** Everything that can be gone to: what it is called, what it is, where it is. @param {Page} page @returns {[string, string, Partial<import('./route.js').Route>][]} */
function targets(page) {
  const { run } = page.store;
  /** @type {[string, string, Partial<import('./route.js').Route>][]} */
  const all = VIEWS.filter(([view]) => !(page.isDocument && ['trigger', 'check'].includes(view))).map(([view, name]) => [name, 'view', { view, id: '', filter: '' }]);
  for (const key of page.store.keys()) all.push([key, 'key', { view: 'activity', id: '', filter: '', key }]);
  for (const { name, title } of run?.scenarios ?? []) all.push([title ? `${name}: ${oneLine(title, 60)}` : name, 'scenario', { view: 'scenarios', id: name, filter: '' }]);
  for (const { knob } of run?.profile?.data ?? []) all.push([knob, 'setting', { view: 'settings', id: knob, filter: knob }]);
  for (const { id, url } of run?.subscriptions ?? []) all.push([oneLine(url, 80), 'subscription', { view: 'subscriptions', id, filter: '' }]);
  return all;
}

/** What matches a text: each of its words is part of the name or the kind; an id is gone to as it is. @param {Page} page @param {string} text */
export function found(page, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = targets(page).filter(([name, kind]) => words.every((word) => `${name} ${kind}`.toLowerCase().includes(word)));
  const id = /^(req|evt|dlv)_[\w@-]+$/.exec(text.trim());
  if (id) all.unshift([id[0], 'record', { view: id[1] === 'dlv' ? 'deliveries' : 'activity', id: id[0], filter: '' }]);
  else if (text.trim()) all.push([`Filter the activity by “${oneLine(text.trim(), 60)}”`, 'filter', { view: 'activity', id: '', filter: text.trim() }]);
  return all.slice(0, MOST_SHOWN_TARGETS);
}

/** The dialog, which the page opens. Its list is brought up to date as one types. @param {Page} page @returns {Node} */
export function palette(page) {
  const list = h('ul', { role: 'listbox', id: 'targets', 'aria-label': 'Where to go' });
  let place = 0;
  /** @type {ReturnType<typeof found>} */
  let all = [];
  const input = h('input', { type: 'text', role: 'combobox', 'aria-label': 'Go to', 'aria-controls': 'targets', 'aria-expanded': 'true', autocomplete: 'off', spellcheck: 'false', placeholder: 'Go to a view, key, scenario, setting or id' });
  const dialog = /** @type {HTMLDialogElement & import('./element.js').Built} */ (h('dialog.palette', { id: 'palette', key: 'palette', 'aria-label': 'Go to', island: 'palette' }, input, list));
  const choose = (/** @type {number} */ at) => {
    dialog.close();
    if (all[at]) page.go(all[at][2]);
  };
  const draw = () => {
    list.replaceChildren(...all.map(([name, kind], i) => h('li', { role: 'option', id: `target-${i}`, 'aria-selected': String(i === place), onclick: () => choose(i) }, icon(kind === 'view' ? 'up' : 'find'), name, h('span.quiet.small', null, kind))));
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
