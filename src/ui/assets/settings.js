// Settings and assumptions: what the contract leaves open, what is assumed instead, where each value comes from; and changing it.

import { changeSetting } from './command.js';
import { foreign, guarded, h, icon, prose } from './element.js';
import { commandsOf, copyMenu, documentLinks, mark, pairs, searchBox, taking } from './parts.js';
import { wordsOf } from './settings_words.js';
import { capital, count, forKey, oneLine, settingText } from './text.js';

/** What was typed as a value: JSON if it is, else text. @param {string} text @returns {unknown} */
export function typedValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The words of a choice, if a setting is one: `"off" | "list"`, `422 | 400`. @param {string | undefined} values @returns {unknown[] | null} */
export function choicesOf(values) {
  const words = (values ?? '').split(' | ');
  if (words.length < 2 || !words.every((word) => /^("[\w-]*"|\d+)$/.test(word))) return null;
  return words.map((word) => JSON.parse(word));
}

/**
 * A list of texts or a table of texts as lines to edit, and back; null for other values.
 * @param {unknown} value @returns {{text: string, hint: string, parse: (text: string) => unknown} | null}
 */
export function linesOf(value) {
  if (typeof value !== 'object' || value === null) return null;
  const all = Object.values(value);
  // A line end or a space at the edge would be lost.
  if (all.some((one) => typeof one !== 'string' || one !== one.trim() || /[\r\n]/.test(one))) return null;
  const split = (/** @type {string} */ text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
  if (Array.isArray(value)) return { text: value.join('\n'), hint: 'one per line', parse: split };
  if (Object.keys(value).some((name) => name !== name.trim() || !name || /[=\r\n]/.test(name))) return null;
  const parse = (/** @type {string} */ text) => Object.fromEntries(split(text).map((line) => {
    const [name, ...rest] = line.split('=');
    return [name.trim(), rest.join('=').trim()];
  }));
  return { text: Object.entries(value).map(([name, one]) => `${name} = ${one}`).join('\n'), hint: 'name = value, one per line', parse };
}

/** The control of a setting, by its kind: a switch, a choice, a number, or a text. @param {Page} page @param {SettingRow} setting @param {AssumptionRow | undefined} row @returns {Node} */
function settingControl(page, setting, row) {
  const { setting: settingName } = setting;
  const { forms } = page.ui;
  forms.settings ??= {};
  // What was chosen is shown until the state has it.
  const pending = forms.pending ??= {};
  if (settingName in pending && settingText(pending[settingName]) === settingText(setting.value)) delete pending[settingName];
  const value = pending[settingName] ?? setting.value;
  const name = `Value of ${settingName}${forKey(page.route.key)}`;
  const set = async (/** @type {unknown} */ to) => {
    pending[settingName] = to;
    const { ok } = await page.perform({ ...changeSetting(settingName, to, page.route.key), label: `Set ${settingName}${forKey(page.route.key)}` });
    if (ok) delete forms.settings[settingName];
    else delete pending[settingName];
    page.redraw();
  };
  if (typeof value === 'boolean') {
    return h('input', { type: 'checkbox', role: 'switch', 'aria-label': name, checked: value, onchange: (/** @type {Typed} */ event) => set(event.target.checked) });
  }
  const choices = choicesOf(row?.values);
  if (choices) {
    const chosen = (/** @type {Typed<HTMLSelectElement>} */ event) => set(choices[event.target.selectedIndex]);
    return h('select', { 'aria-label': name, controlled: settingText(value), onchange: chosen }, choices.map((one) => h('option', { value: settingText(one) }, settingText(one) || 'none')));
  }
  const lines = linesOf(value);
  // An empty table may have values other than texts.
  const isPlain = lines && !(settingName === 'errors.extra' || settingName === 'events.data');
  const initial = isPlain ? lines.text : value === null ? '' : settingText(value);
  const text = forms.settings[settingName] ?? initial;
  const isLong = typeof value === 'object' && value !== null;
  const change = taking(page, forms.settings, settingName);
  const submit = () => {
    // What was typed last may not be drawn yet.
    const typed = forms.settings[settingName] ?? text;
    set(isPlain ? lines.parse(typed) : typeof value === 'string' ? typed : typed === '' ? null : typedValue(typed));
  };
  const isTyped = settingName in forms.settings && forms.settings[settingName] !== initial;
  return h('form', { onsubmit: submit },
    isLong ? h('textarea', { 'aria-label': name, controlled: text, oninput: change, spellcheck: 'false', rows: Math.max(2, Math.min(10, text.split('\n').length)), placeholder: isPlain ? 'none' : null })
      : h('input', { type: typeof value === 'number' ? 'number' : 'text', step: 'any', 'aria-label': name, controlled: text, oninput: change, placeholder: value === null ? 'not set' : null }),
    isLong ? h('span.hint.small.quiet', null, isPlain ? lines.hint : 'JSON') : null,
    isTyped ? [h('span.small.warn', null, 'not set yet'), h('button.primary', { type: 'submit' }, 'Set')] : null);
}

/** @param {Page} page @param {SettingRow} setting @param {AssumptionRow | undefined} row @returns {Node} */
function settingPart(page, setting, row) {
  const { setting: settingName, source } = setting;
  const { title, effect } = wordsOf(settingName);
  const isChanged = source !== 'default';
  const { key } = page.route;
  // A change for all keys holds for each, and only the change of this key can be undone here.
  const isOwn = !key || page.store.run?.keys?.some((one) => one.key === key && one.settings?.some((each) => each.setting === settingName));
  const isOpen = page.route.id === settingName;
  const undo = () => {
    delete page.ui.forms.pending?.[settingName];
    page.perform({ ...changeSetting(settingName, null, page.route.key), label: 'Undo the change' });
  };
  const said = page.ui.results.get(`set ${settingName}`);
  const toggle = (/** @type {Typed<HTMLDetailsElement>} */ event) => {
    const isNow = event.target.open;
    if (isNow !== (page.route.id === settingName) && (isNow || page.route.id === settingName)) page.go({ id: isNow ? settingName : '' }, true);
  };
  return h(isOpen ? 'div.setting.chosen' : 'div.setting', { key: settingName },
    h('div', null,
      h('p.actions', null, h('b', null, foreign(title)), isChanged ? mark(source === 'control API' ? (isOwn ? 'changed' : 'changed for all keys') : `from ${oneLine(source, 60)}`, 'info') : null,
        isChanged && isOwn && !page.isDocument ? h('button.plain.value', { 'aria-label': `Undo the change of ${settingName}`, onclick: undo }, icon('undo'), 'Undo') : null),
      effect ? h('p.quiet', null, foreign(effect)) : null,
      h('details', { name: 'setting', open: isOpen, ontoggle: toggle },
        h('summary.small.quiet.go', { 'data-id': settingName }, h('code', null, foreign(settingName))),
        isOpen ? h('div', null, pairs([...(row ? /** @type {Parameters<typeof pairs>[0]} */ ([['Contract', prose(row.contract)], ['Assumed', prose(row.assumed)], ['Values', prose(row.values)], ['Observed by', prose(row.observed_by ?? '')], ['Default', foreign(settingText(row.default), 'code')]]) : []), ['From', foreign(source)]]),
          page.isDocument ? null : copyMenu(page, settingName, commandsOf(page, [changeSetting(settingName, setting.value, page.route.key)]))) : null)),
    h('p', null, source !== 'default' || !row?.assumed ? null : [h('span.quiet', null, 'Now: '), prose(capital(row.assumed))]),
    h('div.control', null, page.isDocument ? foreign(oneLine(settingText(setting.value), 200), 'code') : settingControl(page, setting, row)),
    said && !said.busy ? h(`p.about.result.${said.ok ? 'ok' : 'bad'}`, { role: said.ok ? null : 'alert' }, icon(said.ok ? 'check' : 'cross'), ' ', foreign(said.ok ? `${said.message}${forKey(page.route.key)}` : said.message)) : null);
}

/** What the first part of a name is about, where that is not the word itself. @type {Record<string, string>} */
const TITLES = { status: 'System status', rate_limit: 'Quota', time: 'Times' };

/** Changed settings first, then the others by the first part of their name. @param {SettingRow[]} all @returns {[string, SettingRow[]][]} */
function groupsOf(all) {
  /** @type {Map<string, SettingRow[]>} */
  const groups = new Map([['Changed', []]]);
  for (const one of all) {
    const [first] = one.setting.split('.');
    const title = one.source === 'default' ? TITLES[first] ?? capital(first) : 'Changed';
    groups.set(title, [...(groups.get(title) ?? []), one]);
  }
  return [...groups].filter(([, group]) => group.length);
}

/** @param {Page} page @returns {Nodes} */
export function settingsView(page) {
  const { run } = page.store;
  const { filter, id, key } = page.route;
  const rows = new Map((run?.assumptions?.data ?? []).map((row) => [row.setting, row]));
  const known = run?.keys?.find((one) => one.key === key);
  const own = new Map((known?.settings ?? []).map((one) => [one.setting, one]));
  const all = (run?.profile?.data ?? []).map((one) => own.get(one.setting) ?? one);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const isFound = (/** @type {SettingRow} */ one) => {
    const row = rows.get(one.setting);
    const { title, effect } = wordsOf(one.setting);
    const text = `${one.setting} ${title} ${effect} ${settingText(one.value)} from:${one.source} ${row?.contract} ${row?.assumed} ${row?.observed_by}`.toLowerCase();
    return words.every((word) => (word === 'changed' ? one.source !== 'default' : text.includes(word)));
  };
  const found = all.filter(isFound);
  const groups = groupsOf(found);
  const parts = (/** @type {SettingRow[]} */ group) => group.map((one) => guarded(() => settingPart(page, one, rows.get(one.setting)), one));
  const groupPart = (/** @type {string} */ title, /** @type {SettingRow[]} */ group) => {
    const isFolded = (/** @type {SettingRow} */ one) => title !== 'Changed' && !words.length && wordsOf(one.setting).isRare && one.setting !== id;
    const rare = group.filter(isFolded);
    return h('section.settings', { key: title, id: `section-${title}` }, h('h3', null, title), parts(group.filter((one) => !isFolded(one))),
      rare.length ? h('details.rare', { key: 'rare' }, h('summary.quiet', null, `${rare.length} rarely changed`), parts(rare)) : null);
  };
  return [
    h('div.title', { key: 'title' }, h('h2', null, 'Settings', key ? foreign(` of ${oneLine(key, 40)}`) : null),
      searchBox(page, 'Search; “changed” finds changed settings'),
      h('span.quiet', null, `${found.length} of ${count(all.length, 'setting')}`)),
    h('div.sided', { key: 'settings' },
      h('ul.sections', { 'aria-label': 'Sections' }, groups.map(([title, group]) => h('li', { key: title }, h('button.plain', { onclick: () => document.getElementById(`section-${title}`)?.scrollIntoView() }, title, h('span.count', null, String(group.length)))))),
      h('div', null, groups.length ? null : h('p.empty', null, 'No setting matches.'), groups.map(([title, group]) => groupPart(title, group)), page.isDocument ? null : documentLinks(page))),
  ];
}
