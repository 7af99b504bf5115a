// One delivery: each attempt, the signature taken apart, what the receiver answered, what to do.

import { advance, attemptLine, redeliver } from './command.js';
import { foreign, h, prose } from './element.js';
import { actionButton, bodyBlock, commandLine, filterable, fold, headersTable, link, mark, pairs } from './parts.js';
import { SCHEMES, difference, headerOf, schemesOf, signatureHeaders, takenApart } from './signature.js';
import { bytesText, dateTime, duration, isRefused, oneLine } from './text.js';

const ROLES = { id: 'id', time: 'timestamp', body: 'body', rest: 'as it is' };

/** Signed content with its parts marked. @param {import('./signature.js').Part[]} parts @returns {Node} */
export function signedContent(parts) {
  return h('div.signed', { tabindex: 0, role: 'region', 'aria-label': 'Signed content, in its parts' },
    parts.map(({ role, text }) => h(`span.part-${role}`, { title: ROLES[role] }, role === 'rest' ? null : h('span.label', null, `${ROLES[role]} `), foreign(text))));
}

/** Two texts of which the differing parts are marked. @param {string} label @param {string} one @param {string} other @returns {Node} */
export function differs(label, one, other) {
  const parts = difference(one, other);
  const line = (/** @type {string} */ name, /** @type {string} */ text) => h('p', null, h('span.label', null, `${name} `), foreign(parts.before), h('mark', null, foreign(text || '(nothing)')), foreign(parts.after));
  return h('div.signed', { tabindex: 0, role: 'region', 'aria-label': label }, line('signed', parts.one), line('sent', parts.other));
}

/** @param {AttemptDetail} attempt @returns {(Node | null)[]} */
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
  const knob = (/** @type {string} */ name) => page.store.run?.profile?.data.find((one) => one.knob === name)?.value;
  const [scheme, reading] = [knob('webhooks.scheme'), knob('webhooks.secret_key')];
  const auto = ['standard', 'svix'].includes(String(scheme)) ? 'base64 after whsec_ where that is base64, else the text of the secret' : 'the text of the secret';
  return `${!reading || reading === 'auto' ? auto : String(reading)} (webhooks.secret_key = ${JSON.stringify(reading ?? 'auto')})`;
}

/** Puts an attempt into the form of *Check signature*. @param {Page} page @param {AttemptDetail} attempt */
function fillCheck(page, attempt) {
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
    h('p', null, 'A receiver rebuilds exactly these bytes and signs them with its secret:'),
    signed ? signedContent(takenApart(signed, { id, time, body: bytesText(body) })) : h('p.quiet', null, 'Nothing was signed.'),
    pairs([
      ['Scheme', name ?? 'not one of the known ones'],
      ['Key', keyReading(page)],
      ['Header sent', signature === undefined ? h('span.quiet', null, 'none') : h('code', null, `${scheme.signature}: `, foreign(signature))],
    ]),
    attempt.damage ? h('div.tampered', null, h('p', null, mark('deliberate', 'warn'), ' ', prose(attempt.damage)), tamperedParts(attempt)) : null,
    h('p', null, h('a', { href: page.address({ view: 'check', id: '', filter: '' }), onclick: () => fillCheck(page, attempt) }, 'Check this signature with a secret')));
}

/** @param {Page} page @param {AttemptDetail} attempt @param {boolean} isLast @returns {Node} */
function attemptPart(page, attempt, isLast) {
  const { outcome } = attempt;
  const answered = 'status' in outcome;
  const isGood = attempt.forged && answered && isRefused(outcome);
  const what = answered ? `answered ${outcome.status}` : oneLine(outcome.failure, 80).replace(/_/g, ' ');
  return h('details.attempt', { open: isLast, key: `attempt ${attempt.number}` },
    h('summary', null, h('h3', null, `Attempt ${attempt.number} `), mark(isGood ? `${what}, as it should be` : what, attempt.forged ? outcome.accepted ? 'bad' : isGood ? 'ok' : 'quiet' : outcome.accepted ? 'ok' : 'bad'), ` ${dateTime(attempt.at)}, ${duration(attempt.latency_ms)}`),
    pairs([['To', foreign(attempt.url)], ['Went to', foreign(attempt.dialled)]]),
    answered ? outcome.note ? h('p', null, foreign(outcome.note)) : null : h('p', null, prose(outcome.detail)),
    h('h4', null, 'Signature'), signaturePart(page, attempt),
    h('h4', null, 'Sent'), headersTable(`Headers of attempt ${attempt.number}`, attempt.request.headers, Object.values(SCHEMES).map((scheme) => scheme.signature)),
    bodyBlock(`Body of attempt ${attempt.number}`, attempt.request.body),
    h('h4', null, 'Answer'), answered ? bodyBlock(`Answer to attempt ${attempt.number}`, outcome.body) : h('p.quiet', null, 'No answer.'),
    h('h4', null, 'As curl'), commandLine(page, attemptLine(attempt), 'the curl command'));
}

/** @param {DeliveryDetail} delivery @param {Explanation} explanation @returns {string} */
function sentenceOfDelivery(delivery, explanation) {
  const last = delivery.last;
  const answer = last && 'status' in last ? `the receiver answered ${last.status}` : last ? last.detail : 'no attempt yet';
  const number = delivery.attempts.length;
  if (delivery.forgery === 'refused') return `Refused, as it should be: ${answer}. It was forged on purpose.`;
  const state = {
    delivered: `Delivered at attempt ${number}: ${answer}.`,
    pending: `Not delivered yet, after ${number} of its attempts: ${answer}.`,
    exhausted: `Never delivered: ${answer}, and no attempt is left.`,
    cancelled: `Cancelled: ${explanation.summary ?? answer}.`,
  }[delivery.status] ?? oneLine(delivery.status);
  const forged = delivery.forgery === 'accepted' ? ' It was forged on purpose, and the receiver accepted it: it does not verify signatures.'
    : delivery.damage ? ' It was tampered with on purpose.' : '';
  return state + forged;
}

/** @param {Page} page @param {Explanation} explanation @returns {Node} */
export function deliveryPane(page, explanation) {
  const delivery = /** @type {DeliveryDetail} */ (explanation.delivery);
  const colour = delivery.forgery === 'accepted' ? 'bad' : delivery.forgery === 'refused' ? 'ok' : { delivered: 'ok', pending: 'info', exhausted: 'bad', cancelled: 'quiet' }[delivery.status];
  const next = delivery.next_attempt_in_ms;
  return h('article', null,
    h('h2', null, foreign(delivery.type), ' ', mark(delivery.forgery ?? delivery.status, /** @type {'ok'} */ (colour ?? 'quiet'))),
    h('p.sentence', null, prose(sentenceOfDelivery(delivery, explanation))),
    delivery.damage ? h('p.note', null, mark('deliberate', 'warn'), ' ', prose(delivery.damage)) : null,
    delivery.note ? h('p.note', null, foreign(delivery.note)) : null,
    next == null || page.isDocument ? null : h('p', null, `Next attempt in ${duration(next)} of the emulator’s clock. `),
    h('div.actions', null, actionButton(page, redeliver(delivery.id)), next == null ? null : actionButton(page, advance(`${Math.max(1, Math.ceil(next / 1000))}s`, ''))),
    [...delivery.attempts].reverse().map((attempt, i) => attemptPart(page, attempt, i === 0)),
    explanation.advice?.length ? h('section', null, h('h3', null, 'What to do'), h('ul.advice', null, explanation.advice.map((one) => h('li', null, prose(one.text), one.command ? commandLine(page, one.command, 'the command') : null)))) : null,
    fold('Facts', true, pairs([
      ['Id', foreign(delivery.id, 'code')],
      ['Event', link(page, { view: 'activity', id: delivery.event }, delivery.event)],
      ['Type', filterable(page, 'type', delivery.type)],
      ['Subscription', link(page, { view: 'subscriptions', id: delivery.subscription, filter: '' }, delivery.subscription)],
      ['URL', foreign(delivery.url)],
    ])),
    h('section', null, h('h3', null, 'Explain it'), commandLine(page, page.cli(['explain', delivery.id]), 'the command')));
}
