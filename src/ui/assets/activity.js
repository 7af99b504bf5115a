// The list of everything that happens: filter, pause, new rows on demand. Rows are drawn by the virtual list.

import { foreign, guarded, h, icon, prose } from './element.js';
import { keyWords } from './command.js';
import { connectPanel } from './connect.js';
import { completions, matcher, problemOf, toggled } from './filter.js';
import { VirtualList } from './list.js';
import { attemptDots, emptyState, link, statusMark } from './parts.js';
import { count, duration, reasonOf, shortKey, timeOfDay } from './text.js';
import { timeline } from './timeline.js';

/** The chips beside the filter, each with its word. */
const CHIPS = [['failures', 'is:failed'], ['webhooks', 'kind:delivery'], ['scenarios', 'is:scripted']];

/** Writes days; made once, as that takes long. */
const DAYS = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

/** Entries on the timeline of a running emulator, the newest; a report shows all. */
const MAX_MARKS = 2000;
/** The timeline is drawn anew at most this often. */
const DRAWN_EVERY_MS = 1000;

/** @param {Page} page @param {Entry} entry @returns {(Node | string | null)[]} */
function cells(page, entry) {
  const time = timeOfDay(entry.at);
  // Of a line of the log and of most events there is none, so their text has the room.
  const reason = entry.kind === 'notice' ? '' : reasonOf(entry);
  const why = entry.kind === 'delivery' ? attemptDots(page, entry, reason) : reason && foreign(reason);
  const { run, entries } = page.store;
  const [day, today] = [entry, entries[entries.length - 1] ?? entry].map(({ at }) => DAYS.format(at));
  const ownClock = run?.keys?.some(({ key, clock }) => clock && key === entry.key) ? ', by its key’s clock' : '';
  // Below its event, the name of a delivery's event says nothing new.
  const [what, event] = entry.kind === 'delivery' ? entry.text.split(/(?= · )/) : [entry.text];
  return [
    h('span.time', { title: `${day} ${time}${ownClock}` }, day === today ? [time.slice(0, 8), h('span.ms', null, time.slice(8))] : [h('span.ms', null, `${day} `), time.slice(0, 8)]), ' ', statusMark(entry), ' ',
    h('bdi', { title: entry.text }, what, event ? h('span.event', null, event) : null), ' ',
    why ? h('span.why', { title: reason }, why) : null, ' ',
    h('span.who', { title: entry.key ?? '' }, foreign(entry.key ? shortKey(entry.key, page.store.keys(), 18) : '')), ' ',
    h('span.took', null, entry.kind === 'request' || entry.kind === 'delivery' ? duration(entry.latency) : ''),
  ];
}

/**
 * Rows in their order, oldest first, but the deliveries of an event directly before it, so that they are shown below it.
 * @param {Entry[]} entries @returns {{rows: Entry[], children: Set<Entry>}}
 */
export function grouped(entries) {
  /** @type {Map<string, Entry[]>} */
  const of = new Map();
  for (const one of entries) if (one.kind === 'event') of.set(one.id, []);
  const children = new Set();
  for (const one of entries) {
    if (one.kind !== 'delivery') continue;
    const siblings = of.get(one.event ?? '');
    if (siblings && children.add(one)) siblings.push(one);
  }
  const rows = [];
  for (const one of entries) {
    if (children.has(one)) continue;
    if (one.kind === 'event') rows.push(.../** @type {Entry[]} */ (of.get(one.id)).reverse());
    rows.push(one);
  }
  return { rows, children };
}

/** The rows that match the filter, brought up to date as entries come. */
export class Activity {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.list = new VirtualList('Activity, newest first', (entry) => cells(page, entry), (entry) => this.open(entry));
    /** Matching rows, oldest first. @type {Entry[]} */
    this.matching = [];
    /** How many of the matching ones are shown. */
    this.shown = 0;
    this.paused = false;
    /** What `matching` was computed from. */
    this.of = { filter: '', kind: '', key: '', epoch: -1, length: 0 };
    /** Whether an entry matches what was chosen, and whether it has a row of its own. @type {(entry: Entry) => boolean} */
    this.matches = () => true;
    this.test = this.matches;
    /** Deliveries shown below their event. @type {Set<Entry>} */
    this.children = new Set();
    /** The state that the rows show. @type {RunDocument | null} */
    this.stateOf = null;
    /** The timeline, which looks after its own content; of what and when it was drawn. */
    this.chart = h('div', { key: 'timeline', island: 'timeline' });
    this.drawnOf = '';
    this.drawnAt = 0;
    this.drawnWidth = 0;
    this.drawnFor = '';
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** @param {Entry} entry */
  open(entry) {
    // From one record to the next is no step of the history.
    if (entry.kind !== 'notice') this.page.go({ id: entry.id }, Boolean(this.page.route.id));
  }

  /** Brings the rows up to date. @param {string} kind only rows of this kind, if not empty */
  update(kind) {
    const { store, route } = this.page;
    const { of } = this;
    const same = of.filter === route.filter && of.kind === kind && of.key === route.key;
    const isReading = this.paused || Boolean(route.id) || !this.list.isAtTop;
    const from = this.looked ?? 0;
    const hasDelivery = !kind && store.entries.slice(from).some((entry) => entry.kind === 'delivery');
    if (!same || of.epoch !== store.epoch || hasDelivery) {
      const matches = matcher(route.filter, store.now(Date.now()));
      this.matches = (entry) => (!kind || entry.kind === kind) && (!route.key || entry.key === route.key) && matches(entry);
      this.test = (/** @type {Entry} */ entry) => !entry.superseded && this.matches(entry);
      // Rows that are read keep their place: the newest of them stays the first.
      const newest = same && isReading ? this.matching[this.shown - 1] : undefined;
      const found = store.entries.filter(this.test);
      // By the time that is shown: the attempt that decides may be an earlier one.
      const { rows, children } = kind ? { rows: found.sort((a, b) => a.at - b.at), children: new Set() } : grouped(found);
      const place = newest ? rows.lastIndexOf(newest) : -1;
      const hidden = same && this.paused ? of.length - this.shown : 0;
      [this.matching, this.children] = [rows, children];
      this.shown = place >= 0 ? place + 1 : Math.max(0, rows.length - hidden);
      this.of = { filter: route.filter, kind, key: route.key, epoch: store.epoch, length: rows.length };
      if (!same) this.list.root.scrollTop = 0;
    } else {
      for (let i = from; i < store.entries.length; i++) if (this.test(store.entries[i])) this.matching.push(store.entries[i]);
      of.length = this.matching.length;
    }
    this.looked = store.entries.length;
    // When the next attempt is changes with the state, and a new key is learnt.
    if (this.stateOf !== store.run) this.list.forget(['delivery', 'event']);
    this.stateOf = store.run;
    if (!this.paused && (this.list.isAtTop && !route.id || this.shown === 0)) this.shown = this.matching.length;
    // A record that was opened elsewhere is shown among the rows.
    if (this.page.hidden && this.matching.slice(this.shown).some(({ id }) => id === this.page.hidden)) this.shown = this.matching.length;
    const { matching, shown, children } = this;
    this.list.show({ count: shown, at: (index) => matching[shown - 1 - index], isChild: (entry) => children.has(entry) }, route.id);
  }

  /** Shows what came meanwhile. */
  showNew() {
    this.shown = this.matching.length;
    this.list.active = null;
    this.list.root.scrollTop = 0;
    this.page.redraw();
  }

  pause() {
    this.paused = !this.paused;
    if (!this.paused) this.shown = this.matching.length;
    this.page.announce(this.paused ? 'Paused.' : 'Live again.');
    this.page.redraw();
  }

  /** The view. @param {string} title @param {string} kind @returns {Nodes} */
  view(title, kind) {
    const { page, matching, shown, paused } = this;
    const { store, route } = page;
    this.list.root.setAttribute('aria-label', `${title}, newest first`);
    const waiting = matching.length - shown;
    const typed = (/** @type {Typed} */ event) => page.go({ filter: event.target.value }, true);
    const suggestions = page.ui.filterFocused ? completions(route.filter, store.entries) : [];
    const unknown = problemOf(route.filter);
    const left = [store.dropped ? `${count(store.dropped, 'older row')} dropped here` : '', store.missed ? `${count(store.missed, 'entry', 'entries')} evicted from the journal` : ''].filter(Boolean);
    const more = () => {
      page.ui.moreFilters = !page.ui.moreFilters;
      page.redraw();
    };
    // Lines of the log alone, such as a warning about a file, do not hide how to begin.
    const { kinds } = store;
    const isFirst = !page.isDocument && !kind && !route.filter && !route.key && !kinds.request && !kinds.event && !kinds.delivery;
    const hasRows = shown > 0 && !isFirst;
    return [
      h(page.ui.moreFilters ? 'div.bar.all' : 'div.bar', null,
        h('h2', null, title),
        h('label.filter', null, icon('find'), h('span.hidden', null, 'Filter'),
          h('input', { id: 'filter', type: 'search', list: 'completions', placeholder: 'Filter: 429 key:burst since:5m', autocomplete: 'off', spellcheck: 'false', controlled: route.filter, oninput: typed, onfocus: () => { page.ui.filterFocused = true; page.redraw(); } })),
        h('datalist', { id: 'completions' }, suggestions.map((text) => h('option', { value: text }))),
        h('button.more', { 'aria-expanded': String(Boolean(page.ui.moreFilters)), onclick: more }, 'Filters'),
        CHIPS.map(([name, word]) => (kind && word === 'kind:delivery' ? null : h('button', { class: 'late', 'aria-pressed': String(route.filter.split(/\s+/).includes(word)), onclick: () => page.go({ filter: toggled(route.filter, word) }) }, name))),
        page.isDocument ? null : h('button', { class: 'plain late', 'aria-pressed': String(paused), onclick: () => this.pause() }, icon(paused ? 'play' : 'pause'), paused ? `Paused${waiting ? ` · ${waiting} new` : ''}` : 'Pause'),
        waiting && !paused ? h('button.primary', { onclick: () => this.showNew() }, `${waiting} new`, icon('up')) : null),
      unknown ? h('p.message.warn', { role: 'status', key: 'unknown' }, unknown) : null,
      hasRows ? this.drawing() : null,
      hasRows ? h('div.heads', { 'aria-hidden': 'true', key: 'heads' }, h('span.cells', null, h('span', null, 'Time'), h('span', null, 'Status'), h('span', null, kind ? 'Delivery' : 'What'), h('span', null, kind ? 'Attempts' : 'Detail'), h('span.who', null, 'Key'), h('span.took', null, 'Took'))) : null,
      hasRows ? this.place() : h('div.nothing', { key: 'nothing' }, route.filter || route.key ? h('p.empty', null, `None of ${count(store.entries.length, 'row')} matches.`, this.uncounted()) : [this.empty(kind), ...matching.slice(0, shown).map((entry) => h('p.note', null, statusMark(entry), ' ', foreign(entry.text)))]),
      h('p.foot', null, `${count(shown, 'row')}${left.length ? ` · ${left.join(' · ')}` : ''}`),
    ];
  }

  /** What a filter for failures leaves out: an error that a scenario gave is none. */
  uncounted() {
    const { store, route } = this.page;
    const number = /\bis:failed\b/.test(route.filter) ? store.entries.filter(({ kind, status, scenario, failed }) => kind === 'request' && scenario && !failed && status >= 400).length : 0;
    return number ? prose(` ${count(number, 'answer')} by a scenario are not counted: \`status:4xx,5xx\`.`) : null;
  }

  /** The timeline of everything that matches, drawn anew once in a while. @returns {Node} */
  drawing() {
    const { store } = this.page;
    const { width } = this.page;
    const chosen = `${this.of.kind} ${this.of.key} ${this.of.filter} ${this.page.ui.folded}`;
    const about = `${chosen} ${store.seen} ${store.epoch} ${store.keyOfWorkspace.size} ${width}`;
    const now = performance.now();
    // Not while somebody drags over it.
    const isLater = now - this.drawnAt < DRAWN_EVERY_MS && width === this.drawnWidth && chosen === this.drawnFor;
    // Its lanes would jump while the journal is read.
    if (about !== this.drawnOf && (this.page.live?.repeated || isLater || this.chart.matches?.(':active'))) {
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.page.redraw();
      }, DRAWN_EVERY_MS);
    } else if (about !== this.drawnOf) {
      const of = store.entries.filter(this.matches);
      this.chart.replaceChildren(guarded(() => timeline(this.page, this.page.isDocument ? of : of.slice(-MAX_MARKS)), null));
      [this.drawnOf, this.drawnAt, this.drawnWidth, this.drawnFor] = [about, now, width, chosen];
    }
    return this.chart.isConnected ? h('div', { island: 'timeline', key: 'timeline' }) : this.chart;
  }

  /** The list, or a placeholder for it if it is already in the document and stays there. @returns {Node} */
  place() {
    const { root } = this.list;
    return root.isConnected ? h('div', { island: 'list', key: 'list' }) : root;
  }

  /** @param {string} kind */
  empty(kind) {
    const { page } = this;
    if (page.isDocument) return h('p.empty', null, 'Nothing was recorded.');
    if (!kind) return connectPanel(page);
    const has = (page.store.run?.subscriptions ?? []).some((one) => one.status === 'active');
    return has ? emptyState(page, 'No delivery yet. Trigger an event:', [page.cli(['trigger', 'workflow.completed', '--wait', ...keyWords(page.route.key)])])
      : h('div.empty', null, h('p', null, 'No deliveries yet, and no subscriptions to deliver to. ', link(page, { view: 'trigger', id: '', filter: '' }, 'Create one and trigger an event.')));
  }
}
