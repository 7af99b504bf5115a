// A small document for modules that build nodes.

import { parseHTML } from "linkedom";

const { document, Node, window } = parseHTML('<!doctype html><html lang="en"><head></head><body></body></html>');
Object.assign(globalThis, { document, Node, window, HTMLElement: window.HTMLElement, matchMedia: () => ({ matches: false }) });

// It lays nothing out, and chooses no option.
Object.defineProperty(window.HTMLSelectElement.prototype, "value", { value: "", writable: true });
Object.assign(window.HTMLElement.prototype, { scrollTop: 0, clientHeight: 280 });

export { document };
