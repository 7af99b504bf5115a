// From a request: the same answer again as a scenario, and the request as a failing test.

import { activate } from './command.js';
import { h } from './element.js';
import { keptPart, pre, section } from './parts.js';
import { curl } from './shell.js';
import { literal, oneLine, visible } from './text.js';

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
export function againPart(page, request) {
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
  const change = (/** @type {Event} */ event) => {
    form.status = /** @type {HTMLSelectElement} */ (event.target).value;
    page.redraw();
  };
  return section('Answer like this next time',
    h('div.actions', null,
      h('label', null, 'Status ', h('select', { controlled: String(status), onchange: change }, statuses.map((one) => h('option', { value: String(one) }, String(one))))),
      h('button', { type: 'button', onclick: write }, `Save as a scenario and activate it${key ? '' : ' for all keys'}`)),
    form.written === name ? h('div', null, h('p', null, `Active${key ? ` for ${key}, which now has its own list` : ' for all keys'}, for one request. Raise its times for more.`), keptPart(page, name, scenarioOf(request, status)), pre('The scenario', scenarioOf(request, status))) : null);
}
