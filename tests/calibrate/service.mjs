// The API written by hand, with its own quirks: UUIDs, whole seconds, details as a map, keys in reverse, unknown parameters refused and unknown fields not, a fixed
// window with X-RateLimit-Reset in seconds, the secret as `signing_key`. Prints its port.
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const KEY = 'wrs_sandbox_4f1d9a';
const [LIMIT, WINDOW] = [80, 45];
const events = ['workflow.completed', 'reference.matched', 'order.paid'];
const known = new Map();
let opened = 0;
let used = 0;

const now = () => `${new Date().toISOString().slice(0, 19)}Z`;
const reversed = (value) => (value && typeof value === 'object' && !Array.isArray(value)
  ? Object.fromEntries(Object.entries(value).reverse().map(([name, inner]) => [name, reversed(inner)])) : value);

createServer(async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  const url = new URL(request.url, 'http://localhost');
  const id = `req_${randomUUID()}`;
  const send = (status, value, counted = false) => {
    const headers = { 'content-type': 'application/json; charset=utf-8', 'x-trace-id': id };
    if (counted) {
      if (Date.now() - opened >= WINDOW * 1000) [opened, used] = [Date.now(), 0];
      // Only what succeeds costs quota.
      if (status === 200) used += 1;
      const reset = Math.ceil((opened + WINDOW * 1000 - Date.now()) / 1000);
      Object.assign(headers, { 'x-ratelimit-limit': LIMIT, 'x-ratelimit-remaining': LIMIT - used, 'x-ratelimit-reset': reset });
    }
    response.writeHead(status, headers).end(JSON.stringify(reversed(value)));
  };
  const error = (status, code, message, details, counted) => send(status, { error: { code, message, request_id: id, ...(details && { details }) } }, counted);
  const invalid = (details) => error(422, 'invalid', Object.entries(details).map(([field, [why]]) => `${field}: ${why}`).join('; '), details, true);
  const routes = { '/v1/hello': 'GET', '/v1/system/status': 'GET', '/v1/events/subscribe': 'POST' };
  if (url.search.length > 4000) return error(414, 'too_long', 'too long');
  if (!routes[url.pathname]) return error(404, 'missing', `no ${url.pathname}`);
  if (routes[url.pathname] !== request.method) return error(405, 'wrong_method', `use ${routes[url.pathname]}`);
  if (url.pathname === '/v1/hello') return send(200, { message: 'hi', version: '1.3.2' });
  if (request.headers.authorization !== `Bearer ${KEY}`) return error(401, 'unauthorized', 'who are you?');
  if (url.pathname === '/v1/system/status') {
    const unknown = [...url.searchParams.keys()].find((name) => name !== 'include_checks');
    if (unknown) return invalid({ [unknown]: ['unknown'] });
    const checks = url.searchParams.get('include_checks') ?? 'false';
    if (!['true', 'false'].includes(checks)) return invalid({ include_checks: ['not a boolean'] });
    return send(200, { ok: true, environment: 'sandbox', version: 'v1.0', checked_at: now(), ...(checks === 'true' && { checks: { queue: { depth: 0 } } }) }, true);
  }
  if (!request.headers['content-type']?.startsWith('application/json')) return error(415, 'unsupported', 'send JSON', undefined, true);
  let wanted;
  try { wanted = JSON.parse(body); } catch { return error(422, 'invalid', 'body: not JSON', { body: ['not JSON'] }, true); }
  const problems = {};
  if (!/^https?:/.test(wanted.url)) problems.url = ['not a URL'];
  if (!wanted.events?.length) problems.events = ['empty'];
  else if (wanted.events.some((event) => !events.includes(event))) problems.events = [`known: ${events.join(', ')}`];
  if (Object.keys(problems).length) return invalid(problems);
  const before = known.get(wanted.url);
  known.set(wanted.url, { id: before?.id ?? `sub_${randomUUID()}`, url: wanted.url, events: wanted.events, status: 'active', created_at: before?.created_at ?? now() });
  const secret = wanted.secret ?? (before ? undefined : `whsec_${randomBytes(24).toString('base64')}`);
  return send(200, { ...known.get(wanted.url), ...(secret && { signing_key: secret }) }, true);
}).listen(0, '127.0.0.1', function listening() { console.log(this.address().port); });
