// One delivery: each attempt, the signature taken apart, what the receiver answered, what to do; and checking a signature that was pasted,
// of which nothing leaves the page.

import { advance, attemptLine, redeliver } from './command.js';
import { foreign, h, prose } from './element.js';
import { actionButton, adviceList, bodyBlock, commandLine, copyMenu, filterable, fold, headersTable, link, mark, pairs, paneHead, section, taking } from './parts.js';
import { SCHEMES, checkSignature, difference, headerOf, schemesOf, signatureHeaders, takenApart } from './signature.js';
import { bytesText, dateTime, duration, isRefused, isUnreached, oneLine, sentence, timeOfDay } from './text.js';

const ROLES = { id: 'id', time: 'timestamp', body: 'body', rest: 'as it is' };

/** Signed content with its parts marked. @param {import('./signature.js').Part[]} parts @returns {Node} */
export function signedContent(parts) {
  return h('div.signed', { tabindex: 0, role: 'region', 'aria-label': 'Signed content, in its parts' },
    parts.map(({ role, text }) => h(`span.part-${role}`, { title: ROLES[role] }, role === 'rest' ? null : h('span.label', null, `${ROLES[role]} `), foreign(text))));
}

/** Two texts of which the differing parts are marked. @param {string} label @param {string} one @param {string} other @param {string[]} [names] @returns {Node} */
export function differs(label, one, other, names = ['signed', 'sent']) {
  const parts = difference(one, other);
  const line = (/** @type {string} */ name, /** @type {string} */ text) => h('p', null, h('span.label', null, `${name} `), foreign(parts.before), h('mark', null, foreign(text || '(nothing)')), foreign(parts.after));
  return h('div.signed', { tabindex: 0, role: 'region', 'aria-label': label }, line(names[0], parts.one), line(names[1], parts.other));
}

/** @param {AttemptDetail} attempt @returns {Nodes} */
function tamperedParts(attempt) {
  const { headers } = attempt.request;
  const [name] = schemesOf(headers);
  const notes = [];
  const missing = name ? [SCHEMES[name].id, SCHEMES[name].time].filter((header) => header && headerOf(headers, header) === undefined) : [];
  if (!name) notes.push(h('p', null, 'No signature header of a known scheme was sent.'));
  if (missing.length) notes.push(h('p', null, `Not sent: ${missing.join(', ')}.`));
  const [sent, signed] = [bytesText(attempt.request.body), bytesText(attempt.signed_content)];
  // The body is at the end of what is signed, unless it was falsified after signing.
  if (signed && !signed.endsWith(sent)) {
    const start = Math.max(0, signed.search(/[[{]/));
    notes.push(h('p', null, 'The body sent is not the body signed:'), differs('Body signed and body sent', signed.slice(start), sent));
  }
  if (name) {
    const { time } = signatureHeaders(SCHEMES[name], headers);
    const off = Math.round((Date.parse(attempt.at) / 1000 - Number(time)));
    if (time && Math.abs(off) > 60) notes.push(h('p', null, `The timestamp sent is ${duration(Math.abs(off) * 1000)} ${off > 0 ? 'before' : 'after'} the attempt.`));
  }
  return notes;
}

/** @param {Page} page @returns {string} */
function keyReading(page) {
  const valueOf = (/** @type {string} */ name) => page.store.run?.profile?.data.find((one) => one.setting === name)?.value;
  const [scheme, reading] = [valueOf('webhooks.scheme'), valueOf('webhooks.secret_key')];
  const auto = ['standard', 'svix'].includes(String(scheme)) ? 'base64 after whsec_ where that is base64, else the text of the secret' : 'the text of the secret';
  return `${!reading || reading === 'auto' ? auto : String(reading)} (webhooks.secret_key = ${JSON.stringify(reading ?? 'auto')})`;
}

/** Puts an attempt into the form of *Check signature*. @param {Page} page @param {AttemptDetail} attempt */
export function fillCheck(page, attempt) {
  const { headers, body } = attempt.request;
  page.ui.forms.check = { headers: headers.map(([name, value]) => `${name}: ${value}`).join('\n'), body: bytesText(body), secret: '', result: null };
}

/** @param {Page} page @param {AttemptDetail} attempt @returns {Node} */
function signaturePart(page, attempt) {
  const { headers, body } = attempt.request;
  const [name] = schemesOf(headers);
  const scheme = name ? SCHEMES[name] : SCHEMES.standard;
  const { id, time } = signatureHeaders(scheme, headers);
  const signature = headerOf(headers, scheme.signature);
  const signed = bytesText(attempt.signed_content);
  return h('div', null,
    h('p', null, 'The receiver signs exactly these bytes with its secret:'),
    signed ? signedContent(takenApart(signed, { id, time, body: bytesText(body) })) : h('p.quiet', null, 'Nothing was signed.'),
    pairs([
      ['Scheme', name ?? 'unknown'],
      ['Key', keyReading(page)],
      ['Header sent', signature === undefined ? h('span.quiet', null, 'none') : h('code', null, `${scheme.signature}: `, foreign(signature))],
    ]),
    attempt.damage ? h('div.tampered', null, h('p', null, prose(attempt.damage)), tamperedParts(attempt)) : null,
    h('p', null, h('a', { href: page.address({ view: 'check', id: '', filter: '' }), onclick: () => fillCheck(page, attempt) }, 'Check this signature with a secret')));
}

/** How an attempt ended, and the colour of that. @param {AttemptDetail} attempt @returns {[string, 'ok' | 'bad' | 'quiet']} */
function endOf({ outcome, forged }) {
  const answered = 'status' in outcome;
  const what = answered ? String(outcome.status) : oneLine(outcome.failure, 40).replace(/_/g, ' ');
  return [what, forged ? (outcome.accepted ? 'bad' : answered && isRefused(outcome) ? 'ok' : 'quiet') : outcome.accepted ? 'ok' : 'bad'];
}

/** @param {Page} page @param {AttemptDetail} attempt @param {boolean} isOpen @param {boolean} isSigned whether the signature is the question @returns {Node} */
function attemptPart(page, attempt, isOpen, isSigned) {
  const { outcome } = attempt;
  const answered = 'status' in outcome;
  const isGood = attempt.forged && answered && isRefused(outcome);
  const [end, colour] = endOf(attempt);
  const what = answered ? `answered ${end}` : end;
  return h('details.attempt', { open: isOpen, key: `attempt ${attempt.number}` },
    h('summary', null, h('h3', null, `Attempt ${attempt.number} `), mark(isGood ? `${what}, correctly refused` : what, colour), h('span.quiet.small', null, ` ${dateTime(attempt.at)}, ${duration(attempt.latency_ms)}`)),
    h('article', null,
      answered ? outcome.note ? h('p', null, foreign(outcome.note)) : null : h('p', null, prose(outcome.detail)),
      h('section', null, h('h4', null, 'Answer'), answered ? bodyBlock(`Answer to attempt ${attempt.number}`, outcome.body) : h('p.quiet', null, 'No answer.')),
      h('section', null, h('h4', null, 'Sent'), pairs([['To', foreign(attempt.url)], ['Went to', foreign(attempt.dialled)]]), headersTable(`Headers of attempt ${attempt.number}`, attempt.request.headers, Object.values(SCHEMES).map((scheme) => scheme.signature)),
        bodyBlock(`Body of attempt ${attempt.number}`, attempt.request.body)),
      fold('Signature', isSigned, signaturePart(page, attempt))));
}

/** Words for the status of a delivery. @type {Record<string, [string, 'ok' | 'bad' | 'info' | 'quiet']>} */
const STATES = { delivered: ['delivered', 'ok'], pending: ['pending', 'info'], exhausted: ['gave up', 'bad'], cancelled: ['cancelled', 'quiet'] };

/** What a delivery is called. @param {{status: string, forgery?: string | null}} delivery @returns {[string, 'ok' | 'bad' | 'info' | 'quiet']} */
export function stateOf({ status, forgery }) {
  if (forgery) return [`forgery ${forgery}`, forgery === 'accepted' ? 'bad' : 'ok'];
  return STATES[status] ?? [oneLine(status, 40), 'quiet'];
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function deliveryPane(page, explanation) {
  const delivery = /** @type {DeliveryDetail} */ (explanation.delivery);
  const next = delivery.next_attempt_in_ms;
  const attempts = [...delivery.attempts].reverse();
  const last = attempts[0];
  // As the emulator judges it: retries that found no receiver say less than an answer before them.
  const deciding = attempts.find((attempt) => !isUnreached(attempt)) ?? last;
  const isQuestion = Boolean(delivery.damage) || [400, 401, 403].includes(deciding && 'status' in deciding.outcome ? deciding.outcome.status : 0);
  const state = /** @type {ReturnType<typeof stateOf>} */ (last && delivery.status === 'pending' && !delivery.forgery ? ['failed, retry due', 'bad'] : stateOf(delivery));
  const copies = /** @type {[string, string][]} */ ([['CLI: explain', page.cli(['explain', delivery.id])], ['CLI: send it again', page.cli(redeliver(delivery.id).cli)], ...(last ? [['curl', attemptLine(last)]] : [])]);
  return h('article', null,
    paneHead(page, delivery.type, page.store.keyOfWorkspace.get(delivery.workspace ?? ''), delivery.id, mark(...state)),
    h('p', null, h('span.quiet', null, 'to '), foreign(oneLine(delivery.url, 200))),
    h('p.sentence', null, prose(sentence(explanation.summary))),
    delivery.damage ? h('p.note', null, prose(delivery.damage)) : null,
    delivery.note ? h('p.note', null, foreign(delivery.note)) : null,
    h('div.actions', null, explanation.advice?.some(({ advice }) => advice?.do === 'redeliver') ? null : actionButton(page, redeliver(delivery.id), false, 'primary'), next == null || explanation.advice?.some(({ advice }) => advice?.do === 'advance_clock') ? null : actionButton(page, { ...advance(`${Math.max(1, Math.ceil(next / 1000))}s`, ''), label: `Advance ${duration(Math.max(1, Math.ceil(next / 1000)) * 1000)}` }), copyMenu(page, delivery.id, copies)),
    adviceList(page, explanation),
    h('div', null, next == null ? null : h('p.attempt', null, h('b', null, 'Next attempt'), h('span.quiet', null, ` in ${duration(next)}`)),
      attempts.map((attempt) => attemptPart(page, attempt, attempt === deciding, isQuestion && attempt === deciding))),
    pairs([
      ['Event', link(page, { view: 'activity', id: delivery.event }, delivery.event)],
      ['Type', filterable(page, 'type', delivery.type)],
      ['Subscription', link(page, { view: 'subscriptions', id: delivery.subscription, filter: '' }, delivery.subscription)],
    ]));
}

/** @param {Page} page @returns {Nodes} */
export function checkView(page) {
  const values = page.ui.forms.check ??= { headers: '', body: '', secret: '', result: null };
  const submit = async () => {
    values.result = await checkSignature(values.headers, values.body, values.secret, Date.now());
    page.announce(values.result.summary);
  };
  const { result } = values;
  const recent = page.store.entries.filter((entry) => entry.kind === 'delivery').slice(-20).reverse();
  const use = async (/** @type {Typed} */ event) => {
    const id = event.target.value;
    const { ok, data } = await page.live.call('GET', `deliveries/${encodeURIComponent(id)}`);
    const attempt = ok ? data.attempts.at(-1) : null;
    if (!attempt) return page.say('This delivery has no attempt.');
    fillCheck(page, attempt);
    const found = await page.live.call('GET', `subscriptions/${encodeURIComponent(data.subscription)}?secret=true`);
    Object.assign(page.ui.forms.check, { secret: found.ok ? found.data.secret : '', delivery: id });
    page.redraw();
  };
  return [
    h('h2', null, 'Check a signature'),
    h('div.halves', { key: 'check' },
      h('form', { onsubmit: submit },
        recent.length && !page.isDocument ? h('label', null, 'Use a recent delivery', h('select', { controlled: values.delivery ?? '', onchange: use }, h('option', { value: '' }, 'none'), recent.map((one) => h('option', { value: one.id }, oneLine(`${timeOfDay(one.at)} ${one.text}`, 80))))) : null,
        h('label', null, 'Headers: one per line, a raw request, curl -v, HAR or JSON', h('textarea', { controlled: values.headers, oninput: taking(page, values, 'headers'), spellcheck: 'false', required: true, placeholder: 'webhook-id: evt_…\nwebhook-timestamp: 1700000000\nwebhook-signature: v1,…' })),
        h('label', null, 'Body, exactly as received, unless included above', h('textarea', { controlled: values.body, oninput: taking(page, values, 'body'), spellcheck: 'false' })),
        h('label', null, 'Secret; without it only the format is checked', h('input', { type: 'password', controlled: values.secret, oninput: taking(page, values, 'secret'), autocomplete: 'off', placeholder: 'whsec_…' })),
        h('button.primary', { type: 'submit' }, 'Check')),
      h('div', null,
        result ? section('Result',
          h('p.sentence', null, mark(result.summary, result.ok ? 'ok' : 'bad')),
          h('ul', null, result.findings.map((/** @type {string} */ text) => h('li', null, foreign(text)))),
          result.expected ? differs('Signatures compared', result.expected, result.found, ['expected', 'found']) : null,
          result.content ? signedContent(result.content) : null)
          : h('p.empty', null, 'Paste a delivery that your receiver got. Nothing leaves this tab.'),
        section('On the command line', commandLine(page, 'WRS_WEBHOOK_SECRET=whsec_… wrs-emulator verify --headers headers.txt body.json', 'the command')))),
  ];
}
