// Commands to paste: every one is a list of words, quoted here for any POSIX shell, and calls of curl with what that needs. Pure.

import { bytesOf, visible } from './text.js';

/**
 * A word of a command: text, or the value of an environment variable with text around it; that before it is ours.
 * @typedef {string | {before?: string, env: string, after?: string}} Word
 */

/** The longest body that is a word of the command: Linux takes words of 128 KiB. */
const MAX_WORD = 30_000;

/** Bytes as a format of `printf`, without what a shell, its history or a terminal acts on. @param {Uint8Array} bytes @returns {string} */
function formatOf(bytes) {
  const escaped = Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte);
    return character === '\n' ? '\\n' : /[^ -~]|[!%'\\]/.test(character) ? `\\${byte.toString(8).padStart(3, '0')}` : character;
  });
  return escaped.join('').replace(/^-/, '\\055');
}

/** Whether every character can be seen, and a terminal acts on none. @param {string} text @returns {boolean} */
function isVisible(text) {
  return !/[\n\t]/.test(text) && visible(text) === text;
}

/** A word as POSIX quotes it. @param {string} text @returns {string} */
function quoted(text) {
  // Nothing that a shell acts on; zsh looks for a program after a `=` in front.
  if (/^(?!=)[\w@%+=:,./-]+$/.test(text)) return text;
  const content = text.replace(/\n+$/, '');
  if (isVisible(content)) return `'${text.replaceAll("'", "'\\''")}'`;
  // A substitution drops the line feeds at the end.
  const ends = text.slice(content.length);
  return `"$(printf '${formatOf(bytesOf(content))}')"${ends && `'${ends}'`}`;
}

/** A command line. @param {Word[]} words @returns {string} */
export function commandOf(words) {
  return words.map((word) => (typeof word === 'string' ? quoted(word) : `"${word.before ?? ''}$${word.env}"${word.after ? quoted(word.after) : ''}`)).join(' ');
}

/**
 * A call of curl that sends exactly this: no globbing, no `@FILE`, no path made shorter, no content type of its own.
 * @param {{options?: string[], method: string, origin: Word, target: string, headers?: ([string, string] | Word)[], body?: Bytes, separator?: string}} call
 * @returns {string}
 */
export function curl({ options = ['-s'], method, origin, target, headers = [], body = '', separator = ' ' }) {
  const isText = typeof body === 'string';
  const hasBody = Boolean(isText ? body : body?.base64);
  const isWord = isText && body.length <= MAX_WORD && isVisible(body);
  /** @type {Word[][]} */
  const lines = [['curl', ...options, '-g', ...methodWords(method, hasBody)]];
  for (const header of headers) lines.push(['-H', Array.isArray(header) ? headerWord(header) : header]);
  if (hasBody && !headers.some((header) => Array.isArray(header) && header[0].toLowerCase() === 'content-type')) lines.push(['-H', 'Content-Type:']);
  if (hasBody) lines.push(isWord ? ['--data-raw', body] : ['--data-binary', '@-']);
  lines.push(targetWords(origin, target));
  const line = lines.map(commandOf).join(separator);
  return hasBody && !isWord ? `printf '${formatOf(bytesOf(body))}' | ${line}` : line;
}

/** @param {string} method @param {boolean} hasBody @returns {string[]} */
function methodWords(method, hasBody) {
  if (method === (hasBody ? 'POST' : 'GET')) return [];
  // Otherwise curl waits for the body of an answer that has none.
  if (method === 'HEAD') return hasBody ? ['-X', 'HEAD', '--ignore-content-length', '-H', 'Connection: close'] : ['-I'];
  return ['-X', method];
}

/** With `;` for an empty value: curl drops a header that ends with `:`. @param {[string, string]} header @returns {string} */
function headerWord([name, value]) {
  return value === '' ? `${name};` : `${name}: ${value}`;
}

/** The URL; a target that curl would change is given apart. @param {Word} origin @param {string} target @returns {Word[]} */
function targetWords(origin, target) {
  if (!/^\/[!"$-[\]-~]*$/.test(target) || /\/(\.|%2e)/i.test(target)) return ['--request-target', target, origin];
  return [typeof origin === 'string' ? origin + target : { ...origin, after: target }];
}
