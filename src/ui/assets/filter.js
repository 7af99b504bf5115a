// Filters of the list: typed words such as `429 key:sk_test_a operation:system.status since:5m -is:tampered`. Pure.

import { duration, listed, milliseconds, oneLine, reasonOf, statusOf, timeOfDay } from './text.js';

/** @typedef {{not: boolean, name: string, value: string}} Word */

/** What each name looks at; a value may be a part of it, unless `whole` is set. */
export const FILTER_NAMES = /** @type {Record<string, {of: (entry: Entry) => string | null | undefined, whole?: boolean}>} */ ({
  key: { of: (entry) => entry.key },
  operation: { of: (entry) => entry.operation },
  method: { of: (entry) => entry.method, whole: true },
  path: { of: (entry) => entry.path },
  kind: { of: (entry) => entry.kind, whole: true },
  type: { of: (entry) => entry.type },
  subscription: { of: (entry) => entry.subscription },
  scenario: { of: (entry) => entry.scenario },
  id: { of: (entry) => entry.id },
  status: { of: (entry) => (entry.status ? String(entry.status) : null), whole: true },
});

const MARKS = /** @type {Record<string, (entry: Entry) => boolean>} */ ({
  tampered: (entry) => Boolean(entry.damage),
  failed: (entry) => entry.failed,
  forged: (entry) => entry.forged,
  unmatched: (entry) => entry.failed && entry.kind === 'request' && !entry.operation,
  scripted: (entry) => entry.scenario !== null,
});

/** A status, a class of them, or several. */
const STATUS = /^[1-5](\d\d|xx)(,[1-5](\d\d|xx))*$/i;

/** Whether a word has this name. @param {string} name */
const isName = (name) => name in FILTER_NAMES || ['is', 'since', 'until'].includes(name);

/** The words of a filter; a word with spaces is in double quotes. @param {string} text @returns {Word[]} */
export function parseFilter(text) {
  return [...text.matchAll(/(-?)(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/g)].map((found) => {
    const [whole, not, name, inQuotes, bare] = found;
    const value = inQuotes ?? bare;
    const known = name !== undefined && isName(name);
    if (known) return { not: not === '-', name, value };
    if (name === undefined && STATUS.test(value)) return { not: not === '-', name: 'status', value };
    return { not: not === '-', name: '', value: name === undefined ? value : whole.slice(not.length).replace(/"/g, '') };
  });
}

/** Names in a filter that are not those of a field: typing mistakes, or text with a colon. @param {string} text @returns {string[]} */
export function unknownNames(text) {
  return [...text.matchAll(/(?:^|\s)-?([a-z]+):(?!\/)/g)].map(([, name]) => name).filter((name) => !isName(name));
}

/** The problem of a filter, if it has one. @param {string} text @returns {string} */
export function problemOf(text) {
  const names = unknownNames(text).map((name) => `“${name}:”`);
  const marks = parseFilter(text).filter(({ name, value }) => name === 'is' && !(value in MARKS)).map(({ value }) => `“${value}”`);
  return [names.length ? `${listed(names)} is not a field; the filter looks for it as text. Fields: ${Object.keys(FILTER_NAMES).join(', ')}, is, since, until.` : '',
    marks.length ? `${listed(marks)} is not a value of “is:”; values: ${Object.keys(MARKS).join(', ')}.` : ''].filter(Boolean).join(' ');
}

/** A word as it is typed. @param {string} name @param {string} value @returns {string} */
export function filterWord(name, value) {
  const written = /[\s"]/.test(value) || value === '' ? `"${value.replace(/"/g, '')}"` : value;
  return name === 'status' && STATUS.test(value) ? value : `${name}:${written}`;
}

/** Adds a word, once. @param {string} filter @param {string} name @param {string} value @returns {string} */
export function withWord(filter, name, value) {
  const word = filterWord(name, value);
  return filter.split(/\s+/).includes(word) ? filter : `${filter} ${word}`.trim();
}

/** Adds a word, or removes it if it is there. @param {string} filter @param {string} word @returns {string} */
export function toggled(filter, word) {
  const words = filter.split(/\s+/).filter(Boolean);
  return (words.includes(word) ? words.filter((one) => one !== word) : [...words, word]).join(' ');
}

/** @param {Word} word @param {Entry} entry @param {number} now @returns {boolean} */
function holds(word, entry, now) {
  const wanted = word.value.toLowerCase();
  // An id is looked for as one, as any number is a part of some.
  const ids = /^(req|evt|dlv|sub)_/.test(wanted) ? [entry.id, entry.event, entry.subscription] : [];
  if (word.name === '') return [...ids, entry.text, entry.key, entry.mark, entry.scenario, entry.damage, entry.message, timeOfDay(entry.at), statusOf(entry)[0], reasonOf(entry), duration(entry.latency)].some((text) => text?.toLowerCase().includes(wanted));
  if (word.name === 'is') return MARKS[wanted]?.(entry) ?? false;
  if (word.name === 'since' || word.name === 'until') {
    const back = milliseconds(word.value);
    const at = back === null ? Date.parse(word.value) : now - back;
    return Number.isNaN(at) || (word.name === 'since' ? entry.at >= at : entry.at <= at);
  }
  const { of, whole } = FILTER_NAMES[word.name];
  const found = of(entry)?.toLowerCase();
  if (found === undefined) return false;
  if (word.name === 'status') return wanted.split(',').some((one) => (one.endsWith('xx') ? found[0] === one[0] : found === one));
  return whole ? found === wanted : found.includes(wanted);
}

/** A test of entries. `now` is the emulator's time. @param {string} filter @param {number} now @returns {(entry: Entry) => boolean} */
export function matcher(filter, now) {
  const words = parseFilter(filter);
  // No answer has two statuses, so one of those that are typed is meant.
  const isStatus = (/** @type {Word} */ { name, not }) => name === 'status' && !not;
  const [statuses, others] = [words.filter(isStatus), words.filter((word) => !isStatus(word))];
  return (entry) => others.every((word) => holds(word, entry, now) !== word.not) && (!statuses.length || statuses.some((word) => holds(word, entry, now)));
}

/**
 * Whole filters that complete the last word: names, then values that occur.
 * @param {string} filter @param {Entry[]} entries @returns {string[]}
 */
export function completions(filter, entries) {
  const [, before, word] = /** @type {string[]} */ (/^(.*?)(\S*)$/s.exec(filter));
  const [, not, name, part] = /** @type {string[]} */ (/^(-?)(?:([a-z]+):)?(.*)$/s.exec(word));
  /** @type {string[]} */
  let words;
  if (name === undefined) {
    words = [...Object.keys(FILTER_NAMES).map((known) => `${known}:`), ...Object.keys(MARKS).map((mark) => `is:${mark}`), 'since:5m'];
  } else if (name === 'is') {
    words = Object.keys(MARKS).map((mark) => `is:${mark}`);
  } else if (name in FILTER_NAMES) {
    const values = new Set();
    for (let i = entries.length - 1; i >= 0 && i > entries.length - 2000 && values.size < 30; i--) {
      const value = FILTER_NAMES[name].of(entries[i]);
      if (value) values.add(oneLine(value, 80));
    }
    words = [...values].sort().map((value) => filterWord(name, value));
  } else {
    return [];
  }
  const start = name === undefined ? part : `${name}:${part}`;
  const fits = words.filter((candidate) => candidate !== start && (candidate.startsWith(start) || (name === 'status' && candidate.startsWith(part))));
  return fits.slice(0, 12).map((candidate) => `${before}${not}${candidate}`);
}
