// Building nodes and bringing a rendered tree up to date. Strings are only ever text, with every character visible.

import { messageOf, visible } from './text.js';

/**
 * What `h` adds to an element. Handlers are properties; `key` identifies a child among its siblings; `controlled` is an input's
 * value where the page decides it, `isOn` whether it is checked; `island` marks a node that looks after its own children.
 * @typedef {HTMLElement & {nodeKey?: string, controlled?: string, isOn?: boolean, island?: string}} Built
 * @typedef {Node | string | number | null | undefined | false} Child
 */

const HANDLERS = ['onclick', 'onkeydown', 'oninput', 'onchange', 'onsubmit', 'onfocus', 'ontoggle', 'onscroll', 'onpointerdown', 'onpointermove', 'onpointerup'];
const SVG = 'http://www.w3.org/2000/svg';

/** @param {Element} node @param {string} name @param {unknown} value */
function setAttribute(node, name, value) {
  if (value == null || value === false) return;
  if (name === 'href' && !/^(#|docs\/|(v1\/)?openapi\.json$)/.test(String(value))) return;
  node.setAttribute(name, value === true ? '' : visible(value));
}

/** @param {Node} node @param {(Child | Child[])[]} children */
function append(node, children) {
  for (const child of children.flat()) {
    if (child == null || child === false) continue;
    node.appendChild(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

/**
 * An element.
 * @param {string} tag the name, and classes after dots
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {Built}
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const node = /** @type {Built} */ (document.createElement(name));
  if (classes.length) node.className = classes.join(' ');
  // Unless it says otherwise.
  if (name === 'button') node.setAttribute('type', 'button');
  if (name === 'h2') node.setAttribute('tabindex', '-1');
  for (const [prop, value] of Object.entries(props ?? {})) {
    if (HANDLERS.includes(prop)) /** @type {any} */ (node)[prop] = value ?? null;
    else if (prop === 'key') node.nodeKey = String(value);
    else if (prop === 'island') node.island = value;
    else if (prop === 'controlled') node.controlled = value;
    else if (prop === 'checked') Object.assign(node, { isOn: Boolean(value), checked: Boolean(value) });
    else setAttribute(node, prop, value);
  }
  append(node, children);
  // A field is known by its label: one that comes before it takes neither its place nor its focus.
  if (name === 'label') node.nodeKey ??= node.firstChild?.nodeValue ?? undefined;
  // A select has its value once it has its options.
  if (node.controlled !== undefined) /** @type {any} */ (node).value = node.controlled;
  return node;
}

/** An element of SVG. @param {string} name @param {Record<string, unknown>} props @param {...(Child | Child[])} children */
export function s(name, props, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [prop, value] of Object.entries(props)) {
    if (HANDLERS.includes(prop)) /** @type {any} */ (node)[prop] = value;
    else setAttribute(node, prop, value);
  }
  append(node, children);
  return node;
}

/** Symbols, as paths on a square of 16. */
const SYMBOLS = /** @type {const} */ ({
  check: 'M3 8.5l3.5 3.5L13 5', cross: 'M4 4l8 8M12 4l-8 8', warn: 'M8 3v6M8 12.5h.01', dot: 'M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 0 0 0-3z', bolt: 'M9 2L4 9h4l-1 5 5-7H8z', send: 'M3 8h10M9 4l4 4-4 4',
  cut: 'M2 8h4M10 8h4M6 5l4 6', pause: 'M6 4v8M10 4v8', play: 'M5 3l8 5-8 5z', copy: 'M6 6h7v7H6zM10 6V3H3v7h3', find: 'M7 3a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM10 10l3.5 3.5', menu: 'M3 4.5h10M3 8h10M3 11.5h10',
  time: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11zM8 5v3l2 1.5', keys: 'M5 5.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 0 0 0-5zM7.5 8H14v2.5M11 8v2', activity: 'M2 8h3l2-5 2 10 2-5h3', summary: 'M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z',
  review: 'M8 2l5 2v4c0 3-2 5-5 6c-3-1-5-3-5-6V4z', scenarios: 'M4 2.5h6l2.5 2.5v8.5H4zM6.5 7.5h4M6.5 10.5h4', subscriptions: 'M3.5 12.5h.01M3 8a5 5 0 0 1 5 5M3 3a10 10 0 0 1 10 10', settings: 'M3 5h6M11 3v4M13 5h-2M3 11h2M7 9v4M7 11h6', check_signature: 'M3 13l1-3 7-7 2 2-7 7z',
  up: 'M8 13V3M4 7l4-4 4 4', rise: 'M4 10l4-4 4 4', undo: 'M6 3L3 6l3 3M3 6h6a4 4 0 0 1 0 8H7', down: 'M4 6l4 4 4-4',
});

/** A symbol; what it means is in words beside it. @param {keyof typeof SYMBOLS} name */
export function icon(name) {
  return s('svg', { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: SYMBOLS[name] }));
}

/** The same for a URL or a name, which breaks between its parts. @param {string} text @returns {Built} */
export function breakable(text) {
  return h('bdi', null, text.split(/(?<=[/._?&:])(?=\w)/).flatMap((part) => [part, h('wbr', null)]));
}

/** Text that others wrote, isolated from what surrounds it. @param {unknown} value @param {string} [tag] @returns {Built} */
export function foreign(value, tag = 'bdi') {
  return h(tag, null, value == null ? '' : String(value));
}

/** A sentence that others wrote, with what is in backticks as code. @param {unknown} value @returns {Built} */
export function prose(value) {
  const parts = String(value ?? '').split(/\x60/);
  // An odd number of backticks quotes nothing.
  if (parts.length % 2 === 0) return foreign(value);
  return h('bdi', null, parts.map((part, i) => (i % 2 ? h('code', null, part) : part)));
}

/**
 * Makes part of a page; if that fails, a note with the record as text takes its place.
 * @param {() => Node} make @param {unknown} record @returns {Node}
 */
export function guarded(make, record) {
  try {
    return make();
  } catch (error) {
    let raw;
    try {
      raw = JSON.stringify(record, null, 2) ?? String(record);
    } catch {
      raw = 'no JSON';
    }
    return h('div.odd', null, h('p', null, `This could not be shown (${messageOf(error)}). The record:`), h('pre', { tabindex: 0 }, raw.slice(0, 20_000)));
  }
}

/** @param {Built} old @param {Built} fresh */
function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    // What is opened by hand stays open.
    if (!fresh.hasAttribute(name) && !(name === 'open' && old.nodeName === 'DETAILS')) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value && !(name === 'open' && old.nodeName === 'DETAILS')) old.setAttribute(name, value);
  }
  for (const name of HANDLERS) {
    const [from, to] = [/** @type {any} */ (fresh), /** @type {any} */ (old)];
    if (to[name] !== from[name]) to[name] = from[name];
  }
}

/**
 * Makes `old` like `fresh` and keeps what people changed: focus, text typed, what is open, where it is scrolled to.
 * @param {Node} old @param {Node} fresh
 */
export function morph(old, fresh) {
  const [before, after] = [/** @type {Built} */ (old), /** @type {Built} */ (fresh)];
  if (before.nodeName !== after.nodeName || before.nodeKey !== after.nodeKey) {
    before.replaceWith(after);
  } else if (before.nodeType === Node.TEXT_NODE) {
    if (before.nodeValue !== after.nodeValue) before.nodeValue = after.nodeValue;
  } else {
    if (before === after || (before.island && before.island === after.island)) return;
    morphAttributes(before, after);
    morphChildren(before, [...after.childNodes]);
    if (after.controlled !== undefined) {
      const input = /** @type {any} */ (before);
      if (input.value !== after.controlled) input.value = after.controlled;
      before.controlled = after.controlled;
    }
    if (after.isOn !== undefined) Object.assign(before, { checked: after.isOn, isOn: after.isOn });
  }
}

/** @param {Node} parent @param {Node[]} children */
export function morphChildren(parent, children) {
  /** @type {Map<string, Built>} */
  const keyed = new Map();
  for (const child of /** @type {Built[]} */ ([...parent.childNodes])) if (child.nodeKey !== undefined) keyed.set(child.nodeKey, child);
  // Nodes that are gone are removed first, so that their neighbours are found in place.
  const wanted = new Set(/** @type {Built[]} */ (children).map((child) => child.nodeKey));
  for (const [key, child] of keyed) if (!wanted.has(key)) child.remove();
  let place = /** @type {Built | null} */ (parent.firstChild);
  for (const child of /** @type {Built[]} */ (children)) {
    const found = child.nodeKey === undefined ? null : keyed.get(child.nodeKey);
    if (found && found !== place && found.nodeName === child.nodeName) {
      parent.insertBefore(found, place);
      morph(found, child);
    } else if (place && place.nodeName === child.nodeName && place.nodeKey === child.nodeKey) {
      const next = /** @type {Built | null} */ (place.nextSibling);
      morph(place, child);
      place = next;
    } else {
      parent.insertBefore(child, place);
    }
  }
  while (place) {
    const next = /** @type {Built | null} */ (place.nextSibling);
    place.remove();
    place = next;
  }
}
