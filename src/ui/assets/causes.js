// Which causes made a run fail, and the first sentence about it. The emulator finds the causes and says what they are; this adds their
// records. Pure.

import { failing } from './review.js';
import { count, listed } from './text.js';

/** @typedef {NonNullable<RunDocument['verification']['causes']>[number]} FoundCause */
/**
 * A cause with its records. `isBad`: it made the run fail, or would; otherwise it is a warning.
 * @typedef {FoundCause & {id: string, isBad: boolean, entries: Entry[], view: 'activity' | 'deliveries' | 'keys' | 'review'}} Cause
 */

/** Causes of which a command may have failed whose tests are not known. @type {string[]} */
const MAY_FAIL = ['forged', 'undelivered', 'unmatched', 'refused', 'unanswered', 'silent'];

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
export function isFailed(run, test) {
  return test?.outcome === 'failed' && run.exec?.exit_status !== 0;
}

/** Whether problems of a kind fail the run: those that `--fail-on` names; without it and without a command, webhooks. @param {RunDocument['exec']} exec @param {string} kind */
function failsBy(exec, kind) {
  if (exec) return Boolean(exec.failed_by?.includes(kind));
  return kind === 'undelivered' || kind === 'forged';
}

/** Whether a cause made the run fail. @param {RunDocument} run @param {FoundCause} cause @param {Findings | null} findings */
function isBad(run, { kind, name, tests }, findings) {
  const { exec, keys } = run;
  if (tests.length) return exec?.exit_status !== 0;
  if (kind === 'finding') return failsBy(exec, 'findings') && failing(findings).some(({ code }) => code === name);
  if (failsBy(exec, kind === 'silent' ? 'unused' : kind)) return true;
  return Boolean(exec?.exit_status) && !keys?.some(({ test }) => test) && MAY_FAIL.includes(kind);
}

/** Every cause, those that made the run fail first. @param {RunDocument} run @param {Entry[]} entries @param {Findings | null} findings @returns {Cause[]} */
export function causesOf(run, entries, findings) {
  const records = new Map(entries.filter((one) => !one.superseded).map((one) => [one.id, one]));
  const causes = (run.verification.causes ?? []).map((cause) => {
    const found = cause.records.flatMap((id) => records.get(id) ?? []);
    /** @type {Cause['view']} */
    const view = cause.kind === 'finding' ? 'review' : cause.kind === 'forged' || cause.kind === 'undelivered' ? 'deliveries' : found.length ? 'activity' : 'keys';
    return Object.assign({}, cause, { id: `${cause.kind} ${cause.sentence} ${cause.tests[0]?.key ?? ''}`, isBad: isBad(run, cause, findings), entries: found, view });
  });
  // What a finding says is told once.
  const told = new Set(causes.flatMap(({ kind, findings: codes }) => (kind === 'finding' ? [] : codes)));
  const isTold = (/** @type {Cause} */ { kind, name }) => kind === 'finding' && told.has(name);
  // What is unfinished has a section of its own, and an idle emulator is no warning.
  return causes.filter((one) => one.isBad || (one.kind !== 'unfinished' && !isTold(one) && (one.kind !== 'silent' || one.tests.length))).sort((a, b) => Number(b.isBad) - Number(a.isBad));
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
  if (hasFailed && first) return { colour: 'bad', text: `Failed: ${first.sentence}${more}` };
  if (hasFailed) return { colour: 'bad', text: exec?.failed_by?.length && !exec.exit_status ? `Failed: ${listed(exec.failed_because?.length ? exec.failed_because : exec.failed_by)}` : `Failed: the command ended with ${exec?.signal ? `signal ${exec.signal}` : `exit status ${exec?.exit_status}`}` };
  const [warning] = causes;
  if (exec) return warning ? { colour: 'warn', text: `Passed, but ${warning.sentence}${causes.length > 1 ? `, and ${count(causes.length - 1, 'other warning')}` : ''}` } : { colour: 'ok', text: `Passed: ${all}, nothing went wrong` };
  if (!requests && !deliveries) return { colour: 'quiet', text: 'Nothing happened yet' };
  return { colour: 'quiet', text: warning ? `${all}; ${count(causes.length, 'thing')} to look at` : `${all}, nothing went wrong` };
}
