// One request, or one event: what happened and why in a sentence, the evidence, and what to do as a command.

import { againPart, testPart } from './again.js';
import { repeatLine } from './command.js';
import { foreign, h, prose } from './element.js';
import { bodyBlock, commandLine, filterable, fold, headersTable, link, mark, meter, pairs } from './parts.js';
import { dateTime, duration, oneLine } from './text.js';

/** @param {string} verdict @returns {Node} */
function stepMark(verdict) {
  const [text, colour] = /** @type {Record<string, [string, 'ok' | 'bad' | 'warn' | 'info' | 'quiet']>} */ ({
    passed: ['passed', 'ok'], failed: ['failed', 'bad'], decided: ['decided', 'info'], not_reached: ['not reached', 'quiet'],
  })[verdict] ?? [oneLine(verdict, 40), 'quiet'];
  return mark(text, colour);
}

/** @param {StepRow[] | undefined} steps */
export function stepsTable(steps) {
  if (!steps?.length) return null;
  return fold('Decision', true, h('ol.steps', null, steps.map((step) => h('li', null, stepMark(step.verdict), ' ', h('b', null, foreign(step.check)), ' ', prose(step.detail)))));
}

/** @param {Page} page @param {Explanation} explanation */
function rulesTable(page, { rules, note }) {
  if (!rules?.length && !note) return null;
  return fold('Rules of the scenarios', true, rules?.length ? h('ul.steps', null, rules.map((rule) => h('li', null,
    mark(rule.applied ? 'applied' : 'not applied', rule.applied ? 'info' : 'quiet'), ' ',
    link(page, { view: 'scenarios', id: rule.scenario, filter: '' }, rule.scenario), ', ', foreign(rule.rule),
    rule.line ? ` (line ${rule.line})` : '', ': ', prose(rule.outcome)))) : null, note ? h('p.quiet', null, prose(note)) : null);
}

/** @param {RequestDetail} request */
function quotaPart({ quota }) {
  if (!quota) return null;
  const { limit, remaining, resets_in_ms: left } = quota;
  return h('p.quota', null, 'Quota ', meter(`${remaining} of ${limit} left`, remaining, limit), ` ${remaining} of ${limit} left, full again ${duration(left)} after this request`);
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function requestPane(page, explanation) {
  const request = /** @type {RequestDetail} */ (explanation.request);
  const status = request.status ? String(request.status) : 'connection broken';
  const colour = request.scenario ? 'info' : request.status >= 500 || !request.status ? 'bad' : request.status >= 400 ? 'warn' : 'ok';
  return h('article', null,
    h('h2', null, foreign(`${request.method} ${oneLine(request.path, 400)}`), ' ', mark(status, colour)),
    h('p.sentence', null, prose(sentenceOf(request, explanation))),
    request.warnings?.map((warning) => h('p.note', null, mark('warning', 'warn'), ' ', prose(warning))),
    quotaPart(request),
    stepsTable(explanation.steps),
    rulesTable(page, explanation),
    fold('Answer', true, headersTable('Headers of the answer', request.answer?.headers), bodyBlock('Body of the answer', request.answer?.body)),
    fold('Request', true, request.query ? h('p', null, 'Query: ', foreign(request.query, 'code')) : null, headersTable('Headers of the request', request.headers), bodyBlock('Body of the request', request.body, Number(request.headers?.find(([name]) => name.toLowerCase() === 'content-length')?.[1]))),
    fold('Facts', true, pairs([
      ['Id', foreign(request.id, 'code')],
      ['At', dateTime(request.at)],
      ['Took', duration(request.latency_ms)],
      ['Key', filterable(page, 'key', request.key)],
      ['Operation', filterable(page, 'operation', request.operation)],
      ['Status', filterable(page, 'status', request.status ? String(request.status) : null)],
      ['Reason', foreign(request.reason)],
      ['Scenario', filterable(page, 'scenario', request.scenario)],
    ])),
    h('section', null, h('h3', null, 'Repeat it'), commandLine(page, repeatLine(request, page.base), 'the curl command'), commandLine(page, page.cli(['explain', request.id]), 'the command')),
    againPart(page, request),
    testPart(page, request));
}

/** @param {RequestDetail} request @param {Explanation} explanation @returns {string} */
function sentenceOf(request, explanation) {
  if (explanation.summary) return `${explanation.summary[0].toUpperCase()}${explanation.summary.slice(1)}.`;
  if (!request.status) return `The connection was broken on purpose (${request.broken ?? 'reset'})${request.scenario ? ` by scenario ${request.scenario}` : ''}.`;
  return `${request.status}: ${request.reason.replace(/_/g, ' ')}${request.scenario ? `, by scenario ${request.scenario}` : ''}.`;
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function eventPane(page, explanation) {
  const event = /** @type {EventRow} */ (explanation.event);
  const deliveries = event.deliveries ?? [];
  const sentence = explanation.summary ?? (deliveries.length ? 'It goes to each subscription below.' : 'No subscription matched it.');
  return h('article', null,
    h('h2', null, h('span', { 'aria-hidden': 'true' }, '⚡ '), foreign(event.type)),
    h('p.sentence', null, prose(sentence)),
    event.damage ? h('p.note', null, mark('deliberate', 'warn'), ' ', foreign(event.damage)) : null,
    fold('Where it goes', true, deliveries.length
      ? h('ul', null, deliveries.map((one) => h('li', null, link(page, { id: one.id }, one.id), ' to ', foreign(one.url))))
      : h('p.quiet', null, 'Nowhere.'),
    event.skipped?.length ? h('ul', null, event.skipped.map((one) => h('li', null, 'not to ', foreign(one.url), ': ', foreign(one.reason.replace(/_/g, ' '))))) : null),
    stepsTable(explanation.steps),
    fold('Body', true, bodyBlock('Body of the event', event.body)),
    fold('Facts', true, pairs([['Id', foreign(event.id, 'code')], ['At', dateTime(event.created_at)], ['Type', filterable(page, 'type', event.type)], ['Workspace', foreign(event.workspace ?? 'none')]])),
    h('section', null, h('h3', null, 'Trigger one'), commandLine(page, page.cli(['trigger', event.type, '--wait']), 'the command')));
}
