// The summary of a run: a sentence, four numbers, the timeline, a card for each cause; then scenarios, settings, environment.

import { causesOf, isFailed } from './causes.js';
import { exampleLine } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { adviceDone, commandLine, copyMenu, emptyState, fold, link, mark, pairs, pre, saveReport, section, testButton } from './parts.js';
import { gridPart } from './grid.js';
import { failing, readiness } from './review.js';
import { progress } from './scenarios.js';
import { commandOf } from './shell.js';
import { NUMBERS, capital, count, dateTime, isRefused, listed, oneLine, settingText, timeOfDay } from './text.js';
import { timeline } from './timeline.js';

/** @typedef {import('./causes.js').Cause} Cause */

/** The width of the sections, and the margin beside them, as in the style. */
const MOST_WIDTH = 1080;
const MARGIN = 24;
/** Most causes with a card in a section, and most others with their sentence. */
const MOST_CAUSES = 10;
const MOST_SENTENCES = 200;
/** Most tests and occurrences named in a card. */
const MOST_NAMED = 12;

/** Whether problems of a kind were asked for by `--fail-on`, or, if none were, are webhooks. @param {RunDocument} run @param {string} kind @returns {boolean} */
function counts(run, kind) {
  if (!run.exec) return true;
  return run.exec.fail_on?.length ? run.exec.fail_on.includes(kind) : kind === 'undelivered' || kind === 'forged';
}

/** The four numbers, each with the filter that shows what it counts. @param {Page} page @param {RunDocument} run */
function fourNumbers(page, run) {
  const { store } = page;
  const tests = (run.keys ?? []).filter((one) => one.test);
  // Not every key may be in the document.
  const all = Math.max(run.verification.tests ?? 0, tests.length);
  const red = run.exec?.exit_status === 0 ? 0 : Math.max(run.verification.failed_tests ?? 0, tests.filter((one) => isFailed(run, one.test)).length);
  const requests = store.entries.filter((entry) => entry.kind === 'request');
  const refused = requests.filter((entry) => entry.status >= 400 || !entry.status);
  const deliveries = store.entries.filter((entry) => entry.kind === 'delivery' && !entry.superseded);
  const lost = deliveries.filter((entry) => entry.failed).length;
  const refusedForgeries = deliveries.filter((entry) => entry.forged && isRefused(entry)).length;
  const cell = (/** @type {number} */ number, /** @type {string} */ name, /** @type {string} */ bad, /** @type {string} */ more, /** @type {Partial<import('./route.js').Route>} */ to) =>
    h('li', null, h('a', { href: page.address({ id: '', filter: '', ...to }) }, h('b', null, NUMBERS.format(number)), h('span', null, name, bad ? [' · ', h('span.bad', null, bad)] : null, more ? ` · ${more}` : null)));
  /** @type {Map<string, number>} */
  const statuses = new Map();
  for (const { status } of refused) statuses.set(String(status || 'broken'), (statuses.get(String(status || 'broken')) ?? 0) + 1);
  const byStatus = [...statuses].sort((a, b) => b[1] - a[1]).map(([status, often]) => `${status} × ${NUMBERS.format(often)}`);
  return h('ul.numbers', { 'aria-label': 'Numbers' },
    tests.length ? cell(all, all === 1 ? 'test' : 'tests', red ? `${NUMBERS.format(red)} failed` : '', red ? '' : 'none failed', { view: 'keys', key: '', filter: red ? 'is:failed' : '' })
      : cell(run.keys?.length ?? 0, run.keys?.length === 1 ? 'key' : 'keys', '', '', { view: 'keys', key: '' }),
    cell(run.verification.judged_requests, run.verification.judged_requests === 1 ? 'request' : 'requests', '', '', { view: 'activity', filter: 'kind:request' }),
    cell(refused.length, 'refused', '', byStatus.join(', '), { view: 'activity', filter: 'kind:request -2xx -3xx' }),
    cell(run.verification.judged_deliveries, run.verification.judged_deliveries === 1 ? 'delivery' : 'deliveries', lost ? `${NUMBERS.format(lost)} failed` : '', refusedForgeries ? `${NUMBERS.format(refusedForgeries)} forged, refused` : '', { view: 'deliveries', filter: lost ? 'is:failed' : '' }));
}

/** The command that shows more of a cause, which works where it is read. @param {Page} page @param {Cause} cause @returns {string} */
function commandFor(page, { kind, records }) {
  if (!records.length || kind === 'finding') return '';
  if (!page.isDocument) return page.cli(['explain', records[0]]);
  return commandOf(['wrs-emulator', 'explain', records[0], '--from', fileOf(page)]);
}

/** The name of the file that is shown. @param {Page} page @returns {string} */
function fileOf(page) {
  const file = page.store.run?.viewing ?? decodeURIComponent(location.pathname.split('/').pop() ?? '');
  return /\.html?$|\.json$/.test(file) ? file : 'report.html';
}

/** @param {Page} page @param {Cause} cause @returns {Node} */
function causePart(page, cause) {
  const { sentence, outcome, remedy, also, tests, keys, records, entries, findings, view } = cause;
  const run = /** @type {RunDocument} */ (page.store.run);
  const see = (/** @type {Entry} */ entry) => h('a', { href: page.address({ view: entry.kind === 'delivery' ? 'deliveries' : 'activity', id: entry.id, filter: '' }) }, timeOfDay(entry.at), h('span.hidden', null, ` ${entry.id}`));
  // A problem of a test that passed names it as well.
  const names = tests.length ? tests.map(({ test }) => test) : keys.flatMap((key) => run.keys?.find((one) => one.key === key)?.test?.test ?? []);
  const outputs = tests.slice(0, 3).flatMap(({ key }) => run.keys?.find((one) => one.key === key)?.test ?? []).filter(({ output }) => output);
  const messages = [...new Set(tests.map(({ message }) => message ?? ''))].filter((message) => message && !sentence.startsWith(message));
  const command = commandFor(page, cause);
  const keyCount = Math.max(cause.key_count ?? 0, keys.length);
  /** @type {Parameters<typeof pairs>[0]} */
  const facts = [];
  if (cause.count > 1) facts.push(['How often', count(cause.count, 'time')]);
  if (names.length) facts.push([names.length === 1 ? 'Test' : 'Tests', h('ul.tests', null, names.slice(0, MOST_NAMED).map((name) => h('li', null, foreign(name))), names.length > MOST_NAMED ? h('li.quiet', null, `and ${names.length - MOST_NAMED} more`) : null)]);
  else if (keys.length) facts.push([keys.length === 1 ? 'Key' : 'Keys', h('span', null, keys.slice(0, MOST_NAMED).flatMap((key, i) => [i ? ', ' : '', link(page, { view: 'activity', id: '', key, filter: '' }, key)]), keyCount > MOST_NAMED ? ` and ${keyCount - MOST_NAMED} more` : '')]);
  if (messages.length) facts.push(['Message', h('span', null, messages.slice(0, 3).map((message) => h('code', null, foreign(message))))]);
  if (outcome) facts.push(['Since', foreign(outcome)]);
  if (also.length) facts.push(['Also', h('ul', null, also.map((one) => h('li', null, prose(one))))]);
  if (records.length) facts.push([view === 'deliveries' ? 'Delivery' : 'Request', link(page, { view: view === 'deliveries' ? view : 'activity', id: records[0], filter: '' }, records[0])]);
  if (entries.length) facts.push([entries.length > 1 ? 'First, last' : 'When', h('span', null, see(entries[0]), entries.length > 1 ? [' – ', see(entries[entries.length - 1])] : null)]);
  const codes = page.store.findings ? findings.flatMap((code) => [' ', link(page, { view: 'review', id: code, filter: '' }, code)]) : [];
  if (remedy || codes.length) facts.push(['What to do', h('span', null, remedy ? prose(capital(remedy)) : null, cause.advice ? adviceDone(page, cause.advice, null) : null, ...codes)]);
  const isFailure = cause.standing === 'failed';
  return h(isFailure ? 'article.card.cause.bad-cause' : 'article.card.cause.warn', { key: cause.id },
    h('h4.title', null, h('span', null, prose(sentence)), isFailure ? null : mark('warning', 'warn')),
    pairs(facts),
    command ? commandLine(page, command, 'the command') : null,
    outputs.map((test) => h('details', null, h('summary', null, 'Output of ', foreign(test.test)), pre(`Output of ${test.test}`, test.output ?? ''))));
}

/** The causes beyond the first, by their sentences, and the command that lists them. @param {Page} page @param {Cause[]} more @returns {Node | null} */
function moreCauses(page, more) {
  if (!more.length) return null;
  const all = ['verdict', '--json'];
  const command = page.isDocument ? commandOf(['wrs-emulator', ...all, '--from', fileOf(page)]) : page.cli(all);
  return h('details', null, h('summary', null, `And ${count(more.length, 'more cause')}`),
    h('ul', null, more.slice(0, MOST_SENTENCES).map(({ id, sentence }) => h('li', { key: id }, prose(sentence)))),
    commandLine(page, command, 'the command that lists them'));
}

/** @param {Page} page @param {string} title @param {Cause[]} causes @returns {Node | null} */
function causesPart(page, title, causes) {
  return causes.length ? section(title, h('div.causes', null, causes.slice(0, MOST_CAUSES).map((cause) => guarded(() => causePart(page, cause), cause.id))), moreCauses(page, causes.slice(MOST_CAUSES))) : null;
}

/** Parts of active scenarios that did not happen: information, unless the verdict was asked for them. @param {Page} page @param {RunDocument} run @returns {Node | null} */
function unfinishedPart(page, run) {
  const items = run.verification.unfinished.map((any) => guarded(() => {
    const one = /** @type {{message: string, scenario: string, workspace: string | null}} */ (any);
    const test = run.keys?.find(({ workspace }) => workspace === one.workspace)?.test?.test;
    return h('li', null, prose(one.message), test ? ['; test ', foreign(test)] : null, ' ', link(page, { view: 'scenarios', id: one.scenario, filter: '' }, 'scenario'));
  }, any));
  return items.length ? section('Unfinished scenarios', h('ul', null, items)) : null;
}

/** @param {Page} page @param {RunDocument} run */
function changed(page, run) {
  const all = (run.profile?.data ?? []).filter((one) => one.source !== 'default').map((one) => ({ one, key: '' }));
  for (const { key, settings } of run.keys ?? []) for (const one of settings ?? []) all.push({ one, key });
  return section('Changed settings', all.length
    ? h('ul', null, all.slice(0, 200).map(({ one, key }) => h('li', null, key ? [foreign(key), ': '] : null, link(page, { view: 'settings', id: one.setting, key: key || page.route.key, filter: '' }, one.setting), ' = ', foreign(oneLine(settingText(one.value)), 'code'), ' from ', foreign(oneLine(one.source, 100)))))
    : h('p.quiet', null, 'None.'));
}

/** How a command ended. @param {NonNullable<RunDocument['exec']>} exec */
const commandOutcome = (exec) => exec.problem ?? (exec.signal ? `ended by signal ${exec.signal}` : `exit status ${exec.exit_status}`);

/** The last lines that the command printed. @param {RunDocument} run @returns {Node | null} */
function outputPart({ exec, keys }) {
  const hasTests = keys?.some((one) => one.test);
  const title = 'Output of the command';
  return exec?.output ? fold(title, Boolean(exec.exit_status) && !hasTests, pre(title, exec.output)) : null;
}

/** @param {RunDocument['clock']} clock */
const clockFact = ({ mode, now }) => `${mode}, ${dateTime(now)}`;

/** How the command ended under each reading, if `exec --under` ran it. @param {RunDocument['exec']} exec @returns {Node | null} */
function readingsPart(exec) {
  const under = exec?.under;
  if (!under) return null;
  return section('Readings', h('p.sentence', null, prose(`${under.sentence}. This report is of \`${under.reading}\`.`)),
    h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': 'Readings' }, h('table.grid', null,
      h('thead', null, h('tr', null, ['Reading', 'Exit status', 'Problems', 'First failed test'].map((head) => h('th', { scope: 'col' }, head)))),
      h('tbody', null, under.readings.map((row) => h('tr', { key: row.reading }, h('th', { scope: 'row' }, foreign(row.reading)),
        h(row.exit_status ? 'td.bad' : 'td', null, String(row.exit_status)), h('td', null, NUMBERS.format(row.problems)), h('td', null, foreign(row.failed_test ?? '–'))))))));
}

/** @param {Page} page @param {RunDocument} run */
function environment(page, run) {
  const { emulator } = run;
  /** @type {[string, import('./element.js').Child][]} */
  const facts = [
    ['Version', foreign(emulator.version)],
    ['Address', foreign(emulator.base_url ?? page.base)],
    ['Seed', foreign(emulator.seed ?? 'not fixed')],
    ['Started', dateTime(emulator.started_at)],
    ['Recorded', dateTime(run.recorded_at)],
    ['Clock', clockFact(run.clock)],
    ['Scope', foreign(run.key ?? 'all keys')],
  ];
  if (emulator.scenario_folders?.length) facts.push(['Scenarios', foreign(emulator.scenario_folders.join(', '))]);
  if (run.exec?.command.length) facts.push(['Command', foreign(commandOf(run.exec.command.map(String)), 'code')]);
  if (run.exec) facts.push(['Outcome', foreign(commandOutcome(run.exec))]);
  return section('Environment', pairs(facts));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function summaryView(page) {
  const { run, entries } = page.store;
  // On a live page they may be about one key only, and out of date.
  const findings = page.isDocument ? page.store.findings : null;
  if (!run?.verification) return [h('h2', { tabindex: -1 }, 'Summary'), h('p.empty', null, 'Loading…')];
  const causes = causesOf(run, entries);
  const { tone = 'quiet', sentence = '' } = run.verification.headline ?? {};
  const failed = causes.filter(({ standing }) => standing === 'failed');
  const { unused, active_scenarios: active, forgotten_entries: forgotten } = run.verification;
  const omitted = Object.entries(run.omitted ?? {}).filter(([, number]) => typeof number === 'number' && number > 0).map(([kind, number]) => `${number} ${kind.replace(/_/g, ' ')}`);
  const save = page.cli(['run', 'save', 'report.html', ...(page.route.key ? ['--key', page.route.key] : [])]);
  const isEmpty = !entries.length && !page.isDocument;
  return [
    h('div.title', null, h('h2.over', { tabindex: -1 }, page.isDocument ? 'Report' : 'Summary'), page.isDocument ? null : h('button', { type: 'button', onclick: () => saveReport(page) }, 'Save the report'), page.isDocument ? null : copyMenu(page, 'summary', [['Save the report: CLI', save], ['Verdict: CLI', page.cli(['verdict'])]])),
    h(`p.verdict.big.${tone}`, null, prose(sentence)),
    fourNumbers(page, run),
    omitted.length && page.isDocument ? h('p.note', null, `Left out of this file, the oldest first: ${listed(omitted)}.`) : null,
    forgotten ? h('p.note', null, `${count(forgotten, 'entry', 'entries')} of the journal had been evicted from the journal and could not be checked.`) : null,
    isEmpty ? h('div', null, testButton(page)) : null,
    isEmpty ? emptyState(page, 'Send a request, or run your tests against the emulator:', [exampleLine(new URL(page.base).origin, 'sk_test_local')]) : guarded(() => timeline(page, entries, Math.min(MOST_WIDTH, (page.width || 1000) - 2 * MARGIN)), null),
    readingsPart(run.exec),
    causesPart(page, 'What failed', failed),
    failed.length || run.exec?.exit_status ? outputPart(run) : null,
    causesPart(page, failed.length ? 'Also' : 'Warnings', causes.filter(({ standing }) => standing !== 'failed')),
    unfinishedPart(page, run),
    section('Review', h('p.sentence', null, findings && (!failed.length || failing(findings).length) ? readiness(findings, counts(run, 'findings')) : null, ' ', link(page, { view: 'review', id: '', filter: '' }, 'The review'))),
    active.length ? section('Scenarios', active.map((name) => h('div', null, h('h4', null, link(page, { view: 'scenarios', id: name, filter: '' }, name)), progress(page, name)))) : null,
    unused.length ? section('Not tested yet', h('ul', null, unused.map((one) => h('li', null, foreign(one.message))))) : null,
    guarded(() => gridPart(page, run.verification) ?? h('div', null), run.verification.grid),
    failed.length || run.exec?.exit_status ? null : outputPart(run),
    changed(page, run),
    environment(page, run),
  ];
}
