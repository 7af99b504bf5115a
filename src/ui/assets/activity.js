// The list of everything that happens: filter, pause, new rows on demand. Rows are drawn by the virtual list.

import { foreign, h } from './element.js';
import { connectPanel } from './connect.js';
import { FILTER_NAMES, completions, matcher, toggled, unknownNames } from './filter.js';
import { VirtualList } from './list.js';
import { emptyState, link, statusMark } from './parts.js';
import { count, duration, listed, reasonOf, shortKey, timeOfDay } from './text.js';

/** The chips beside the filter, each with its word. */
const CHIPS = [['errors', 'is:failed'], ['webhooks', 'kind:delivery'], ['scripted', 'is:scripted']];

/** @param {Entry} entry @param {string[]} keys every key @returns {(Node | string)[]} */
function cells(entry, keys) {
  return [
    h('span.time', null, timeOfDay(entry.at)), ' ', statusMark(entry), ' ',
    h('bdi', { title: entry.text }, entry.text), ' ',
    h('span.why', null, foreign(reasonOf(entry))), ' ',
    h('span.who', { title: entry.key ?? '' }, foreign(entry.key ? shortKey(entry.key, keys) : '')), ' ',
    h('span.took', null, entry.kind === 'request' || entry.kind === 'delivery' ? duration(entry.latency) : ''),
  ];
}

/** The rows that match the filter, brought up to date as entries come. */
export class Activity {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.list = new VirtualList('Activity, newest first', (entry) => cells(entry, page.store.keys()), (entry) => this.open(entry));
    /** Matching rows, oldest first. @type {Entry[]} */
    this.matching = [];
    /** How many of the matching ones are shown. */
    this.shown = 0;
    this.paused = false;
    /** What `matching` was computed from. */
    this.of = { filter: '', kind: '', key: '', epoch: -1, length: 0 };
    /** @type {(entry: Entry) => boolean} */
    this.test = () => true;
  }

  /** @param {Entry} entry */
  open(entry) {
    if (entry.kind !== 'notice') this.page.go({ id: entry.id });
  }

  /** Brings the rows up to date. @param {string} kind only rows of this kind, if not empty */
  update(kind) {
    const { store, route } = this.page;
    const { of } = this;
    const same = of.filter === route.filter && of.kind === kind && of.key === route.key;
    if (!same || of.epoch !== store.epoch) {
      const matches = matcher(route.filter, store.now(Date.now()));
      this.test = (entry) => (!kind || entry.kind === kind) && !entry.superseded && (!route.key || entry.key === route.key) && matches(entry);
      this.matching = store.entries.filter(this.test);
      // Rows that are read keep their place if only the oldest were dropped.
      const hidden = same && this.paused ? of.length - this.shown : 0;
      this.shown = Math.max(0, this.matching.length - hidden);
      this.of = { filter: route.filter, kind, key: route.key, epoch: store.epoch, length: this.matching.length };
      this.looked = store.entries.length;
      if (!same) this.list.root.scrollTop = 0;
    } else {
      for (let i = this.looked ?? 0; i < store.entries.length; i++) if (this.test(store.entries[i])) this.matching.push(store.entries[i]);
      this.looked = store.entries.length;
      of.length = this.matching.length;
    }
    if (!this.paused && (this.list.isAtTop && !route.id || this.shown === 0)) this.shown = this.matching.length;
    const { matching, shown } = this;
    this.list.show({ count: shown, at: (index) => matching[shown - 1 - index] }, route.id);
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

  /** The view. @param {string} title @param {string} kind @returns {(Node | null)[]} */
  view(title, kind) {
    const { page, matching, shown, paused } = this;
    const { store, route } = page;
    this.list.root.setAttribute('aria-label', `${title}, newest first`);
    const waiting = matching.length - shown;
    const typed = (/** @type {Event} */ event) => page.go({ filter: /** @type {HTMLInputElement} */ (event.target).value }, true);
    const suggestions = page.ui.filterFocused ? completions(route.filter, store.entries) : [];
    const unknown = unknownNames(route.filter);
    const left = [store.dropped ? `${count(store.dropped, 'older row')} dropped here` : '', store.missed ? `${count(store.missed, 'entry', 'entries')} evicted from the journal` : ''].filter(Boolean);
    return [
      h('div.bar', null,
        h('h2', null, title),
        h('label.filter', null, h('span.hidden', null, 'Filter'),
          h('input', { id: 'filter', type: 'search', list: 'completions', placeholder: 'filter: 429 key:sk_test_a since:5m', autocomplete: 'off', spellcheck: 'false', controlled: route.filter, oninput: typed, onfocus: () => { page.ui.filterFocused = true; page.redraw(); } })),
        h('datalist', { id: 'completions' }, suggestions.map((text) => h('option', { value: text }))),
        CHIPS.map(([name, word]) => (kind && word === 'kind:delivery' ? null : h('button.chip', { type: 'button', 'aria-pressed': String(route.filter.split(/\s+/).includes(word)), onclick: () => page.go({ filter: toggled(route.filter, word) }) }, name))),
        route.filter ? h('button', { type: 'button', onclick: () => page.go({ filter: '' }) }, 'Clear', h('span.hidden', null, ' the filter')) : null,
        page.isDocument ? null : h('button', { type: 'button', 'aria-pressed': String(paused), onclick: () => this.pause() }, paused ? `Paused${waiting ? ` · ${waiting} new` : ''}` : 'Pause'),
        waiting && !paused ? h('button.primary', { type: 'button', onclick: () => this.showNew() }, `${waiting} new ↑`) : null),
      unknown.length ? h('p.message.warn', { role: 'status', key: 'unknown' }, `! ${listed(unknown.map((name) => `“${name}:”`))} is not a field; the filter looks for it as text. Fields: ${Object.keys(FILTER_NAMES).join(', ')}, is, since.`) : null,
      shown ? this.place() : h('div.nothing', { key: 'nothing' }, route.filter || route.key ? h('p.empty', null, `None of ${count(store.entries.length, 'row')} matches.`) : this.empty(kind)),
      h('p.foot', null, `${count(shown, 'row')}${left.length ? ` · ${left.join(' · ')}` : ''}`),
    ];
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
    return has ? emptyState(page, 'No delivery yet. Trigger an event:', [page.cli(['trigger', 'workflow.completed', '--wait'])])
      : h('div.empty', null, h('p', null, 'No delivery yet, and no subscription that one could go to. ', link(page, { view: 'trigger', id: '', filter: '' }, 'Create one and trigger an event.')));
  }
}
