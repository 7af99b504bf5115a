// One request, or one event: what happened and why in a sentence, the next action, the checks, the messages; and the same answer again as
// a scenario, and the request as a failing test.

import { activate, oneEvent, repeatLine } from './command.js';
import { foreign, h, prose, s } from './element.js';
import { actionButton, adviceList, bodyBlock, copyMenu, filterable, fold, headersTable, keptPart, link, mark, meter, pairs, paneHead, pre, section, statusMark, taking } from './parts.js';
import { curl } from './shell.js';
import { capital, count, dateTime, duration, literal, oneLine, sentence, visible } from './text.js';

/** Answers that people want to see again, by status: the contract's errors. */
const ERRORS = /** @type {Record<number, string>} */ ({ 401: 'unauthorized', 404: 'not_found', 422: 'validation_error', 429: 'rate_limit_exceeded', 500: 'internal_error' });

/** A long string of TOML: as it is where TOML can have it so. @param {string} text @returns {string} */
const string = (text) => (/['\n\t]/.test(text) || visible(text) !== text ? literal(text) : `'${text}'`);

/** The code and message of an answer that an error of a scenario repeats; its id is new each time. @param {RequestDetail} request @returns {{code: string, message: string} | null} */
function errorOf({ id, answer }) {
  try {
    const { code, message, request_id: own, details } = JSON.parse(typeof answer.body === 'string' ? answer.body : '').error;
    return own === id && typeof code === 'string' && typeof message === 'string' && details === undefined ? { code, message } : null;
  } catch {
    return null;
  }
}

/** The fields of a reply with this status; that of the request is answered with the same body. @param {RequestDetail} request @param {number} status @returns {string[]} */
function replyOf(request, status) {
  const name = ERRORS[status];
  if (status !== request.status) return name || status < 400 ? [name ? `error = ${literal(name)}` : `status = ${status}`] : ['error = "internal_error"', `status = ${status}`];
  const { answer } = request;
  const error = status >= 400 ? errorOf(request) : null;
  if (error) return [name ? `error = ${literal(name)}` : `status = ${status}`, ...(error.code === name ? [] : [`code = ${literal(error.code)}`]), `message = ${literal(error.message)}`];
  const type = answer?.headers?.find(([header]) => header.toLowerCase() === 'content-type')?.[1];
  // Bytes that are not text no scenario can send.
  const hasBody = typeof answer?.body === 'string' && answer.body !== '';
  return [`status = ${status}`, ...(hasBody && type ? [`headers = { content-type = ${literal(type)} }`] : []), ...(hasBody ? [`body = ${string(String(answer.body))}`] : [])];
}

/** The endpoint of a request; none where a scenario answers a path that the contract lacks. @param {RequestDetail} request */
const endpointOf = ({ operation }) => (operation === 'stub' ? null : operation);

/** A scenario whose one rule gives this status to the next such request. @param {RequestDetail} request @param {number} status @returns {string} */
export function scenarioOf(request, status) {
  const path = literal(request.path);
  const endpoint = endpointOf(request);
  const route = endpoint ? `operation = ${literal(endpoint)}` : `method = ${literal(request.method)}, path = ${/[*?]/.test(path) ? `{ equals = ${path} }` : path}`;
  // What is masked is not compared.
  const value = (/** @type {string} */ text) => (text.includes('…') ? '{ present = true }' : literal(text));
  const query = [...new Map(new URLSearchParams(request.query ?? ''))].map(([name, text]) => `query.${literal(name)} = ${value(text)}`);
  const hasKey = request.key || request.headers?.some(([header]) => header.toLowerCase() === 'authorization');
  // Without an endpoint, a key is required unless the rule says otherwise.
  const keyless = endpoint ? hasKey ? [] : ['header.authorization = { present = false }'] : request.key ? [] : ['authenticated = false'];
  const when = [route, ...query, ...keyless].join(', ');
  const fields = replyOf(request, status);
  // A text of others is no template.
  const reply = [...(fields.some((field) => /\{[{%]/.test(field)) ? ['templates = false'] : []), ...fields].join(', ');
  return `title = ${literal(`${status} for ${oneLine(`${endpoint ?? request.path}${request.query ? `?${request.query}` : ''}`, 100)}`)}\n\n[[rule]]\nwhen = { ${when} }\ntimes = 1\nreply = { ${reply} }\n`;
}

/** The name of that scenario. @param {RequestDetail} request @param {number} status @returns {string} */
function nameOf(request, status) {
  return `again-${status}-${(endpointOf(request) ?? oneLine(request.path, 40)).replace(/[^a-z0-9]+/gi, '-').replace(/^-|-$/g, '') || 'request'}`;
}

/** The request as a test that expects what was answered, in each language, with the scenario that made it so. @param {RequestDetail} request @returns {[string, string][]} */
export function testsOf(request) {
  const { method, scenario, status, body } = request;
  const path = request.query == null ? request.path : `${request.path}?${request.query}`;
  const type = request.headers?.find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  const text = typeof body === 'string' ? body : '';
  const bytes = typeof body === 'object' ? body?.base64 ?? '' : '';
  const name = `${method} ${endpointOf(request) ?? request.path}`.replace(/[^A-Za-z0-9]+/g, '_').toLowerCase().slice(0, 100);
  // A refusal is answered again from its own text, as the scenario may exist here alone.
  const again = status >= 400 ? scenarioOf(request, status) : '';
  // A quota would have to be used up first.
  const isQuota = !scenario && status === 429;
  const cause = isQuota ? 'The quota gave' : `Scenario ${oneLine(scenario)} ${request.reason === 'scripted' ? 'gave' : 'had a part in'}`;
  const isScripted = isQuota || scenario && ['scripted', 'answered', 'subscribed'].includes(request.reason);
  // A refused key is refused again.
  const isKeyless = request.reason === 'unauthorized' && !request.headers?.some(([header]) => header.toLowerCase() === 'authorization');
  const wrong = request.reason === 'unauthorized' && !isKeyless ? 'Bearer not-the-key' : '';
  const python = [...(bytes ? ['import base64'] : []), ...(status >= 300 || !status ? ['import urllib.error'] : []), 'import urllib.request', '', '', `def test_${name}(wrs):`,
    ...(isScripted ? [`    # ${cause} this answer.`, `    wrs.scenario(${again ? `toml=${literal(again)}` : literal(scenario ?? '')})`] : []),
    `    request = urllib.request.Request(wrs.url + ${literal(path)}, method=${literal(method)}, headers=${isKeyless ? '{}' : wrong ? `{"Authorization": "${wrong}"}` : 'dict(wrs.headers)'})`,
    ...(type ? [`    request.add_header("Content-Type", ${literal(type)})`] : []),
    ...(text || bytes ? [`    request.data = ${text ? `${literal(text)}.encode()` : `base64.b64decode(${literal(bytes)})`}`] : []),
    ...(status >= 300 || !status
      ? ['    try:', '        status = urllib.request.urlopen(request).status', '    except urllib.error.HTTPError as error:', '        status = error.code', ...(status ? [] : ['    except OSError:', '        status = 0']), `    assert status == ${status}`]
      : [`    assert urllib.request.urlopen(request).status == ${status}`]), ''];
  const own = isKeyless ? '{}' : wrong ? `{ authorization: "${wrong}" }` : 'wrs.headers';
  const headers = type ? `{ ...${own}, "content-type": ${literal(type)} }` : own;
  const content = text ? literal(text) : bytes ? `Buffer.from(${literal(bytes)}, "base64")` : '';
  const isSent = content && !['GET', 'HEAD'].includes(method);
  const options = `{ method: ${literal(method)}, headers: ${headers}${isSent ? `, body: ${content}` : ''}${status >= 300 && status < 400 ? ', redirect: "manual"' : ''} }`;
  const node = ['import assert from "node:assert/strict";', 'import { test } from "node:test";', 'import { withEmulator } from "wrs-emulator";', '',
    `test(${literal(`${method} ${path}`)}, withEmulator(async (wrs) => {`,
    ...(isScripted ? [`  // ${cause} this answer.`, `  await wrs.scenario(${again ? `{ toml: ${literal(again)} }` : literal(scenario ?? '')});`] : []),
    ...(content && !isSent ? [`  // It had a body, which fetch does not send with ${method}.`] : []),
    ...(status ? [`  const answer = await fetch(wrs.url + ${literal(path)}, ${options});`, `  assert.equal(answer.status, ${status}, await answer.text());`] : [`  await assert.rejects(fetch(wrs.url + ${literal(path)}, ${options}));`]), '}));', ''];
  // curl takes the scenario along; only a broken connection has no answer to make one of.
  const scenarioName = nameOf(request, status);
  const isAdded = isScripted && again;
  const added = isAdded ? `${curl({ options: ['-sS', '--fail', '-o', '/dev/null'], method: 'PUT', headers: [['Content-Type', 'application/toml']], body: again, origin: { env: 'WRS_EMULATOR_URL' }, target: `/_emulator/scenarios/${scenarioName}` })}\n` : '';
  const active = isAdded ? scenarioName : isScripted ? scenario : '';
  /** @type {([string, string] | import('./shell.js').Word)[]} */
  const given = isKeyless ? [] : wrong ? [['Authorization', wrong]] : [{ before: 'Authorization: Bearer ', env: 'WRS_API_KEY' }];
  if (active) given.push(['X-Emulator-Scenario', active]);
  if (type !== undefined) given.push(['Content-Type', type]);
  const line = curl({ options: status ? ['-sS', '-o', '/dev/null', '-w', '%{http_code}'] : ['-sS', '-o', '/dev/null'], method, headers: given, body, origin: { env: 'WRS_BASE_URL' }, target: path, separator: ' \\\n  ' });
  return [['pytest', python.join('\n')], ['node:test', node.join('\n')], ['curl', `${added}${status ? `test "$(${line})" = ${status}` : `! ${line}`}\n`]];
}

/** @param {Page} page @param {RequestDetail} request @returns {Node | null} */
function againPart(page, request) {
  if (page.isDocument) return null;
  if (!(request.operation || ['not_found', 'announced'].includes(request.reason)) || ['unauthorized', 'refused'].includes(request.reason)) return section('Answer like this next time', h('p.quiet', null, 'This request was refused before scenarios apply, so a scenario cannot change it.'));
  const form = page.ui.forms.again ??= { status: '', written: '' };
  const status = Number(form.status) || (request.status >= 200 ? request.status : 500);
  const key = request.key && !request.key.includes('…') ? request.key : '';
  const name = nameOf(request, status);
  const write = async () => {
    const { ok } = await page.perform({ id: `write ${name}`, label: `Write ${name}`, method: 'PUT', path: `scenarios/${name}`, text: scenarioOf(request, status), cli: [] });
    if (ok) await page.perform(activate([name, ...page.store.activeScenarios(key).filter((one) => one !== name)], key, `Activate ${name}`));
    form.written = ok ? name : '';
    page.redraw();
  };
  const statuses = [...new Set([status, request.status, ...Object.keys(ERRORS).map(Number), 503])].filter((one) => one >= 200).sort();
  return section('Answer like this next time',
    h('div.actions', null,
      h('label', null, 'Status ', h('select', { controlled: String(status), onchange: taking(page, form, 'status') }, statuses.map((one) => h('option', { value: String(one) }, String(one))))),
      h('button', { onclick: write }, `Save as a scenario and activate it${key ? '' : ' for all keys'}`)),
    form.written === name ? h('div', null, h('p', null, `Active${key ? ` for ${key}, which now has its own list` : ' for all keys'}, for one request. Raise its times for more.`), keptPart(page, name, scenarioOf(request, status)), pre('The scenario', scenarioOf(request, status))) : null);
}

/** @param {string} verdict @returns {Node} */
function stepMark(verdict) {
  const colours = /** @type {Record<string, 'ok' | 'bad' | 'info'>} */ ({ passed: 'ok', failed: 'bad', decided: 'info' });
  return mark(oneLine(verdict, 40).replace('_', ' '), colours[verdict] ?? 'quiet');
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
  const copies = /** @type {[string, string][]} */ ([['curl', repeatLine(request, page.base)], ['CLI: explain', page.cli(['explain', request.id])], ...testsOf(request).map(([name, text]) => [`Test: ${name}`, text]), ...(request.status >= 200 ? [['Scenario', scenarioOf(request, request.status)]] : [])]);
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
  const key = page.store.keyOfWorkspace.get(event.workspace ?? '') ?? '';
  const again = oneEvent(event.type, key);
  return h('article', null,
    paneHead(page, event.type, key, event.id, mark('event', 'info'), dateTime(event.created_at)),
    h('p.sentence', null, prose(sentence(explanation.summary))),
    event.damage ? h('p.note', null, prose(event.damage)) : null,
    h('div.actions', null, actionButton(page, { ...again, id: `again ${event.id}`, label: 'Trigger another' }), copyMenu(page, event.id, [['CLI', page.cli(again.cli)], ['CLI: explain', page.cli(['explain', event.id])]])),
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
