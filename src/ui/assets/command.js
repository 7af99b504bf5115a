// Every action as a call of the control API and as the two commands that do the same. Pure.

import { commandOf, curl } from './shell.js';
import { forKey, oneLine, settingText } from './text.js';

/** @typedef {{id: string, label: string, method: string, path: string, body?: Record<string, unknown>, cli: string[], danger?: string, about?: string, text?: string, done?: string, isQuiet?: boolean, isSaid?: boolean, after?: () => void}} Action */

export const DEFAULT_ORIGIN = 'http://127.0.0.1:9770';

/** Headers of the connection, and those that curl sends anyway. */
const CONNECTION = /^(host|content-length|connection|accept|user-agent|accept-encoding|accept-language|sec-.*|transfer-encoding)$/i;

/** A line for the command line. @param {string[]} words @param {string} base @returns {string} */
export function cliLine(words, base) {
  const { origin } = new URL(base);
  const address = origin === DEFAULT_ORIGIN || base.startsWith('file:') ? [] : ['--url', origin];
  return commandOf(['wrs-emulator', ...words, ...address]);
}

/** A first request to copy. @param {string} base @returns {string} */
export function exampleLine(base) {
  return curl({ method: 'GET', headers: [['Authorization', 'Bearer sk_test_local']], origin: base.replace(/\/_emulator\/.*/, ''), target: '/v1/system/status' });
}

/** A line for curl; a control token is taken from the environment. @param {Action} action @param {string} base @param {boolean} token */
export function curlLine({ method, path, body }, base, token) {
  /** @type {([string, string] | import('./shell.js').Word)[]} */
  const headers = body ? [['Content-Type', 'application/json']] : method === 'POST' ? [['X-Emulator-Control', '1']] : [];
  if (token) headers.push({ before: 'Authorization: Bearer ', env: 'WRS_EMULATOR_CONTROL_TOKEN' });
  const { origin, pathname, search } = new URL(path, base);
  return curl({ method, headers, body: body ? JSON.stringify(body) : '', origin, target: pathname + search });
}

/** A client's request as a curl command. Headers of the connection are left out; whoever pastes it fills in a masked key. @param {RequestDetail} request @param {string} base */
export function repeatLine({ method, path, query, headers, body }, base) {
  const origin = /^https?:/.test(base) ? new URL(base).origin : DEFAULT_ORIGIN;
  return curl({ method, headers: headers?.filter(([name]) => !CONNECTION.test(name)), body, origin, target: query == null ? path : `${path}?${query}` });
}

/** A delivery's attempt as curl would send it. @param {AttemptDetail} attempt @returns {string} */
export function attemptLine({ url, request: { headers, body } }) {
  const [, origin, target] = /^([a-z]+:\/\/[^/?#]*)([^]*)$/i.exec(url) ?? ['', url, '/'];
  return curl({ method: 'POST', headers, body, origin, target: target || '/' });
}

/** @param {string} key @returns {string[]} */
export function keyWords(key) {
  return key ? ['--key', key] : [];
}

/** The body's field, if there is a key. @param {string} key @returns {{key?: string}} */
function keyField(key) {
  return key ? { key } : {};
}

/** @param {string} id @returns {Action} */
export function redeliver(id) {
  return { id: `redeliver ${id}`, label: 'Send it again', method: 'POST', path: `deliveries/${encodeURIComponent(id)}/redeliver?wait=5s`, cli: ['deliveries', 'redeliver', id] };
}

/** @param {string} duration @param {string} key @returns {Action} */
export function advance(duration, key) {
  return { id: `advance ${key}`, label: `Advance ${duration}`, method: 'POST', path: 'clock', body: { advance: duration, ...keyField(key) }, cli: ['clock', 'advance', duration, ...keyWords(key)] };
}

/** @param {'frozen' | 'real' | 'auto' | 'follow'} mode @param {string} key @returns {Action} */
export function clockMode(mode, key) {
  const [label, word] = { frozen: ['Freeze', 'freeze'], real: ['Run', 'resume'], auto: ['Advance while a call waits', 'auto'], follow: ['Follow the emulator’s clock', 'follow'] }[mode];
  return { id: `clock ${mode} ${key}`, label, method: 'POST', path: 'clock', body: { mode, ...keyField(key) }, cli: ['clock', word, ...keyWords(key)] };
}

/** @param {string} time @param {string} key @returns {Action} */
export function setClock(time, key) {
  return { id: `set clock ${key}`, label: 'Set', method: 'POST', path: 'clock', body: { set: time, ...keyField(key) }, cli: ['clock', 'set', time, ...keyWords(key)] };
}

/** @param {string[] | null} names null for those of all keys @param {string} key @param {string} label @returns {Action} */
export function activate(names, key, label) {
  const cli = ['scenarios', ...(names?.length ? ['use', ...names] : [names ? 'off' : 'follow'])];
  return { id: `activate ${label}`, label, method: 'POST', path: 'scenarios/active', body: { active: names, ...keyField(key) }, cli: [...cli, ...keyWords(key)] };
}

/** @param {string} key `*` for everything @param {string[]} [kept] the scenarios that are kept in memory alone @returns {Action} */
export function resetOf(key, kept = []) {
  const danger = key === '*'
    ? `This forgets all requests, deliveries, subscriptions, quotas, clocks and changed settings of every key${kept.length ? `, and the scenarios kept only in memory: ${kept.join(', ')}` : ''}.`
    : `This forgets all requests, deliveries, subscriptions, the quota, the clock and the scenarios of ${key}.`;
  return { id: `reset ${key}`, label: key === '*' ? 'Reset everything' : 'Reset', method: 'POST', path: 'reset', body: { key }, cli: key === '*' ? ['reset', '--all'] : ['reset', '--key', key], danger };
}

/** @param {string} id @returns {Action} */
export function unsubscribe(id) {
  return { id: `delete ${id}`, label: 'Delete', method: 'DELETE', path: `subscriptions/${encodeURIComponent(id)}`, cli: ['subscriptions', 'delete', id], danger: `This deletes ${id}. Its events go nowhere from now on.` };
}

/** @param {string} id @param {boolean} on @returns {Action} */
export function enable(id, on) {
  return { id: `enable ${id}`, label: on ? 'Enable' : 'Disable', method: 'PUT', path: `subscriptions/${encodeURIComponent(id)}`, body: { status: on ? 'active' : 'disabled' }, cli: ['subscriptions', on ? 'enable' : 'disable', id] };
}

/** @param {string} id @returns {Action} */
export function rotate(id, grace = 'a while') {
  return { id: `rotate ${id}`, label: 'New secret', method: 'POST', path: `subscriptions/${encodeURIComponent(id)}/rotate`, cli: ['subscriptions', 'rotate', id], danger: `This makes a new secret. The old one also signs for ${grace}.` };
}

/** @param {string} url @param {string[]} events @param {string} key @returns {Action} */
export function subscribe(url, events, key) {
  const types = events.length ? { events } : {};
  const words = events.length ? ['--events', events.join(',')] : [];
  return { id: `subscribe ${key}`, label: 'Subscribe', method: 'POST', path: 'subscriptions', body: { url, ...types, ...keyField(key) }, cli: ['subscriptions', 'create', url, ...words, ...keyWords(key)] };
}

/** @param {string} settingName @param {unknown} value null takes the change back @param {string} key @returns {Action} */
export function changeSetting(settingName, value, key) {
  const path = key ? `profile?key=${encodeURIComponent(key)}` : 'profile';
  const cli = value === null ? ['profile', 'unset', settingName] : ['profile', 'set', `${settingName}=${settingText(value)}`];
  return { id: `set ${settingName}`, label: value === null ? 'Undo the change' : 'Set', method: 'PATCH', path, body: { [settingName]: value }, cli: [...cli, ...keyWords(key)] };
}

/**
 * Advice as an action of the page; null for advice that is only to be copied. `scenario` is the one that gave the answer.
 * @param {Advice} advice @param {string | null} scenario @returns {Action | null}
 */
export function actionOf(advice, scenario) {
  const key = ('key' in advice && advice.key) || '';
  const whom = forKey(key, ' for all keys');
  switch (advice.do) {
    case 'use_scenarios': {
      const { active } = advice;
      return activate(active, key, scenario ? `Turn ${scenario} off${whom}` : active.length ? `Use ${active.join(', ')}${whom}` : `Turn scenarios off${whom}`);
    }
    case 'advance_clock':
      return { ...advance(advice.advance, key), label: `Advance the clock by ${advice.advance}` };
    case 'resume_clock':
      return clockMode('real', key);
    case 'automate_clock':
      return clockMode('auto', key);
    case 'set':
      return { ...changeSetting(advice.setting, /^\d+$/.test(advice.value) ? Number(advice.value) : advice.value, key), label: `Set ${advice.setting} to ${advice.value}${whom}` };
    case 'forward':
      return { id: `forward ${advice.url}`, label: `Forward ${advice.url} to ${advice.to}`, method: 'PATCH', path: 'profile', body: { webhooks: { forwards: { [advice.url]: advice.to } } }, cli: ['forwards', 'add', `${advice.url}=${advice.to}`] };
    case 'redeliver':
      return redeliver(advice.id);
    case 'enable_subscription':
      return enable(advice.id, true);
    default:
      return null;
  }
}

/** Advice as a command, for what the page does not do itself. @param {Advice} advice @param {string} base @returns {string} */
export function commandOfAdvice(advice, base) {
  const flag = (/** @type {string} */ name, /** @type {unknown} */ value) => (value === null || value === undefined ? [] : [name, String(value)]);
  switch (advice.do) {
    case 'follow_scenarios':
      return cliLine(['scenarios', 'follow', ...keyWords(advice.key ?? '')], base);
    case 'list_scenarios':
      return cliLine(['scenarios', 'list'], base);
    case 'subscribe':
      return cliLine(['subscriptions', 'create', advice.url, ...keyWords(advice.key ?? '')], base);
    case 'listen':
      return cliLine(['listen', '--forward-to', advice.url, ...keyWords(advice.key ?? '')], base);
    case 'show_secret':
      return cliLine(['subscriptions', 'show', advice.id, '--secret'], base);
    case 'fire':
      return cliLine(['trigger', advice.type, ...flag('--tamper', advice.tamper), ...flag('--duplicate', advice.duplicate), ...keyWords(advice.key ?? '')], base);
    case 'explain':
      return cliLine(['explain', advice.id], base);
    case 'show_delivery':
      return cliLine(['deliveries', 'show', advice.id], base);
    case 'list_requests':
      return cliLine(['requests', 'list', '--key', advice.key], base);
    case 'review_findings':
      return cliLine(['review', 'findings'], base);
    case 'verify': {
      const { body, headers, now, scheme, secret_key: reading } = advice;
      const words = ['verify', body === null ? 'BODY-FILE' : '-', ...headers.flatMap((header) => ['--header', header])];
      const line = commandOf(['wrs-emulator', ...words, ...flag('--now', now), ...flag('--scheme', scheme), ...flag('--secret-key', reading)]);
      return body === null ? line : `${commandOf(['printf', '%s', body ?? ''])} | ${line}`;
    }
    default:
      return cliLine(/** @type {Action} */ (actionOf(advice, null)).cli, base);
  }
}

/** Advice as an option of the next run, for a report whose emulator may have ended; null if there is none. @param {Advice} advice @returns {string | null} */
export function optionOfAdvice(advice) {
  switch (advice.do) {
    case 'forward':
      return commandOf(['--forward', `${advice.url}=${advice.to}`]);
    case 'set':
      return commandOf(['--set', `${advice.setting}=${advice.value}`]);
    case 'use_scenarios':
      return advice.active.length === 1 && !advice.key ? commandOf(['--scenario', advice.active[0]]) : null;
    default:
      return null;
  }
}

/** What a form of an event begins with. */
export const ONE_EVENT = { type: '', data: '', subscription: '', count: 1, delay: '', tamper: '', duplicate: 1, shuffle: false, drop: false };

/** An event with its usual data. @param {string} type @param {string} key @param {string} [subscription] @returns {Action} */
export function oneEvent(type, key, subscription = '') {
  return trigger({ ...ONE_EVENT, type, key, subscription });
}

/** @param {{type: string, data: string, key: string, subscription: string, count: number, delay: string, tamper: string, duplicate: number, shuffle: boolean, drop: boolean}} form @returns {Action} */
export function trigger(form) {
  /** @type {Record<string, unknown>} */
  const body = { type: form.type, ...keyField(form.key) };
  const cli = ['trigger', form.type, ...keyWords(form.key)];
  if (form.data.trim()) {
    body.data = JSON.parse(form.data);
    cli.push('--data-json', JSON.stringify(body.data));
  }
  for (const name of /** @type {const} */ (['subscription', 'delay', 'tamper'])) {
    if (form[name]) {
      body[name] = form[name];
      cli.push(`--${name}`, form[name]);
    }
  }
  for (const name of /** @type {const} */ (['count', 'duplicate'])) {
    if (form[name] > 1) {
      body[name] = form[name];
      cli.push(`--${name}`, String(form[name]));
    }
  }
  for (const name of /** @type {const} */ (['shuffle', 'drop'])) {
    if (form[name]) {
      body[name] = true;
      cli.push(`--${name}`);
    }
  }
  return { id: `trigger ${form.key}`, label: 'Trigger', method: 'POST', path: 'events?wait=5s', body, cli: [...cli, '--wait'] };
}

/** The message that the page shows for the answer to a call. @param {any} data @param {string} [done] @returns {string} */
export function outcomeOf(data, done = 'Done.') {
  if (data?.error) {
    const more = data.diagnostics?.[0]?.message ?? '';
    return data.error.message.includes(more) ? data.error.message : `${data.error.message}: ${more}`;
  }
  if (data?.secret) return `The secret, shown once: ${data.secret}`;
  if (data?.changes) return [...data.changes, ...data.unchanged].join('; ') || 'Nothing changed.';
  if (data?.own_lists?.length) return `${data.active.join(', ') || 'Off'} for all keys except those with their own list: ${oneLine(data.own_lists.map((/** @type {any} */ one) => one.key).join(', '))}.`;
  if (data?.now) return `The clock is at ${data.now}.`;
  if (data?.events) return `${data.events.length} fired: ${(data.deliveries ?? []).map((/** @type {any} */ one) => `${one.url} ${one.forgery ? `forgery ${one.forgery} with ${one.last?.status}` : one.status}`).join(', ') || 'no outcome yet'}`;
  return done;
}
