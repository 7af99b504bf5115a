// The review: whether the integration is ready, in a sentence; findings with the requests and deliveries that show them; what was not tested.

import { commandOfAdvice, exampleLine, keyWords } from './command.js';
import { foreign, guarded, h, prose } from './element.js';
import { commandLine, emptyState, forgottenNote, link, mark, meter, opening, pairs, section } from './parts.js';
import { capital, count, oneLine } from './text.js';

/** The worst first. @type {Record<string, 'bad' | 'warn' | 'info' | 'quiet'>} */
const SEVERITIES = { critical: 'bad', high: 'bad', medium: 'warn', low: 'info', info: 'quiet' };

/** Whether a severity is at least another. @param {string} severity @param {string} least */
const isAtLeast = (severity, least) => Object.keys(SEVERITIES).indexOf(severity) <= Object.keys(SEVERITIES).indexOf(least);

/** The findings that fail a review, as on the command line. @param {Findings | null} findings @returns {FindingRow[]} */
export function failing(findings) {
  return (findings?.data ?? []).filter((one) => one.confidence === 'certain' && isAtLeast(one.severity, 'medium'));
}

/** Whether anything has to be fixed, in a sentence. @param {Findings} findings @returns {Node} */
export function readiness(findings) {
  const { data, not_exercised: idle, judged_requests: requests, judged_deliveries: deliveries } = findings;
  const wrong = failing(findings);
  const said = (/** @type {string} */ head, /** @type {string} */ rest, /** @type {Parameters<typeof mark>[1]} */ colour) => h('span', null, mark(head, colour), rest);
  if (wrong.length) return said(`${count(wrong.length, 'finding')} to fix`, `${wrong.length > 1 ? '. The worst' : ''}: ${wrong[0].title}.`, SEVERITIES[wrong[0].severity]);
  if (!requests && !deliveries) return said('Not tested', ': no requests and no deliveries.', 'warn');
  const found = data.length ? `${count(data.length, 'finding')} to look at, none certain and severe,` : 'no finding';
  const judged = `${found} in ${count(requests, 'request')} and ${count(deliveries, 'delivery', 'deliveries')}`;
  const isGrave = data.some((one) => isAtLeast(one.severity, 'medium'));
  return said('Nothing to fix', `: ${judged}${idle.length ? `; ${count(idle.length, 'check')} not tested` : ''}.`, isGrave ? 'warn' : 'ok');
}

/** One finding with its number in the whole list. @param {Page} page @param {FindingRow} one @param {number} number @returns {Node} */
function findingPart(page, one, number) {
  const record = (/** @type {FindingRow['evidence'][0]} */ { request, delivery }) => link(page, { view: request ? 'activity' : 'deliveries', id: request ?? delivery ?? '', filter: '' }, request ?? delivery ?? '');
  const evidence = one.groups.map(({ count: alike, first, last }) => h('li', null, record(first), alike > 1 ? [' to ', record(last), ` (${count(alike, 'time')})`] : null, ' ', prose(first.detail)));
  const more = one.count - one.groups.reduce((sum, group) => sum + group.count, 0);
  const colour = SEVERITIES[one.severity] ?? 'warn';
  return h('li', { key: `${one.code} ${one.confidence}`, value: number }, h('article', null, opening(one.code, colour, 'found', prose(one.title),
    [h('span.quiet.small', null, count(one.count, 'time')), h('span.quiet.small', null, one.confidence), mark(one.severity, colour)], page.route.id === one.code, [
      h('ul', { 'aria-label': `Seen for ${one.code}` }, evidence),
      more > 0 ? h('p.quiet', null, `and ${more} more`) : null,
      pairs([['Why it matters', prose(one.why)], ['What to do', prose(capital(one.remedy))], ['Clause', foreign(one.clause + (one.cwe ? `; CWE-${one.cwe}` : ''))], ['Code', link(page, { id: one.code }, one.code)]])])));
}

/** A check that had nothing to judge, and what gives it something. @param {Page} page @param {Findings['not_exercised'][0]} one @returns {Node} */
function idlePart(page, { code, title, exercise, advice }) {
  return h('li', { key: code }, opening(code, 'quiet', 'not tested', foreign(`${title}?`), [h('span.id', null, foreign(code))], page.route.id === code, [
    h('p', null, prose(capital(exercise))), ...(advice ?? []).map((one) => commandLine(page, commandOfAdvice(one, page.base), 'the command'))]));
}

/** How many of the rules had something to judge. @param {Findings} findings @returns {Node} */
function progressPart({ rules, not_exercised: idle, data }) {
  const judged = rules - idle.length;
  const found = new Set(data.map(({ code }) => code)).size;
  const words = `${judged} of ${count(rules, 'check')} had something to judge; ${judged - found} of them found nothing`;
  return h('div', { key: 'progress' }, meter(words, judged, rules, 'info'), h('p.quiet.small', null, `${words}.`));
}

/** @param {Page} page @returns {Nodes} */
export function reviewView(page) {
  const { findings, problem } = page.store;
  const { id, key } = page.route;
  const heading = h('h2', null, 'Review');
  if (!findings) return [heading, h('p.empty', null, page.isDocument ? 'No findings are in this file: it was saved with a limit.' : foreign(problem || 'Loading…'))];
  const isShown = (/** @type {FindingRow} */ one) => !id || one.code === id;
  const wrong = failing(findings);
  const items = [...wrong, ...findings.data.filter((one) => !wrong.includes(one))].map((one, i) => (isShown(one) ? guarded(() => findingPart(page, one, i + 1), one) : null));
  const shown = items.filter(Boolean).length;
  const found = (/** @type {string} */ title, /** @type {typeof items} */ of) => (of.some(Boolean) ? section(title, h('ol.problems', null, of)) : null);
  const idle = findings.not_exercised.filter((one) => !id || one.code === id);
  return [
    heading,
    h('p.sentence', null, readiness(findings)),
    progressPart(findings),
    forgottenNote(findings.forgotten_entries),
    key && page.isDocument ? h('p.note', null, 'These findings cover every key in the file.') : null,
    id ? h('p', { key: 'back' }, link(page, { id: '' }, 'The whole review')) : null,
    h('div.summary', { key: 'findings' },
      h('div', null,
        found('To fix', items.slice(0, wrong.length)),
        found('To look at', items.slice(wrong.length)),
        id && !shown && !idle.length ? h('p.empty', null, foreign(oneLine(id, 100)), ' is not among the findings.') : null,
        findings.judged_requests || findings.judged_deliveries || page.isDocument ? null : emptyState(page, 'Run your tests against the emulator, or begin with:', [exampleLine(page.base)]),
        idle.length ? section('Not tested yet', h('ul.problems', null, idle.map((one) => guarded(() => idlePart(page, one), one)))) : null),
      h('div', null,
        id ? null : section('Not visible in traffic', h('ul', null, findings.beyond.map((text) => h('li', null, prose(text))))),
        page.isDocument ? null : section('On the command line', commandLine(page, page.cli(['review', 'findings', ...keyWords(key)]), 'the command')))),
  ];
}
