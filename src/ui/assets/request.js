// One request, or one event: what happened and why in a sentence, the next action, the checks, the messages.

import { againPart, scenarioOf, testsOf } from './again.js';
import { activate, oneEvent, repeatLine } from './command.js';
import { foreign, h, prose, s } from './element.js';
import { actionButton, adviceList, bodyBlock, copyMenu, filterable, fold, headersTable, link, mark, meter, pairs, paneHead, section, statusMark } from './parts.js';
import { capital, count, dateTime, duration, oneLine, sentence } from './text.js';

/** @param {string} verdict @returns {Node} */
function stepMark(verdict) {
  const [text, colour] = /** @type {Record<string, [string, 'ok' | 'bad' | 'warn' | 'info' | 'quiet']>} */ ({
    passed: ['passed', 'ok'], failed: ['failed', 'bad'], decided: ['decided', 'info'], not_reached: ['not reached', 'quiet'],
  })[verdict] ?? [oneLine(verdict, 40), 'quiet'];
  return mark(text, colour);
}

/** The checks that a record went through, in words; those that passed say little. @param {StepRow[] | undefined} steps */
export function stepsTable(steps) {
  if (!steps?.length) return null;
  const number = (/** @type {string} */ verdict) => steps.filter((step) => step.verdict === verdict).length;
  const [failed, left] = [number('failed'), number('not_reached')];
  return fold(`Checks: ${number('passed')} passed${failed ? `, ${failed} failed` : ''}${left ? `, ${left} not reached` : ''}`, false, h('ol.steps', { 'aria-label': 'Checks' }, steps.map((step) => h('li', null, stepMark(step.verdict), ' ', h('b', null, foreign(step.check)), ' ', prose(step.detail)))));
}

/** @param {Page} page @param {Explanation} explanation */
function rulesTable(page, { rules, note }) {
  if (!rules?.length && !note) return null;
  return fold('Scenario rules', true, rules?.length ? h('ul.steps', null, rules.map((rule) => h('li', null,
    mark(rule.applied ? 'applied' : 'not applied', rule.applied ? 'info' : 'quiet'), ' ',
    link(page, { view: 'scenarios', id: rule.scenario, filter: '' }, rule.scenario), ', ', foreign(rule.rule),
    rule.line ? ` (line ${rule.line})` : '', ': ', prose(rule.outcome)))) : null, note ? h('p.quiet.small', null, prose(`${capital(note)}.`)) : null);
}

/** The quota, and how it went until this request. @param {Page} page @param {RequestDetail} request */
function quotaPart(page, { quota, id, key, reason, status }) {
  if (!quota) return null;
  const { limit, remaining, resets_in_ms: left } = quota;
  const near = page.store.entries.filter((entry) => entry.kind === 'request' && entry.quota && entry.key === key);
  const place = near.findIndex((entry) => entry.id === id);
  // A scenario's 429 says so of a quota that has room.
  const words = reason === 'scripted' && status === 429 ? 'shown as used up by the answer of the scenario' : `${remaining} of ${limit} left, full again ${duration(left)} after this request`;
  return h('section', null, h('h3', null, 'Quota'), place > 1 ? spark(near.slice(Math.max(0, place - 60), place + 40), id, words) : meter(`${remaining} of ${limit} left`, remaining, limit), h('p.quiet.small', null, words));
}

/** The remaining quota as a line, with one request marked. @param {Entry[]} entries @param {string} id @param {string} label */
function spark(entries, id, label) {
  const [first, last] = [entries[0].at, entries[entries.length - 1].at];
  const at = entries.map((entry, i) => {
    const { remaining, limit } = /** @type {NonNullable<Entry['quota']>} */ (entry.quota);
    return { x: last > first ? 4 + ((entry.at - first) / (last - first)) * 472 : 4 + (i / Math.max(1, entries.length - 1)) * 472, y: 6 + 36 * (1 - (limit ? remaining / limit : 0)), id: entry.id };
  });
  const here = at.find((one) => one.id === id) ?? at[0];
  return s('svg', { class: 'spark', viewBox: '0 0 480 48', role: 'img', 'aria-label': `Quota over ${count(entries.length, 'request')}: ${label}` },
    s('line', { class: 'limit', x1: 0, x2: 480, y1: 6, y2: 6 }), s('line', { class: 'limit', x1: 0, x2: 480, y1: 42, y2: 42 }),
    s('path', { class: 'line', d: `M${at[0].x.toFixed(1)} ${at[0].y.toFixed(1)}${at.slice(1).map(({ x, y }) => `H${x.toFixed(1)}V${y.toFixed(1)}`).join('')}` }),
    s('circle', { class: 'here', cx: here.x.toFixed(1), cy: here.y.toFixed(1), r: 4 }));
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function requestPane(page, explanation) {
  const request = /** @type {RequestDetail} */ (explanation.request);
  const status = request.status ? String(request.status) : 'connection broken';
  const colour = request.reason === 'scripted' ? 'info' : request.status >= 500 || !request.status ? 'bad' : request.status >= 400 ? 'warn' : 'ok';
  const copies = /** @type {[string, string][]} */ ([['curl', repeatLine(request, page.base)], ['CLI: explain', page.cli(['explain', request.id])], ...testsOf(request).map(([name, text]) => [name === 'curl' ? 'Test: curl' : `Test: ${name}`, text]), ...(request.status >= 200 ? [['Scenario', scenarioOf(request, request.status)]] : [])]);
  const { scenario } = request;
  const active = page.store.activeScenarios(request.key ?? '');
  // Where a scenario answered, it can be stopped.
  const key = page.store.run?.keys?.some((one) => one.key === request.key) ? request.key ?? '' : '';
  const stop = scenario && active.includes(scenario) ? actionButton(page, { ...activate(active.filter((one) => one !== scenario), key, `Stop ${oneLine(scenario, 40)}`), id: `stop ${scenario}` }) : null;
  return h('article', null,
    paneHead(page, `${request.method} ${oneLine(request.query == null ? request.path : `${request.path}?${request.query}`, 400)}`, request.key, request.id, mark(status, colour), `${dateTime(request.at)} · ${duration(request.latency_ms)}`),
    h('p.sentence', null, prose(sentence(explanation.summary))),
    request.warnings?.map((warning) => h('p.note', null, mark('warning', 'warn'), ' ', prose(warning))),
    h('div.actions', null, stop, copyMenu(page, request.id, copies)),
    adviceList(page, explanation),
    section('Answer', bodyBlock('Body of the answer', request.answer?.body), headersTable('Headers of the answer', request.answer?.headers)),
    quotaPart(page, request),
    stepsTable(explanation.steps),
    rulesTable(page, explanation),
    fold('Request', true, request.query ? h('p', null, 'Query: ', foreign(request.query, 'code')) : null, headersTable('Headers of the request', request.headers), bodyBlock('Body of the request', request.body, Number(request.headers?.find(([name]) => name.toLowerCase() === 'content-length')?.[1]))),
    pairs([
      ['Operation', h('span', null, filterable(page, 'operation', request.operation), request.operation === 'stub' ? h('span.quiet', null, ' a path that the contract lacks, answered by a scenario') : null)],
      ['Status', filterable(page, 'status', request.status ? String(request.status) : null)],
      ['Reason', foreign(request.reason)],
      ['Scenario', filterable(page, 'scenario', request.scenario)],
    ]),
    againPart(page, request));
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function eventPane(page, explanation) {
  const event = /** @type {EventRow} */ (explanation.event);
  const deliveries = event.deliveries ?? [];
  const again = oneEvent(event.type, event.workspace ? page.store.keyOfWorkspace.get(event.workspace) ?? '' : '');
  return h('article', null,
    paneHead(page, event.type, event.workspace ? page.store.keyOfWorkspace.get(event.workspace) : null, event.id, mark('event', 'info'), dateTime(event.created_at)),
    h('p.sentence', null, prose(sentence(explanation.summary))),
    event.damage ? h('p.note', null, mark('deliberate', 'warn'), ' ', prose(event.damage)) : null,
    h('div.actions', null, page.isDocument ? null : actionButton(page, { ...again, id: `again ${event.id}`, label: 'Trigger another' }), copyMenu(page, event.id, [['CLI', page.cli(again.cli)], ['CLI: explain', page.cli(['explain', event.id])]])),
    h('section', null, h('h3', null, 'Where it went'), deliveries.length
      ? h('ul.steps', null, deliveries.map((one) => {
        const last = page.store.decidingAttempt.get(one.id);
        return h('li', null, last ? [statusMark(last), ' '] : null, foreign(one.url), ' ', link(page, { view: 'deliveries', id: one.id }, one.id));
      }))
      : h('p.quiet', null, 'Nowhere.'),
    event.skipped?.length ? h('ul', null, event.skipped.map((one) => h('li', null, 'not to ', foreign(one.url), ': ', foreign(one.reason.replace(/_/g, ' '))))) : null),
    stepsTable(explanation.steps),
    fold('Body', true, bodyBlock('Body of the event', event.body)),
    pairs([['Type', filterable(page, 'type', event.type)]]));
}
