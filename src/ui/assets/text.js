// Text for people: any characters made visible, times, durations, counts, bytes. Knows no DOM.

// Control characters except tab and line feed, characters that change the direction or are invisible, and unpaired surrogates.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const MAX_SHOWN = 200_000;

/** Writes numbers with groups of three digits; made once, as that takes long. */
export const NUMBERS = new Intl.NumberFormat('en');

/** Text with something else for each character that cannot be seen. @param {string} text @param {(character: string) => string} replacement */
export function replaceInvisible(text, replacement) {
  return text.replace(INVISIBLE, replacement);
}

/**
 * Text in which every character can be seen: control, direction and invisible characters are written as escapes.
 * @param {unknown} value @returns {string}
 */
export function visible(value) {
  const text = typeof value === 'string' ? value : String(value);
  const part = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}… (${text.length - MAX_SHOWN} more characters)` : text;
  return replaceInvisible(part, (c) => `\\u{${c.charCodeAt(0).toString(16).padStart(2, '0')}}`);
}

/**
 * A string as TOML, Python and JavaScript write it: they share the escapes of JSON. Nothing invisible is in it, and no half of a
 * surrogate pair, which TOML and UTF-8 do not have.
 * @param {string} text @returns {string}
 */
export function literal(text) {
  const wellFormed = text.replace(/\p{Surrogate}/gu, '\ufffd');
  return replaceInvisible(JSON.stringify(wellFormed), (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** One line of at most so many characters. @param {unknown} value @param {number} most @returns {string} */
export function oneLine(value, most = 300) {
  const text = typeof value === 'string' ? value : String(value ?? '');
  const part = text.length > most ? `${text.slice(0, most)}…` : text;
  return part.replace(/\n/g, '\\n').replace(/\t/g, '\\t');
}

/** Bytes of the control API as text, with a note where they are not text. @param {Bytes | undefined | null} bytes */
export function bytesText(bytes) {
  if (bytes == null) return '';
  return typeof bytes === 'string' ? bytes : `(not UTF-8, base64) ${bytes.base64}`;
}

/** Bytes of the control API as bytes. @param {Bytes | undefined | null} bytes @returns {Uint8Array<ArrayBuffer>} */
export function bytesOf(bytes) {
  if (bytes == null || typeof bytes === 'string') return new TextEncoder().encode(bytes ?? '');
  return fromBase64(bytes.base64) ?? new Uint8Array();
}

/** Base64, standard or URL-safe, padded or not. @param {string} text @returns {Uint8Array<ArrayBuffer> | null} */
export function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

/** @param {Uint8Array} bytes @returns {string} */
export function toBase64(bytes) {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}

/** @param {Uint8Array} bytes @returns {string} */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A body, indented if it is JSON. @param {Bytes | undefined | null} bytes @returns {string} */
export function prettyBody(bytes) {
  const text = bytesText(bytes);
  if (!/^\s*[[{]/.test(text) || text.length > MAX_SHOWN) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/**
 * A key as short as it can be told apart: without a prefix that all keys share, and without its middle.
 * @param {string} key @param {string[]} all @param {number} [most] @returns {string}
 */
export function shortKey(key, all, most = 24) {
  const prefix = /^[a-z]+_[a-z]+_/.exec(key)?.[0] ?? '';
  const rest = all.every((one) => one.startsWith(prefix)) ? key.slice(prefix.length) : key;
  const head = Math.floor(most / 3);
  return rest.length > most ? `${rest.slice(0, head)}…${rest.slice(head + 1 - most)}` : rest;
}

/** Whom something is for, in a label. @param {string} key @param {string} [all] without a key */
export function forKey(key, all = '') {
  return key ? ` for ${shortKey(key, [''])}` : all;
}

/** When a record was made, as a ULID says; 0 if its id is none. @param {string} id @returns {number} */
export function timeOfId(id) {
  const digits = /^[a-z]+_([0-9a-z]{26})$/.exec(id)?.[1].slice(0, 10) ?? '';
  return [...digits].reduce((at, digit) => at * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit), 0);
}

/** A test's name without its file. @param {string} test @returns {string} */
export function nameOfTest(test) {
  return /^.*?\.\w+(?:::|: )(.+)$/s.exec(test)?.[1] ?? test;
}

/** `1 attempt`, `2 attempts`. @param {number} number @param {string} noun @param {string} [many] */
export function count(number, noun, many) {
  return `${NUMBERS.format(number)} ${number === 1 ? noun : many ?? `${noun}s`}`;
}

/** A summary as a sentence, or nothing. @param {string | undefined} summary @returns {string} */
export function sentence(summary) {
  return summary ? `${capital(summary)}.` : '';
}

/** `a`, `a and b`, `a, b and c`. @param {string[]} words @param {string} last @returns {string} */
export function listed(words, last = 'and') {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${last} ${words[words.length - 1]}`;
}

/** Time of day, UTC, with milliseconds. @param {number} at @returns {string} */
export function timeOfDay(at) {
  return Number.isFinite(at) && Math.abs(at) < 8.64e15 ? new Date(at).toISOString().slice(11, 23) : 'at no time';
}

/** Date and time, UTC. @param {string | null | undefined} at @returns {string} */
export function dateTime(at) {
  return oneLine(at ?? '', 60).replace('T', ' ').replace('Z', ' UTC');
}

/** Milliseconds in the largest unit that fits. @param {number | null | undefined} ms @returns {string} */
export function duration(ms) {
  if (ms == null || !Number.isFinite(ms)) return 'unknown';
  if (ms < 1000) return `${ms < 10 ? Math.round(ms * 100) / 100 : Math.round(ms)} ms`;
  const [tenths, seconds] = [Math.round(ms / 100), Math.round(ms / 1000)];
  if (tenths < 600) return `${tenths / 10} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How far a clock was moved, if it was. @param {number} ms @returns {string} */
export function distance(ms) {
  return ms ? `${duration(Math.abs(ms))} ${ms > 0 ? 'ahead' : 'behind'}` : '';
}

/** A duration such as `5m` or `1h30m` in milliseconds, else null. @param {string} text @returns {number | null} */
export function milliseconds(text) {
  const units = /** @type {Record<string, number>} */ ({ ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 });
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return null;
  return [...text.matchAll(/([\d.]+)(ms|[smhd])/g)].reduce((sum, part) => sum + Number(part[1]) * units[part[2]], 0);
}

/** A value of a setting as it is written after `=`. @param {unknown} value @returns {string} */
export function settingText(value) {
  return typeof value === 'string' ? value : JSON.stringify(value) ?? 'null';
}

/** A sentence with a capital at its beginning, unless a name such as `sk_test_` begins it. @param {string | null | undefined} text @returns {string} */
export function capital(text) {
  return text && /^[a-z]+(?![\w.=])/.test(text) ? text[0].toUpperCase() + text.slice(1) : text ?? '';
}

/** The message of whatever was thrown. @param {unknown} error @returns {string} */
export function messageOf(error) {
  if (error instanceof TypeError && /fetch|network/i.test(error.message)) return 'the emulator does not answer; is it still running?';
  return error instanceof Error ? error.message : String(error);
}

/** Whether the receiver refused what was sent, which is right for a forgery; no answer and a fault of its own prove nothing. @param {{status: number}} answer */
export function isRefused({ status }) {
  return status >= 400 && status < 500;
}

/** Failures at which no receiver was there to answer. */
const UNREACHED = ['name_not_found', 'connection_refused', 'connect_timeout', 'subscription_gone'];

/** Whether an attempt found no receiver. @param {{outcome: AttemptDetail['outcome']}} attempt */
export function isUnreached({ outcome }) {
  return !('status' in outcome) && UNREACHED.includes(outcome.failure);
}

/** What a status is called, the class of its colour, and its symbol. @param {Entry} entry @returns {[string, string, string]} */
export function statusOf(entry) {
  const { kind, failed, status, forged, scenario } = entry;
  switch (kind) {
    case 'event':
      return ['event', failed ? 'warn' : 'info', 'bolt'];
    case 'notice':
      return failed ? ['warning', 'warn', 'warn'] : ['notice', 'quiet', 'dot'];
    case 'delivery':
      if (forged && failed) return [String(status), 'bad', 'cross'];
      if (forged && isRefused(entry)) return [String(status), 'ok', 'check'];
      return [status ? String(status) : 'failed', failed ? 'bad' : forged ? 'quiet' : 'ok', 'send'];
    default:
      if (!status) return ['broken', scenario ? 'info' : 'bad', 'cut'];
      if (scenario && !failed && status >= 400) return [String(status), 'info', 'dot'];
      return status >= 500 ? [String(status), 'bad', 'cross'] : status >= 400 ? [String(status), 'warn', 'warn'] : [String(status), 'ok', 'check'];
  }
}

/** The scenario that gave a request its answer, broke its connection, or held its answer back until the client left; none for one that only delayed or changed an answer of the API. @param {Entry} entry */
export function scenarioOfAnswer({ status, mark, scenario }) {
  return !status || mark === 'scripted' ? scenario : null;
}

/** Reasons of refusals whose error had no message. @type {Record<string, string>} */
const REASONS = {
  invalid: 'the request is not valid', rate_limited: 'the quota is used up', unauthorized: 'the key is missing or not valid', not_found: 'there is nothing at this path',
  method_not_allowed: 'the path does not accept this method', announced: 'not available yet', panicked: 'the emulator failed', scripted: '', answered: '',
  client_left: 'the client closed the connection before the answer',
};

/** The reason of an outcome, in a few words. @param {Entry} entry @returns {string} */
export function reasonOf(entry) {
  const { kind, forged, failed, status, number, mark, damage, message, quota } = entry;
  if (forged) return failed ? `forgery accepted with ${status}` : isRefused(entry) ? `forgery refused with ${status}` : `forged, ${mark}`;
  if (kind === 'delivery') return [number > 1 ? `attempt ${number}` : '', mark].filter(Boolean).join(', ');
  // Without the command or setting that asked for it.
  if (damage) return damage.replace(/ \(.*/, '');
  const words = message || (status >= 400 || !status ? REASONS[mark] ?? mark.replace(/_/g, ' ') : '');
  if (kind !== 'request') return failed ? mark.replace(/_/g, ' ') : '';
  const scenario = status >= 400 ? scenarioOfAnswer(entry) : entry.scenario;
  return [scenario ?? '', failed || scenario ? words : ''].filter(Boolean).join(': ') || (quota ? `${NUMBERS.format(quota.remaining)} of ${NUMBERS.format(quota.limit)} left` : '');
}
