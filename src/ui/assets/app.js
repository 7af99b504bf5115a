// The page: puts views, connection and address together. With an element `#run` it shows the document in it and uses no network.

import { Activity } from './activity.js';
import { cliLine, DEFAULT_ORIGIN, outcomeOf } from './command.js';
import { checkView, deliveryPane } from './delivery.js';
import { foreign, guarded, h, icon, morph } from './element.js';
import { withWord } from './filter.js';
import { frame, pageTitle } from './frame.js';
import { keyPane, keysView } from './keys.js';
import { openable, stepFrom } from './list.js';
import { Live } from './live.js';
import { eventPane, requestPane } from './request.js';
import { reviewView } from './review.js';
import { formatRoute, parseRoute } from './route.js';
import { scenariosView } from './scenarios.js';
import { settingsView } from './settings.js';
import { Store } from './store.js';
import { subscriptionPane, subscriptionsView, triggerView } from './subscriptions.js';
import { summaryView } from './summary.js';
import { dateTime, messageOf, timeOfId } from './text.js';
import { timeView } from './time.js';

/** The views that are rendered from the state alone. @type {Record<string, (page: Page) => Nodes>} */
const STATE_VIEWS = {
  summary: summaryView, review: reviewView, subscriptions: subscriptionsView, scenarios: scenariosView, time: timeView, keys: keysView, settings: settingsView,
  trigger: triggerView, check: checkView,
};

/** What is beside a view, of what its address names. @type {Record<string, (page: Page) => Node>} */
const PANES = { keys: keyPane, subscriptions: subscriptionPane };

/** @implements {Page} */
class App {
  constructor() {
    this.store = new Store();
    this.live = new Live(this.store);
    const inline = document.getElementById('run');
    this.first = inline ? 'summary' : 'activity';
    this.route = parseRoute(location.hash, this.first);
    this.activity = new Activity(this);
    /** What people chose on the page, beyond the address. */
    this.ui = { asked: '', copied: '', results: new Map(), filterFocused: false, menu: false, menuOpen: '', toast: false, shortcuts: true, forms: {}, notice: '' };
    this.base = new URL('.', location.href).href;
    this.said = '';
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.toastTimer = undefined;
    this.dirty = { ui: true, run: true };
    this.isScheduled = false;
    /** @type {unknown} */
    this.shownRun = null;
    /** @type {unknown} */
    this.shownDetail = null;
    this.shownPhase = '';
    /** The width of the view, and the node that has it. */
    this.width = 0;
    /** @type {Element | null} */
    this.watched = null;
    this.observer = new ResizeObserver(([{ borderBoxSize }]) => {
      const { inlineSize } = borderBoxSize[0];
      if (!inlineSize || inlineSize === this.width) return;
      this.width = inlineSize;
      this.redraw();
    });
    this.isMoved = false;
    /** The record opened last, as long as its row is not in view. */
    this.hidden = this.route.id;
    this.isJudging = false;
    this.failuresRead = 0;
    /** The key and the records of the findings that were requested last. */
    this.judged = '';
    /** @type {Set<string>} */
    this.loading = new Set();
    /** What changed while it was read. @type {Set<string>} */
    this.stale = new Set();
    this.store.changed = () => this.schedule();
    this.live.onNews = (ids) => this.news(ids);
    this.live.onRestart = () => {
      this.ui.notice = 'The emulator was restarted; its earlier activity is gone.';
      this.ui.results = new Map();
      this.redraw();
    };
    if (inline) {
      this.store.phase = 'document';
      this.store.takeRun(JSON.parse(inline.textContent ?? ''), 0);
      this.base = this.store.run?.emulator?.base_url ? `${this.store.run.emulator.base_url}/_emulator/` : `${DEFAULT_ORIGIN}/_emulator/`;
    }
    addEventListener('hashchange', () => this.moved());
    addEventListener('resize', () => this.redraw());
    document.addEventListener('submit', (event) => event.preventDefault());
    document.addEventListener('visibilitychange', () => this.redraw());
    document.addEventListener('keydown', (event) => this.key(event));
    document.addEventListener('click', (event) => {
      if (this.ui.menuOpen && !(/** @type {Element} */ (event.target).closest?.('.drop'))) this.closeMenu();
    });
    if (!inline) this.live.start();
    this.redraw();
  }

  get isDocument() {
    return this.store.phase === 'document';
  }

  /** Failures since the tab was last in view. */
  get unread() {
    if (!document.hidden || this.store.phase !== 'live') this.failuresRead = this.store.failures;
    return this.store.failures - this.failuresRead;
  }

  get hasToken() {
    return this.live.token !== '';
  }

  /** @param {string[]} words */
  cli(words) {
    return cliLine(words, this.base);
  }

  /** @param {To} to @returns {string} */
  address(to) {
    const elsewhere = to.view !== undefined && to.view !== this.route.view;
    return formatRoute({ ...this.route, ...(elsewhere ? { id: '', filter: '' } : {}), ...to });
  }

  /** @param {To} to @param {boolean} [replace] without a step of the history */
  go(to, replace) {
    const address = this.address(to);
    if (replace) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    this.moved();
  }

  moved() {
    const before = this.route;
    this.route = parseRoute(location.hash, this.first);
    if (before.view !== this.route.view) {
      this.ui.menu = false;
      this.judged = '';
    }
    if (before.view !== this.route.view || before.id !== this.route.id) this.ui.results = new Map();
    if (before.key !== this.route.key && !this.isDocument) {
      this.store.findings = this.store.verdict = null;
      this.isJudging = false;
      // What was done and typed concerned the other key; what is still on its way is put into the old map.
      this.ui.results = new Map();
      Object.assign(this.ui.forms, { pending: {}, settings: {} });
    }
    // On a narrow screen the list comes back once the record is closed.
    if (before.id !== this.route.id) this.hidden = this.route.id || this.hidden;
    const isElsewhere = ['view', 'key', 'filter'].some((part) => before[/** @type {'view'} */ (part)] !== this.route[/** @type {'view'} */ (part)]);
    if (!this.route.id && isElsewhere) this.hidden = '';
    this.isMoved = before.id !== this.route.id || before.view !== this.route.view;
    this.ui.asked = '';
    this.ui.menuOpen = '';
    this.redraw();
  }

  /** @param {string} name @param {string} value */
  filterBy(name, value) {
    this.go({ view: ['activity', 'deliveries'].includes(this.route.view) ? this.route.view : 'activity', filter: withWord(this.route.filter, name, value) });
  }

  /** Announces something to screen readers. @param {string} text */
  announce(text) {
    this.said = text;
    this.redraw();
  }

  /** Announces something, and shows it for a moment. @param {string} text */
  say(text) {
    clearTimeout(this.toastTimer);
    this.ui.toast = true;
    this.toastTimer = setTimeout(() => {
      this.ui.toast = false;
      this.redraw();
    }, 2500);
    this.announce(text);
  }

  closeMenu() {
    this.ui.menuOpen = '';
    this.redraw();
  }

  /** @param {Action} action */
  async perform(action) {
    const { results } = this.ui;
    this.ui.asked = '';
    // What an earlier one led to may no longer be so.
    results.clear();
    results.set(action.id, { busy: true, ok: true, message: '' });
    this.redraw();
    try {
      const { ok, data } = await this.live.call(action.method, action.path, action.text ?? action.body);
      results.set(action.id, { busy: false, ok, message: outcomeOf(data, action.done), data });
    } catch (error) {
      results.set(action.id, { busy: false, ok: false, message: messageOf(error) });
    }
    this.live.refresh();
    // Advice in an open pane may have been followed.
    if (this.route.id.startsWith('req_')) this.load(this.route.id);
    const { ok, message } = results.get(action.id);
    const said = ok && action.done ? message : `${action.label}: ${message}`;
    if (ok) action.after?.();
    // What its button stands beside may be gone by then.
    this[action.isSaid ? 'say' : 'announce'](said);
    return results.get(action.id);
  }

  /** Reads the open details again if their record has changed, and discards others that have. @param {Set<string>} ids */
  news(ids) {
    if (ids.has(this.route.id)) this.load(this.route.id);
    for (const id of ids) if (id !== this.route.id) this.store.details.delete(id);
  }

  /** @param {string} id */
  async load(id) {
    if (this.isDocument) return;
    if (this.loading.has(id)) return void this.stale.add(id);
    this.loading.add(id);
    this.stale.delete(id);
    try {
      const { ok, data } = await this.live.call('GET', `explain/${encodeURIComponent(id)}`);
      this.store.keepDetail(id, ok ? { explanation: data } : { error: data.error?.message ?? 'no answer' });
    } catch (error) {
      this.store.keepDetail(id, { error: messageOf(error) });
    }
    // A record that keeps changing is read at most four times a second.
    setTimeout(() => {
      this.loading.delete(id);
      if (this.stale.has(id) && id === this.route.id) this.load(id);
      this.schedule();
    }, 250);
  }

  /** Reads the findings and the verdict while they are shown, when records arrived or another key was chosen: at most once in two seconds. */
  async judge() {
    const { store } = this;
    const { key } = this.route;
    const about = `${key} ${store.seen} ${store.epoch}`;
    if (this.isJudging || this.judged === about || store.phase !== 'live') return;
    this.isJudging = true;
    this.judged = about;
    const of = `?key=${encodeURIComponent(key || '*')}`;
    try {
      const { ok, data } = await this.live.call('GET', `findings${of}`);
      const verdict = await this.live.call('GET', `verdict${of}`);
      // Another key may have been chosen meanwhile.
      if (about === this.judged) {
        Object.assign(store, { findings: ok ? data : null, problem: ok ? '' : data.error?.message, verdict: verdict.ok ? verdict.data : null });
      }
    } catch {
      // The stream notices a broken connection and reports it.
    }
    this.redraw();
    setTimeout(() => {
      this.isJudging = false;
      this.schedule();
    }, 2000);
  }

  redraw() {
    this.dirty.ui = true;
    this.schedule();
  }

  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    const render = () => {
      this.isScheduled = false;
      this.render();
    };
    // A tab out of view has no frames, but a title.
    if (document.hidden) setTimeout(render, 1000);
    else requestAnimationFrame(render);
  }

  render() {
    const { route, store, dirty } = this;
    const isList = route.view === 'activity' || route.view === 'deliveries';
    const kind = route.view === 'deliveries' ? 'delivery' : '';
    if (isList) this.activity.update(kind);
    if (route.view === 'review' || route.view === 'summary') this.judge();
    const detail = isList && route.id ? store.detail(route.id) : undefined;
    if (isList && route.id && !detail && store.phase !== 'token') this.load(route.id);
    const isNew = dirty.ui || this.shownRun !== store.run || this.shownPhase !== store.phase;
    const isPaneNew = dirty.ui || this.shownDetail !== detail;
    const main = this.part('main', isList || isNew, () => (isList ? this.activity.view(kind ? 'Deliveries' : 'Activity', kind) : STATE_VIEWS[route.view](this)));
    const beside = PANES[route.view];
    const pane = !route.id || store.phase === 'token' ? null : isList ? this.part('pane', isPaneNew, () => [this.inPane(this.detailPart(detail))]) : beside ? this.part('pane', isNew, () => [this.inPane(guarded(() => beside(this), route))]) : null;
    if (isNew || isPaneNew || isList) {
      const body = h('div.app', { id: 'app' }, frame(this, main, pane));
      const old = document.getElementById('app');
      if (old) morph(old, body);
      else {
        // What a report says without scripts.
        document.getElementById('plain')?.remove();
        document.body.append(body);
      }
    }
    if (isNew || document.hidden) {
      document.title = pageTitle(this);
    }
    if (isList) this.activity.list.draw();
    // Its row may come later, with the whole journal.
    if (isList && this.hidden && this.activity.list.reveal(this.hidden)) this.hidden = '';
    const chosen = isList || !this.hidden ? null : document.querySelector('#main .chosen');
    if (chosen) {
      // What is chosen by its address is open.
      const details = chosen.querySelector('details');
      if (details) details.open = true;
      chosen.scrollIntoView?.({ block: 'nearest' });
      this.hidden = '';
    }
    if (this.isMoved) this.settle();
    this.watchWidth();
    [this.shownRun, this.shownPhase, this.shownDetail, this.isMoved] = [store.run, store.phase, detail, false];
    dirty.ui = false;
  }

  /** What is drawn to the width of the view is drawn anew once that is known; asking for it would lay the page out. */
  watchWidth() {
    const main = document.getElementById('main');
    if (!main || main === this.watched) return;
    this.watched = main;
    this.observer.disconnect();
    this.observer.observe(main);
  }

  /** The content of main part or pane; if nothing changed, an island that leaves it alone. @param {string} name @param {boolean} isNew @param {() => Nodes} make */
  part(name, isNew, make) {
    const old = /** @type {import('./element.js').Built | null} */ (document.getElementById(name));
    if (old) old.island = isNew ? undefined : 'same';
    if (!isNew) return h(`div.${name}`, { id: name, island: 'same', key: name });
    const content = guarded(() => {
      const all = document.createDocumentFragment();
      all.append(.../** @type {Node[]} */ (make().filter(Boolean)));
      return all;
    }, name === 'pane' ? this.store.detail(this.route.id) : this.route);
    return h(`div.${name}`, { id: name, key: name, tabindex: name === 'pane' ? -1 : null }, content);
  }

  /** @param {Detail | undefined} detail @returns {Node} */
  detailPart(detail) {
    if (!detail) return h('p.empty', null, 'Loading…');
    if ('error' in detail) {
      const { run } = this.store;
      const isOld = !this.isDocument && timeOfId(this.route.id) < Date.parse(run?.emulator?.started_at ?? '');
      return h('div.empty', null, h('h2', null, 'Record not found'), h('p', null, isOld ? `The emulator was restarted at ${dateTime(run?.emulator.started_at)}; earlier records are gone.` : null), h('p', null, foreign(detail.error)));
    }
    const { explanation } = detail;
    const make = explanation.delivery ? deliveryPane : explanation.event ? eventPane : requestPane;
    return guarded(() => make(this, explanation), explanation);
  }

  /** @param {Node} content @returns {Node} */
  inPane(content) {
    return h('div', { key: this.route.id }, h('button.close.plain', { onclick: () => this.close() }, icon('cross'), h('span', null, 'Close')), content);
  }

  /** Closes the pane; the keyboard is where it was opened. */
  close() {
    const { id } = this.route;
    this.go({ id: '' });
    if (this.activity.list.root.isConnected) return this.activity.list.root.focus();
    openable().find((row) => row.dataset.id === id)?.focus();
  }

  /** After a change of address: puts the focus and the scrolled parts where they belong. */
  settle() {
    const pane = document.getElementById('pane');
    if (this.route.id && pane) {
      pane.scrollTop = 0;
      pane.focus({ preventScroll: true });
    } else if (document.activeElement === document.body) {
      this.activity.list.root.focus();
    }
    if (!this.route.id) document.getElementById('main')?.scrollTo(0, 0);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      return this.palette(true);
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === 'Escape') return this.back(target);
    if (event.key === 'Enter' && target.id === 'filter') return this.activity.list.root.focus();
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.nodeName) || !this.ui.shortcuts || this.isHelping) return;
    const { list } = this.activity;
    const isList = list.root.isConnected;
    const isPane = Boolean(this.route.id) && isList;
    const step = (/** @type {number} */ by) => stepFrom(this, PANES[this.route.view] ? this.route.id : '', by);
    /** @type {Record<string, () => void>} */
    const does = {
      j: () => (isPane ? list.step(1) : isList ? list.move(list.active ? 1 : 0) : step(1)),
      k: () => (isPane ? list.step(-1) : isList ? list.move(-1) : step(-1)),
      Enter: () => { if (target === document.body && list.active) list.open(list.active); },
      '/': () => { this.ui.filterFocused = true; document.getElementById('filter')?.focus(); },
      p: () => { if (!this.isDocument) this.activity.pause(); },
      n: () => this.activity.showNew(),
      a: () => this.go({ view: 'activity', id: '' }),
      r: () => this.go({ view: 'review', id: '' }),
      t: () => this.go({ view: 'trigger', id: '' }),
      '?': () => this.help(true),
    };
    if (!(event.key in does)) return;
    if ('jk'.includes(event.key) && !isPane && isList && document.activeElement !== list.root) list.root.focus();
    does[event.key]();
    if (event.key !== 'Enter') event.preventDefault();
  }

  /** @param {HTMLElement} target */
  back(target) {
    if (this.isHelping) return;
    if (this.ui.menuOpen) return this.closeMenu();
    if (target.id === 'filter') this.activity.list.root.focus();
    else if (this.ui.asked) this.ui.asked = '';
    else if (this.ui.menu) this.ui.menu = false;
    else if (this.route.id) this.close();
    this.redraw();
  }

  get isHelping() {
    return /** @type {HTMLDialogElement | null} */ (document.querySelector('dialog[open]'));
  }

  /** @param {boolean} open */
  palette(open) {
    const dialog = /** @type {HTMLDialogElement} */ (document.getElementById('palette'));
    if (!open || dialog.open) return;
    const input = /** @type {HTMLInputElement} */ (dialog.querySelector('input'));
    input.value = '';
    dialog.showModal();
    input.focus();
  }

  /** @param {boolean} open */
  help(open) {
    const dialog = /** @type {HTMLDialogElement} */ (document.getElementById('help'));
    if (open && !dialog.open) dialog.showModal();
    else if (!open) dialog.close();
  }
}

new App();
