// A list of rows of equal height, of which only the visible ones are in the document: a listbox with keyboard navigation.

import { guarded, h } from './element.js';

const OVERSCAN = 6;

/**
 * The rows to have in the document: from the first, up to but without the last.
 * @param {number} top @param {number} height @param {number} rowHeight @param {number} total @returns {{first: number, last: number}}
 */
export function visibleRange(top, height, rowHeight, total) {
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight) - OVERSCAN, total));
  return { first, last: Math.min(total, Math.ceil((top + height) / rowHeight) + OVERSCAN) };
}

/** Where to scroll so that a row can be seen, from where it is scrolled to. @param {number} index @param {number} top @param {number} height @param {number} rowHeight */
export function scrolledTo(index, top, height, rowHeight) {
  const [from, to] = [index * rowHeight, (index + 1) * rowHeight];
  return from < top ? from : to > top + height ? to - height : top;
}

/** @typedef {{count: number, at: (index: number) => Entry | undefined, isChild?: (entry: Entry) => boolean}} Rows */

let numbers = 0;

/** Whether two rows are of one record. @param {Entry} one @param {Entry} other */
const isSame = (one, other) => one.kind === other.kind && one.id === other.id && one.kind !== 'notice';

/** The list. Its node is an island: nobody else changes what is in it. */
export class VirtualList {
  /**
   * @param {string} label
   * @param {(entry: Entry) => (Node | string | null)[]} cells what is in a row
   * @param {(entry: Entry) => void} open
   */
  constructor(label, cells, open) {
    this.cells = cells;
    this.open = open;
    /** @type {Rows} */
    this.rows = { count: 0, at: () => undefined };
    /** Nodes of rows in the document. @type {Map<Entry, HTMLElement>} */
    this.nodes = new Map();
    /** Where the keyboard is. @type {Entry | null} */
    this.active = null;
    this.opened = '';
    this.width = 1000;
    this.space = h('div.space', { role: 'presentation' });
    this.root = h('div.list', { role: 'listbox', tabindex: 0, 'aria-label': label, island: 'list', key: 'list', onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event), onscroll: () => this.draw() }, this.space);
    this.root.addEventListener('focus', () => this.active ?? this.move(0));
    // Asking for the width at each drawing would lay the page out each time.
    if (globalThis.ResizeObserver) new ResizeObserver(([{ contentRect }]) => this.resized(contentRect.width)).observe(this.root);
  }

  /** Narrow lists have rows of two lines, as in the style. */
  get rowHeight() {
    return this.width < 560 ? 52 : 32;
  }

  /** @param {number} width */
  resized(width) {
    if (!width || width === this.width) return;
    const [before, top] = [this.rowHeight, this.root.scrollTop];
    this.width = width;
    this.draw();
    if (before === this.rowHeight) return;
    // What was in view stays there.
    this.root.scrollTop = top * (this.rowHeight / before);
    this.draw();
  }

  /** Whether the newest rows are in view and the keyboard is not on a row. */
  get isAtTop() {
    return this.root.scrollTop < this.rowHeight / 2 && !(this.active && document.activeElement === this.root);
  }

  /** @param {Rows} rows @param {string} opened the id of the record shown beside */
  show(rows, opened) {
    this.rows = rows;
    this.opened = opened;
    this.draw();
  }

  /** Makes the rows of some kinds anew when they are drawn next. @param {EntryKind[]} kinds */
  forget(kinds) {
    for (const [entry, node] of this.nodes) {
      if (!kinds.includes(entry.kind)) continue;
      node.remove();
      this.nodes.delete(entry);
    }
  }

  draw() {
    const { rows, root, rowHeight } = this;
    const { first, last } = visibleRange(root.scrollTop, root.clientHeight || 600, rowHeight, rows.count);
    this.space.style.height = `${rows.count * rowHeight}px`;
    /** @type {Map<Entry, HTMLElement>} */
    const nodes = new Map();
    for (let i = first; i < last; i++) {
      const entry = rows.at(i);
      if (!entry) continue;
      const node = this.nodes.get(entry) ?? this.make(entry);
      const isOpen = entry.id === this.opened && entry.kind !== 'notice';
      const place = `translateY(${i * rowHeight}px)`;
      if (node.style.transform !== place) node.style.transform = place;
      node.setAttribute('aria-posinset', String(i + 1));
      node.setAttribute('aria-setsize', String(rows.count));
      node.setAttribute('aria-selected', String(isOpen));
      node.classList.toggle('active', entry === this.active);
      node.classList.toggle('child', Boolean(rows.isChild?.(entry)));
      nodes.set(entry, node);
    }
    for (const [entry, node] of this.nodes) if (!nodes.has(entry)) node.remove();
    let place = this.space.firstChild;
    for (const node of nodes.values()) {
      if (node !== place) this.space.insertBefore(node, place);
      else place = place.nextSibling;
    }
    this.nodes = nodes;
    const active = this.active && nodes.get(this.active);
    if (active) root.setAttribute('aria-activedescendant', active.id);
    else root.removeAttribute('aria-activedescendant');
  }

  /** @param {Entry} entry @returns {HTMLElement} */
  make(entry) {
    const row = h(`div.row.kind-${entry.kind}`, { role: 'option', id: `row-${++numbers}`, onclick: () => this.choose(entry) });
    row.append(guarded(() => h('span.cells', null, this.cells(entry)), entry));
    return row;
  }

  /** @param {Entry} entry */
  choose(entry) {
    this.active = entry;
    this.draw();
    this.open(entry);
  }

  /** The place of the first row for which this holds, or -1. @param {(entry: Entry) => boolean} holds @returns {number} */
  placeOf(holds) {
    for (let i = 0; i < this.rows.count; i++) {
      const entry = this.rows.at(i);
      if (entry && holds(entry)) return i;
    }
    return -1;
  }

  /** Moves by so many rows. @param {number} by */
  move(by) {
    const { active } = this;
    // The row may have been read again meanwhile.
    const place = active ? this.placeOf((entry) => entry === active || isSame(entry, active)) : -1;
    this.moveTo(place < 0 ? 0 : place + by);
  }

  /** @param {number} place */
  moveTo(place) {
    const next = Math.max(0, Math.min(this.rows.count - 1, place));
    this.active = this.rows.at(next) ?? null;
    const { root, rowHeight } = this;
    root.scrollTop = scrolledTo(next, root.scrollTop, root.clientHeight, rowHeight);
    this.draw();
  }

  /** Makes the row of a record the active one, in view. False if it is not in the list, or the list is not on the screen. @param {string} id */
  reveal(id) {
    if (!this.root.clientHeight) return false;
    const place = this.placeOf((entry) => entry.id === id && entry.kind !== 'notice');
    if (place < 0) return false;
    const { root, rowHeight } = this;
    // Not at an edge, because what is above the list may become higher.
    if (scrolledTo(place, root.scrollTop, root.clientHeight, rowHeight) !== root.scrollTop) root.scrollTop = place * rowHeight - root.clientHeight / 3;
    this.moveTo(place);
    return true;
  }

  /** Opens the next record from the active one, or with -1 the one before; notices have nothing to open. @param {number} by */
  step(by) {
    let before;
    do {
      before = this.active;
      this.move(by);
    } while (this.active?.kind === 'notice' && this.active !== before);
    if (this.active) this.open(this.active);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.rowHeight) - 1);
    const moves = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity });
    if (event.key in moves) this.move(moves[event.key]);
    else if ((event.key === 'Enter' || event.key === ' ') && this.active) this.open(this.active);
    else return;
    event.preventDefault();
  }
}

/** What can be opened in a view that is no virtual list. @returns {HTMLElement[]} */
export function openable() {
  return [...document.querySelectorAll('#main .go')].map((one) => /** @type {HTMLElement} */ (one)).filter((one) => one.checkVisibility());
}

/** Moves the keyboard by so many of them, or, while one is open, opens the next. @param {Page} page @param {string} open the id of the open one @param {number} by */
export function stepFrom(page, open, by) {
  const rows = openable();
  const at = rows.findIndex((row) => (open ? row.dataset.id === open : row === document.activeElement));
  const next = rows[at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by))];
  if (open && next?.dataset.id) page.go({ id: next.dataset.id }, true);
  else next?.focus();
}
