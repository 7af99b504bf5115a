// Parts that several views are made of: commands to copy, actions, status marks, headers, bodies.

import { actionOf, cliLine, commandOfAdvice, curlLine, optionOfAdvice } from './command.js';
import { breakable, foreign, h, icon, prose, s } from './element.js';
import { bytesText, capital, count, duration, messageOf, oneLine, prettyBody, statusOf } from './text.js';

/** A heading and its content. @param {string} title @param {...(Child | Child[])} children */
export function section(title, ...children) {
  return h('section', null, h('h3', null, title), ...children);
}

/** Copies text, and says so. @param {Page} page @param {string} text @param {string} [what] */
export async function copyText(page, text, what = '') {
  try {
    await navigator.clipboard.writeText(text);
    page.ui.copied = text;
    page.say(what ? `Copied: ${what}` : 'Copied');
  } catch (error) {
    page.say(`Could not copy: ${messageOf(error)}`);
  }
}

/** A button that copies text and announces it. @param {Page} page @param {string} text @param {string} what @returns {Node} */
export function copyButton(page, text, what) {
  const isDone = page.ui.copied === text;
  return h('button.plain.only', { 'aria-label': `Copy ${what}`, title: isDone ? 'Copied' : 'Copy', onclick: () => copyText(page, text) }, icon(isDone ? 'check' : 'copy'));
}

/** The one menu of what can be copied: it copies at once and says so. @param {Page} page @param {string} id @param {[string, string][]} items what it is called, and the text */
export function copyMenu(page, id, items) {
  const { ui } = page;
  const isOpen = ui.menuOpen === id;
  const toggle = (/** @type {Event} */ event) => {
    const { offsetLeft, offsetWidth, offsetParent } = /** @type {HTMLElement} */ (/** @type {Element} */ (event.currentTarget).parentElement);
    // It opens to the side that has room.
    ui.isMenuLeft = 2 * offsetLeft + offsetWidth < (offsetParent?.clientWidth ?? 0);
    ui.menuOpen = isOpen ? '' : id;
    page.redraw();
  };
  const copy = (/** @type {string} */ name, /** @type {string} */ text) => {
    ui.menuOpen = '';
    copyText(page, text, name);
  };
  return h('div.drop', { key: `menu ${id}` },
    h('button.plain', { 'aria-expanded': String(isOpen), onclick: toggle }, icon('copy'), h('span', null, 'Copy as…')),
    isOpen ? h(ui.isMenuLeft ? 'div.sheet.left' : 'div.sheet', null, items.map(([name, text]) => h('button', { onclick: () => copy(name, text) }, name))) : null);
}

/** Actions as commands, to copy. @param {Page} page @param {Action[]} actions @returns {[string, string][]} */
export function commandsOf(page, actions) {
  return actions.flatMap((action) => {
    const name = actions.length > 1 ? `${action.label}: ` : '';
    return [/** @type {[string, string]} */ ([`${name}CLI`, cliLine(action.cli, page.base)]), /** @type {[string, string]} */ ([`${name}curl`, curlLine(action, page.base, page.hasToken)])];
  });
}

/** An id, quiet, with a button that copies it. @param {Page} page @param {string} id @returns {Node} */
export function idPart(page, id) {
  return h('span.id', null, foreign(oneLine(id, 120)), copyButton(page, id, `the id ${oneLine(id, 60)}`));
}

/** What a record's pane begins with. @param {Page} page @param {string} title @param {string | null | undefined} key @param {string} id @param {Node} state @param {string} [when] @returns {Node} */
export function paneHead(page, title, key, id, state, when = '') {
  return h('div', null, h('h2', null, breakable(title)),
    h('p.actions.small', null, state, when ? h('span.quiet', null, when) : null, key ? filterable(page, 'key', key) : null),
    h('p.actions', null, idPart(page, id), page.isDocument ? null : h('button.plain.small', { onclick: () => copyText(page, new URL(page.address({}), page.base).href, 'link') }, 'Copy link')));
}

/** A command with a button that copies it. @param {Page} page @param {string} line @param {string} what @returns {Node} */
export function commandLine(page, line, what) {
  return h('div.command', null, h('code', { tabindex: 0 }, line), copyButton(page, line, what));
}

/** What to do next: a command that the page can carry out is a button. @param {Page} page @param {Explanation} explanation @returns {Node | null} */
export function adviceList(page, { advice, request }) {
  return advice?.length ? h('section.next', null, h('h3', null, 'What to do'), h('ul.advice', null, advice.map((one) => h('li', null, prose(capital(one.text)), one.advice ? adviceDone(page, one.advice, request?.scenario ?? null) : null)))) : null;
}

/** Advice as a button, or else as a command; in a report as an option of the next run. @param {Page} page @param {Advice} advice @param {string | null} scenario @returns {Node} */
export function adviceDone(page, advice, scenario) {
  const option = page.isDocument ? optionOfAdvice(advice) : null;
  if (option) return commandLine(page, option, 'the option of the next run');
  const action = page.isDocument ? null : actionOf(advice, scenario);
  return action ? h('div.actions', null, actionButton(page, { ...action, isSaid: true }), copyMenu(page, action.id, commandsOf(page, [action]))) : commandLine(page, commandOfAdvice(advice, page.base), 'the command');
}

/** A button that sends one request which needs no key, where the emulated API is on the same address. @param {Page} page @returns {Node | null} */
export function testButton(page) {
  const api = page.store.run?.emulator?.base_url;
  if (page.isDocument || (api && new URL(api).port !== new URL(page.base).port && page.base.endsWith(`${new URL(page.base).host}/_emulator/`))) return null;
  const send = async () => {
    try {
      const { status } = await fetch(new URL('../v1/hello', page.base), { cache: 'no-store' });
      page.say(`Sent: GET /v1/hello was answered with ${status}`);
    } catch (error) {
      page.say(messageOf(error));
    }
  };
  return h('button.primary', { onclick: send }, 'Send a test request');
}

/** What to show where there is nothing yet. @param {Page} page @param {string} text @param {string[]} lines */
export function emptyState(page, text, lines) {
  return h('div.empty', null, h('p', null, text), lines.map((line) => commandLine(page, line, 'the command')));
}

/**
 * A button that makes one call. `look` is its class; one that submits is the button of a form, and the primary one.
 * @param {Page} page @param {Action} action @param {boolean} [submits] @param {string} [look]
 */
export function actionButton(page, action, submits, look = submits ? 'primary' : '') {
  if (page.isDocument) return null;
  const { ui } = page;
  const asks = ui.asked === action.id;
  const said = ui.results.get(action.id);
  const isBusy = said?.busy;
  const ask = () => {
    ui.asked = action.id;
    page.redraw();
  };
  const press = () => (action.danger ? ask() : page.perform(action));
  const no = () => {
    ui.asked = '';
    page.redraw();
  };
  return h('div.action', { key: action.id },
    asks
      ? h('div.confirm', { role: 'group', 'aria-label': 'Are you sure?' },
        h('p', null, action.danger),
        h('button.danger', { onclick: () => page.perform(action) }, `Yes, ${action.label.toLowerCase()}`),
        h('button', { onclick: no }, 'Cancel'))
      : h('button', { type: submits ? 'submit' : null, class: look || null, disabled: isBusy, onclick: submits ? null : press }, action.label, action.about ? h('span.hidden', null, ` ${action.about}`) : null),
    said && !said.busy && !action.isQuiet ? h(`p.result.${said.ok ? 'ok' : 'bad'}`, null, icon(said.ok ? 'check' : 'cross'), ' ', foreign(said.message), said.ok ? null : (said.data?.advice ?? []).map((/** @type {Advice} */ one) => adviceDone(page, one, null))) : null);
}

/** @param {Entry} entry @returns {Node} */
export function statusMark(entry) {
  const [text, colour, symbol] = statusOf(entry);
  return h(`span.status.${colour}`, null, icon(/** @type {'check'} */ (symbol)), text);
}

/** The attempts of a delivery as dots, what came of the one that decides, and when the next one is. @param {Page} page @param {Entry} entry @param {string} reason @returns {(Node | string)[]} */
export function attemptDots({ store }, { id }, reason) {
  const all = store.attempts.get(id) ?? [];
  const shown = all.slice(-8);
  const next = store.run?.due?.find(({ delivery }) => delivery === id)?.in_ms;
  const place = (/** @type {number} */ i) => 6 + i * 12;
  const number = shown.length + (next == null ? 0 : 1);
  return [s('svg', { class: 'dots', viewBox: `0 0 ${number * 12} 12`, width: number * 12, role: 'img', 'aria-label': count(all.length, 'attempt') },
    shown.map((one, i) => (one.failed ? s('rect', { class: statusOf(one)[1], x: place(i) - 3.5, y: 2.5, width: 7, height: 7, transform: `rotate(45 ${place(i)} 6)` }) : s('circle', { class: statusOf(one)[1], cx: place(i), cy: 6, r: 4 }))),
    next == null ? null : s('circle', { class: 'open', cx: place(shown.length), cy: 6, r: 3.5 })), foreign([reason, next == null ? '' : `next in ${duration(next)}`].filter(Boolean).join('; '))];
}

/** The symbol of each colour. */
const SYMBOLS_OF = /** @type {const} */ ({ ok: 'check', bad: 'cross', warn: 'warn', info: 'dot', quiet: 'dot' });

/** A status of a record, as text with shape and colour. @param {string} text @param {'ok' | 'bad' | 'warn' | 'info' | 'quiet'} colour @returns {Node} */
export function mark(text, colour) {
  return h(`span.status.${colour}`, null, icon(SYMBOLS_OF[colour]), text);
}

/** Says what nobody could check. @param {number} number of entries */
export const forgottenNote = (number) => (number ? h('p.note', null, `${count(number, 'entry', 'entries')} were evicted from the journal, unchecked.`) : null);

/** The search of a view; its text is in the address. @param {Page} page @param {string} placeholder @returns {Node} */
export function searchBox(page, placeholder) {
  const search = (/** @type {Typed} */ event) => page.go({ filter: event.target.value }, true);
  return h('label.filter', null, icon('find'), h('span.hidden', null, 'Search'), h('input', { id: 'filter', type: 'search', controlled: page.route.filter, placeholder, oninput: search }));
}

/** What may be wider than the view, which keys can scroll. @param {string} label @param {Node} content @returns {Node} */
export function scrolled(label, content) {
  return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': label }, content);
}

/** Names and values. @param {[string, Child | Child[]][]} pairs */
export function pairs(pairs) {
  return h('dl', null, pairs.map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

/** A value that can be made part of the filter. @param {Page} page @param {string} name @param {string | null | undefined} value */
export function filterable(page, name, value) {
  if (!value) return h('span.quiet', null, 'none');
  return h('button.value', { title: 'Show only these', 'aria-label': `Filter by ${name} ${oneLine(value, 80)}`, onclick: () => page.filterBy(name, value) }, foreign(oneLine(value)));
}

/** @param {string} label @param {[string, string][] | undefined} headers @param {string[]} [marked] names of headers that stand out */
export function headersTable(label, headers, marked = []) {
  if (!headers?.length) return h('p.quiet', null, 'No headers.');
  const rows = headers.map(([name, value]) => h(marked.includes(name.toLowerCase()) ? 'tr.marked' : 'tr', null, h('th', { scope: 'row' }, foreign(oneLine(name, 200))), h('td', null, foreign(value))));
  return scrolled(label, h('table.headers', null, h('tbody', null, rows)));
}

/** @param {string} label @param {Bytes | undefined} body @param {number} [length] bytes that were announced @returns {Node} */
export function bodyBlock(label, body, length = 0) {
  if (!bytesText(body)) return h('p.quiet', null, length > 0 ? `The body of ${length} bytes was not read.` : 'No body.');
  return pre(label, prettyBody(body));
}

/** Text as it is, which keys can scroll. @param {string} label @param {string} text @returns {Node} */
export function pre(label, text) {
  return h('pre', { tabindex: 0, role: 'region', 'aria-label': label }, text);
}

/** What opens on demand. @param {string} title @param {boolean} open @param {...(Child | Child[])} children */
export function fold(title, open, ...children) {
  return h('details', { open, key: `fold ${title}` }, h('summary', null, h('h3', null, title)), ...children);
}

/**
 * A row that opens in place.
 * @param {string} id @param {'bad' | 'warn' | 'ok' | 'info' | 'quiet'} colour @param {string} word what the colour means @param {Child} title
 * @param {Child[]} about @param {boolean} isOpen @param {Child[]} content
 */
export function opening(id, colour, word, title, about, isOpen, content) {
  return h('details.cause', { open: isOpen }, h('summary.go', { 'data-id': id }, h(`span.${colour}`, null, icon(SYMBOLS_OF[colour]), h('span.hidden', null, `${word}: `)), h('h4', null, title), about), h('div.facts', null, content));
}

/** A link within the page. @param {Page} page @param {To} to @param {string} text @returns {Node} */
export function link(page, to, text) {
  return h(/^(req|evt|dlv|sub|ws)_/.test(text) ? 'a.id' : 'a', { href: page.address(to) }, foreign(text));
}

/** How much of something there is. @param {string} label @param {number} value @param {number} most @param {string} [colour] @returns {Node} */
export function meter(label, value, most, colour) {
  const part = most > 0 ? Math.max(0, Math.min(1, value / most)) : 0;
  return s('svg', { class: `meter ${colour ?? (part > 0.2 ? '' : part ? 'warn' : 'bad')}`, role: 'img', 'aria-label': label, viewBox: '0 0 100 6', preserveAspectRatio: 'none' },
    s('rect', { class: 'rest', width: 100, height: 6, rx: 1 }), s('rect', { class: 'level', width: (part * 100).toFixed(1), height: 6, rx: 1 }));
}

/** Whose key a form is about: the one chosen for the page, else one that the form asks for; empty as long as that is open. @param {Page} page @param {{key?: string}} values */
export function keyOf(page, values) {
  const known = page.store.keys();
  return page.route.key || (known.length > 1 ? known.find((key) => key === values.key) ?? '' : known[0] ?? 'sk_test_local');
}

/** An input handler that stores the typed text. @param {Page} page @param {Record<string, any>} values @param {string} name */
export const taking = (page, values, name) => (/** @type {Typed} */ event) => {
  values[name] = event.target.value;
  page.redraw();
};

/** The field of a form that asks for the key, while the page is about all of them. @param {Page} page @param {{key?: string}} values @returns {Node | null} */
export function keyChoice(page, values) {
  if (page.route.key || page.store.keys().length < 2) return null;
  return h('label', null, 'Key', h('input', { type: 'search', list: 'keys', controlled: values.key ?? '', oninput: taking(page, values, 'key'), required: true, placeholder: 'Choose a key', autocomplete: 'off', spellcheck: 'false' }));
}

/** Saves what happened, to the chosen key or to all, as one file that any browser shows. @param {Page} page */
export async function saveReport(page) {
  const { key } = page.route;
  try {
    const answer = await fetch(`report.html?key=${encodeURIComponent(key || '*')}`, { headers: page.live.headers(), cache: 'no-store' });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    save('report.html', await answer.blob());
    page.say('Saved: report.html');
  } catch (error) {
    page.say(messageOf(error));
  }
}

/** Where a scenario without a file is, and how to keep it. @param {Page} page @param {string} name @param {string} text @returns {Node} */
export function keptPart(page, name, text, where = ['It ends with the emulator, unless that was started with ', h('code', null, '--state'), '.']) {
  const [folder = './scenarios'] = page.store.run?.emulator?.scenario_folders ?? [];
  return h('p.note', null, where, ' To keep it, save it in ', foreign(folder, 'code'), ', where the emulator finds it: ',
    h('button', { onclick: () => save(`${name}.toml`, text) }, `Save ${name}.toml`), ' ', copyButton(page, text, 'the scenario'));
}

/** Offers a text as a file to save. @param {string} name @param {string | Blob} text */
export function save(name, text) {
  const href = URL.createObjectURL(new Blob([text]));
  Object.assign(document.createElement('a'), { href, download: name }).click();
  URL.revokeObjectURL(href);
}

/**
 * The OpenAPI documents, as files to save: a browser that showed one would ask for an icon, which the journal would have as a request. A
 * link sends no token, so with one the page fetches the document.
 * @param {Page} page @returns {Node}
 */
export function documentLinks(page) {
  const one = (/** @type {string} */ path, /** @type {string} */ name) => {
    const file = path.replace('/', '-');
    const fetched = async (/** @type {Event} */ event) => {
      if (!page.hasToken) return;
      event.preventDefault();
      const { data } = await page.live.call('GET', path);
      save(file, `${JSON.stringify(data, null, 2)}\n`);
    };
    return h('a', { href: path, download: file, onclick: fetched }, name);
  };
  return h('p', null, 'OpenAPI documents: ', one('v1/openapi.json', 'the emulated API'), ' and ', one('openapi.json', 'the control API'), '.');
}
