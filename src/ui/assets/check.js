// Check a signature: pasted headers and body, and the secret if a signature is to be computed. Nothing leaves the page.

import { signedContent } from './delivery.js';
import { foreign, h } from './element.js';
import { commandLine, mark, section } from './parts.js';
import { checkSignature, difference } from './signature.js';

/** @param {string} expected @param {string} found */
function compared(expected, found) {
  const parts = difference(expected, found);
  const line = (/** @type {string} */ name, /** @type {string} */ text) => h('p', null, h('span.label', null, `${name} `), foreign(parts.before), h('mark', null, foreign(text || '(nothing)')), foreign(parts.after));
  return h('div.signed', { tabindex: 0, role: 'region', 'aria-label': 'Signatures compared' }, line('expected', parts.one), line('found', parts.other));
}

/** @param {Page} page @returns {(Node | null)[]} */
export function checkView(page) {
  const values = page.ui.forms.check ??= { headers: '', body: '', secret: '', result: null };
  const change = (/** @type {'headers' | 'body' | 'secret'} */ name) => (/** @type {Event} */ event) => {
    values[name] = /** @type {HTMLInputElement} */ (event.target).value;
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    values.result = await checkSignature(values.headers, values.body, values.secret, Date.now());
    page.announce(values.result.summary);
  };
  const result = values.result;
  return [
    h('h2', { tabindex: -1 }, 'Check a signature'),
    h('p.quiet', null, 'Paste what your receiver got. Nothing leaves this tab.'),
    h('form', { onsubmit: submit },
      h('label', null, 'Headers: one per line, a raw request, curl -v, HAR or JSON', h('textarea', { controlled: values.headers, oninput: change('headers'), spellcheck: 'false', required: true, placeholder: 'webhook-id: evt_…\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,…' })),
      h('label', null, 'Body, exactly as received, unless included above', h('textarea', { controlled: values.body, oninput: change('body'), spellcheck: 'false' })),
      h('label', null, 'Secret; without it only the format is checked', h('input', { type: 'password', controlled: values.secret, oninput: change('secret'), autocomplete: 'off', placeholder: 'whsec_…' })),
      h('button.primary', { type: 'submit' }, 'Check')),
    result ? h('section', null,
      h('h3', null, 'Result'),
      h('p.sentence', null, mark(result.summary, result.ok ? 'ok' : 'bad')),
      h('ul', null, result.findings.map((/** @type {string} */ text) => h('li', null, foreign(text)))),
      result.expected ? compared(result.expected, result.found) : null,
      result.content ? signedContent(result.content) : null) : null,
    section('On the command line', commandLine(page, 'wrs-emulator verify --headers headers.txt body.json', 'the command')),
  ];
}
