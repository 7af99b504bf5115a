// Building nodes and bringing a rendered tree up to date. Strings are only ever text, with every character visible.

import { messageOf, visible } from './text.js';

/**
 * What `h` adds to an element. Handlers are properties; `key` identifies a child among its siblings; `controlled` is an input's
 * value where the page decides it; `island` marks a node that looks after its own children.
 * @typedef {HTMLElement & {nodeKey?: string, controlled?: string, island?: string}} Built
 * @typedef {Node | string | number | null | undefined | false} Child
 */

const HANDLERS = ['onclick', 'onkeydown', 'oninput', 'onchange', 'onsubmit', 'onfocus', 'ontoggle', 'onscroll'];
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
  for (const [prop, value] of Object.entries(props ?? {})) {
    if (HANDLERS.includes(prop)) /** @type {any} */ (node)[prop] = value ?? null;
    else if (prop === 'key') node.nodeKey = String(value);
    else if (prop === 'island') node.island = value;
    else if (prop === 'controlled') node.controlled = value;
    else setAttribute(node, prop, value);
  }
  append(node, children);
  // A select has its value once it has its options.
  if (node.controlled !== undefined) /** @type {any} */ (node).value = node.controlled;
  return node;
}

/** An element of SVG. @param {string} name @param {Record<string, unknown>} props @param {...(Child | Child[])} children */
export function s(name, props, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [prop, value] of Object.entries(props)) setAttribute(node, prop, value);
  append(node, children);
  return node;
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
