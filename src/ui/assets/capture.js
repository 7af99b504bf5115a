// Captured messages: header lines, `curl -v`, JSON, HAR. tests/ui/captures.json has each, as the command line reads it.

import { fromBase64 } from './text.js';

/** @typedef {[string, string]} Header */
/** A message; `body` is null where the capture has none. @typedef {{headers: Header[], body: string | null}} Captured */

/** @param {string} line @returns {boolean} */
const isStart = (line) => /^(HTTP\/|[A-Z]+ (\/|\S*:\/\/|.* HTTP\/))/.test(line.trim());

/** @param {string} line @returns {Header[]} */
function headerLine(line) {
  const found = isStart(line) ? null : /^([!#-'*+.^-\x60|~\w-]+)\s*:\s*(.*)$/.exec(line.trim());
  return found ? [[found[1].toLowerCase(), found[2]]] : [];
}

/** @param {string} text @returns {string[]} */
const lines = (text) => text.split('\n').filter((line) => line.trim());

/** @param {string} text @returns {Captured[]} */
function ofText(text) {
  const [first] = text.split('\n', 1);
  if (isStart(first) || headerLine(first).length > 0) {
    const [head, , ...rest] = text.split(/(\r?\n\s*?\n)/);
    const body = rest.join('');
    return [{ headers: lines(head).flatMap(headerLine), body: rest.length > 0 && (isStart(first) || body) ? body : null }];
  }
  // What `curl -v` sent and what came back.
  const sides = text.replaceAll('\r', '').match(/^([<>]) .*(\n\1.*)*/gm) ?? [];
  return sides.map((side) => ({ headers: lines(side.replace(/^. ?/gm, '')).flatMap(headerLine), body: null }));
}

/** @param {string} name @param {unknown} value @returns {Header[]} */
function valuesOf(name, value) {
  return name.startsWith(':') ? [] : [value ?? []].flat().map((each) => [name.toLowerCase(), String(each)]);
}

/** @param {any} value @returns {Header[]} */
function jsonHeaders(value) {
  if (!Array.isArray(value)) return Object.entries(value ?? {}).flatMap(([name, each]) => valuesOf(name, each));
  return value.flatMap((each) => Array.isArray(each) ? valuesOf(String(each[0]), each[1]) : valuesOf(String(each?.name), each?.value));
}

/** @param {any} fields @returns {string | null} */
function jsonBody({ postData, body, body_base64: encoded }) {
  const text = postData ? postData.text : body ?? encoded;
  if (typeof text !== 'string') return null;
  const isBase64 = postData ? postData.encoding === 'base64' : body === undefined;
  return isBase64 ? new TextDecoder().decode(fromBase64(text) ?? new Uint8Array()) : text;
}

/** The objects with headers, other than answers. @param {any} value @returns {Captured[]} */
function find(value) {
  if (Array.isArray(value)) return value.flatMap(find);
  if (value === null || typeof value !== 'object') return [];
  if (value.headers) return [{ headers: jsonHeaders(value.headers), body: jsonBody(value) }];
  return Object.entries(value).flatMap(([name, each]) => name === 'answer' || name === 'response' ? [] : find(each));
}

/** All messages in a capture. @param {string} capture @returns {Captured[]} */
export function messagesOf(capture) {
  const text = capture.replace(/^\ufeff?\s*/, '');
  if (!/^[[{]/.test(text)) return ofText(text);
  const parsed = [[text], lines(text)].map((parts) => {
    try {
      return parts.map((part) => JSON.parse(part));
    } catch {
      return null;
    }
  });
  const values = parsed[0] ?? parsed[1] ?? [];
  const found = find(values);
  return found.length > 0 || values.length !== 1 ? found : [{ headers: jsonHeaders(values[0]), body: null }];
}
