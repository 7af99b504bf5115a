// What went wrong in a run, by cause: equal things are one cause with a count, the first and the last. Pure.

import { failing } from './review.js';
import { NUMBERS, capital, count, duration, isRefused, listed, oneLine, scenarioOfAnswer } from './text.js';

/**
 * One cause. `isBad`: it made the run fail, or would; otherwise it is a warning. `title` is said after "Failed: ", so it begins with a
 * small letter unless a name does.
 * @typedef {{id: string, kind: string, title: string, isBad: boolean, weight: number, often: string, detail: string, advice: string, command: string,
 *   tests: NonNullable<KeyRow['test']>[], keys: string[], entries: Entry[], view: 'activity' | 'deliveries' | 'keys' | 'review', finding: string}} Cause
 */

/** Less than this between one refusal and the next request is no pause. */
const NO_PAUSE_MS = 100;

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
export function isFailed(run, test) {
  return test?.outcome === 'failed' && run.exec?.exit_status !== 0;
}

/** Whether problems of a kind fail the run: those that `--fail-on` names; without it and without a command, webhooks. @param {RunDocument['exec']} exec @param {string} kind */
function failsBy(exec, kind) {
  if (exec) return Boolean(exec.failed_by?.includes(kind));
  return kind === 'undelivered' || kind === 'forged';
}

/** How often and how fast something happened. @param {Entry[]} entries oldest first @param {string} what */
export function oftenOf(entries, what) {
  const [first, last] = [entries[0].at, entries[entries.length - 1].at];
  if (entries.length === 1) return `${what}, once`;
  const pauses = entries.slice(1).map((entry, i) => entry.at - entries[i].at);
  const longest = Math.max(...pauses);
  const pause = longest < NO_PAUSE_MS ? ', no pause' : entries.length < 6 ? `, pauses of ${listed([...new Set(pauses.map((one) => duration(one)))])}` : `, longest pause ${duration(longest)}`;
  return `${what} × ${NUMBERS.format(entries.length)} within ${duration(last - first)}${pause}`;
}

/** Whether most refusals were followed at once by the next. @param {Entry[]} entries oldest first */
export function isHammering(entries) {
  const quick = entries.slice(1).filter((entry, i) => entry.at - entries[i].at < NO_PAUSE_MS).length;
  return entries.length >= 4 && quick > entries.length / 2;
}

/** What a client should do after any 429. */
const AFTER_429 = 'After a 429, a client waits as long as `Retry-After` says, or else with growing pauses.';

/** What a refusal means, and what to do. @param {Entry[]} entries equal refusals, oldest first @param {Findings | null} findings @returns {Pick<Cause, 'title' | 'advice' | 'command' | 'finding'>} */
function refusal(entries, findings) {
  const [entry] = entries;
  const { status, text, operation } = entry;
  const scenario = scenarioOfAnswer(entry);
  const has = (/** @type {string} */ code) => (findings?.data.some((one) => one.code === code) ? code : '');
  if (status === 429) {
    return isHammering(entries)
      ? { title: 'the client did not back off after a 429', advice: AFTER_429, command: 'wrs-emulator profile set rate_limit.retry_after=seconds', finding: has('no-back-off') }
      : { title: scenario ? `the client met the 429 of scenario ${scenario}` : 'the quota was used up', advice: scenario ? `${AFTER_429} The request shows the rule, and how to lift it.` : AFTER_429, command: '', finding: '' };
  }
  if (!scenario && (!operation || entry.mark === 'not_found')) return { title: `${text} is not an endpoint`, advice: 'Correct the path or the method.', command: '', finding: has('wrong-path') };
  if (status === 401) return { title: scenario ? `the client met the 401 of scenario ${scenario}` : 'a key was not accepted', advice: scenario ? '' : 'Use a key that begins with sk_test_.', command: '', finding: has('loop-after-401') };
  if (entry.mark === 'client_left') return { title: `the client did not wait for the answer${scenario ? `, which scenario ${scenario} delayed` : ''}`, advice: 'Its timeout is shorter than the delay. Check that it retries, and that a request that was served all the same does no harm.', command: '', finding: '' };
  if (!status) return { title: `the connection was broken${scenario ? ` by scenario ${scenario}` : ''}`, advice: 'Retry with a pause, if the request may be sent twice.', command: '', finding: '' };
  const by = scenario ? ` of scenario ${scenario}` : '';
  // If one error names the problem of the request, it is the cause.
  const reason = status === 422 && !scenario && new Set(entries.map((one) => one.message)).size === 1 ? entries[0].message : '';
  return { title: `${oneLine(text, 60)} was refused with ${status}${by}${reason && `: ${oneLine(reason, 120)}`}`, advice: '', command: '', finding: status === 422 ? has('invalid-repeated') : '' };
}

/** A delivery that went wrong: what, and what to do. @param {RunDocument} run @param {Entry} entry @returns {Pick<Cause, 'title' | 'advice' | 'command' | 'finding'>} */
function lost(run, entry) {
  const url = oneLine(entry.path, 120);
  if (entry.forged) {
    return { title: 'your receiver accepted a forged webhook', advice: 'Verify the signature over the raw bytes before parsing the body, and answer 401 if it does not match.', command: `wrs-emulator explain ${entry.id}`, finding: 'receiver-accepts-forged' };
  }
  const remedy = (run.verification.undelivered ?? []).find(({ id }) => id === entry.id)?.remedy;
  const words = entry.unreached
    ? { title: `a webhook never arrived at ${url}: ${entry.mark}`, advice: 'Is the receiver running, and at this address?' }
    : { title: `a webhook to ${url} ${entry.status ? `was ${isRefused(entry) ? 'refused' : 'answered'} with ${entry.status}` : `failed: ${entry.mark}`}`, advice: 'See what the receiver answered, and why.' };
  return { ...words, advice: remedy ? capital(remedy) : words.advice, command: `wrs-emulator explain ${entry.id}`, finding: isRefused(entry) ? 'receiver-refuses-valid' : '' };
}

/** What makes two entries one cause. @param {Entry} entry */
function sameness(entry) {
  const { kind, status, operation, text, message, path, forged, mark } = entry;
  if (kind === 'delivery') return forged ? 'delivery forged' : `delivery ${path} ${mark || status}`;
  const template = message.replace(/\d+/g, '#');
  return `request ${status} ${status === 429 ? '' : operation ?? text} ${scenarioOfAnswer(entry)} ${status === 401 || status === 429 ? '' : template} ${mark}`;
}

/** The tests that never called, as causes: one for all that failed without any other reason. @param {RunDocument} run @param {Set<string>} explained keys with another cause @returns {Cause[]} */
function silent(run, explained) {
  const keys = (run.keys ?? []).filter(({ key, test, requests }) => !requests && !explained.has(key) && !run.verification.forgotten_entries
    && (test ? isFailed(run, test) && !/ControlError(?!.* 408 )/.test(test.message ?? '') : Boolean(run.exec?.exit_status)));
  const isNone = !run.verification.judged_requests;
  // Deliveries alone may explain all that failed.
  if (!keys.length && !(isNone && run.exec?.exit_status && !explained.size)) return [];
  const tests = keys.flatMap(({ test }) => test ?? []);
  const who = tests.length ? count(tests.length, 'test') : count(keys.length, 'key');
  const whose = tests.length ? ` with ${tests.length === 1 ? 'its key' : 'their keys'}` : '';
  // Requests of another key, or without one, say that the program called, but not as this test.
  const refused = (run.verification.keys ?? []).find(({ key, failure }) => failure?.request && keys.some((one) => one.key === key))?.failure;
  const hasOthers = run.keys?.some(({ test, requests }) => !test && requests) || run.requests?.some(({ key }) => !key);
  return [{
    id: 'silent', kind: 'silent', isBad: true, weight: isNone ? 90 : 40, often: '', entries: [], view: 'keys', finding: '', command: '', keys: keys.map(({ key }) => key), tests,
    title: isNone ? 'nothing called the emulator; does your code read WRS_BASE_URL?' : `${who} made no request${whose}`,
    detail: refused ? `${capital(refused.reason)} (${refused.request}).` : isNone || !hasOthers ? '' : 'Some requests had no key, or a key that belongs to no test.',
    advice: 'Take the address from WRS_BASE_URL, and the key from WRS_API_KEY or the fixture.',
  }];
}

/**
 * Every cause, the worst first.
 * @param {RunDocument} run @param {Entry[]} entries oldest first @param {Findings | null} findings @returns {Cause[]}
 */
export function causesOf(run, entries, findings) {
  const keys = new Map((run.keys ?? []).map((one) => [one.key, one]));
  const hasTests = [...keys.values()].some(({ test }) => test);
  /** @type {Map<string, {entries: Entry[], isOfFailed: boolean}>} */
  const groups = new Map();
  for (const entry of entries) {
    if (entry.superseded || (entry.kind !== 'request' && entry.kind !== 'delivery')) continue;
    const isOfFailed = isFailed(run, keys.get(entry.key ?? '')?.test);
    // What a scenario refused may be what a test failed of, and is as planned otherwise.
    const isMet = entry.kind === 'request' && isOfFailed && (entry.status >= 400 || !entry.status);
    if (!entry.failed && !isMet) continue;
    const id = `${isOfFailed} ${sameness(entry)}`;
    const group = groups.get(id);
    if (group) group.entries.push(entry);
    else groups.set(id, { entries: [entry], isOfFailed });
  }
  /** @type {Cause[]} */
  const causes = [];
  const explained = new Set();
  const mentioned = new Set();
  for (const [id, group] of groups) {
    const [entry] = group.entries;
    const isDelivery = entry.kind === 'delivery';
    const kind = isDelivery ? (entry.forged ? 'forged' : 'undelivered') : !entry.operation && entry.failed ? 'unmatched' : 'refused';
    // Without outcomes of tests, a command that failed may have failed of any refusal.
    const isBad = group.isOfFailed || failsBy(run.exec, kind) || Boolean(run.exec?.exit_status && !hasTests && entry.failed);
    const words = isDelivery ? lost(run, entry) : refusal(group.entries, findings);
    const own = [...new Set(group.entries.map((one) => one.key ?? ''))].filter(Boolean);
    // A forged webhook is worse than any refusal, and what a scenario did is least.
    const weight = kind === 'forged' ? 100 : kind === 'undelivered' ? 60 : entry.failed ? 50 : 30;
    if (words.finding) mentioned.add(words.finding);
    for (const key of own) if (isBad) explained.add(key);
    causes.push({
      ...words, id, kind, isBad, weight, keys: own, entries: group.entries, view: isDelivery ? 'deliveries' : 'activity', detail: '',
      often: isDelivery ? group.entries.length === 1 ? `${entry.type}, once` : `${entry.type} × ${NUMBERS.format(group.entries.length)}` : oftenOf(group.entries, entry.status ? String(entry.status) : 'broken'),
      tests: own.flatMap((key) => keys.get(key)?.test ?? []),
    });
  }
  causes.push(...silent(run, explained));
  for (const cause of causes) if (cause.kind === 'silent') for (const key of cause.keys) explained.add(key);
  // A failed test without any of these: its own message.
  for (const { key, test } of keys.values()) {
    if (!test || !isFailed(run, test) || explained.has(key)) continue;
    const title = test.message ? oneLine(test.message, 200) : `${test.test} failed`;
    const same = causes.find((one) => one.kind === 'message' && one.title === title);
    if (same) {
      same.tests.push(test);
      same.keys.push(key);
    } else causes.push({ id: `message ${title}`, kind: 'message', title, isBad: true, weight: 20, often: '', detail: 'None of its requests was refused.', advice: '', command: '', tests: [test], keys: [key], entries: [], view: 'activity', finding: '' });
  }
  // Findings that no cause mentions: certain ones, or likely ones of some weight, as warnings.
  const certain = failing(findings);
  /** @type {Map<string, Cause>} */
  const found = new Map();
  for (const one of findings?.data ?? []) {
    if (mentioned.has(one.code) || one.severity === 'info') continue;
    const isBad = failsBy(run.exec, 'findings') && certain.includes(one);
    const same = found.get(one.code);
    if (same) same.isBad ||= isBad;
    else found.set(one.code, { id: `finding ${one.code}`, kind: 'finding', title: oneLine(`${one.title[0].toLowerCase()}${one.title.slice(1)}`), isBad, weight: certain.includes(one) ? 45 : 10, often: count(one.count, 'time'), detail: one.confidence === 'likely' ? 'Likely, not certain.' : '', advice: `${one.remedy[0].toUpperCase()}${one.remedy.slice(1)}.`, command: '', tests: [], keys: [], entries: [], view: 'review', finding: one.code });
  }
  causes.push(...found.values());
  return causes.sort((a, b) => Number(b.isBad) - Number(a.isBad) || b.weight - a.weight || b.entries.length - a.entries.length);
}

/** The first sentence about a run, as a person would say it. @param {RunDocument} run @param {Cause[]} causes @returns {{colour: 'ok' | 'bad' | 'warn' | 'quiet', text: string}} */
export function headline(run, causes) {
  const { judged_requests: requests, judged_deliveries: deliveries } = run.verification;
  const { exec, keys } = run;
  const tests = (keys ?? []).filter((one) => one.test);
  const all = `${count(requests, 'request')} and ${count(deliveries, 'delivery', 'deliveries')}`;
  const [first, ...others] = causes.filter((one) => one.isBad);
  const more = others.length ? `, and ${count(others.length, 'other cause')}` : '';
  const hasFailed = exec ? Boolean(exec.exit_status || exec.problem || exec.failed_by?.length) : tests.some((one) => isFailed(run, one.test)) || Boolean(first);
  if (exec?.problem) return { colour: 'bad', text: `Failed: the command could not be run (${exec.problem})` };
  if (hasFailed && first) return { colour: 'bad', text: `Failed: ${first.title}${more}` };
  if (hasFailed) return { colour: 'bad', text: exec?.failed_by?.length && !exec.exit_status ? `Failed: ${listed(exec.failed_because?.length ? exec.failed_because : exec.failed_by)}` : `Failed: the command ended with ${exec?.signal ? `signal ${exec.signal}` : `exit status ${exec?.exit_status}`}` };
  const [warning] = causes;
  if (exec) return warning ? { colour: 'warn', text: `Passed, but ${warning.title}${causes.length > 1 ? `, and ${count(causes.length - 1, 'other warning')}` : ''}` } : { colour: 'ok', text: `Passed: ${all}, nothing went wrong` };
  if (!requests && !deliveries) return { colour: 'quiet', text: 'Nothing happened yet' };
  return { colour: 'quiet', text: warning ? `${all}; ${count(causes.length, 'thing')} to look at` : `${all}, nothing went wrong` };
}
