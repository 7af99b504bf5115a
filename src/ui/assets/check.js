// Check a signature: pasted headers and body, and the secret if a signature is to be computed. Nothing leaves the page.

import { differs, fillCheck, signedContent } from './delivery.js';
import { foreign, h } from './element.js';
import { commandLine, mark, section } from './parts.js';
import { checkSignature } from './signature.js';
import { oneLine, timeOfDay } from './text.js';

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
  const { result } = values;
  const recent = page.store.entries.filter((entry) => entry.kind === 'delivery').slice(-20).reverse();
  const use = async (/** @type {Event} */ event) => {
    const id = /** @type {HTMLSelectElement} */ (event.target).value;
    const { ok, data } = await page.live.call('GET', `deliveries/${encodeURIComponent(id)}`);
    const attempt = ok ? data.attempts.at(-1) : null;
    if (!attempt) return page.say('This delivery has no attempt.');
    fillCheck(page, attempt);
    const found = await page.live.call('GET', `subscriptions/${encodeURIComponent(data.subscription)}?secret=true`);
    page.ui.forms.check.secret = found.ok ? found.data.secret : '';
    page.redraw();
  };
  return [
    h('h2', { tabindex: -1 }, 'Check a signature'),
    h('div.halves', { key: 'check' },
      h('form', { onsubmit: submit },
        recent.length && !page.isDocument ? h('label', null, 'Use a recent delivery', h('select', { controlled: '', onchange: use }, h('option', { value: '' }, 'none'), recent.map((one) => h('option', { value: one.id }, oneLine(`${timeOfDay(one.at)} ${one.text}`, 80))))) : null,
        h('label', null, 'Headers: one per line, a raw request, curl -v, HAR or JSON', h('textarea', { controlled: values.headers, oninput: change('headers'), spellcheck: 'false', required: true, placeholder: 'webhook-id: evt_…\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,…' })),
        h('label', null, 'Body, exactly as received, unless included above', h('textarea', { controlled: values.body, oninput: change('body'), spellcheck: 'false' })),
        h('label', null, 'Secret; without it only the format is checked', h('input', { type: 'password', controlled: values.secret, oninput: change('secret'), autocomplete: 'off', placeholder: 'whsec_…' })),
        h('button.primary', { type: 'submit' }, 'Check')),
      h('div', null,
        result ? section('Result',
          h('p.sentence', null, mark(result.summary, result.ok ? 'ok' : 'bad')),
          h('ul', null, result.findings.map((/** @type {string} */ text) => h('li', null, foreign(text)))),
          result.expected ? differs('Signatures compared', result.expected, result.found, ['expected', 'found']) : null,
          result.content ? signedContent(result.content) : null)
          : h('p.empty', null, 'Paste a delivery that your receiver got. Nothing leaves this tab.'),
        section('On the command line', commandLine(page, 'wrs-emulator verify --headers headers.txt body.json', 'the command')))),
  ];
}
