// The connection to the emulator: the run document, the event stream, and calls. Keeps the control token in memory only.

import { attemptEntry, eventEntry, noticeEntry, requestEntry } from './store.js';
import { messageOf } from './text.js';

const FIRST_ROWS = 60;
/** The state is read at most twice a second. */
const REFRESH_MS = 500;
/** Longest work on the stream without giving way to the page. */
const SLICE_MS = 8;
/** Time alone changes little: a quota refills. */
const BEAT_MS = 10_000;
const PAUSES_MS = [500, 1000, 2000, 5000];

/** Splits server-sent events. @returns {(text: string) => {id: string, event: string, data: string}[]} */
export function eventParser() {
  let rest = '';
  return (text) => {
    const parts = (rest + text).split('\n\n');
    rest = /** @type {string} */ (parts.pop());
    const events = [];
    for (const part of parts) {
      const event = { id: '', event: '', data: '' };
      for (const line of part.split('\n')) {
        const [, name, value] = /^(id|event|data): ?(.*)$/s.exec(line) ?? [];
        if (name) event[/** @type {'id' | 'event' | 'data'} */ (name)] += value;
      }
      if (event.event) events.push(event);
    }
    return events;
  };
}

/** Gives way to whatever the browser has to do. @returns {Promise<void>} */
function giveWay() {
  const scheduler = /** @type {any} */ (globalThis).scheduler;
  return scheduler?.yield ? scheduler.yield() : new Promise((done) => setTimeout(done));
}

/** The page's connection to one emulator. */
export class Live {
  /** @param {import('./store.js').Store} store */
  constructor(store) {
    this.store = store;
    this.token = '';
    /** The id of the last event of the stream; 0 asks for everything that the journal has. */
    this.last = '0';
    this.failures = 0;
    this.refreshAt = 0;
    /** How many readings of the state were begun, and which of them was used last. */
    this.asked = 0;
    this.answered = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    /** Deliveries and events with news, whose details are read again if they are shown. @type {(ids: Set<string>) => void} */
    this.onNews = () => {};
    /** @type {() => void} */
    this.onRestart = () => {};
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.idle = undefined;
    this.stop = new AbortController();
    /** Rows of the journal that the stream has repeated so far; null when it repeats none. @type {Entry[] | null} */
    this.repeated = null;
  }

  /** @returns {Record<string, string>} */
  headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  /**
   * One call of the control API. A body that is a string is TOML.
   * @param {string} method @param {string} path @param {unknown} [body] @returns {Promise<{ok: boolean, status: number, data: any}>}
   */
  async call(method, path, body) {
    /** @type {RequestInit} */
    const options = { method, headers: this.headers(), cache: 'no-store' };
    if (method !== 'GET') {
      const isText = typeof body === 'string';
      options.headers = { ...this.headers(), 'Content-Type': isText ? 'application/toml' : 'application/json', 'X-Emulator-Control': '1' };
      options.body = isText ? body : JSON.stringify(body ?? {});
    }
    const answer = await fetch(path, options);
    const text = await answer.text();
    let data = null;
    try {
      data = JSON.parse(text);
    } catch {
      data = { error: { code: 'no_json', message: text.slice(0, 300) || `status ${answer.status}` } };
    }
    return { ok: answer.ok, status: answer.status, data };
  }

  /** Reads the document and follows the stream, for as long as the page is open. */
  async start() {
    this.last = '0';
    this.stop.abort();
    const stop = this.stop = new AbortController();
    while (!stop.signal.aborted) {
      try {
        if (this.last === '0' && !(await this.first())) return;
        await this.follow(stop.signal);
      } catch (error) {
        if (stop.signal.aborted) return;
        this.store.message = messageOf(error);
      }
      this.lost();
      await new Promise((done) => setTimeout(done, PAUSES_MS[Math.min(this.failures, PAUSES_MS.length) - 1]));
    }
  }

  lost() {
    this.failures += 1;
    this.store.phase = 'lost';
    this.store.changed();
  }

  /** The first document. Gives false if there is nothing to follow. @returns {Promise<boolean>} */
  async first() {
    const answer = await this.call('GET', `run?limit=${FIRST_ROWS}`);
    if (answer.status === 401) {
      this.store.message = this.token ? 'This token was refused.' : '';
      this.store.phase = 'token';
      this.store.changed();
      return false;
    }
    if (!answer.ok) throw new Error(answer.data.error?.message ?? `status ${answer.status}`);
    const viewing = Boolean(answer.data.viewing);
    this.store.phase = viewing ? 'document' : 'connecting';
    this.store.details.clear();
    this.store.takeRun(answer.data, Date.now());
    return !viewing;
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    // What the stream repeats of the journal takes the place of the first document, once it has caught up with it.
    this.repeated = this.last === '0' && this.store.entries.length ? [] : null;
    const answer = await fetch('stream', { headers: { ...this.headers(), 'Last-Event-ID': this.last }, signal, cache: 'no-store' });
    if (!answer.ok || !answer.body) {
      if (answer.status === 401) this.last = '0';
      const { error } = await answer.json().catch(() => ({ error: null }));
      throw new Error(error?.message ?? `status ${answer.status}`);
    }
    this.store.phase = 'live';
    this.store.message = '';
    this.failures = 0;
    this.refresh();
    const beat = setInterval(() => {
      if (!document.hidden) this.refresh();
    }, BEAT_MS);
    try {
      return await this.readStream(answer.body, signal);
    } finally {
      clearInterval(beat);
    }
  }

  /** @param {ReadableStream<Uint8Array>} body @param {AbortSignal} signal */
  async readStream(body, signal) {
    const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
    const parse = eventParser();
    let began = performance.now();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parse(value);
      if (events.length && !this.take(events)) {
        await reader.cancel();
        this.last = '0';
        if (await this.first()) await this.follow(signal);
        return;
      }
      if (performance.now() - began > SLICE_MS) {
        await giveWay();
        began = performance.now();
      }
    }
  }

  /** Takes events of the stream. Gives false if the journal began anew. @param {{id: string, event: string, data: string}[]} events */
  take(events) {
    /** @type {Entry[]} */
    const entries = [];
    const news = new Set();
    let goesOn = true;
    for (const { id, event, data } of events) {
      this.last = id;
      const record = JSON.parse(data);
      try {
        if (event === 'request') entries.push(requestEntry(record));
        else if (event === 'event') entries.push(eventEntry(record));
        else if (event === 'attempt') {
          entries.push(attemptEntry(record));
          news.add(record.delivery).add(record.event);
        } else if (event === 'notice') {
          entries.push(noticeEntry(record, id));
          // The journal has forgotten what this tab still shows.
          if ((record.kind === 'reset' || record.kind === 'snapshot_loaded') && !this.repeated) goesOn = false;
        } else if (event === 'skipped') {
          this.store.missed += record.missed;
        } else if (event === 'restarted') {
          goesOn = false;
          this.onRestart();
        }
      } catch {
        entries.push(noticeEntry({ kind: 'other', at: '', message: `an odd record: ${data}`, warning: true }, id));
      }
    }
    if (this.repeated) this.repeat(entries);
    else if (entries.length) this.store.append(entries);
    if (news.size) this.onNews(news);
    if (!this.repeated) this.refresh();
    return goesOn;
  }

  /** Keeps what is repeated until the newest row of the document is among it. @param {Entry[]} entries */
  repeat(entries) {
    const rows = /** @type {Entry[]} */ (this.repeated);
    const newest = this.store.entries[this.store.entries.length - 1];
    for (const one of entries) rows.push(one);
    const caughtUp = entries.some((one) => one.kind === newest.kind && one.at === newest.at && one.text === newest.text);
    clearTimeout(this.idle);
    // It may have been evicted meanwhile: then the stream falls silent or brings what is newer.
    if (caughtUp || entries.some((one) => one.at > newest.at + 1000)) this.caughtUp();
    else this.idle = setTimeout(() => this.caughtUp(), 500);
  }

  caughtUp() {
    clearTimeout(this.idle);
    if (!this.repeated) return;
    const rows = this.repeated;
    this.repeated = null;
    this.store.replaceEntries(rows);
    this.refresh();
  }

  /** Reads the state again, soon. */
  refresh() {
    if (this.timer !== undefined) return;
    const wait = Math.max(50, this.refreshAt + REFRESH_MS - performance.now());
    this.timer = setTimeout(async () => {
      // What leads to a refresh from now on may be missing from this answer.
      this.timer = undefined;
      this.refreshAt = performance.now();
      const asked = ++this.asked;
      try {
        const { ok, data } = await this.call('GET', 'run?limit=0');
        if (ok && this.store.run && asked > this.answered) {
          this.answered = asked;
          this.store.takeState(data, Date.now());
        }
      } catch {
        // The stream notices a broken connection and reports it.
      }
    }, wait);
  }
}
