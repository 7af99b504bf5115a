// The summary of a run: whether it was good, in a sentence; the problems with their evidence; timeline, scenarios, settings.

import { foreign, guarded, h } from './element.js';
import { commandLine, link, mark, pairs, section } from './parts.js';
import { failing, readiness } from './review.js';
import { progress } from './scenarios.js';
import { count, dateTime, listed, oneLine, settingText } from './text.js';
import { timeline } from './timeline.js';

/** Whether a run is good, in one sentence. @param {RunDocument} run @param {Findings | null} findings @returns {{ok: boolean, text: string}} */
export function verdictOf(run, findings) {
  const wrong = [];
  if (run.exec?.problem) wrong.push(`the command could not be run (${run.exec.problem})`);
  else if (run.exec?.exit_status) wrong.push(`the command ended with ${run.exec.signal ? `signal ${run.exec.signal}` : `exit status ${run.exec.exit_status}`}`);
  const { counts, judged_requests: requests, judged_deliveries: deliveries } = run.verification;
  if (counts.undelivered) wrong.push(`${count(counts.undelivered, 'webhook')} did not arrive`);
  if (counts.forged) wrong.push(`${count(counts.forged, 'forged webhook')} ${counts.forged === 1 ? 'was' : 'were'} accepted`);
  if (counts.unmatched) wrong.push(`${count(counts.unmatched, 'request')} matched no endpoint`);
  if (counts.unfinished) wrong.push(`${count(counts.unfinished, 'part')} of the active scenarios did not happen`);
  const certain = failing(findings).length;
  if (certain) wrong.push(`${count(certain, 'finding')} of the review ${certain === 1 ? 'is' : 'are'} certain and at least medium`);
  const all = `${count(requests, 'request')} and ${count(deliveries, 'delivery', 'deliveries')} were examined`;
  if (wrong.length) return { ok: false, text: `Failed: ${listed(wrong)}; ${all}.` };
  return requests + deliveries ? { ok: true, text: `No problem found: ${all}.` } : { ok: false, text: 'Nothing happened, so nothing is proven.' };
}

/** @param {Page} page @param {RunDocument} run @returns {Node} */
function problems(page, run) {
  const { undelivered, forged, unmatched, unfinished } = run.verification;
  const withLink = (/** @type {'activity' | 'deliveries'} */ view) => (/** @type {{id: string, message: string}} */ one) => h('li', null, foreign(one.message), ' ', h('a', { href: page.address({ view, id: one.id, filter: '' }) }, 'evidence', h('span.hidden', null, ` ${one.id}`)));
  const items = [
    ...undelivered.map((one) => guarded(() => withLink('deliveries')(one), one)),
    ...forged.map((one) => guarded(() => withLink('deliveries')(one), one)),
    ...unmatched.map((one) => guarded(() => withLink('activity')(one), one)),
    ...unfinished.map((any) => guarded(() => {
      const one = /** @type {{message: string, scenario: string}} */ (any);
      return h('li', null, foreign(one.message), ' ', link(page, { view: 'scenarios', id: one.scenario, filter: '' }, 'scenario'));
    }, any)),
  ];
  const left = Object.values(run.verification.counts).reduce((sum, one) => sum + one, 0) - run.verification.counts.unused - items.length;
  return section('Problems', items.length ? h('ol.problems', null, items) : h('p', null, mark('none', 'ok')), left > 0 ? h('p.quiet', null, `and ${left} more`) : null);
}

/** @param {Page} page @param {RunDocument} run */
function changed(page, run) {
  const all = (run.profile?.data ?? []).filter((one) => one.source !== 'default');
  return section('Settings that differ from the default', all.length
    ? h('ul', null, all.map((one) => h('li', null, link(page, { view: 'settings', id: one.knob, filter: '' }, one.knob), ' = ', foreign(oneLine(settingText(one.value)), 'code'), ' from ', foreign(oneLine(one.source, 100)))))
    : h('p.quiet', null, 'None.'));
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
  if (run.exec) facts.push(['Command', foreign(run.exec.command.join(' '), 'code')], ['Outcome', foreign(run.exec.problem ?? (run.exec.signal ? `ended by signal ${run.exec.signal}` : `exit status ${run.exec.exit_status}`))]);
  return section('Environment', pairs(facts));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function summaryView(page) {
  const { run, entries } = page.store;
  // On a live page they may be about one key only, and out of date.
  const findings = page.isDocument ? page.store.findings : null;
  if (!run?.verification) return [h('h2', { tabindex: -1 }, 'Summary'), h('p.empty', null, 'Loading…')];
  const { ok, text } = verdictOf(run, findings);
  const { unused, active_scenarios: active, forgotten_entries: forgotten } = run.verification;
  const omitted = Object.entries(run.omitted ?? {}).filter(([, number]) => typeof number === 'number' && number > 0).map(([kind, number]) => `${number} ${kind}`);
  return [
    h('h2', { tabindex: -1 }, page.isDocument ? 'Report' : 'Summary'),
    h('p.verdict', null, mark(text, ok ? 'ok' : 'bad')),
    omitted.length && page.isDocument ? h('p.note', null, `Left out of this file, the oldest first: ${listed(omitted)}.`) : null,
    forgotten ? h('p.note', null, `${count(forgotten, 'entry', 'entries')} of the journal had been evicted and could not be examined.`) : null,
    problems(page, run),
    section('Review', h('p.sentence', null, findings ? readiness(findings) : null, ' ', link(page, { view: 'review', id: '', filter: '' }, 'The review'))),
    unused.length ? section('Not exercised', h('ul', null, unused.map((one) => h('li', null, foreign(one.message))))) : null,
    section('Timeline', guarded(() => timeline(entries), null)),
    active.length ? section('Scenarios', active.map((name) => h('div', null, h('h4', null, link(page, { view: 'scenarios', id: name, filter: '' }, name)), progress(page, name)))) : null,
    changed(page, run),
    environment(page, run),
    page.isDocument ? null : section('Keep it', commandLine(page, page.cli(['run', 'save', 'report.html']), 'the command')),
  ];
}
