// Captured messages in the forms that tools print and save. tests/ui/captures.json has each, as the command line reads it.

import { fromBase64 } from './text.js';

/** @typedef {[string, string]} Header */
/** A message; `body` is null where the capture has none. @typedef {{headers: Header[], body: string | null}} Captured */

/** @param {string} line @returns {boolean} */
const isStart = (line) => /^(HTTP\/|[A-Z]+ (\/|\S*:\/\/|.* HTTP\/))/.test(line.trim());
/** @param {string} line @returns {RegExpExecArray | null} */
const pseudo = (line) => /^:([^:]*):\s*(.*)$/.exec(line.trim());

/** @param {string} line @returns {Header | null} */
function headerLine(line) {
  const argument = /^(?:-H|--header)\s*(['"]?)(.*?)\1\s*\\?$/.exec(line.trim());
  const found = /^([!#-'*+.^-\x60|~\w-]+)\s*:\s*(.*)$/.exec(argument ? argument[2] : line.trim());
  return found ? [found[1].toLowerCase(), found[2]] : null;
}

/** @param {string} line */
const isHead = (line) => isStart(line) || pseudo(line) !== null || headerLine(line) !== null;

/** @param {string[]} lines @returns {Header[]} */
function headersOf(lines) {
  return lines.flatMap((line) => {
    const [, name, value] = pseudo(line) ?? [];
    if (name) return name === 'authority' ? [/** @type {Header} */ (['host', value])] : [];
    const header = isStart(line) ? null : headerLine(line);
    return header ? [header] : [];
  });
}

/** @param {string[]} lines @returns {Captured} */
const headOf = (lines) => ({ headers: headersOf(lines), body: null });

/** @param {string} text @returns {Captured[]} */
function ofText(text) {
  const [first] = text.split('\n', 1);
  const isRaw = isStart(first) || pseudo(first) !== null;
  const blocks = text.split(/(\r?\n\s*?\n)/);
  if (/^curl |^-H/.test(first) || headerLine(first) || isRaw) {
    // Without a request line there may be empty lines between headers.
    const start = blocks.findIndex((block, at) => at > 0 && at % 2 === 0 && (isRaw || !lines(block).every(isHead)));
    const end = start < 0 ? blocks.length : start - 1;
    const body = blocks.slice(end + 1).join('');
    return [{ ...headOf(lines(blocks.slice(0, end).join('\n'))), body: end < blocks.length && (isRaw || body.trim()) ? body : null }];
  }
  // What `curl -v` sent and what came back, or a text with headers in it.
  const sides = text.replaceAll('\r', '').match(/^([<>]) .*(\n\1.*)*/gm)?.map((side) => side.replace(/^. ?/gm, ''));
  return (sides ?? blocks.filter((block) => block.trim() && lines(block).every(isHead))).map((block) => headOf(lines(block)));
}

/** @param {string} text @returns {string[]} */
const lines = (text) => text.split('\n').filter((line) => line.trim());

/** @param {string} name @param {unknown} value @returns {Header[]} */
function valuesOf(name, value) {
  const values = [value ?? []].flat();
  return name.startsWith(':') ? [] : values.map((each) => [name.replace(/^HTTP_.*/, (cgi) => cgi.slice(5).replaceAll('_', '-')).toLowerCase(), String(each)]);
}

/** @param {any} value @returns {Header[]} */
function jsonHeaders(value) {
  if (typeof value === 'string') return headersOf(value.split('\n'));
  if (!Array.isArray(value)) return Object.entries(value ?? {}).flatMap(([name, each]) => valuesOf(name, each));
  if (typeof value[0] === 'string' && !value[0].slice(1).includes(':')) {
    return value.flatMap((name, at) => at % 2 ? [] : valuesOf(name, value[at + 1]));
  }
  return value.flatMap((each) => {
    if (typeof each === 'string') return headersOf([each]);
    return Array.isArray(each) ? valuesOf(String(each[0]), each[1]) : valuesOf(String(each?.name ?? each?.key), each?.value);
  });
}

/** @param {any} fields @returns {string | null} */
function jsonBody(fields) {
  const { postData } = fields;
  const text = postData ? postData.text : [fields.body, fields.rawBody, fields.content, fields.body_base64].find((each) => typeof each === 'string');
  if (typeof text !== 'string') return null;
  const isBase64 = postData ? postData.encoding === 'base64' : fields.isBase64Encoded || text === fields.body_base64;
  return isBase64 ? new TextDecoder().decode(fromBase64(text) ?? new Uint8Array()) : text;
}

/** The objects with headers, other than answers. @param {any} value @returns {Captured[]} */
function find(value) {
  if (Array.isArray(value)) return value.flatMap(find);
  if (value === null || typeof value !== 'object') return [];
  const headers = value.multiValueHeaders ?? value.headers;
  if (headers) return [{ headers: jsonHeaders(headers), body: jsonBody(value) }];
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
