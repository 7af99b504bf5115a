// From a request: the same answer again as a scenario, and the request as a failing test.

import { activate } from './command.js';
import { h } from './element.js';
import { activeScenarios } from './frame.js';
import { copyButton, pre, save, section } from './parts.js';
import { bytesText, oneLine } from './text.js';

/** Answers that people want to see again, by status: the contract's errors. */
const ERRORS = /** @type {Record<number, string>} */ ({ 401: 'unauthorized', 404: 'not_found', 422: 'validation_error', 429: 'rate_limit_exceeded', 500: 'internal_error' });

/** A string of TOML or of a program; JSON's escapes are those of TOML, Python and JavaScript too. @param {string} text */
const string = (text) => JSON.stringify(text);

/** A JSON value as TOML in one line; without what TOML does not have, and without secrets, which are masked. @param {unknown} value @returns {string} */
function toml(value) {
  if (Array.isArray(value)) return `[${value.filter((one) => one !== null).map(toml).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).filter(([, one]) => one !== null && one !== '…');
  return `{ ${fields.map(([name, one]) => `${string(name)} = ${toml(one)}`).join(', ')} }`;
}

/** A body for a reply: JSON as a table, so that it is sent as JSON again. @param {string} text @returns {string} */
function bodyOf(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? toml(value) : string(text);
  } catch {
    return string(text);
  }
}

/** A scenario whose one rule gives this status to the next such request. @param {RequestDetail} request @param {number} status @returns {string} */
export function scenarioOf(request, status) {
  const route = request.operation ? `operation = ${string(request.operation)}` : `method = ${string(request.method)}, path = ${string(request.path)}`;
  const query = [...new Map(new URLSearchParams(request.query ?? ''))].map(([name, value]) => `query.${string(name)} = ${string(value)}`);
  const hasKey = request.key || request.headers?.some(([header]) => header.toLowerCase() === 'authorization');
  const when = [route, ...query, ...(hasKey ? [] : ['header.authorization = { present = false }'])].join(', ');
  const message = request.status === status ? /"message":\s*("(?:[^"\\]|\\.)*")/.exec(bytesText(request.answer?.body))?.[1] : undefined;
  const reply = status < 400 ? `status = ${status}, body = ${bodyOf(bytesText(request.answer?.body))}` : ERRORS[status] ? `error = ${string(ERRORS[status])}` : `error = "internal_error", status = ${status}`;
  return `title = ${string(`${status} for ${request.operation ?? oneLine(request.path, 100)}`)}\n\n[[rule]]\nwhen = { ${when} }\ntimes = 1\nreply = { ${reply}${message && status >= 400 ? `, message = ${message}` : ''} }\n`;
}

/** The name of that scenario. @param {RequestDetail} request @param {number} status @returns {string} */
function nameOf({ operation }, status) {
  return `again-${status}-${(operation ?? 'request').replace(/[^a-z0-9]+/gi, '-')}`;
}

/** The request as a test that expects success, in each language; with the scenario that refused it, or else it would pass. @param {RequestDetail} request @returns {[string, string][]} */
export function testsOf(request) {
  const path = request.path + (request.query ? `?${request.query}` : '');
  const type = request.headers?.find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  const body = bytesText(request.body);
  const name = `${request.method} ${request.operation ?? request.path}`.replace(/[^A-Za-z0-9]+/g, '_').toLowerCase();
  const { scenario, status } = request;
  // A refusal is answered again from its own text, as the scenario may exist here alone.
  const again = status >= 400 ? scenarioOf(request, status) : '';
  // A quota would have to be used up first.
  const isQuota = !scenario && status === 429;
  const cause = isQuota ? 'The quota' : `Scenario ${scenario}`;
  const isScripted = isQuota || scenario && ['scripted', 'answered', 'subscribed'].includes(request.reason);
  // A refused key is refused again.
  const isKeyless = request.reason === 'unauthorized' && !request.headers?.some(([header]) => header.toLowerCase() === 'authorization');
  const wrong = request.reason === 'unauthorized' && !isKeyless ? 'Bearer not-the-key' : '';
  const python = ['import urllib.request', '', '', `def test_${name}(wrs):`,
    ...(isScripted ? [`    # ${cause} gave this answer.`, `    wrs.scenario(${again ? `toml=${string(again)}` : string(scenario ?? '')})`] : []),
    `    request = urllib.request.Request(wrs.url + ${string(path)}, method=${string(request.method)}, headers=${isKeyless ? '{}' : wrong ? `{"Authorization": "${wrong}"}` : 'dict(wrs.headers)'})`,
    ...(type ? [`    request.add_header("Content-Type", ${string(type)})`] : []),
    ...(body ? [`    request.data = ${string(body)}.encode()`] : []),
    '    assert urllib.request.urlopen(request).status == 200', ''];
  const own = isKeyless ? '{}' : wrong ? `{ authorization: "${wrong}" }` : 'wrs.headers';
  const headers = type ? `{ ...${own}, "content-type": ${string(type)} }` : own;
  const node = ['import assert from "node:assert/strict";', 'import { test } from "node:test";', 'import { withEmulator } from "wrs-emulator";', '',
    `test(${string(`${request.method} ${path}`)}, withEmulator(async (wrs) => {`,
    ...(isScripted ? [`  // ${cause} gave this answer.`, `  await wrs.scenario(${again ? `{ toml: ${string(again)} }` : string(scenario ?? '')});`] : []),
    `  const answer = await fetch(wrs.url + ${string(path)}, { method: ${string(request.method)}, headers: ${headers}${body ? `, body: ${string(body)}` : ''} });`,
    '  assert.equal(answer.status, 200, await answer.text());', '}));', ''];
  const quoted = (/** @type {string} */ text) => `'${text.replace(/'/g, "'\\''")}'`;
  // curl takes the scenario along; only a broken connection has no answer to make one of.
  const scenarioName = nameOf(request, status);
  const isAdded = isScripted && again;
  const added = isAdded ? `printf %s ${quoted(again)} | curl -sS --fail -o /dev/null -X PUT -H 'Content-Type: application/toml' --data-binary @- "$WRS_EMULATOR_URL"/_emulator/scenarios/${scenarioName}\n` : '';
  const active = isAdded ? scenarioName : isScripted ? scenario : '';
  const curl = [`curl -sS --fail-with-body -X ${request.method}`, ...(isKeyless ? [] : [wrong ? `-H "Authorization: ${wrong}"` : '-H "Authorization: Bearer $WRS_API_KEY"']), ...(active ? [`-H ${quoted(`X-Emulator-Scenario: ${active}`)}`] : []), ...(type ? [`-H ${quoted(`Content-Type: ${type}`)}`] : []),
    ...(body ? [`--data-binary ${quoted(body)}`] : []), `"$WRS_BASE_URL"${quoted(path)}`];
  return [['pytest', python.join('\n')], ['node:test', node.join('\n')], ['curl', `${added}${curl.join(' \\\n  ')}\n`]];
}

/** @param {Page} page @param {RequestDetail} request @returns {Node | null} */
export function againPart(page, request) {
  if (page.isDocument) return null;
  if (!request.operation || ['unauthorized', 'refused'].includes(request.reason)) return section('Answer like this next time', h('p.quiet', null, 'An earlier check than that of scenarios decided this request, so no scenario can.'));
  const form = page.ui.forms.again ??= { status: '', written: '' };
  const status = Number(form.status) || (request.status >= 200 ? request.status : 500);
  const key = request.key && !request.key.includes('…') ? request.key : '';
  const name = nameOf(request, status);
  const write = async () => {
    const { ok } = await page.perform({ id: `write ${name}`, label: `Write ${name}`, method: 'PUT', path: `scenarios/${name}`, text: scenarioOf(request, status), cli: [] });
    if (ok) await page.perform(activate([name, ...activeScenarios(page, key).filter((one) => one !== name)], key, `Activate ${name}`));
    form.written = ok ? name : '';
    page.redraw();
  };
  const statuses = [...new Set([status, request.status, ...Object.keys(ERRORS).map(Number)])].filter((one) => one >= 200).sort();
  const change = (/** @type {Event} */ event) => {
    form.status = /** @type {HTMLSelectElement} */ (event.target).value;
    page.redraw();
  };
  return section('Answer like this next time',
    h('div.actions', null,
      h('label', null, 'Status ', h('select', { controlled: String(status), onchange: change }, statuses.map((one) => h('option', { value: String(one) }, String(one))))),
      h('button', { type: 'button', onclick: write }, `Make a scenario of it and activate it${key ? '' : ' for all keys'}`)),
    form.written === name ? h('div', null, h('p', null, `Active${key ? ` for ${key}, which has a list of its own now` : ' for all keys'}, for one request. Raise its times for more; save the file among your scenarios to keep it: `, h('button', { type: 'button', onclick: () => save(`${name}.toml`, scenarioOf(request, status)) }, `Save ${name}.toml`), ' ', copyButton(page, scenarioOf(request, status), 'the scenario')), pre('The scenario', scenarioOf(request, status))) : null);
}

/** @param {Page} page @param {RequestDetail} request @returns {Node} */
export function testPart(page, request) {
  const chosen = page.ui.forms.test ??= '';
  const choose = (/** @type {string} */ name) => () => {
    page.ui.forms.test = name === chosen ? '' : name;
    page.redraw();
  };
  const all = testsOf(request);
  const text = all.find(([name]) => name === chosen)?.[1];
  return section('Copy as a test', h('div.actions', { role: 'group', 'aria-label': 'Test runner' }, all.map(([name]) => h('button', { type: 'button', 'aria-pressed': String(name === chosen), onclick: choose(name) }, name)), text ? copyButton(page, text, 'the test') : null),
    text ? pre('The test', text) : null);
}
