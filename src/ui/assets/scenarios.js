// Scenarios: all of them and the active ones, the text of one with its problems, and its progress.

import { activate } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { actionButton, commandsOf, copyMenu, idPart, keptPart, link, mark, meter, scrolled, section, taking } from './parts.js';
import { count, forKey, messageOf, oneLine, shortKey } from './text.js';

/** @param {DiagnosticRow} problem @returns {Node} */
function diagnostic(problem) {
  return h('div.note', null,
    h('p', null, mark(problem.severity, problem.severity === 'error' ? 'bad' : 'warn'), ' ', prose(problem.message), h('span.quiet', null, ` ${problem.file ?? ''}${problem.line ? ` line ${problem.line}, column ${problem.column}` : ''} (${problem.code})`)),
    problem.hint ? h('p', null, prose(problem.hint)) : null);
}

/** Whether a scenario is active for all keys or for some. @param {Page} page @param {string} name */
function activeSomewhere({ store: { run } }, name) {
  return Boolean(run?.verification.active_scenarios.includes(name) || run?.active?.includes(name) || run?.keys?.some((one) => one.scenarios?.includes(name)));
}

/** Most keys of a progress table on the list; the page of a scenario shows more. */
const MAX_KEYS = 8;

/** How far a scenario has come: the keys that met it by its rules and emissions. @param {Page} page @param {string} name @param {number} [most] @returns {Node | null} */
export function progress(page, name, most = MAX_KEYS) {
  const all = page.store.run?.scenarios.find((one) => one.name === name)?.progress ?? [];
  const weight = (/** @type {typeof all[0]} */ { rules, emissions }) => rules.reduce((sum, rule) => sum + rule.applied, 0) + emissions.reduce((sum, each) => sum + each.fired + each.planned, 0);
  const met = all.filter((one) => weight(one) > 0).sort((a, b) => weight(b) - weight(a));
  if (!met.length) return activeSomewhere(page, name) ? h('p.quiet', null, 'None of its rules has applied yet.') : null;
  const cell = (/** @type {string} */ what, /** @type {number} */ done, /** @type {number | null} */ of) => h('td', null, of === null ? count(done, 'time') : [meter(`${what}: ${done} of ${of}`, done, of, 'info'), h('span', null, `${done} of ${of}`)]);
  const heads = ['Key', ...met[0].rules.map(({ rule }) => rule), ...met[0].emissions.map(({ emission }) => emission), ...(met.some((one) => one.step) ? ['Step'] : [])];
  const rest = [met.length > most ? `${met.length - most} more keys met it` : '', all.length > met.length ? `no rule has applied yet for ${listedNames(all.filter((one) => !met.includes(one)).map(({ key }) => key ?? 'requests without a key'))}` : ''].filter(Boolean);
  return h('div', null,
    scrolled(`Progress of ${name}`, h('table.grid.progress', null,
      h('thead', null, h('tr', null, heads.map((head) => h('th', { scope: 'col', title: head }, foreign(oneLine(head, 40)))))),
      h('tbody', null, met.slice(0, most).map((one) => h('tr', { key: one.key ?? '' }, h('th', { scope: 'row' }, foreign(one.key ?? 'without a key')),
        one.rules.map((rule) => cell(rule.rule, rule.applied, rule.turns)), one.emissions.map((each) => h('td', null, each.planned ? `${count(each.fired, 'time')}, ${each.planned} to come` : count(each.fired, 'time'))),
        heads.at(-1) === 'Step' ? h('td', null, foreign(one.step ?? '')) : null))))),
    rest.length ? h('p.quiet.small', null, `${rest.join('; ')}.`) : null);
}

/** What a text of TOML is made of: comments, strings, tables, names, values. */
const TOKENS = /(#.*)|("(?:[^"\\]|\\.)*"?|'[^']*'?)|(^\s*\[[^\]"']*\]+)|([\w.-]+)(?=\s*=)|\b(true|false|\d[\w.:-]*)\b/g;
const TOKEN_NAMES = ['comment', 'string', 'table', 'name', 'value'];

/** A scenario's text by lines, which have numbers, colours, and marks where something is wrong. @param {string} text @param {DiagnosticRow[]} problems @returns {Node[]} */
function sourceLines(text, problems) {
  let isLong = false;
  return text.split('\n').map((line, i) => {
    const isString = isLong;
    if (line.split('"""').length % 2 === 0) isLong = !isLong;
    const wrong = problems.filter((one) => one.line === i + 1);
    /** @type {(Node | string)[]} */
    const parts = [];
    let end = 0;
    if (isString) parts.push(h('b.string', null, line.slice(0, end = line.length)));
    else for (const found of line.matchAll(TOKENS)) {
      parts.push(line.slice(end, found.index), h(`b.${TOKEN_NAMES[found.slice(1).findIndex((part) => part !== undefined)]}`, null, found[0]));
      end = found.index + found[0].length;
    }
    return h(wrong.length ? `span.at.${wrong.some((one) => one.severity === 'error') ? 'bad' : 'warn'}` : 'span', { title: wrong.map((one) => one.message).join('\n') || null }, parts, line.slice(end) || (end ? '' : ' '));
  });
}

/** Playing a scenario: for the chosen key, or for one that is typed, or for all. @param {Page} page @param {string} name @param {string} [look] @returns {Node} */
function playPart(page, name, look = '') {
  const values = page.ui.forms.play ??= { key: '' };
  const key = page.route.key || values.key.trim();
  const others = page.store.activeScenarios(key).filter((one) => one !== name);
  return h('div.play', null,
    actionButton(page, { ...activate([name], key, others.length ? 'Play instead for' : 'Play for'), id: `play ${name} ${key}`, isQuiet: page.store.activeScenarios(key).includes(name), about: `${key || 'all keys'}: ${name}`, done: `${name} plays for ${key || 'all keys'}${others.length ? `, instead of ${listedNames(others)}` : ''}.`, isSaid: true, after: () => { values.key = ''; } }, false, look),
    page.route.key ? foreign(shortKey(key, page.store.keys())) : h('input', { type: 'search', list: 'keys', 'aria-label': `Key that plays ${name}`, placeholder: 'all keys', controlled: values.key, oninput: taking(page, values, 'key'), autocomplete: 'off', spellcheck: 'false' }));
}

/** Stopping it for everybody who plays it. @param {Page} page @param {string} name @returns {Nodes} */
function stopParts(page, name) {
  const { store, route } = page;
  const stop = (/** @type {string} */ key) => actionButton(page, { ...activate(store.activeScenarios(key).filter((one) => one !== name), key, `Stop${forKey(key)}`), id: `play ${name} ${key}`, about: name, done: `${name} is stopped.` });
  if (store.activeScenarios(route.key).includes(name)) return [stop(route.key)];
  return (store.run?.keys ?? []).filter((one) => one.scenarios?.includes(name)).slice(0, 3).map(({ key }) => stop(key));
}

/** @param {Page} page @param {ScenarioDetail} one @returns {Node} */
function whole(page, one) {
  const { key } = page.route;
  const active = page.store.activeScenarios(key);
  const isActive = active.includes(one.name);
  const others = active.filter((name) => name !== one.name);
  const whom = forKey(key, ' for all keys');
  const toggle = isActive ? activate(others, key, `Stop${whom}`) : activate([one.name], key, `Play${whom}`);
  const isOwn = one.origin === 'inline' && !page.isDocument;
  const last = `the last good version, shown here, is ${activeSomewhere(page, one.name) ? 'still' : 'not'} playing.`;
  return h('article.halves', { key: one.name },
    h('div', null,
      h('div', null, h('div.title', null, h('h2', null, foreign(one.title || one.name)), stateMark(page, one)), idPart(page, one.name)),
      one.description ? h('p', null, prose(one.description)) : null,
      one.problem ? [diagnostic(one.problem), h('p', null, prose(`\`wrs-emulator check ${one.problem.file}\` lists all that is wrong${one.text ? `; ${last}` : '.'}`))] : null,
      h('div.actions', null,
        page.isDocument ? null : isActive ? actionButton(page, { ...toggle, id: `play ${one.name} ${key}` }) : [one.text ? playPart(page, one.name, 'primary') : null, stopParts(page, one.name)].flat(),
        !isActive && others.length ? actionButton(page, activate([...others, one.name], key, `Add after ${listedNames(others)}`)) : null,
        isOwn ? link(page, { id: one.name, filter: 'edit' }, 'Edit') : null,
        page.isDocument || !one.text ? null : link(page, { id: one.name, filter: 'copy' }, 'Edit a copy'),
        page.isDocument ? null : copyMenu(page, one.name, [...commandsOf(page, [toggle]), ['Scenario', one.text ?? '']])),
      activeSomewhere(page, one.name) || one.progress?.length ? section('Progress', progress(page, one.name, 200)) : null,
      page.isDocument || one.origin === 'built-in' ? null : isOwn ? keptPart(page, one.name, one.text ?? '')
        : one.state === 'deleted' ? keptPart(page, one.name, one.text ?? '', ['The file ', foreign(one.origin, 'code'), ` was deleted; ${last}`]) : h('p.note', null, 'This is a file: edit ', foreign(one.origin, 'code'), ' and save it; it is loaded again at once.')),
    one.text ? section(`${one.problem ? 'Last good version' : 'Text'}, ${one.origin}`, h('pre.source', { tabindex: 0, role: 'region', 'aria-label': 'Text of the scenario' }, sourceLines(one.text, []))) : null);
}

/** @param {string[]} names @returns {string} */
function listedNames(names) {
  return oneLine(names.join(', '), 60);
}

/** Whether and for whom a scenario is active, and what is wrong with it. @param {Page} page @param {ScenarioDetail} one */
function stateMark(page, one) {
  const isActive = page.store.activeScenarios(page.route.key).includes(one.name);
  const keys = (page.store.run?.keys ?? []).filter((each) => each.scenarios?.includes(one.name));
  const whom = isActive ? page.route.key ? 'playing' : 'for all keys' : keys.length ? `for ${keys.length === 1 ? shortKey(keys[0].key, page.store.keys()) : count(keys.length, 'key')}` : '';
  return h('span.actions', null, whom ? mark(whom, isActive ? 'ok' : 'info') : null, one.state === 'ok' ? null : mark(one.state, 'bad'));
}

/** The group of a scenario: by its origin, or by what the built-in one is about. @param {ScenarioDetail} one */
function groupOf({ name, origin }) {
  if (origin !== 'built-in') return 'Yours';
  if (/webhook|secret/.test(name)) return 'Webhooks';
  if (/429|rate|quota/.test(name)) return 'Quota';
  if (/network|slow/.test(name)) return 'Network';
  return 'Errors';
}

const GROUP_ORDER = ['Quota', 'Errors', 'Network', 'Webhooks'];

/** @param {Page} page @param {ScenarioDetail} one @returns {Node} */
function scenarioCard(page, one) {
  const isPlaying = activeSomewhere(page, one.name);
  const hasPlay = !page.isDocument && one.state === 'ok' && !page.store.activeScenarios(page.route.key).includes(one.name);
  return h(isPlaying ? 'article.card.playing' : 'article.card', { key: one.name },
    h('div', null,
      h('div.title', null, h('a.go', { href: page.address({ id: one.name }), 'data-id': one.name }, h('b', null, foreign(oneLine(one.title || one.name, 100))), h('span.id', null, foreign(one.name))), isPlaying || one.state !== 'ok' ? stateMark(page, one) : h('span.label', null, groupOf(one))),
      h('p.quiet.effect', null, one.problem ? [h('b', null, `line ${one.problem.line}: `), prose(one.problem.message)] : prose(one.description ?? ''))),
    isPlaying || one.progress?.length ? progress(page, one.name) : null,
    page.isDocument ? null : h('div.actions', null, isPlaying ? stopParts(page, one.name) : null, hasPlay ? playPart(page, one.name) : null));
}

const TEMPLATE = 'title = "Three refusals, then normal answers"\n\n[[rule]]\nwhen = { operation = "system.status" }\ntimes = 3\nreply = { error = "rate_limit_exceeded" }\n';

/** What a copy is called at first. @param {string} name */
const copyName = (name) => (name.startsWith('my-') ? `${name}-2` : `my-${name}`);

/** The editor: checks the text as one types, and saves it when asked. @param {Page} page @param {ScenarioDetail | undefined} one @param {ScenarioDetail} [from] what a new one is a copy of @returns {Node} */
function editor(page, one, from) {
  const form = page.ui.forms[`scenario ${one?.name ?? ''} ${from?.name ?? ''}`] ??= { name: one?.name ?? (from ? copyName(from.name) : ''), text: (one ?? from)?.text || TEMPLATE, problems: [], said: '', timer: 0 };
  const { key } = page.route;
  const isNamed = () => /^[\w.-]{1,100}$/.test(form.name.trim());
  const send = async (/** @type {boolean} */ isSaved) => {
    const { text } = form;
    // Any name will do to check a text that has none yet, or a wrong one.
    const name = isSaved || isNamed() ? form.name.trim() : 'unnamed';
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
  const check = () => {
    clearTimeout(form.timer);
    form.timer = setTimeout(() => send(false), 300);
    page.redraw();
  };
  const change = (/** @type {'name' | 'text'} */ field) => (/** @type {Typed} */ event) => {
    form[field] = event.target.value;
    check();
  };
  const begin = (/** @type {Typed} */ event) => {
    const found = page.store.run?.scenarios.find(({ name }) => name === event.target.value);
    if (!found) return;
    Object.assign(form, { text: found.text ?? '', name: form.name || copyName(found.name) });
    check();
  };
  const save = async (/** @type {boolean} */ isPlayed) => {
    clearTimeout(form.timer);
    const name = form.name.trim();
    if (!(await send(true))) return;
    if (isPlayed) await page.perform(activate([name], key, 'Play'));
    page.go({ id: name, filter: '' });
  };
  const isMisnamed = form.name && !isNamed();
  const isWrong = form.problems.some((/** @type {DiagnosticRow} */ problem) => problem.severity === 'error');
  const disabled = isMisnamed || isWrong;
  const shipped = (page.store.run?.scenarios ?? []).filter(({ text }) => text);
  return h('form.editor', { onsubmit: () => save(true), key: 'editor' },
    h('div.title', null, h('h2', null, one ? foreign(`Edit ${one.name}`) : 'New scenario')),
    one ? null : h('div.fields', null,
      h('label', null, 'Name', h('input', { type: 'text', controlled: form.name, oninput: change('name'), required: true, placeholder: 'my-burst', spellcheck: 'false' })),
      h('label', null, 'Start from…', h('select', { controlled: '', onchange: begin }, h('option', { value: '' }, from ? from.name : 'this example'), shipped.map(({ name, title }) => h('option', { value: name }, oneLine(title ? `${name}: ${title}` : name, 80)))))),
    isMisnamed ? h('p.bad', { role: 'alert' }, 'A name has 1 to 100 of the characters A-Z a-z 0-9 - _ and dots.') : null,
    h('div.halves', null, h('div', null, h('label', null, 'Text', h('div.paper', null,
      h('pre.source', { 'aria-hidden': 'true' }, sourceLines(form.text, form.problems)),
      h('textarea', { controlled: form.text, oninput: change('text'), spellcheck: 'false', autocapitalize: 'off' }))), h('div.actions', null, h('button.primary', { type: 'submit', disabled }, `Save and play${forKey(key, ' for all keys')}`), h('button', { disabled, onclick: () => save(false) }, 'Save'), link(page, { id: (one ?? from)?.name ?? '', filter: '' }, 'Cancel'))),
      h('div', null, h('p', { role: 'status', class: isWrong ? 'bad' : 'quiet' }, form.said || 'Checked as you type. Saved in memory; its page has it as a file.'),
      form.problems.map((/** @type {DiagnosticRow} */ problem) => guarded(() => diagnostic(problem), problem)),
      h('p', null, h('a', { href: 'docs/scenario-language.md', target: '_blank' }, 'The language of scenarios')))));
}

/** @param {Page} page @returns {Nodes} */
export function scenariosView(page) {
  const all = page.store.run?.scenarios ?? [];
  const { id, filter, key } = page.route;
  const chosen = all.find((one) => one.name === id);
  // What a change for all keys left alone.
  const [said] = page.ui.results.values();
  const own = said?.data?.own_lists ?? [];
  const follow = async () => { for (const one of own) await page.perform({ ...activate(null, one.key, 'Follow all keys'), isSaid: true }); };
  const left = own.length ? h('p.note', null, foreign(said.message), ' ', h('button', { onclick: follow }, 'Let these follow')) : null;
  const back = h('p', { key: 'back' }, link(page, { id: '', filter: '' }, 'All scenarios'));
  if (!page.isDocument && (filter === 'new' || ['edit', 'copy'].includes(filter) && chosen)) return [back, editor(page, filter === 'edit' ? chosen : undefined, filter === 'copy' ? chosen : undefined)];
  if (chosen) return [back, left, guarded(() => whole(page, chosen), chosen)];
  const isPlaying = (/** @type {ScenarioDetail} */ one) => activeSomewhere(page, one.name);
  const others = all.filter((one) => !isPlaying(one));
  const groups = /** @type {const} */ ([['Playing', all.filter(isPlaying)], ['Yours', others.filter((one) => groupOf(one) === 'Yours')], ['Shipped', GROUP_ORDER.flatMap((name) => others.filter((one) => groupOf(one) === name))]]);
  return [
    h('div.title', { key: 'title' }, h('h2', null, 'Scenarios'), page.store.activeScenarios(key).length ? actionButton(page, activate([], key, `Turn all off${forKey(key)}`)) : null, page.isDocument ? null : h('button.primary', { onclick: () => page.go({ id: '', filter: 'new' }) }, 'New scenario')),
    left,
    id ? h('p.empty', null, 'There is no scenario ', foreign(id), '. If its file was deleted, it no longer plays.') : null,
    all.length ? h('div.groups', null, groups.filter(([, group]) => group.length).map(([name, group]) => h('section', { key: name }, h('h3', null, name),
      h(name === 'Playing' ? 'div.tiles.wide' : 'div.tiles', null, group.map((one) => guarded(() => scenarioCard(page, one), one)))))) : h('p.empty', null, 'No scenarios.'),
  ];
}
