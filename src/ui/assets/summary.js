// The summary of a run: its first sentence, the tests, a row for each cause that opens in place; then settings and environment.

import { exampleLine } from './command.js';
import { breakable, foreign, guarded, h, icon, prose } from './element.js';
import { adviceDone, commandLine, copyButton, emptyState, fold, forgottenNote, link, opening, pairs, pre, saveReport, scrolled, section, testButton } from './parts.js';
import { readiness } from './review.js';
import { commandOf } from './shell.js';
import { NUMBERS, capital, count, dateTime, distance, duration, isRefused, listed, nameOfTest, oneLine, settingText, shortKey, timeOfDay } from './text.js';
import { timeline } from './timeline.js';

/** @typedef {NonNullable<RunDocument['verification']['causes']>[number]} FoundCause */
/**
 * A cause with its records.
 * @typedef {FoundCause & {id: string, entries: Entry[]}} Cause
 */

/** Most causes with a row in a section, and most others with their sentence. */
const MAX_CAUSES = 20;
const MAX_SENTENCES = 200;
/** Most tests and occurrences named in a cause, and most in the list of tests. */
const MAX_NAMED = 12;
const MAX_TESTS = 1000;
const MAX_UNFINISHED = 5;

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
export function isFailed(run, test) {
  return test?.outcome === 'failed' && run.exec?.exit_status !== 0;
}

/** Every cause that is shown, those that made the run fail first. @param {Pick<RunDocument, 'verification'>} run @param {Entry[]} entries @returns {Cause[]} */
export function causesOf(run, entries) {
  const records = new Map(entries.filter((one) => !one.superseded).map((one) => [one.id, one]));
  return (run.verification.causes ?? []).filter(({ standing }) => standing !== 'elsewhere').map((cause) => {
    const found = cause.records.flatMap((id) => records.get(id) ?? []);
    // A finding has no keys of its own.
    const keys = cause.keys.length ? cause.keys : [...new Set(found.flatMap(({ key }) => key ?? []))];
    return Object.assign({}, cause, { id: `${cause.kind} ${cause.sentence} ${cause.tests[0]?.key ?? ''}`, keys, entries: found });
  });
}

/** The test with a key. @param {RunDocument | null} run @param {string} key */
const testOf = (run, key) => run?.keys?.find((one) => one.key === key)?.test;

/** The tests that failed because of a cause, or else its keys, by the names of their tests. @param {RunDocument | null} run @param {Cause} cause @returns {{key: string, test: string}[]} */
const namedTests = (run, { tests, keys }) => (tests.length ? tests : keys.map((key) => ({ key, test: testOf(run, key)?.test ?? key })));

/** Tests and keys by name. @param {Page} page @param {ReturnType<typeof namedTests>} tests @param {number} [most] how many there are @returns {Node} */
function testList(page, tests, most = 0) {
  const more = Math.max(most, tests.length) - MAX_NAMED;
  return h('ul.tests', null, tests.slice(0, MAX_NAMED).map(({ key, test }) => h('li', null, link(page, page.isDocument && test !== key ? { view: 'summary', id: key } : { view: 'activity', key }, test))), more > 0 ? h('li.quiet', null, `and ${more} more`) : null);
}

/** A cause as one of its tests shows it. @param {Page} page @param {Cause} cause @param {string} key @returns {Cause} */
function shownBy({ store }, cause, key) {
  if (namedTests(store.run, cause).length < 2) return cause;
  const isOwn = (/** @type {{key: string | null}} */ one) => one.key === key;
  const named = cause.entries.filter(isOwn);
  // A cause names a part of its records.
  const entries = named.length ? named : store.entries.filter((one) => isOwn(one) && one.kind === cause.entries[0]?.kind && one.failed && !one.superseded);
  return Object.assign({}, cause, { tests: cause.tests.filter(isOwn), keys: [key], records: entries.map(({ id }) => id), count: entries.length, entries });
}

/** The four counts, each with a link to the rows that it counts. @param {Page} page @param {RunDocument} run @param {Entry[]} entries */
function fourNumbers(page, run, entries) {
  const tests = (run.keys ?? []).filter((one) => one.test);
  // Not every key may be in the document.
  const all = Math.max(run.verification.tests ?? 0, tests.length);
  const red = run.exec?.exit_status === 0 ? 0 : Math.max(run.verification.failed_tests ?? 0, tests.filter((one) => isFailed(run, one.test)).length);
  const refused = entries.filter((entry) => entry.kind === 'request' && (entry.status >= 400 || !entry.status));
  const deliveries = entries.filter((entry) => entry.kind === 'delivery' && !entry.superseded);
  const failed = deliveries.filter((entry) => entry.failed);
  const accepted = failed.filter((entry) => entry.forged).length;
  const lost = failed.length - accepted;
  const refusedForgeries = deliveries.filter((entry) => entry.forged && isRefused(entry)).length;
  const cell = (/** @type {number} */ number, /** @type {string} */ name, /** @type {string} */ many, /** @type {string} */ bad, /** @type {string} */ more, /** @type {To} */ to) =>
    h('li', null, h('a', { href: page.address(to) }, h('b', null, NUMBERS.format(number)), h('span', null, number === 1 ? name : many, bad ? [' · ', h('span.bad', null, bad)] : null, more ? ` · ${more}` : null)));
  /** @type {Map<number | string, number>} */
  const statuses = new Map();
  for (const { status } of refused) statuses.set(status || 'broken', (statuses.get(status || 'broken') ?? 0) + 1);
  const byStatus = [...statuses].sort((a, b) => b[1] - a[1]).map(([status, often]) => `${status} × ${NUMBERS.format(often)}`);
  return h('ul.numbers', { 'aria-label': 'Numbers' },
    tests.length ? cell(all, 'test', 'tests', red ? `${NUMBERS.format(red)} failed` : '', red ? '' : run.exec?.exit_status ? 'none reported as failed' : 'none failed', { view: 'keys', key: '', filter: red ? 'is:failed' : '' })
      : cell(run.keys?.length ?? 0, 'key', 'keys', '', '', { view: 'keys', key: '' }),
    cell(run.verification.judged_requests, 'request', 'requests', '', '', { view: 'activity', filter: 'kind:request' }),
    cell(refused.length, 'refused', 'refused', '', byStatus.join(', '), { view: 'activity', filter: 'kind:request -2xx -3xx' }),
    cell(run.verification.judged_deliveries, 'delivery', 'deliveries', listed([lost ? `${NUMBERS.format(lost)} failed` : '', accepted ? count(accepted, 'forgery accepted', 'forgeries accepted') : ''].filter(Boolean)), refusedForgeries ? `${NUMBERS.format(refusedForgeries)} forged, refused` : '', { view: 'deliveries', filter: failed.length ? 'is:failed' : '' }));
}

/** A command that works where it is read. @param {Page} page @param {string[]} words @returns {string} */
function commandFor(page, words) {
  if (!page.isDocument) return page.cli(words);
  const file = page.store.run?.viewing ?? decodeURIComponent(location.pathname.split('/').pop() ?? '');
  return commandOf(['wrs-emulator', ...words, '--from', /\.(html?|json)$/.test(file) ? file : 'report.html']);
}

/** The facts of a cause and its remedy. @param {Page} page @param {Cause} cause @param {boolean} [isOfTest] whether it stands under the name of its test @returns {Nodes} */
function causeFacts(page, cause, isOfTest) {
  const { sentence, outcome, remedy, also, tests, records, entries, findings } = cause;
  const { run } = page.store;
  const isDelivery = records[0]?.startsWith('dlv_');
  const see = (/** @type {string} */ id, /** @type {string} */ text) => link(page, { view: isDelivery ? 'deliveries' : 'activity', id }, text);
  const last = entries[entries.length - 1];
  const named = namedTests(run, cause);
  const outputs = tests.slice(0, 3).flatMap(({ key }) => testOf(run, key) ?? []).filter(({ output }) => output);
  const messages = [...new Set(tests.map(({ message }) => message ?? ''))].filter((message) => message && !sentence.startsWith(message));
  // Times of several clocks have no order.
  const isSpan = last?.at > entries[0]?.at && new Set(entries.map(({ key }) => page.store.clockOf(key ?? ''))).size === 1;
  /** @type {Parameters<typeof pairs>[0]} */
  const facts = [];
  const codes = page.store.findings ? findings.flatMap((code) => [' (', link(page, { view: 'review', id: code }, code), ')']) : [];
  if (remedy || codes.length) facts.push(['What to do', h('span', null, prose(capital(remedy)), cause.advice ? adviceDone(page, cause.advice, null) : null, ...codes)]);
  if (messages.length) facts.push(['Message', h('ul.tests', null, messages.slice(0, 3).map((message) => h('li', null, foreign(message, 'code'))))]);
  if (named.length && !isOfTest) facts.push([`${named[0].test === named[0].key ? 'Key' : 'Test'}${named.length > 1 ? 's' : ''}`, testList(page, named, tests.length ? 0 : cause.key_count)]);
  if (cause.count > 1) facts.push(['How often', count(cause.count, 'time')]);
  if (outcome) facts.push(['Since', foreign(outcome)]);
  if (also.length) facts.push(['Also', h('ul', null, also.map((one) => h('li', null, prose(one))))]);
  if (records.length) facts.push([isDelivery ? 'Delivery' : 'Request', h('span', null, see(records[0], records[0]), last ? ` at ${timeOfDay(entries[0].at)}` : null, isSpan ? [', the last at ', see(last.id, timeOfDay(last.at))] : null)]);
  return [pairs(facts),
    records.length && cause.kind !== 'finding' ? commandLine(page, commandFor(page, ['explain', records[0]]), 'the command') : null,
    ...outputs.map((test) => h('details', null, h('summary', null, 'Output of ', foreign(test.test)), pre(`Output of ${test.test}`, test.output ?? '')))];
}

/** The sentence of a cause, its subject in bold. @param {Cause} cause */
const titleOf = ({ kind, name, sentence }) => h('span', null, kind === 'forged' ? [h('b', null, 'Forgery accepted: '), prose(sentence)] : sentence.startsWith(name) ? [h('b', null, foreign(name)), prose(sentence.slice(name.length))] : prose(sentence));

/** A cause as a row that opens in place. @param {Page} page @param {Cause} cause @param {boolean} isOpen @returns {Node} */
function causeRow(page, cause, isOpen) {
  const isFailure = cause.standing === 'failed';
  const tests = cause.tests.length;
  return h('article', { key: cause.id }, opening(cause.id, isFailure || cause.kind === 'forged' ? 'bad' : 'warn', isFailure ? 'failed' : 'warning', titleOf(cause),
    [h('span.quiet.small', null, [tests > 1 ? `${tests} tests` : '', cause.count > 1 ? `× ${NUMBERS.format(cause.count)}` : ''].filter(Boolean).join(' · '))], isOpen, causeFacts(page, cause)));
}

/** The tests of a run, the failed ones first, in the order of their causes, then by name. @param {RunDocument} run @param {Cause[]} causes */
function testsOfRun(run, causes) {
  const failed = causes.filter(({ standing }) => standing === 'failed');
  const ranks = new Map(failed.flatMap((cause, i) => namedTests(run, cause).map(({ key }) => /** @type {[string, number]} */ ([key, i]))));
  const { compare } = new Intl.Collator('en', { numeric: true });
  const all = (run.keys ?? []).flatMap(({ key, requests, test }) => (test ? [{ key, requests: requests ?? 0, test, isRed: isFailed(run, test), rank: ranks.get(key) ?? causes.length }] : []));
  return all.sort((a, b) => Number(b.isRed) - Number(a.isRed) || a.rank - b.rank || compare(nameOfTest(a.test.test), nameOfTest(b.test.test)));
}

/** The tests on the left, the cause of the chosen one on the right. @param {Page} page @param {RunDocument} run @param {Cause[]} causes @returns {Node} */
function testsPart(page, run, causes) {
  const tests = testsOfRun(run, causes);
  const chosen = tests.find(({ key }) => key === page.route.id) ?? tests[0];
  const its = causes.filter((cause) => (cause.tests.length ? cause.tests.map(({ key }) => key) : cause.keys).includes(chosen.key));
  const traffic = (/** @type {typeof chosen} */ { key, requests }) => {
    if (requests) return count(requests, 'request');
    const sent = page.store.entries.filter((one) => one.kind === 'delivery' && one.key === key && !one.superseded).length;
    return sent ? count(sent, 'delivery', 'deliveries') : 'no requests';
  };
  const row = (/** @type {typeof chosen} */ one) => h('li', { key: one.key }, h('a.go', { href: page.address({ id: one.key }), 'data-id': one.key, 'aria-current': one === chosen ? 'true' : null, title: one.test.test },
    h(one.isRed ? 'span.bad' : 'span.ok', null, icon(one.isRed ? 'cross' : 'check'), h('span.hidden', null, one.isRed ? 'failed' : 'passed')), breakable(nameOfTest(one.test.test)), h('span.quiet.small', null, traffic(one))));
  const cause = (/** @type {Cause} */ one) => guarded(() => {
    const alike = new Set(namedTests(run, one).map(({ key }) => key));
    const others = tests.filter(({ key }) => key !== chosen.key && alike.has(key)).map(({ key, test }) => ({ key, test: test.test }));
    return h('article', { key: one.id }, h('p.sentence', null, titleOf(one)), causeFacts(page, shownBy(page, one, chosen.key), true), others.length ? section(`The same cause in ${count(others.length, 'other test')}`, testList(page, others)) : null);
  }, one);
  return h('div.chosen-test', { key: 'tests' },
    h('ul.list-of-tests', { 'aria-label': 'Tests' }, tests.slice(0, MAX_TESTS).map(row)),
    h('div', null, h('h3', null, breakable(chosen.test.test)),
      its.length ? its.map(cause) : h('article', { key: chosen.key }, h('p', null, chosen.isRed ? foreign(chosen.test.message ?? 'It failed.') : 'Passed.'), link(page, { view: 'activity', key: chosen.key }, 'Its requests'))));
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
  const outcome = !tests ? '' : failed && exec?.exit_status !== 0 ? `${NUMBERS.format(failed)} of ${NUMBERS.format(tests)} failed` : exec?.exit_status ? `no failure reported by ${count(tests, 'test')}` : `${count(tests, 'test')} passed`;
  const ending = exec ? [runnerOf(exec.command), exec.problem ? 'did not run' : exec.signal ? `signal ${exec.signal}` : `exit ${exec.exit_status}`, exec.duration_ms == null ? '' : duration(exec.duration_ms)] : ['Report'];
  return [...ending, outcome].filter(Boolean).join(' · ');
}

/** The causes beyond the first, by their sentences, and the command that lists them. @param {Page} page @param {Cause[]} more @returns {Node | null} */
function moreCauses(page, more) {
  if (!more.length) return null;
  return h('details', null, h('summary', null, `And ${count(more.length, 'more cause')}`),
    h('ul', null, more.slice(0, MAX_SENTENCES).map(({ id, sentence }) => h('li', { key: id }, prose(sentence)))),
    commandLine(page, commandFor(page, ['verdict', '--json']), 'the command that lists them'));
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
    return h('li', null, prose(one.message), test ? ['; test ', foreign(test)] : null, ' ', link(page, { view: 'scenarios', id: one.scenario }, 'scenario'));
  }, any));
  const more = all.length - shown.length;
  return all.length ? section('Unfinished scenarios', items.length ? h('ul', null, items) : null,
    more ? h('p', null, `${items.length ? 'and ' : ''}${count(more, 'rule or event', 'rules and events')} of active scenarios: `, link(page, { view: 'scenarios' }, 'how far they came')) : null) : null;
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
    return cell.requests ? h('td', null, link(page, { view: 'activity', filter: `operation:${operation} ${status}` }, NUMBERS.format(cell.requests))) : h('td.gap', null, '–', h('span.hidden', null, 'no request'));
  };
  return section('Contract',
    coverage ? h('p.sentence', null, foreign(`${coverage.summary}.`)) : null,
    scrolled('Requests by operation and status', h('table.grid', null,
      h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Operation'), statuses.map((status) => h('th', { scope: 'col' }, String(status))))),
      h('tbody', null, rows.map((row) => h('tr', { key: row.operation }, h('th', { scope: 'row' }, foreign(row.operation)), statuses.map((status) => shown(row, status))))))),
    gaps.length ? fold('How to get the others', false, h('ul', null, gaps.map(({ status, operations, gap: { advice, scenario } }) => h('li', null,
      h('b', null, String(status)), ' of ', foreign(operations.join(', ')), ': ', prose(advice), scenario ? ['. ', link(page, { view: 'scenarios', id: scenario }, 'Scenario')] : null)))) : null);
}

/** @param {Page} page @param {RunDocument} run */
function changed(page, run) {
  /** The keys of each; the profile has none. @type {Map<string, {one: SettingRow, keys: string[]}>} */
  const all = new Map();
  const profile = { key: '', settings: run.profile?.data.filter((one) => one.source !== 'default') };
  for (const { key, settings = [] } of [profile, ...run.keys ?? []]) {
    for (const one of settings) {
      const same = JSON.stringify(one);
      const known = all.get(same) ?? { one, keys: [] };
      all.set(same, known);
      known.keys.push(key);
    }
  }
  return section('Changed settings', all.size
    ? h('ul', null, [...all.values()].slice(0, 200).map(({ one, keys: [key, ...more] }) => h('li', null, key && !more.length ? [foreign(key), ': '] : null, link(page, { view: 'settings', id: one.setting, key: key || page.route.key }, one.setting), more.length ? ` of ${more.length + 1} keys` : null, ' = ', foreign(oneLine(settingText(one.value)), 'code'), ' from ', foreign(oneLine(one.source, 100)))))
    : h('p.quiet', null, 'None.'));
}

/** The last lines that the command printed. @param {RunDocument} run @returns {Node | null} */
function outputPart({ exec, keys }) {
  const title = 'Output of the command';
  return exec?.output ? fold(title, Boolean(exec.exit_status) && !keys?.some((one) => one.test), pre(title, exec.output)) : null;
}

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
  const { emulator, key } = run;
  const { store } = page;
  const clock = store.clockOf(key ?? '') ?? run.clock;
  const own = key ? 0 : (run.keys ?? []).filter((one) => one.clock).length;
  /** @type {[string, Child][]} */
  const facts = [
    ['Version', foreign(emulator.version)],
    ['Address', foreign(emulator.base_url ?? page.base)],
    ['Seed', foreign(emulator.seed ?? 'not fixed')],
    ['Started', dateTime(emulator.started_at)],
    [page.isDocument ? 'Recorded' : 'Now', dateTime(clock.now)],
    ['Clock', [clock.mode, distance(store.movedBy(key ?? '')), own ? count(own, 'key has its own clock', 'keys have their own clocks') : ''].filter(Boolean).join(', ')],
    ['Scope', foreign(key ?? 'all keys')],
  ];
  if (emulator.scenario_folders?.length) facts.push(['Scenario folder', foreign(emulator.scenario_folders.join(', '))]);
  return section('Environment', pairs(facts));
}

/** @param {Page} page @returns {Nodes} */
export function summaryView(page) {
  const { run: all, findings, verdict, problem } = page.store;
  const { isDocument, route } = page;
  // A file has one verdict, of all keys.
  const key = isDocument ? '' : route.key;
  const verification = verdict ?? (key ? null : all?.verification);
  if (!all || !verification) return [h('h2', null, 'Summary'), h('p.empty', null, problem || 'Loading…')];
  const isOf = (/** @type {{key: string | null}} */ one) => !key || one.key === key;
  const run = key ? { ...all, key, keys: all.keys?.filter(isOf), verification } : all;
  const entries = page.store.entries.filter(isOf);
  const causes = causesOf({ verification }, entries);
  const { tone = 'quiet', sentence = '' } = verification.headline ?? {};
  const hasTests = isDocument && run.keys?.some((one) => one.test);
  // What is beside its test is not listed again.
  const listedCauses = hasTests ? causes.filter(({ tests }) => !tests.length) : causes;
  const failed = listedCauses.filter(({ standing }) => standing === 'failed');
  const failedPart = causesPart(page, isDocument ? 'What failed' : 'Problems', failed, isDocument || failed.length === 1);
  const others = listedCauses.length - failed.length;
  // A running emulator has not failed: nobody asked it whether all is well.
  const problems = `${count(failed.length, 'problem')}${others ? `, and ${count(others, 'more thing')} to look at` : ''}`;
  const said = isDocument || !failed.length ? sentence : problems;
  const isOfNoTest = isDocument && !run.keys?.some(({ test }) => isFailed(run, test));
  const isRed = run.exec?.exit_status || causes.some(({ standing }) => standing === 'failed');
  const omitted = Object.entries(run.omitted ?? {}).filter(([, number]) => number > 0).map(([kind, number]) => `${number} ${kind.replace(/_/g, ' ')}`);
  const isEmpty = !page.store.entries.length && !isDocument;
  const command = run.exec?.command.length ? commandOf(run.exec.command.map(String)) : '';
  const drawing = isEmpty ? null : guarded(() => timeline(page, entries, (page.width || 1000) - 16), null);
  return [
    isDocument ? h('div', { key: 'head' }, h('h2', null, foreign(headOf(run))), h('p.actions.small.quiet', null, h('span', null, dateTime(run.recorded_at).replace(/\.\d+/, '')), command ? h('span.id', null, foreign(command, 'code'), copyButton(page, command, 'the command')) : null))
      : h('div.title', { key: 'head' }, h('h2', null, 'Summary'), h('button', { onclick: () => saveReport(page) }, key ? `Save the report of ${shortKey(key, [])}` : 'Save the report')),
    h(`p.verdict.${tone}`, null, said.split(/(?<=^\w+)(?=: )/).map(prose)),
    isOfNoTest ? failedPart : null,
    hasTests ? guarded(() => testsPart(page, run, causes), run.keys) : null,
    fourNumbers(page, run, entries),
    omitted.length && isDocument ? h('p.note', null, `Left out of this file, the oldest first: ${listed(omitted)}.`) : null,
    forgottenNote(run.verification.forgotten_entries),
    isEmpty ? h('div', null, testButton(page)) : null,
    isEmpty ? emptyState(page, 'Send a request, or run your tests against the emulator:', [exampleLine(page.base)]) : drawing,
    h('div.summary', { key: 'summary' },
      h('div', null,
        readingsPart(run.exec),
        isOfNoTest ? null : failedPart,
        isRed ? outputPart(run) : null,
        causesPart(page, isRed ? 'Also' : 'Warnings', listedCauses.filter(({ standing }) => standing !== 'failed'), false),
        unfinishedPart(page, run),
        guarded(() => gridPart(page, run.verification) ?? h('div', null), run.verification.grid),
        isRed ? null : outputPart(run)),
      h('div', null,
        section('Review', h('p.sentence', null, findings ? readiness(findings) : null, ' ', link(page, { view: 'review' }, 'The review'))),
        changed(page, run),
        environment(page, run))),
  ];
}
