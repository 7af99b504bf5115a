// The state of the page: the run document, the entries of the journal as rows, and details fetched. Knows neither DOM nor network.

import { count, isUnreached, oneLine } from './text.js';

/** Rows of each kind that a tab keeps; the oldest are dropped in batches. */
export const MAX_ROWS = 10_000;
const BATCH = 1000;
const MAX_DETAILS = 60;
const MAX_TEXT = 240;

/** @param {string | null | undefined} at @returns {number} */
function instant(at) {
  const time = Date.parse(at ?? '');
  return Number.isNaN(time) ? 0 : time;
}

/**
 * What every row has, in one order, so that all rows have one shape.
 * @param {EntryKind} kind @param {string} id @param {string | null | undefined} at @param {Partial<Entry>} rest @returns {Entry}
 */
function entry(kind, id, at, rest) {
  const blank = {
    kind, id, at: instant(at), text: '', workspace: null, key: null, status: 0, operation: null, method: null, path: null,
    type: null, scenario: null, damage: null, forged: false, failed: false, subscription: null, event: null, number: 0, latency: 0, mark: '', message: '', quota: null, unreached: false, superseded: false,
  };
  return Object.assign(blank, rest);
}

/** A request's row. A rule that only delays or changes an answer leaves the refusal to the API. @param {RequestRow} row @returns {Entry} */
export function requestEntry(row) {
  if (typeof row.path !== 'string') throw new Error('no path');
  const isScripted = row.reason === 'scripted';
  const path = oneLine(row.path + (row.query ? `?${row.query}` : ''), MAX_TEXT);
  return entry('request', row.id, row.at, {
    text: `${oneLine(row.method, 20)} ${path}`, workspace: row.workspace, key: row.key, status: row.status, operation: row.operation, method: row.method,
    path, scenario: row.scenario, failed: !isScripted && !row.incidental && (row.status === 0 || row.status >= 400), latency: row.latency_ms, mark: row.broken ?? row.reason,
    message: oneLine(row.error, MAX_TEXT), quota: row.quota ?? null,
  });
}

/** An event's row. @param {EventRow} event @returns {Entry} */
export function eventEntry(event) {
  const to = event.deliveries.length ? `to ${count(event.deliveries.length, 'subscription')}` : 'matched no subscription';
  return entry('event', event.id, event.created_at, {
    text: `${oneLine(event.type, 80)} ${to}`, workspace: event.workspace, type: event.type, damage: event.damage, event: event.id,
    failed: event.deliveries.length === 0, mark: to,
  });
}

/** The row of one attempt of a delivery. @param {StreamedAttempt} attempt @returns {Entry} */
export function attemptEntry(attempt) {
  const { outcome } = attempt;
  const answered = 'status' in outcome;
  return entry('delivery', attempt.delivery, attempt.at, {
    text: `${oneLine(attempt.url.replace(/^https:\/\//, ''), MAX_TEXT)} · ${oneLine(attempt.type, 80)}`, workspace: attempt.workspace ?? null, status: answered ? outcome.status : 0,
    type: attempt.type, path: oneLine(attempt.url, MAX_TEXT), damage: attempt.damage, forged: Boolean(attempt.forged), failed: Boolean(attempt.forged) === outcome.accepted, subscription: attempt.subscription, event: attempt.event,
    number: attempt.number, latency: attempt.latency_ms, unreached: isUnreached(attempt), mark: answered ? outcome.accepted ? '' : `answered ${outcome.status}` : outcome.failure.replace(/_/g, ' '),
  });
}

/** A line of the log as a row. @param {Notice} notice @param {string} id @returns {Entry} */
export function noticeEntry(notice, id) {
  const text = oneLine(notice.message, MAX_TEXT);
  return entry('notice', id, notice.at, { text, key: notice.key ?? null, failed: notice.warning, mark: notice.warning ? 'warning' : 'notice' });
}

/** The row of a record, whatever form that has. @template T @param {string} what @param {T} record @param {(record: T) => Entry} make @returns {Entry} */
function madeOf(what, record, make) {
  try {
    return make(record);
  } catch {
    return entry('notice', '', null, { text: oneLine(`this ${what} could not be read: ${JSON.stringify(record)}`, MAX_TEXT), failed: true, mark: 'odd' });
  }
}

/** The rows of a run document, whose records are newest first, as rows that are oldest first. @param {RunDocument} run @returns {Entry[]} */
export function entriesOf(run) {
  /** The place of each row, by which rows of one time are ordered; a greater one is older. @type {Map<Entry, number>} */
  const places = new Map();
  /** @type {Entry[]} */
  const entries = [];
  const add = (/** @type {Entry} */ row, /** @type {number | undefined} */ place) => {
    places.set(row, place || 1e9);
    entries.push(row);
  };
  for (const row of [...run.requests ?? []].reverse()) add(madeOf('request', row, requestEntry), row?.place);
  for (const event of [...run.events ?? []].reverse()) add(madeOf('event', event, eventEntry), event?.places?.[0]);
  for (const delivery of [...run.deliveries ?? []].reverse()) {
    (delivery.attempts ?? []).forEach((attempt, i) => {
      const { id, event, type, subscription, workspace } = delivery;
      add(madeOf('attempt', attempt, () => attemptEntry({ ...attempt, delivery: id, event, type, subscription, workspace })), delivery.places?.[i]);
    });
  }
  [...run.notices ?? []].reverse().forEach((notice, i) => add(madeOf('notice', notice, (one) => noticeEntry(one, `notice-${i}`)), 0.5));
  const placeOf = (/** @type {Entry} */ row) => /** @type {number} */ (places.get(row));
  return entries.sort((a, b) => a.at - b.at || placeOf(b) - placeOf(a));
}

/** The page's state. Whoever changes it calls `changed`; the page listens. */
export class Store {
  constructor() {
    /** @type {RunDocument | null} */
    this.run = null;
    /** Oldest first. @type {Entry[]} */
    this.entries = [];
    /** Rows of each kind. @type {Record<EntryKind, number>} */
    this.kinds = { request: 0, event: 0, delivery: 0, notice: 0 };
    /** Rows dropped here to keep the tab small, and entries that had been evicted from the journal. */
    this.dropped = 0;
    this.missed = 0;
    /** Entries seen since the start, and how often rows were dropped or replaced: both only grow. */
    this.seen = 0;
    this.epoch = 0;
    /** Failures seen since the start. */
    this.failures = 0;
    /** @type {'connecting' | 'live' | 'lost' | 'token' | 'document'} */
    this.phase = 'connecting';
    /** What to say about the connection, in words. */
    this.message = '';
    /** @type {Map<string, Detail>} */
    this.details = new Map();
    /** Where each event belongs, for attempts. @type {Map<string, string | null>} */
    this.workspaceOfEvent = new Map();
    /** The attempt of each delivery that decides: the newest, or the newest that reached its receiver. @type {Map<string, Entry>} */
    this.decidingAttempt = new Map();
    /** The attempts of each delivery, the oldest first. @type {Map<string, Entry[]>} */
    this.attempts = new Map();
    /** The key of each workspace. @type {Map<string, string>} */
    this.keyOfWorkspace = new Map();
    /** @type {() => void} */
    this.changed = () => {};
    /** What the traffic shows, and why it is not known. @type {Findings | null} */
    this.findings = null;
    /** The verdict with the causes that only findings show, which `run` lacks. @type {RunDocument['verification'] | null} */
    this.verdict = null;
    this.problem = '';
    /** The browser's time at which `run` came. */
    this.runAt = 0;
  }

  /** Takes a whole document with its records. @param {RunDocument} run @param {number} browserTime */
  takeRun(run, browserTime) {
    this.findings = run.findings ?? null;
    this.verdict = null;
    this.keyOfWorkspace.clear();
    this.takeState(run, browserTime);
    this.clearEntries();
    this.append(entriesOf(run));
  }

  /** Takes everything of a document but its records. @param {RunDocument} run @param {number} browserTime */
  takeState(run, browserTime) {
    const { requests, deliveries, events, notices } = this.run ?? run;
    this.run = { ...run, requests, deliveries, events, notices };
    this.runAt = browserTime;
    for (const { key, workspace } of [...(run.keys ?? []), ...(run.subscriptions ?? [])]) {
      if (workspace && key) this.keyOfWorkspace.set(workspace, key);
    }
    // A new key is known after its first rows.
    for (const one of this.entries) {
      const key = one.key ? null : this.keyOfWorkspace.get(one.workspace ?? '');
      if (key) [one.key, this.epoch] = [key, this.epoch + 1];
    }
    this.changed();
  }

  clearEntries() {
    this.entries = [];
    this.kinds = { request: 0, event: 0, delivery: 0, notice: 0 };
    this.workspaceOfEvent.clear();
    this.decidingAttempt.clear();
    this.attempts.clear();
    this.dropped = 0;
    this.missed = 0;
    this.epoch += 1;
    this.changed();
  }

  /** Puts the rows of the whole journal in the place of the first ones. @param {Entry[]} entries */
  replaceEntries(entries) {
    const { missed } = this;
    this.clearEntries();
    this.missed = missed;
    this.append(entries);
  }

  /** Adds rows, newest last, and drops the oldest of a kind that has too many. @param {Entry[]} entries */
  append(entries) {
    for (const one of entries) {
      if (one.kind === 'event') this.workspaceOfEvent.set(one.id, one.workspace);
      if (one.kind === 'delivery' && one.workspace === null) one.workspace = this.workspaceOfEvent.get(one.event ?? '') ?? null;
      if (one.kind === 'delivery') this.supersede(one);
      if (one.workspace !== null && one.key !== null) this.keyOfWorkspace.set(one.workspace, one.key);
      if (one.key === null && one.workspace !== null) one.key = this.keyOfWorkspace.get(one.workspace) ?? null;
      this.entries.push(one);
      this.kinds[one.kind] += 1;
      if (one.failed) this.failures += 1;
    }
    this.seen += entries.length;
    for (const kind of /** @type {EntryKind[]} */ (Object.keys(this.kinds))) {
      if (this.kinds[kind] > MAX_ROWS + BATCH) this.dropOldest(kind, this.kinds[kind] - MAX_ROWS);
    }
    this.changed();
  }

  /** A delivery is shown by the attempt that decides, as the emulator judges it. @param {Entry} attempt */
  supersede(attempt) {
    this.attempts.set(attempt.id, [...this.attempts.get(attempt.id) ?? [], attempt]);
    const before = this.decidingAttempt.get(attempt.id);
    const decides = !before || !attempt.unreached || before.unreached;
    if (decides) this.decidingAttempt.set(attempt.id, attempt);
    if (!before) return;
    (decides ? before : attempt).superseded = true;
    this.epoch += 1;
  }

  /** @param {EntryKind} kind @param {number} number */
  dropOldest(kind, number) {
    let left = number;
    this.entries = this.entries.filter((one) => {
      if (one.kind !== kind || left === 0) return true;
      left -= 1;
      this.workspaceOfEvent.delete(one.id);
      if (this.decidingAttempt.get(one.id) === one) this.decidingAttempt.delete(one.id);
      this.attempts.delete(one.id);
      return false;
    });
    this.kinds[kind] -= number;
    this.dropped += number;
    this.epoch += 1;
  }

  /** Details of a request, event or delivery, if they are known. @param {string} id @returns {Detail | undefined} */
  detail(id) {
    const known = this.details.get(id);
    if (known || this.phase !== 'document' || !this.run) return known;
    const { requests, deliveries, events } = this.run;
    const request = requests?.find((one) => one.id === id);
    if (request) return { explanation: { ...request.explanation, request } };
    const delivery = deliveries?.find((one) => one.id === id);
    if (delivery) {
      return { explanation: { summary: delivery.summary, steps: [], advice: delivery.advice ? [delivery.advice] : null, delivery } };
    }
    const event = events?.find((one) => one.id === id);
    return event ? { explanation: { summary: event.summary, steps: [], event } } : { error: 'This record is not in the file: it was trimmed, or evicted before the file was saved.' };
  }

  /** @param {string} id @param {Detail} detail */
  keepDetail(id, detail) {
    this.details.delete(id);
    this.details.set(id, detail);
    for (const oldest of this.details.keys()) {
      if (this.details.size <= MAX_DETAILS) break;
      this.details.delete(oldest);
    }
    this.changed();
  }

  /** The time of a key, or the emulator's, as far as known: between two readings of the state the browser counts. @param {number} browserTime @param {string} [key] @returns {number} */
  now(browserTime, key = '') {
    const clock = this.clockOf(key);
    if (!clock) return browserTime;
    return instant(clock.now) + (clock.mode === 'real' && this.phase !== 'document' ? browserTime - this.runAt : 0);
  }

  /** The clock of a key, or else the emulator's. @param {string} key */
  clockOf(key) {
    return this.run?.keys?.find((one) => one.key === key)?.clock ?? this.run?.clock;
  }

  /** How far a running clock was moved, in milliseconds. @param {string} key @returns {number} */
  movedBy(key) {
    return Math.round((this.clockOf(key)?.ahead_ms ?? 0) / 1000) * 1000;
  }

  /** The active scenarios of a key, or of all. @param {string} key @returns {string[]} */
  activeScenarios(key) {
    const { run } = this;
    const own = run?.keys?.find((one) => one.key === key)?.scenarios;
    return own ?? run?.active ?? run?.scenarios?.filter((one) => one.active).map((one) => one.name) ?? [];
  }

  /** Every key known, those of the emulator first. @returns {string[]} */
  keys() {
    return [...new Set([...(this.run?.keys ?? []).map((one) => one.key), ...this.keyOfWorkspace.values()])];
  }
}
