// The summary of a run: its first sentence, the tests, a row for each cause that opens in place; then settings and environment.

import { exampleLine, keyWords } from './command.js';
import { breakable, foreign, guarded, h, icon, prose, s } from './element.js';
import { adviceDone, commandLine, copyButton, copyMenu, emptyState, fold, link, opening, pairs, pre, saveReport, scrolled, section, testButton } from './parts.js';
import { failing, readiness } from './review.js';
import { commandOf } from './shell.js';
import { NUMBERS, capital, count, dateTime, duration, isRefused, listed, nameOfTest, oneLine, settingText, shortKey, timeOfDay } from './text.js';
import { timeline } from './timeline.js';

/** @typedef {NonNullable<RunDocument['verification']['causes']>[number]} FoundCause */
/**
 * A cause with its records.
 * @typedef {FoundCause & {id: string, entries: Entry[], view: 'activity' | 'deliveries' | 'keys' | 'review'}} Cause
 */

/** Most causes with a row in a section, and most others with their sentence. */
const MAX_CAUSES = 20;
const MAX_SENTENCES = 200;
/** Most tests and occurrences named in a cause, and most in the list of tests. */
const MAX_NAMED = 12;
const MAX_TESTS = 1000;
const MAX_UNFINISHED = 5;
/** The margin beside the drawing, as in the style. */
const MARGIN = 24;

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
export function isFailed(run, test) {
  return test?.outcome === 'failed' && run.exec?.exit_status !== 0;
}

/** Every cause that is shown, those that made the run fail first. @param {Pick<RunDocument, 'verification'>} run @param {Entry[]} entries @returns {Cause[]} */
export function causesOf(run, entries) {
  const records = new Map(entries.filter((one) => !one.superseded).map((one) => [one.id, one]));
  return (run.verification.causes ?? []).filter(({ standing }) => standing !== 'elsewhere').map((cause) => {
    const found = cause.records.flatMap((id) => records.get(id) ?? []);
    /** @type {Cause['view']} */
    const view = cause.kind === 'finding' ? 'review' : cause.kind === 'forged' || cause.kind === 'undelivered' ? 'deliveries' : found.length ? 'activity' : 'keys';
    return Object.assign({}, cause, { id: `${cause.kind} ${cause.sentence} ${cause.tests[0]?.key ?? ''}`, entries: found, view });
  });
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
    tests.length ? cell(all, all === 1 ? 'test' : 'tests', red ? `${NUMBERS.format(red)} failed` : '', red ? '' : run.exec?.exit_status ? 'none reported as failed' : 'none failed', { view: 'keys', key: '', filter: red ? 'is:failed' : '' })
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

/** What is known of a cause, and what to do. @param {Page} page @param {Cause} cause @param {string} [shown] the test under whose name it stands @returns {(Node | null)[]} */
function causeFacts(page, cause, shown) {
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
  const codes = page.store.findings ? findings.flatMap((code) => [' ', link(page, { view: 'review', id: code, filter: '' }, code)]) : [];
  if (remedy || codes.length) facts.push(['What to do', h('span', null, remedy ? prose(capital(remedy)) : null, cause.advice ? adviceDone(page, cause.advice, null) : null, ...codes)]);
  if (messages.length) facts.push(['Message', h('span', null, messages.slice(0, 3).map((message) => h('code', null, foreign(message))))]);
  if (names.length && String(names) !== shown) facts.push([names.length === 1 ? 'Test' : 'Tests', h('ul.tests', null, names.slice(0, MAX_NAMED).map((name) => h('li', null, foreign(name))), names.length > MAX_NAMED ? h('li.quiet', null, `and ${names.length - MAX_NAMED} more`) : null)]);
  else if (!names.length && keys.length) facts.push([keys.length === 1 ? 'Key' : 'Keys', h('span', null, keys.slice(0, MAX_NAMED).flatMap((key, i) => [i ? ', ' : '', link(page, { view: 'activity', id: '', key, filter: '' }, key)]), keyCount > MAX_NAMED ? ` and ${keyCount - MAX_NAMED} more` : '')]);
  if (cause.count > 1) facts.push(['How often', count(cause.count, 'time')]);
  if (outcome) facts.push(['Since', foreign(outcome)]);
  if (also.length) facts.push(['Also', h('ul', null, also.map((one) => h('li', null, prose(one))))]);
  if (records.length) facts.push([view === 'deliveries' ? 'Delivery' : 'Request', h('span', null, link(page, { view: view === 'deliveries' ? view : 'activity', id: records[0], filter: '' }, records[0]), entries.length ? [h('span.quiet', null, ' at '), see(entries[0]), entries.length > 1 ? [h('span.quiet', null, ', the last at '), see(entries[entries.length - 1])] : null].flat() : null)]);
  return [pairs(facts),
    command ? commandLine(page, command, 'the command') : null,
    ...outputs.map((test) => h('details', null, h('summary', null, 'Output of ', foreign(test.test)), pre(`Output of ${test.test}`, test.output ?? '')))];
}

/** When it happened, within the run. @param {Page} page @param {Entry[]} entries @returns {Node | null} */
function sparkOf({ store: { entries: all } }, entries) {
  const [first, last] = [all[0]?.at, all[all.length - 1]?.at];
  if (!entries.length || first === last) return null;
  return s('svg', { class: 'ticks', viewBox: '0 0 96 16', 'aria-hidden': 'true' }, s('line', { x1: 0, x2: 96, y1: 15.5, y2: 15.5 }), entries.map(({ at }) => s('rect', { x: (((at - first) / (last - first)) * 93).toFixed(1), y: 3, width: 3, height: 12 })));
}

/** The sentence of a cause, its subject in bold. @param {Cause} cause */
const titleOf = ({ kind, name, sentence }) => h('span', null, kind === 'forged' ? [h('b', null, 'Forgery accepted: '), prose(sentence)] : sentence.startsWith(name) ? [h('b', null, foreign(name)), prose(sentence.slice(name.length))] : prose(sentence));

/** A cause as a row that opens in place. @param {Page} page @param {Cause} cause @param {boolean} isOpen @returns {Node} */
function causeRow(page, cause, isOpen) {
  const isFailure = cause.standing === 'failed';
  const tests = cause.tests.length;
  return h('article', { key: cause.id }, opening(cause.id, isFailure ? 'bad' : 'warn', isFailure ? 'failed' : 'warning', titleOf(cause),
    [h('span.quiet.small', null, [tests > 1 ? `${tests} tests` : '', cause.count > 1 ? `× ${NUMBERS.format(cause.count)}` : ''].filter(Boolean).join(' · ')), sparkOf(page, cause.entries)], isOpen, causeFacts(page, cause)));
}

/** The tests of a run, the failed ones first, in the order of their causes. @param {RunDocument} run @param {Cause[]} causes */
function testsOfRun(run, causes) {
  const ranks = new Map(causes.flatMap(({ tests }, i) => tests.map(({ key }) => /** @type {[string, number]} */ ([key, i]))));
  const all = (run.keys ?? []).flatMap(({ key, requests, test }) => (test ? [{ key, requests: requests ?? 0, test, isRed: isFailed(run, test), rank: ranks.get(key) ?? causes.length }] : []));
  return all.sort((a, b) => Number(b.isRed) - Number(a.isRed) || a.rank - b.rank);
}

/** The tests on the left, the cause of the chosen one on the right. @param {Page} page @param {RunDocument} run @param {Cause[]} causes @returns {Node} */
function testsPart(page, run, causes) {
  const tests = testsOfRun(run, causes);
  const chosen = tests.find(({ key }) => key === page.route.id) ?? tests[0];
  const its = causes.filter((cause) => cause.tests.some(({ key }) => key === chosen.key) || cause.keys.includes(chosen.key) && !cause.tests.length);
  const sentFor = (/** @type {string} */ key) => page.store.entries.filter((one) => one.kind === 'delivery' && one.key === key && !one.superseded).length;
  const traffic = (/** @type {typeof chosen} */ { key, requests }) => {
    const sent = requests ? 0 : sentFor(key);
    return sent ? count(sent, 'delivery', 'deliveries') : requests ? count(requests, 'request') : 'no requests';
  };
  const row = (/** @type {typeof chosen} */ one) => h('li', { key: one.key }, h('a.go', { href: page.address({ id: one.key }), 'data-id': one.key, 'aria-current': one === chosen ? 'true' : null, title: one.test.test },
    h(one.isRed ? 'span.bad' : 'span.ok', null, icon(one.isRed ? 'cross' : 'check'), h('span.hidden', null, one.isRed ? 'failed' : 'passed')), breakable(nameOfTest(one.test.test)), h('span.quiet.small', null, traffic(one))));
  const cause = (/** @type {Cause} */ one) => guarded(() => h('article', { key: one.id }, h('p.sentence', null, titleOf(one)), causeFacts(page, one, chosen.test.test)), one);
  return h('div.chosen-test', { key: 'tests' },
    h('ul.list-of-tests', { 'aria-label': 'Tests' }, tests.slice(0, MAX_TESTS).map(row)),
    h('div', null, h('h3', null, breakable(chosen.test.test)),
      its.length ? its.map(cause) : h('article', { key: chosen.key }, h('p', null, chosen.isRed ? foreign(chosen.test.message ?? 'It failed.') : 'Passed.'), link(page, { view: 'activity', id: '', key: chosen.key, filter: '' }, 'Its requests'))));
}

/** What ran the tests: the name of the program, without what starts it. @param {string[]} command @returns {string} */
export function runnerOf(command) {
  const words = command.map((word) => String(word).split(/[\\/]/).pop() ?? '');
  while (words.length > 1 && /^(env|npx|bunx|uv|uvx|poetry|run|exec|python[\d.]*|-m|[A-Z_]+=.*)$/.test(words[0])) words.shift();
  return words[0];
}

/** The first line of a report. @param {RunDocument} run @returns {string} */
export function headOf(run) {
  const { exec, verification: { tests = 0, failed_tests: failed = 0 } } = run;
  const outcome = tests ? [failed && exec?.exit_status !== 0 ? `${NUMBERS.format(failed)} of ${NUMBERS.format(tests)} failed` : exec?.exit_status ? `no failure reported by ${count(tests, 'test')}` : `${count(tests, 'test')} passed`] : [];
  if (!exec) return ['Report', ...outcome].join(' · ');
  return [runnerOf(exec.command), exec.problem ? 'did not run' : exec.signal ? `signal ${exec.signal}` : `exit ${exec.exit_status}`, ...(exec.duration_ms == null ? [] : [duration(exec.duration_ms)]), ...outcome].join(' · ');
}

/** The causes beyond the first, by their sentences, and the command that lists them. @param {Page} page @param {Cause[]} more @returns {Node | null} */
function moreCauses(page, more) {
  if (!more.length) return null;
  const all = ['verdict', '--json'];
  const command = page.isDocument ? commandOf(['wrs-emulator', ...all, '--from', fileOf(page)]) : page.cli(all);
  return h('details', null, h('summary', null, `And ${count(more.length, 'more cause')}`),
    h('ul', null, more.slice(0, MAX_SENTENCES).map(({ id, sentence }) => h('li', { key: id }, prose(sentence)))),
    commandLine(page, command, 'the command that lists them'));
}

/** @param {Page} page @param {string} title @param {Cause[]} causes @param {boolean} isOpen whether the first is open @returns {Node | null} */
function causesPart(page, title, causes, isOpen) {
  return causes.length ? section(title, h('div.causes', null, causes.slice(0, MAX_CAUSES).map((cause, i) => guarded(() => causeRow(page, cause, isOpen && i === 0), cause.id))), moreCauses(page, causes.slice(MAX_CAUSES))) : null;
}

/** Parts of active scenarios that did not happen: information, unless the verdict was asked for them. While they may still, the scenarios show how far they came. @param {Page} page @param {RunDocument} run @returns {Node | null} */
function unfinishedPart(page, run) {
  const all = run.verification.unfinished;
  const shown = page.isDocument ? all.slice(0, MAX_UNFINISHED) : [];
  const items = shown.map((any) => guarded(() => {
    const one = /** @type {{message: string, scenario: string, workspace: string | null}} */ (any);
    const test = run.keys?.find(({ workspace }) => workspace === one.workspace)?.test?.test;
    return h('li', null, prose(one.message), test ? ['; test ', foreign(test)] : null, ' ', link(page, { view: 'scenarios', id: one.scenario, filter: '' }, 'scenario'));
  }, any));
  const more = all.length - shown.length;
  return all.length ? section('Unfinished scenarios', items.length ? h('ul', null, items) : null,
    more ? h('p', null, `${items.length ? 'and ' : ''}${items.length ? `${more} more` : count(more, 'rule or event', 'rules and events')} of active scenarios: `, link(page, { view: 'scenarios', id: '', filter: '' }, 'how far they came')) : null) : null;
}

/** @typedef {NonNullable<RunDocument['verification']['grid']>[number]} GridRow */

/** What a run met of the contract: each operation, and how many requests got each of its answers. @param {Page} page @param {RunDocument['verification']} verification @returns {Node | null} */
export function gridPart(page, { grid: rows, coverage }) {
  // A file of an earlier version has none.
  if (!rows?.length) return null;
  const all = rows.flatMap(({ cells }) => cells);
  const statuses = [...new Set(all.map(({ status }) => status))].sort((a, b) => a - b);
  const gaps = coverage?.gaps ?? [];
  const shown = (/** @type {GridRow} */ { operation, cells }, /** @type {number} */ status) => {
    const cell = cells.find((one) => one.status === status);
    if (!cell) return h('td', null);
    return cell.requests ? h('td', null, link(page, { view: 'activity', id: '', filter: `operation:${operation} ${status}` }, NUMBERS.format(cell.requests))) : h('td.gap', null, '–', h('span.hidden', null, 'no request'));
  };
  return section('Contract',
    coverage ? h('p.sentence', null, foreign(`${coverage.summary}.`)) : null,
    scrolled('Requests by operation and status', h('table.grid', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Operation'), statuses.map((status) => h('th', { scope: 'col' }, String(status))))),
      h('tbody', null, rows.map((row) => h('tr', { key: row.operation }, h('th', { scope: 'row' }, foreign(row.operation)), statuses.map((status) => shown(row, status))))))),
    gaps.length ? fold('How to get the others', false, h('ul', null, gaps.map(({ status, operations, gap: { advice, scenario } }) => h('li', null,
      h('b', null, String(status)), ' of ', foreign(operations.join(', ')), ': ', prose(advice), scenario ? ['. ', link(page, { view: 'scenarios', id: scenario, filter: '' }, 'Scenario')] : null)))) : null);
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
    scrolled('Readings', h('table.grid', null,
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
    [page.isDocument ? 'Recorded' : 'Now', dateTime(run.recorded_at)],
    ['Clock', clockFact(run.clock)],
    ['Scope', foreign(run.key ?? 'all keys')],
  ];
  if (emulator.scenario_folders?.length) facts.push(['Scenario folder', foreign(emulator.scenario_folders.join(', '))]);
  if (run.exec) facts.push(['Outcome', foreign(commandOutcome(run.exec))]);
  return section('Environment', pairs(facts));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function summaryView(page) {
  const { run, entries, findings, verdict } = page.store;
  const { isDocument, route: { key } } = page;
  if (!run?.verification) return [h('h2', { tabindex: -1 }, 'Summary'), h('p.empty', null, 'Loading…')];
  const verification = verdict ?? run.verification;
  const causes = causesOf({ verification }, entries);
  const { tone = 'quiet', sentence = '' } = verification.headline ?? {};
  const hasTests = isDocument && run.keys?.some((one) => one.test);
  // What is beside its test is not listed again.
  const listedCauses = hasTests ? causes.filter(({ tests }) => !tests.length) : causes;
  const failed = listedCauses.filter(({ standing }) => standing === 'failed');
  const isRed = causes.some(({ standing }) => standing === 'failed') || Boolean(run.exec?.exit_status);
  const { forgotten_entries: forgotten } = run.verification;
  const unused = run.verification.unused.filter(({ message }) => !causes.some((cause) => cause.sentence === message));
  const omitted = Object.entries(run.omitted ?? {}).filter(([, number]) => typeof number === 'number' && number > 0).map(([kind, number]) => `${number} ${kind.replace(/_/g, ' ')}`);
  const isEmpty = !entries.length && !isDocument;
  const command = run.exec?.command.length ? commandOf(run.exec.command.map(String)) : '';
  const width = (page.width || 1000) - 2 * MARGIN;
  const drawing = isEmpty ? null : guarded(() => timeline(page, entries, width), null);
  return [
    isDocument ? h('div', { key: 'head' }, h('h2', { tabindex: -1 }, foreign(headOf(run))), h('p.actions.small.quiet', null, h('span', null, dateTime(run.recorded_at).replace(/\.\d+/, '')), command ? h('span.id', null, foreign(command, 'code'), copyButton(page, command, 'the command')) : null))
      : h('div.title', { key: 'head' }, h('h2', { tabindex: -1 }, 'Summary'), h('button', { type: 'button', onclick: () => saveReport(page) }, key ? `Save the report of ${shortKey(key, [])}` : 'Save the report'), copyMenu(page, 'summary', [['Save the report: CLI', page.cli(['run', 'save', 'report.html', ...keyWords(key)])], ['Verdict: CLI', page.cli(['verdict', ...keyWords(key)])]])),
    h(`p.verdict.${tone}`, null, prose(sentence)),
    key && !isDocument ? h('p.note', null, 'This covers all keys; the report that is saved covers this key.') : null,
    hasTests ? guarded(() => testsPart(page, run, causes), run.keys) : null,
    fourNumbers(page, run),
    omitted.length && isDocument ? h('p.note', null, `Left out of this file, the oldest first: ${listed(omitted)}.`) : null,
    forgotten ? h('p.note', null, `${count(forgotten, 'entry', 'entries')} of the journal had been evicted from the journal and could not be checked.`) : null,
    isEmpty ? h('div', null, testButton(page)) : null,
    isEmpty ? emptyState(page, 'Send a request, or run your tests against the emulator:', [exampleLine(new URL(page.base).origin, 'sk_test_local')]) : drawing,
    h('div.summary', { key: 'summary' },
      h('div', null,
        readingsPart(run.exec),
        causesPart(page, isDocument ? 'What failed' : 'Problems', failed, isDocument || failed.length === 1),
        isRed ? outputPart(run) : null,
        causesPart(page, isRed ? 'Also' : 'Warnings', listedCauses.filter(({ standing }) => standing !== 'failed'), false),
        unfinishedPart(page, run),
        guarded(() => gridPart(page, run.verification) ?? h('div', null), run.verification.grid),
        isRed ? null : outputPart(run)),
      h('div', null,
        section('Review', h('p.sentence', null, findings ? !isRed || failing(findings).length ? readiness(findings) : `${count(findings.data.length, 'finding')} to look at.` : null, ' ', link(page, { view: 'review', id: '', filter: '' }, 'The review'))),
        unused.length ? section('Not tested yet', h('ul', null, unused.map((one) => h('li', null, foreign(one.message))))) : null,
        changed(page, run),
        environment(page, run))),
  ];
}
