// Signatures of webhooks: the signed content taken apart, keys read from secrets, headers checked; and captured messages: header lines,
// `curl -v`, JSON, HAR, of which tests/ui/captures.json has each, as the command line reads it. Pure but for WebCrypto.

import { fromBase64, toBase64, toHex } from './text.js';

/**
 * A scheme: its headers, what is signed, how a signature is written.
 * @typedef {{signature: string, id?: string, time?: string, base64: boolean, signed: (id: string, time: string) => string, keyIsText?: boolean}} Scheme
 * @typedef {{role: 'id' | 'time' | 'body' | 'rest', text: string}} Part
 */

/** @type {Record<string, Scheme>} */
export const SCHEMES = {
  standard: { signature: 'webhook-signature', id: 'webhook-id', time: 'webhook-timestamp', base64: true, signed: (id, time) => `${id}.${time}.` },
  svix: { signature: 'svix-signature', id: 'svix-id', time: 'svix-timestamp', base64: true, signed: (id, time) => `${id}.${time}.` },
  stripe: { signature: 'stripe-signature', base64: false, signed: (_, time) => `${time}.`, keyIsText: true },
  github: { signature: 'x-hub-signature-256', id: 'x-github-delivery', base64: false, signed: () => '', keyIsText: true },
  slack: { signature: 'x-slack-signature', time: 'x-slack-request-timestamp', base64: false, signed: (_, time) => `v0:${time}:`, keyIsText: true },
  shopify: { signature: 'x-shopify-hmac-sha256', id: 'x-shopify-webhook-id', base64: true, signed: () => '', keyIsText: true },
};

/** @param {[string, string][]} headers @param {string | undefined} name @returns {string | undefined} */
export function headerOf(headers, name) {
  return name === undefined ? undefined : headers.find(([known]) => known.toLowerCase() === name)?.[1];
}

/** The schemes whose signature header is there. @param {[string, string][]} headers @returns {string[]} */
export function schemesOf(headers) {
  return Object.keys(SCHEMES).filter((name) => headerOf(headers, SCHEMES[name].signature) !== undefined);
}

/** Id, time and signatures as the headers of a scheme have them. @param {Scheme} scheme @param {[string, string][]} headers */
export function signatureHeaders(scheme, headers) {
  // Each value of a repeated header counts.
  const value = headers.filter(([name]) => name.toLowerCase() === scheme.signature).map(([, each]) => each).join(' ');
  const id = headerOf(headers, scheme.id) ?? '';
  const fields = value.split(/[\s,]+/).filter(Boolean);
  const time = headerOf(headers, scheme.time) ?? fields.find((field) => field.startsWith('t='))?.slice(2) ?? '';
  const signatures = fields.filter((field) => !/^(t=.*|v\d+a?)$/.test(field)).map((field) => field.replace(/^(v\d+|sha256)=(?=.)/, ''));
  return { id, time, signatures };
}

/** Signed content in its parts, where they can be found. @param {string} signed @param {{id: string, time: string, body: string}} known @returns {Part[]} */
export function takenApart(signed, { id, time, body }) {
  /** @type {Part[]} */
  const parts = [];
  const add = (/** @type {Part['role']} */ role, /** @type {string} */ text) => {
    if (text) parts.push({ role, text });
  };
  // The body is last. If it was falsified, it is not what was signed: then the part from the first brace on is the body.
  const start = body && signed.endsWith(body) ? signed.length - body.length : Math.max(0, signed.search(/[[{]/));
  let head = signed.slice(0, start);
  const at = id ? head.indexOf(id) : -1;
  if (at >= 0) {
    add('rest', head.slice(0, at));
    add('id', id);
    head = head.slice(at + id.length);
  }
  // The time that was signed may differ from the header's.
  const found = time && head.includes(time) ? { 0: time, index: head.indexOf(time) } : /\d{9,}/.exec(head);
  if (found?.index !== undefined && found.index >= 0) {
    add('rest', head.slice(0, found.index));
    add('time', found[0]);
    head = head.slice(found.index + found[0].length);
  }
  add('rest', head);
  add('body', signed.slice(start));
  return parts;
}

/** Where two texts differ: what both begin with, what each has in the middle, what both end with. @param {string} one @param {string} other */
export function difference(one, other) {
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  return { before: one.slice(0, start), one: one.slice(start, one.length - end), other: other.slice(start, other.length - end), after: one.slice(one.length - end) };
}

/** What a secret may mean as a key: readings in words with their bytes. @param {string} secret @param {Scheme} scheme */
export function keyReadings(secret, scheme) {
  const text = new TextEncoder().encode(secret);
  const bytes = fromBase64(secret.replace(/^whsec_/, ''));
  const readings = [{ name: `the text itself, ${text.length} bytes`, key: text }];
  if (bytes?.length) readings.push({ name: `base64${secret.startsWith('whsec_') ? ' after whsec_' : ''}, ${bytes.length} bytes`, key: bytes });
  return scheme.keyIsText ? readings : readings.reverse();
}

/** @param {Scheme} scheme @param {Uint8Array<ArrayBuffer>} key @param {Uint8Array<ArrayBuffer>} content @returns {Promise<string>} */
export async function signatureOf(scheme, key, content) {
  const made = await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  const bytes = new Uint8Array(await crypto.subtle.sign('HMAC', made, content));
  return scheme.base64 ? toBase64(bytes) : toHex(bytes);
}

/** What comes with a secret from a file or a page, as `undecorated` of the command line removes it. @type {[string, (text: string) => string][]} */
const DECORATIONS = [
  ['the white space around it', (text) => text.replace(/^[^\S\ufeff]+|[^\S\ufeff]+$/g, '')],
  ['the invisible characters around it', (text) => text.replace(/^[\ufeff\u200b\u2060]+|[\ufeff\u200b\u2060]+$/g, '')],
  ['the `\\n` at its end', (text) => text.replace(/\\n$/, '')],
  ['the punctuation at its end', (text) => text.replace(/[,;]+$/, '')],
  ['the name in front of it', (text) => text.replace(/^(export |set |\$env:)?\s*(["']?)[\w-]+\2\s*(=|:(?= ))\s*(?=.*[^=])/s, '')],
  ['the quotes around it', (text) => text.replace(/^(?:(["'\x60])(.*)\1|[“‘](.*)[”’])$/s, '$2$3')],
  ['the `v1,` in front of it', (text) => text.replace(/^v1,/, '')],
];

/** A secret without what came with it, and what that was. @param {string} secret @returns {[string, string[]]} */
export function undecorated(secret) {
  /** @type {Set<string>} */
  const names = new Set();
  let text = secret;
  for (;;) {
    const found = DECORATIONS.map(([name, strip]) => /** @type {const} */ ([name, strip(text)])).find(([, shorter]) => shorter && shorter !== text);
    if (!found) return [text, [...names]];
    names.add(found[0]);
    text = found[1];
  }
}

/** Bodies that a receiver may have signed by mistake. @param {string} body @returns {[string, string][]} */
export function bodyVariants(body) {
  /** @type {[string, string][]} */
  const variants = [['the body as it is', body]];
  if (/\r?\n$/.test(body)) variants.push(['the body without its last line end', body.replace(/\r?\n$/, '')]);
  else variants.push(['the body with a line end', `${body}\n`]);
  if (body.includes('\r\n')) variants.push(['the body with LF line ends', body.replace(/\r\n/g, '\n')]);
  try {
    const value = JSON.parse(body);
    variants.push(['the body as compact JSON', JSON.stringify(value)], ['the body as JSON, indented by 2', JSON.stringify(value, null, 2)]);
  } catch {
    // It is not JSON.
  }
  return variants;
}

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

/** The message to check: the last that is signed. @param {string} capture */
function captured(capture) {
  const messages = messagesOf(capture);
  return messages.findLast(({ headers }) => schemesOf(headers).length > 0) ?? messages.at(-1) ?? { headers: [], body: null };
}

/**
 * Checks a pasted capture with its body, or with this one. Gives what was found, in words.
 * @param {string} capture @param {string} given the body, if the capture has none @param {string} secret @param {number} now in milliseconds
 * @returns {Promise<{ok: boolean, summary: string, findings: string[], expected?: string, found?: string, content?: Part[]}>}
 */
export async function checkSignature(capture, given, secret, now) {
  const message = captured(capture);
  const { headers } = message;
  const body = given || (message.body ?? '');
  const [name] = schemesOf(headers);
  if (!name) {
    const names = Object.values(SCHEMES).map((scheme) => scheme.signature).join(', ');
    return { ok: false, summary: 'These headers have no signature header.', findings: [`Known ones: ${names}. Write each header on its own line, as name: value.`] };
  }
  const scheme = SCHEMES[name];
  const { id, time, signatures } = signatureHeaders(scheme, headers);
  const findings = [`The headers are those of the scheme ${name}.`];
  if (scheme.id && !id && scheme.signed('x', '').includes('x')) findings.push(`The header ${scheme.id} is missing.`);
  if (scheme.signed('', 'x').includes('x')) {
    const off = Math.round(now / 1000 - Number(time));
    if (!time) findings.push('The time is missing.');
    else if (Math.abs(off) > 300) findings.push(`The time is ${Math.abs(off)} s ${off > 0 ? 'in the past' : 'in the future'}; libraries accept 300 s.`);
  }
  const prefix = scheme.signed(id, time);
  const content = takenApart(prefix + body, { id, time, body });
  if (!secret) return { ok: false, summary: 'Without the secret only the form can be checked.', findings, content };
  if (!globalThis.crypto?.subtle) {
    return { ok: false, summary: 'This browser computes signatures only at https or localhost addresses. Use wrs-emulator verify.', findings, content };
  }
  const encoder = new TextEncoder();
  const [plain, decorations] = undecorated(secret);
  const secrets = plain === secret ? [secret] : [secret, plain];
  let expected = '';
  for (const [variant, text] of bodyVariants(body)) {
    for (const each of secrets) {
      for (const reading of keyReadings(each, scheme)) {
        const signature = await signatureOf(scheme, reading.key, encoder.encode(prefix + text));
        expected ||= signature;
        if (!signatures.includes(signature)) continue;
        const exact = text === body && each === secret;
        if (each !== secret) findings.push(`The signature is right for the secret without ${decorations.join(' and ')}.`);
        findings.push(`The key is the secret read as ${reading.name}.`);
        if (text !== body) findings.push(`What was signed is ${variant}: verify the bytes as they came.`);
        return { ok: exact, summary: exact ? 'The signature is right.' : 'The signature would be right for something slightly different.', findings, content };
      }
    }
  }
  if (/^\s*(\{\}|null|undefined|None|\[object .*)?\s*$/.test(body)) findings.push('The body is empty, as if something had read or parsed it before: keep the raw bytes.');
  findings.push('Check that the body is the raw bytes received, and that the secret is the subscription’s.');
  return { ok: false, summary: 'The signature is wrong.', findings, expected, found: signatures[0] ?? '', content };
}
