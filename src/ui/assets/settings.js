// Settings and assumptions: what the contract leaves open, what is assumed instead, where each value comes from; and changing it.

import { changeSetting } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { actionButton, documentLinks, mark, pairs } from './parts.js';
import { count, oneLine, settingText } from './text.js';

/** What was typed as a value: JSON if it is, else text. @param {string} text @returns {unknown} */
export function typedValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** @param {Page} page @param {string} knob @param {unknown} value @param {boolean} isChanged */
function changeForm(page, knob, value, isChanged) {
  const { forms } = page.ui;
  const text = (forms.settings ??= {})[knob] ?? settingText(value);
  const change = (/** @type {Event} */ event) => {
    forms.settings[knob] = /** @type {HTMLInputElement} */ (event.target).value;
    page.redraw();
  };
  // Made when it is needed: what was typed last may not be drawn yet.
  const action = () => changeSetting(knob, typedValue(forms.settings[knob] ?? text), page.route.key);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const { ok } = await page.perform(action());
    if (ok) delete forms.settings[knob];
  };
  return h('form', { onsubmit: submit },
    h('label', null, `New value of ${knob}${page.route.key ? ` for ${oneLine(page.route.key, 40)}` : ' for all keys'}`, h('input', { type: 'text', controlled: text, oninput: change })),
    actionButton(page, action(), true),
    isChanged ? actionButton(page, { ...changeSetting(knob, null, page.route.key), id: `undo ${knob}` }) : null);
}

/** @param {Page} page @param {string} knob @param {SettingRow} setting @param {AssumptionRow | undefined} row @returns {Node} */
function settingPart(page, knob, setting, row) {
  const isDefault = setting.source === 'default';
  /** @type {Parameters<typeof pairs>[0]} */
  const origin = [['From', foreign(setting.source)], ...(setting.note ? [/** @type {[string, Node]} */ (['Note', foreign(setting.note)])] : [])];
  const isOpen = page.route.id === knob;
  const toggle = (/** @type {Event} */ event) => {
    const isNow = /** @type {HTMLDetailsElement} */ (event.target).open;
    if (isNow !== (page.route.id === knob) && (isNow || page.route.id === knob)) page.go({ id: isNow ? knob : '' }, true);
  };
  return h('details', { key: knob, name: 'setting', open: isOpen, ontoggle: toggle },
    h('summary', null, h('code', null, foreign(knob)), ' = ', foreign(oneLine(settingText(setting.value), 120), 'code'), ' ', isDefault ? null : mark(`from ${oneLine(setting.source, 80)}`, 'info'), setting.note ? h('span.quiet', null, ' ', foreign(oneLine(setting.note, 120))) : null),
    row ? pairs([['Contract', prose(row.contract)], ['Assumed', prose(row.assumed)], ['Values', prose(row.values)], ['Observed by', prose(row.observed_by ?? '')], ['Default', foreign(settingText(row.default), 'code')], ['In force', foreign(settingText(setting.value), 'code')], ...origin]) : pairs(origin),
    page.isDocument || !isOpen ? null : changeForm(page, knob, setting.value, !isDefault));
}

/** Changed settings first, then the others by the first part of their name. @param {SettingRow[]} all @returns {[string, SettingRow[]][]} */
function groupsOf(all) {
  /** @type {Map<string, SettingRow[]>} */
  const groups = new Map([['Changed', []]]);
  for (const one of all) {
    const title = one.source === 'default' ? one.knob.split('.')[0] : 'Changed';
    groups.set(title, [...(groups.get(title) ?? []), one]);
  }
  return [...groups].filter(([, group]) => group.length);
}

/** @param {Page} page @returns {(Node | null)[]} */
export function settingsView(page) {
  const { run } = page.store;
  const rows = new Map((run?.assumptions?.data ?? []).map((row) => [row.knob, row]));
  const own = new Map((run?.keys?.find((one) => one.key === page.route.key)?.settings ?? []).map((one) => [one.knob, one]));
  const all = (run?.profile?.data ?? []).map((one) => own.get(one.knob) ?? one);
  const words = page.route.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const isFound = (/** @type {SettingRow} */ one) => {
    const row = rows.get(one.knob);
    const text = `${one.knob} ${settingText(one.value)} from:${one.source} ${one.note ?? ''} ${row?.contract} ${row?.assumed} ${row?.observed_by}`.toLowerCase();
    return words.every((word) => (word === 'changed' ? one.source !== 'default' : text.includes(word)));
  };
  const found = all.filter(isFound);
  const search = (/** @type {Event} */ event) => page.go({ filter: /** @type {HTMLInputElement} */ (event.target).value }, true);
  return [
    h('h2', { tabindex: -1 }, 'Settings and assumptions'),
    h('label.filter', null, h('span.hidden', null, 'Search'), h('input', { id: 'filter', type: 'search', controlled: page.route.filter, placeholder: 'search; “changed” finds those that differ from the default', oninput: search })),
    h('p.quiet', null, `${found.length} of ${count(all.length, 'setting')}. Each is something that the contract leaves open.`),
    page.isDocument ? null : documentLinks(page),
    groupsOf(found).map(([title, group]) => h('section', { key: title }, h('h3', null, title), group.map((one) => guarded(() => settingPart(page, one.knob, one, rows.get(one.knob)), one)))),
  ].flat();
}
