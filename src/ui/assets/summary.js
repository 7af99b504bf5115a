// The summary of a run: counters, what failed by key with its evidence, the command's output; timeline, scenarios, settings.

import { foreign, guarded, h, prose } from './element.js';
import { commandLine, link, mark, pairs, pre, section } from './parts.js';
import { failing, readiness } from './review.js';
import { progress } from './scenarios.js';
import { commandOf } from './shell.js';
import { count, dateTime, listed, oneLine, settingText } from './text.js';
import { timeline } from './timeline.js';

/** @typedef {{key: string, test?: KeyRow['test'], isSilent?: boolean, unmatched: number, refusals: Map<string, {count: number, id: string, words: string}>, failures: Entry[], findings: number}} Group */

/** What is known of the reason for a refusal, in words. @param {RunDocument} run @param {Entry} entry @returns {string} */
function wordsOf(run, entry) {
  const record = run.requests?.find((one) => one.id === entry.id);
  const summary = record?.explanation?.summary;
  return summary ? summary[0].toUpperCase() + summary.slice(1) : `${entry.status || 'No answer'}: ${entry.mark.replace(/_/g, ' ')}`;
}

/** Whether problems of a kind count as failures: those that the verdict was asked for, or, if it was asked for none, deliveries. @param {RunDocument} run @param {string} kind @returns {boolean} */
function counts(run, kind) {
  if (!run.exec) return true;
  return run.exec.fail_on?.length ? run.exec.fail_on.includes(kind) : kind === 'undelivered' || kind === 'forged';
}

/** What a group has that counts, refusals first. @param {RunDocument} run @param {Group} group @returns {number} */
function weightOf(run, group) {
  const failures = group.failures.filter((one) => counts(run, one.forged ? 'forged' : 'undelivered')).length;
  return group.refusals.size + failures + (group.isSilent ? 0.5 : 0) + (counts(run, 'findings') ? group.findings : 0);
}

/** Whether a group failed: its test did, or it has what the verdict was asked for. @param {RunDocument} run @param {Group} group @returns {boolean} */
function hasFailed(run, { test, unmatched, failures, findings }) {
  const asked = (/** @type {string} */ kind) => run.exec?.fail_on?.includes(kind);
  return isFailed(run, test) || Boolean((unmatched && asked('unmatched')) || (findings && asked('findings')) || failures.some((one) => asked(one.forged ? 'forged' : 'undelivered')));
}

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
const isFailed = (run, test) => test?.outcome === 'failed' && run.exec?.exit_status !== 0;

/** @param {Entry} entry */
const is2xx = ({ status }) => status >= 200 && status < 300;

/** A key is a test: those that failed, then those with refusals that no scenario asked for, failed deliveries or findings. @param {RunDocument} run @param {Entry[]} entries @param {Findings | null} findings @returns {Group[]} */
export function failedKeys(run, entries, findings) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  const groupOf = (/** @type {string | null | undefined} */ key) => {
    const name = key || 'without a key';
    if (!groups.has(name)) groups.set(name, { key: name, refusals: new Map(), unmatched: 0, failures: [], findings: 0 });
    return /** @type {Group} */ (groups.get(name));
  };
  const failedTests = new Set((run.keys ?? []).filter((one) => isFailed(run, one.test)).map((one) => one.key));
  for (const entry of entries) {
    // What a scenario refused may be what a test failed of, and is as planned otherwise.
    const isRefusedInTest = entry.kind === 'request' && !is2xx(entry) && failedTests.has(entry.key ?? '');
    if (!(entry.failed || isRefusedInTest) || entry.superseded) continue;
    if (entry.kind === 'request') {
      const words = wordsOf(run, entry);
      const group = groupOf(entry.key);
      const same = group.refusals.get(words) ?? { count: 0, id: entry.id, words };
      group.refusals.set(words, { ...same, count: same.count + 1 });
      if (entry.failed && !entry.operation) group.unmatched += 1;
    } else if (entry.kind === 'delivery') groupOf(entry.key).failures.push(entry);
  }
  const keyOf = new Map(entries.map((entry) => [entry.id, entry.key]));
  for (const finding of failing(findings)) for (const key of new Set(finding.evidence.map(({ request, delivery }) => keyOf.get(request ?? delivery ?? '')))) groupOf(key).findings += 1;
  for (const { key, test, requests } of run.keys ?? []) {
    // A test that fails without a single request has a key all the same. One whose own call failed need not have got so far.
    const isSilent = !requests && !groups.has(key) && !run.verification.forgotten_entries && (test ? isFailed(run, test) && !/ControlError(?!.* 408 )/.test(test.message ?? '') : Boolean(run.exec?.exit_status));
    if (isSilent || isFailed(run, test) || groups.has(key)) Object.assign(groupOf(key), { test, isSilent });
  }
  return [...groups.values()].sort((a, b) => Number(hasFailed(run, b)) - Number(hasFailed(run, a)) || weightOf(run, b) - weightOf(run, a));
}

/** Why a run failed: by its command, the verdict on it, or its tests. @param {RunDocument} run @returns {string} */
function failureOf(run) {
  const { exec, keys } = run;
  const tests = (keys ?? []).filter((one) => one.test);
  const failed = tests.filter((one) => isFailed(run, one.test)).length;
  if (!exec) return failed ? `${failed} of ${count(tests.length, 'test')}` : '';
  if (exec.problem) return `the command could not be run (${exec.problem})`;
  const ended = exec.exit_status ? `the command ended with ${exec.signal ? `signal ${exec.signal}` : `exit status ${exec.exit_status}`}` : '';
  const found = exec.failed_by?.length ? `the verdict was asked for ${listed(exec.fail_on ?? [])}, and found ${listed(exec.failed_by)}` : '';
  return [ended, found].filter(Boolean).join('; ');
}

/** The numbers of the headline, each with the filter that shows what it counts. @param {Page} page @param {RunDocument} run @param {Group[]} groups @param {Findings | null} findings */
function counters(page, run, groups, findings) {
  const { counts: found } = run.verification;
  // Where tests say whether they failed, a refusal alone is information: a test may expect it.
  const inTests = run.keys?.some((one) => one.test) ? page.store.entries.filter((entry) => entry.kind === 'request' && !is2xx(entry)).length : 0;
  const refused = groups.reduce((sum, group) => sum + [...group.refusals.values()].reduce((all, one) => all + one.count, 0), 0);
  const only = (/** @type {string} */ text, /** @type {Partial<import('./route.js').Route>} */ to, kind = '') => h(kind && !counts(run, kind) ? 'li.quiet' : 'li', null, h('a', { href: page.address({ id: '', ...to }) }, text));
  const [tests, noticed] = [groups.filter((group) => isFailed(run, group.test)).length, groups.filter((group) => weightOf(run, group)).length];
  const all = [
    tests ? only(`${count(tests, 'test')} failed`, { view: 'keys', key: '', filter: 'is:failed' }) : noticed ? only(`${count(noticed, 'key')} noticed`, { view: 'activity', filter: 'is:failed' }) : null,
    inTests ? h('li.quiet', null, link(page, { view: 'activity', id: '', filter: 'kind:request -2xx' }, count(inTests, 'refusal'))) : refused ? only(`${refused} refused`, { view: 'activity', filter: 'kind:request is:failed' }) : null,
    found.undelivered ? only(`${found.undelivered} undelivered`, { view: 'deliveries', filter: 'is:failed -is:forged' }, 'undelivered') : null,
    found.forged ? only(`${found.forged} forged and accepted`, { view: 'deliveries', filter: 'is:forged is:failed' }, 'forged') : null,
    found.unmatched ? only(`${found.unmatched} to no endpoint`, { view: 'activity', filter: 'is:unmatched' }, 'unmatched') : null,
    failing(findings).length ? only(`${failing(findings).length} certain ${failing(findings).length === 1 ? 'finding' : 'findings'}`, { view: 'review', filter: '' }, 'findings') : null,
    found.unfinished ? only(`${found.unfinished} not played to the end`, { view: 'scenarios', filter: '' }, 'unfinished') : null,
  ].filter(Boolean);
  return all.length ? h('ul.counters', null, all) : null;
}

/** Whether a run is good, in a few words. @param {RunDocument} run @returns {{colour: 'ok' | 'bad' | 'quiet', text: string}} */
export function headline(run) {
  const { judged_requests: requests, judged_deliveries: deliveries } = run.verification;
  const all = `${count(requests, 'request')} and ${count(deliveries, 'delivery', 'deliveries')}`;
  const outcome = failureOf(run);
  if (outcome) return { colour: 'bad', text: `Failed: ${outcome}` };
  if (!requests && !deliveries) return { colour: 'quiet', text: 'Nothing happened yet' };
  // Without a command nobody has asked for a verdict.
  return run.exec ? { colour: 'ok', text: `Passed: ${all}` } : { colour: 'quiet', text: all };
}

/** @param {Page} page @param {Group} group @returns {Node} */
function groupPart(page, group) {
  const evidence = (/** @type {'activity' | 'deliveries'} */ view, /** @type {string} */ id) => h('a', { href: page.address({ view, id, filter: '' }) }, 'evidence', h('span.hidden', null, ` ${id}`));
  const { test, isSilent } = group;
  const run = /** @type {RunDocument} */ (page.store.run);
  const hasOthers = isSilent && (run.keys?.some((one) => !one.test && one.requests) || run.requests?.some((one) => !one.key));
  // A key without a request has nothing to show in Activity.
  const byKey = link(page, { view: isSilent ? 'keys' : 'activity', id: '', key: group.key === 'without a key' ? '' : group.key, filter: '' }, group.key);
  return h('article.card', { key: group.key },
    h('h4', null, test ? foreign(test.test) : byKey),
    test ? h('p', null, mark(test.outcome, isFailed(run, test) ? 'bad' : 'quiet'), ' ', byKey) : null,
    h('ul', null,
      test?.message ? h('li', null, h('b', null, foreign(test.message))) : null,
      [...group.refusals.values()].map((one) => h('li', null, one.count > 1 ? h('b', null, `${one.count} × `) : null, prose(one.words), ' ', evidence('activity', one.id))),
      group.failures.map((one) => h('li', null, foreign(one.text), ': ', h('b', null, one.forged ? 'forged, and the receiver accepted it' : foreign(one.mark || `answered ${one.status}`)), one.number > 1 ? ` at attempt ${one.number}` : '', ' ', evidence('deliveries', one.id))),
      isSilent ? h('li', null, 'no request carried its key', hasOthers ? '; what carried another key, or none, is under Noticed' : '') : null,
      group.findings ? h('li', null, 'the review is certain of ', link(page, { view: 'review', id: '', filter: '' }, count(group.findings, 'finding'))) : null),
    test?.output ? h('details', null, h('summary', null, 'Output'), pre(`Output of ${test.test}`, test.output)) : null);
}

/** @param {Page} page @param {string} title @param {Group[]} groups @returns {Node | null} */
function groupsPart(page, title, groups) {
  return groups.length ? section(title, h('div.groups', null, groups.slice(0, 50).map((group) => guarded(() => groupPart(page, group), group.key)))) : null;
}

/** Parts of active scenarios that did not happen: information, unless the verdict was asked for them. @param {Page} page @param {RunDocument} run @returns {Node | null} */
function unfinishedPart(page, run) {
  const items = run.verification.unfinished.map((any) => guarded(() => {
    const one = /** @type {{message: string, scenario: string}} */ (any);
    return h('li', null, prose(one.message), ' ', link(page, { view: 'scenarios', id: one.scenario, filter: '' }, 'scenario'));
  }, any));
  return items.length ? section('Not played to the end', h('ul', null, items)) : null;
}

/** @param {Page} page @param {RunDocument} run */
function changed(page, run) {
  const all = (run.profile?.data ?? []).filter((one) => one.source !== 'default').map((one) => ({ one, key: '' }));
  for (const { key, settings } of run.keys ?? []) for (const one of settings ?? []) all.push({ one, key });
  return section('Settings that differ from the default', all.length
    ? h('ul', null, all.slice(0, 200).map(({ one, key }) => h('li', null, key ? [foreign(key), ': '] : null, link(page, { view: 'settings', id: one.knob, key: key || page.route.key, filter: '' }, one.knob), ' = ', foreign(oneLine(settingText(one.value)), 'code'), ' from ', foreign(oneLine(one.source, 100)))))
    : h('p.quiet', null, 'None.'));
}

/** The last lines that the command printed. @param {RunDocument} run @returns {Node | null} */
function outputPart({ exec }) {
  return exec?.output ? section('Output of the command', pre('Output of the command', exec.output)) : null;
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
    ['Clock', `${run.clock.mode}, ${dateTime(run.clock.now)}`],
    ['Scope', foreign(run.key ?? 'all keys')],
  ];
  if (emulator.scenario_folders?.length) facts.push(['Scenarios', foreign(emulator.scenario_folders.join(', '))]);
  if (run.exec) facts.push(['Command', foreign(commandOf(run.exec.command.map(String)), 'code')], ['Outcome', foreign(run.exec.problem ?? (run.exec.signal ? `ended by signal ${run.exec.signal}` : `exit status ${run.exec.exit_status}`))]);
  return section('Environment', pairs(facts));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function summaryView(page) {
  const { run, entries } = page.store;
  // On a live page they may be about one key only, and out of date.
  const findings = page.isDocument ? page.store.findings : null;
  if (!run?.verification) return [h('h2', { tabindex: -1 }, 'Summary'), h('p.empty', null, 'Loading…')];
  const groups = failedKeys(run, entries, findings);
  const { colour, text } = headline(run);
  const failed = groups.filter((group) => hasFailed(run, group));
  const { unused, active_scenarios: active, forgotten_entries: forgotten } = run.verification;
  const omitted = Object.entries(run.omitted ?? {}).filter(([, number]) => typeof number === 'number' && number > 0).map(([kind, number]) => `${number} ${kind}`);
  return [
    h('h2', { tabindex: -1 }, page.isDocument ? 'Report' : 'Summary'),
    h('p.verdict', null, colour === 'quiet' ? text : mark(text, colour)),
    counters(page, run, groups, findings),
    omitted.length && page.isDocument ? h('p.note', null, `Left out of this file, the oldest first: ${listed(omitted)}.`) : null,
    forgotten ? h('p.note', null, `${count(forgotten, 'entry', 'entries')} of the journal had been evicted and could not be examined.`) : null,
    groupsPart(page, failed.some((group) => group.test) ? 'What failed, by test' : 'What failed, by key', failed),
    failed.length ? outputPart(run) : null,
    groupsPart(page, 'Noticed, by key', groups.filter((group) => !failed.includes(group))),
    failed.length ? null : outputPart(run),
    unfinishedPart(page, run),
    section('Review', h('p.sentence', null, findings ? readiness(findings, counts(run, 'findings')) : null, ' ', link(page, { view: 'review', id: '', filter: '' }, 'The review'))),
    unused.length ? section('Not exercised', h('ul', null, unused.map((one) => h('li', null, foreign(one.message))))) : null,
    section('Timeline', guarded(() => timeline(entries), null)),
    active.length ? section('Scenarios', active.map((name) => h('div', null, h('h4', null, link(page, { view: 'scenarios', id: name, filter: '' }, name)), progress(page, name)))) : null,
    changed(page, run),
    environment(page, run),
    page.isDocument ? null : section('Keep it', commandLine(page, page.cli(['run', 'save', 'report.html']), 'the command')),
  ];
}
