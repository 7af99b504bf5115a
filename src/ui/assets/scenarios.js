// Scenarios: all of them and the active ones, the text of one with its problems, and its progress.

import { activate } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { actionButton, commandsOf, copyMenu, keptPart, link, mark, meter, section } from './parts.js';
import { count, messageOf, oneLine } from './text.js';

/** @param {DiagnosticRow} problem @returns {Node} */
function diagnostic(problem) {
  return h('div.note', null,
    h('p', null, mark(problem.severity, problem.severity === 'error' ? 'bad' : 'warn'), ' ', prose(problem.message), h('span.quiet', null, ` ${problem.file ?? ''} line ${problem.line}, column ${problem.column} (${problem.code})`)),
    problem.hint ? h('p', null, prose(problem.hint)) : null);
}

/** Whether a scenario is active for all keys or for some. @param {Page} page @param {string} name */
function activeSomewhere({ store: { run } }, name) {
  return Boolean(run?.verification.active_scenarios.includes(name) || run?.active?.includes(name) || run?.keys?.some((one) => one.scenarios?.includes(name)));
}

/** How far a scenario has come, for each workspace in which it began. @param {Page} page @param {string} name @returns {Node | null} */
export function progress(page, name) {
  const run = page.store.run;
  const of = run?.scenarios.find((one) => one.name === name)?.progress ?? [];
  const bar = (/** @type {string} */ what, /** @type {number} */ done, /** @type {number | null} */ most) => h('li', null,
    foreign(oneLine(what, 100)), h('span.quiet', null, most === null ? ` ${count(done, 'time')}` : ` ${done} of ${most}`), most === null ? null : meter(`${what}: ${done} of ${most}`, done, most, 'info'));
  if (!of.length) return activeSomewhere(page, name) ? h('p.quiet', null, 'Active; no matching request yet.') : null;
  return h('div', null, of.map((one) => h('div', null, h('p.quiet', null, foreign(one.key ?? 'without a key'), one.step ? foreign(` at step ${one.step}`) : ''),
    h('ul.steps', null, one.rules.map((rule) => bar(rule.rule, rule.applied, rule.turns)), one.emissions.map((each) => bar(each.emission, each.fired, each.planned ? each.fired + each.planned : null))))));
}

/** @param {Page} page @param {ScenarioDetail} one @returns {Node} */
function whole(page, one) {
  const { key } = page.route;
  const active = page.store.activeScenarios(page.route.key);
  const isActive = active.includes(one.name);
  const others = active.filter((name) => name !== one.name);
  const whom = key ? ` for ${oneLine(key, 40)}` : ' for all keys';
  const toggle = isActive ? activate(others, key, `Deactivate${whom}`) : activate([one.name], key, `Activate${whom}`);
  return h('article', { key: one.name },
    h('div', null, h('div.title', null, h('h2', null, foreign(one.name)), stateMark(page, one), page.isDocument ? null : copyMenu(page, one.name, [...commandsOf(page, [toggle]), ['Scenario', one.text ?? '']])),
      one.title ? h('p.sentence', null, foreign(one.title)) : null),
    one.description ? h('p', null, foreign(one.description)) : null,
    one.problem ? diagnostic(one.problem) : null,
    one.origin === 'inline' && !page.isDocument ? keptPart(page, one.name, one.text ?? '') : null,
    progress(page, one.name),
    h('div.actions', null,
      actionButton(page, toggle, false, isActive ? '' : 'primary'),
      !isActive && others.length ? actionButton(page, activate([...others, one.name], key, `Add after ${listedNames(others)}`)) : null),
    section(`Text, ${one.origin}`, page.isDocument || one.origin !== 'inline' ? null : h('p', null, link(page, { id: one.name, filter: 'edit' }, 'Edit')), h('pre.source', { tabindex: 0, role: 'region', 'aria-label': 'Text of the scenario' },
      (one.text ?? '').split('\n').map((line, i) => h(one.problem?.line === i + 1 ? 'span.at' : 'span', null, foreign(line))))));
}

/** @param {string[]} names @returns {string} */
function listedNames(names) {
  return oneLine(names.join(', '), 60);
}

/** Whether and for whom a scenario is active, and what is wrong with it. @param {Page} page @param {ScenarioDetail} one */
function stateMark(page, one) {
  const isActive = page.store.activeScenarios(page.route.key).includes(one.name);
  const keys = (page.store.run?.keys ?? []).filter((each) => each.scenarios?.includes(one.name));
  const whom = isActive ? 'active' : keys.length ? `active for ${keys.length === 1 ? oneLine(keys[0].key, 30) : count(keys.length, 'key')}` : '';
  return h('span.actions', null, whom ? mark(whom, isActive ? 'ok' : 'info') : null, one.state === 'ok' ? null : mark(one.state, 'bad'));
}

/** The group of a scenario: by its origin, or by what the built-in one is about. @param {ScenarioDetail} one */
function groupOf({ name, origin }) {
  if (origin !== 'built-in') return 'Yours';
  if (/webhook/.test(name)) return 'Webhooks';
  if (/429|rate|quota/.test(name)) return 'Quota';
  if (/network|slow/.test(name)) return 'Network';
  return 'Errors and others';
}

const GROUP_ORDER = ['Yours', 'Quota', 'Errors and others', 'Network', 'Webhooks'];

/** @param {Page} page @param {ScenarioDetail} one @returns {Node} */
function scenarioRow(page, one) {
  const active = page.store.activeScenarios(page.route.key);
  const isActive = active.includes(one.name);
  const action = isActive ? activate(active.filter((name) => name !== one.name), page.route.key, 'Stop') : activate([one.name], page.route.key, active.length ? 'Play instead' : 'Play');
  return h('tr', { key: one.name },
    h('td', null, link(page, { id: one.name }, oneLine(one.name, 100)), h('div.quiet', null, one.problem ? h('span', null, h('b', null, `line ${one.problem.line}: `), prose(one.problem.message)) : foreign(one.title ?? '')), isActive || one.progress?.length ? progress(page, one.name) : null),
    h('td', null, stateMark(page, one)),
    h('td', null, page.isDocument || one.state !== 'ok' && !isActive ? null : actionButton(page, { ...action, id: `play ${one.name}`, about: one.name })));
}

const TEMPLATE = 'title = "Three refusals, then normal answers"\n\n[[rule]]\nwhen = { operation = "system.status" }\ntimes = 3\nreply = { error = "rate_limit_exceeded" }\n';

/** The editor: checks the text as one types, and saves it when asked. @param {Page} page @param {ScenarioDetail | undefined} one @returns {Node} */
function editor(page, one) {
  const form = page.ui.forms[`scenario ${one?.name ?? ''}`] ??= { name: one?.name ?? '', text: one?.text || TEMPLATE, problems: [], said: '', timer: 0 };
  const send = async (/** @type {boolean} */ isSaved) => {
    const { text } = form;
    // Any name will do to check a text that has none yet.
    const name = form.name.trim() || (isSaved ? '' : 'unnamed');
    let isAccepted = false;
    try {
      const { ok, data } = await page.live.call('PUT', `scenarios/${encodeURIComponent(name)}${isSaved ? '' : '?dry_run=true'}`, text);
      if (text !== form.text) return false;
      isAccepted = ok;
      form.problems = data.diagnostics ?? [];
      form.said = ok ? isSaved ? `Saved as ${name}.` : 'Valid.' : form.problems.length ? `${count(form.problems.length, 'problem')}.` : data.error?.message ?? 'Not accepted.';
    } catch (error) {
      form.said = messageOf(error);
    }
    if (isSaved) page.live.refresh();
    page.redraw();
    return isAccepted;
  };
  const change = (/** @type {'name' | 'text'} */ field) => (/** @type {Event} */ event) => {
    form[field] = /** @type {HTMLInputElement} */ (event.target).value;
    clearTimeout(form.timer);
    form.timer = setTimeout(() => send(false), 300);
    page.redraw();
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    clearTimeout(form.timer);
    if (await send(true)) page.go({ id: form.name.trim(), filter: '' });
  };
  return h('form', { onsubmit: submit, key: 'editor' },
    h('h2', { tabindex: -1 }, one ? foreign(`Edit ${one.name}`) : 'New scenario'),
    one ? null : h('label', null, 'Name', h('input', { type: 'text', controlled: form.name, oninput: change('name'), required: true, placeholder: 'my-burst', spellcheck: 'false' })),
    h('label', null, 'Text', h('textarea', { controlled: form.text, oninput: change('text'), spellcheck: 'false', rows: 16 })),
    h('p', { role: 'status', class: form.problems.some((/** @type {DiagnosticRow} */ problem) => problem.severity === 'error') ? 'bad' : 'quiet' }, form.said || 'Checked as you type. Saved, it is kept in memory, and stays inactive until you activate it.'),
    form.problems.map((/** @type {DiagnosticRow} */ problem) => guarded(() => diagnostic(problem), problem)),
    h('div.actions', null, h('button.primary', { type: 'submit' }, 'Save'), link(page, { id: one?.name ?? '', filter: '' }, 'Cancel')));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function scenariosView(page) {
  const all = page.store.run?.scenarios ?? [];
  const { id, filter, key } = page.route;
  const chosen = all.find((one) => one.name === id);
  const active = page.store.activeScenarios(page.route.key);
  if (!page.isDocument && filter === 'new') return [h('p', { key: 'back' }, link(page, { id: '', filter: '' }, 'All scenarios')), editor(page, undefined)];
  if (!page.isDocument && filter === 'edit' && chosen) return [h('p', { key: 'back' }, link(page, { id: '', filter: '' }, 'All scenarios')), editor(page, chosen)];
  const groups = GROUP_ORDER.map((name) => /** @type {const} */ ([name, all.filter((one) => groupOf(one) === name)])).filter(([, group]) => group.length);
  const isNamed = groups.length > 1 || all.length > 3;
  return [
    chosen ? h('p', { key: 'back' }, link(page, { id: '' }, 'All scenarios'))
      : h('div.title', { key: 'title' }, h('h2', { tabindex: -1 }, 'Scenarios'), active.length ? actionButton(page, activate([], key, 'Turn all off')) : null, page.isDocument ? null : h('button.primary', { type: 'button', onclick: () => page.go({ id: '', filter: 'new' }) }, 'New scenario')),
    chosen ? guarded(() => whole(page, chosen), chosen)
      : all.length ? h('div.groups', null, groups.map(([name, group]) => h('section', { key: name }, isNamed ? h('h3', null, name) : null,
        h('table.stack', null, h('tbody', null, group.map((one) => guarded(() => scenarioRow(page, one), one))))))) : h('p.empty', null, 'No scenarios.'),
    id && !chosen ? h('p.empty', null, 'There is no scenario ', foreign(id), '.') : null,
  ];
}
