// Scenarios: which there are and which are active, the text of one with what is wrong in it, how far it has come.

import { activate } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { activeScenarios } from './frame.js';
import { actionButton, link, mark, section } from './parts.js';
import { count, oneLine } from './text.js';

/** @param {DiagnosticRow} problem @returns {Node} */
function diagnostic(problem) {
  return h('div.note', null,
    h('p', null, mark(problem.severity, problem.severity === 'error' ? 'bad' : 'warn'), ' ', prose(problem.message), h('span.quiet', null, ` ${problem.file ?? ''} line ${problem.line}, column ${problem.column} (${problem.code})`)),
    problem.hint ? h('p', null, prose(problem.hint)) : null);
}

/** Scenarios of the active list that get in each other's way. @param {Page} page */
function clashes(page) {
  const active = activeScenarios(page);
  const isInForce = (/** @type {string[]} */ [first, second]) => active.includes(second) && active.indexOf(first) > -1 && active.indexOf(first) < active.indexOf(second);
  return (page.store.run?.clashes ?? []).filter((one) => isInForce(one.scenarios)).map((one) => guarded(() => diagnostic(one.warning), one));
}

/** How far a scenario has come, for each workspace in which it began. @param {Page} page @param {string} name @returns {Node | null} */
export function progress(page, name) {
  const run = page.store.run;
  const of = run?.scenarios.find((one) => one.name === name)?.progress ?? [];
  const bar = (/** @type {string} */ what, /** @type {number} */ done, /** @type {number | null} */ most) => h('li', null,
    most === null ? null : h('progress', { max: most, value: done, 'aria-label': `${what}: ${done} of ${most}` }), ' ', foreign(oneLine(what, 100)), most === null ? ` ${count(done, 'time')}` : ` ${done} of ${most}`);
  if (!of.length) return run?.verification.active_scenarios.includes(name) ? h('p.quiet', null, 'Active, and no request has met it yet.') : null;
  return h('div', null, of.map((one) => h('div', null, h('p.quiet', null, foreign(one.key ?? 'without a key'), one.step ? foreign(` at step ${one.step}`) : ''),
    h('ul.steps', null, one.rules.map((rule) => bar(rule.rule, rule.applied, rule.turns)), one.emissions.map((each) => bar(each.emission, each.fired, each.planned ? each.fired + each.planned : null))))));
}

/** @param {Page} page @param {ScenarioDetail} one @returns {Node} */
function whole(page, one) {
  const { key } = page.route;
  const active = activeScenarios(page);
  const isActive = active.includes(one.name);
  const others = active.filter((name) => name !== one.name);
  const whom = key ? ` for ${oneLine(key, 40)}` : ' for all keys';
  return h('article', { key: one.name },
    h('h3', null, foreign(one.name), ' ', isActive ? mark('active', 'ok') : null, one.state === 'ok' ? null : mark(one.state, 'bad')),
    one.title ? h('p.sentence', null, foreign(one.title)) : null,
    one.description ? h('p', null, foreign(one.description)) : null,
    one.problem ? diagnostic(one.problem) : null,
    progress(page, one.name),
    h('div.actions', null,
      isActive ? actionButton(page, activate(others, key, `Deactivate${whom}`)) : actionButton(page, activate([one.name], key, `Activate${whom}`)),
      !isActive && others.length ? actionButton(page, activate([...others, one.name], key, `Add after ${listedNames(others)}`)) : null),
    section(`Text, ${one.origin}`, h('pre.source', { tabindex: 0, role: 'region', 'aria-label': 'Text of the scenario' },
      (one.text ?? '').split('\n').map((line, i) => h(one.problem?.line === i + 1 ? 'span.at' : 'span', null, foreign(line))))));
}

/** @param {string[]} names @returns {string} */
function listedNames(names) {
  return oneLine(names.join(', '), 60);
}

/** @param {Page} page @returns {(Node | null)[]} */
export function scenariosView(page) {
  const all = page.store.run?.scenarios ?? [];
  const chosen = all.find((one) => one.name === page.route.id);
  const active = activeScenarios(page);
  const rows = all.map((one) => guarded(() => h('tr', { key: one.name },
    h('td', null, link(page, { id: one.name }, oneLine(one.name, 100))),
    h('td', null, active.includes(one.name) ? mark('active', 'ok') : null, ' ', one.state === 'ok' ? null : mark(one.state, 'bad')),
    h('td', null, page.isDocument || one.state !== 'ok' && !active.includes(one.name) ? null : actionButton(page, active.includes(one.name) ? { ...activate(active.filter((name) => name !== one.name), page.route.key, 'Stop'), id: `play ${one.name}`, about: one.name } : { ...activate([one.name], page.route.key, active.length ? '▶ Play instead' : '▶ Play'), id: `play ${one.name}`, about: one.name })),
    h('td', null, one.problem ? h('span', null, h('b', null, `line ${one.problem.line}: `), prose(one.problem.message)) : foreign(one.title ?? '', 'span')),
    h('td', null, [one.rules && count(one.rules, 'rule'), one.emits && count(one.emits, 'emission')].filter(Boolean).join(', '))), one));
  return [
    h('h2', { tabindex: -1 }, 'Scenarios'),
    chosen ? h('p', { key: 'back' }, link(page, { id: '' }, 'All scenarios')) : active.length ? h('div.actions', null, actionButton(page, activate([], page.route.key, 'Turn all off'))) : null,
    ...clashes(page),
    chosen ? guarded(() => whole(page, chosen), chosen)
      : all.length ? h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'All scenarios' }, h('table.listing', null, h('thead', null, h('tr', null, ['Name', 'State', 'Action', 'What happens', 'Parts'].map((name) => h('th', { scope: 'col' }, name)))), h('tbody', null, rows))) : h('p.empty', null, 'No scenarios.'),
    page.route.id && !chosen ? h('p.empty', null, 'There is no scenario ', foreign(page.route.id), '.') : null,
  ];
}
