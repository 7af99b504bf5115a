// Calls of an emulator with each client that was generated from its documents, and what the generated validators say about requests
// that it accepts. Compiled with `tsc --strict`, bundled and run by run.sh.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import createClient from 'openapi-fetch';

import type { paths as ControlPaths } from './openapi-typescript/control.js';
import type { paths as EmulatedPaths } from './openapi-typescript/emulated.js';
import { client as heyControl } from './hey-api/control/client.gen.js';
import { getHealth as heyHealth, postEvents as heyEvents } from './hey-api/control/sdk.gen.js';
import { client as heyEmulated } from './hey-api/emulated/client.gen.js';
import { eventsSubscribe as heySubscribe, systemStatus as heyStatus } from './hey-api/emulated/sdk.gen.js';
import { zSubscribeRequest, zSubscription } from './hey-api/emulated/zod.gen.js';
import { getHealth as orvalHealth, postEvents as orvalEvents } from './orval/control-fetch.js';
import { eventsSubscribe as orvalSubscribe, systemStatus as orvalStatus } from './orval/emulated-fetch.js';
import { EventsSubscribeBody, EventsSubscribeResponse } from './orval/emulated-zod.js';
import { defaults as oazapftsDefaults, eventsSubscribe as oazapftsSubscribe, systemStatus as oazapftsStatus } from './oazapfts.js';
import { Api } from './swagger-typescript-api.js';
import { EventsService, OpenAPI, SystemService } from './openapi-typescript-codegen/index.js';
import { Configuration, EventsApi, SystemApi } from './openapi-generator/typescript-fetch/index.js';

const baseUrl = process.env['WRS_EMULATOR_URL'] ?? '';
const key = 'sk_test_local';
const headers = { authorization: `Bearer ${key}` };
const accepted: { urls: string[]; secrets: string[] } = JSON.parse(readFileSync('accepted.json', 'utf8'));
const fire = { type: 'workflow.completed' } as const;
const app = { url: 'https://app.sink.localhost/hooks', events: ['workflow.completed' as const] };

/** The answer of a call that answers text as well, to whoever asks for it. */
const json = <T>(answer: T) => answer as Exclude<T, string>;

async function openapiTypescript() {
  const emulated = createClient<EmulatedPaths>({ baseUrl, headers });
  const status = await emulated.GET('/v1/system/status', { params: { query: { include_checks: true } } });
  assert.equal(status.data?.environment, 'sandbox');
  const made = await emulated.POST('/v1/events/subscribe', { body: app });
  assert.equal(made.data?.url, app.url);
  const refused = await emulated.POST('/v1/events/subscribe', { body: { ...app, events: [] } });
  assert.equal(refused.error?.error.code, 'validation_error');
  const control = createClient<ControlPaths>({ baseUrl });
  assert.equal(json((await control.GET('/_emulator/health')).data)?.status, 'ready');
  const fired = await control.POST('/_emulator/events', { params: { query: { wait: '15s' } }, body: fire });
  assert.equal(json(fired.data)?.deliveries?.[0]?.status, 'delivered');
}

async function heyApi() {
  heyEmulated.setConfig({ baseUrl, auth: key });
  heyControl.setConfig({ baseUrl });
  assert.equal((await heyStatus()).data?.ok, true);
  assert.equal((await heySubscribe({ body: app })).data?.url, app.url);
  assert.equal(json((await heyHealth()).data)?.status, 'ready');
  const fired = await heyEvents({ query: { wait: '15s' }, body: fire });
  assert.equal(json(fired.data)?.deliveries?.[0]?.status, 'delivered');
}

async function orval() {
  const status = await orvalStatus({}, { headers });
  assert.ok(status.status === 200 && status.data.ok);
  const made = await orvalSubscribe(app, { headers });
  assert.ok(made.status === 200 && made.data.url === app.url);
  const health = await orvalHealth();
  assert.ok(health.status === 200 && json(health.data).status === 'ready');
  const fired = await orvalEvents(fire, { wait: '15s' });
  assert.ok(fired.status === 200 && json(fired.data).deliveries?.[0]?.status === 'delivered');
}

async function oazapfts() {
  oazapftsDefaults.baseUrl = baseUrl;
  oazapftsDefaults.headers = headers;
  const status = await oazapftsStatus({ includeChecks: true });
  assert.ok(status.status === 200 && status.data.environment === 'sandbox');
  const made = await oazapftsSubscribe(app);
  assert.ok(made.status === 200 && made.data.url === app.url);
}

async function swaggerTypescriptApi() {
  const { v1 } = new Api({ baseUrl, baseApiParams: { headers } });
  assert.equal((await v1.systemStatus({ include_checks: true })).data.environment, 'sandbox');
  assert.equal((await v1.eventsSubscribe(app)).data.url, app.url);
}

async function openapiTypescriptCodegen() {
  OpenAPI.BASE = baseUrl;
  OpenAPI.TOKEN = key;
  assert.equal((await SystemService.systemStatus(true)).environment, 'sandbox');
  assert.equal((await EventsService.eventsSubscribe(app)).url, app.url);
}

async function openapiGenerator() {
  const configuration = new Configuration({ basePath: baseUrl, accessToken: key });
  assert.equal((await new SystemApi(configuration).systemStatus({ includeChecks: true })).environment, 'sandbox');
  assert.equal((await new EventsApi(configuration).eventsSubscribe({ subscribeRequest: app })).url, app.url);
}

/** Each request that the emulator accepts, and its answer, is valid for the validators. */
async function validators() {
  const bodies = [...accepted.urls.map((url) => ({ ...app, url })), ...accepted.secrets.map((secret) => ({ ...app, secret }))];
  for (const body of bodies) {
    const json = { ...headers, 'content-type': 'application/json' };
    const answer = await fetch(`${baseUrl}/v1/events/subscribe`, { method: 'POST', headers: json, body: JSON.stringify(body) });
    assert.equal(answer.status, 200, JSON.stringify(body));
    const subscription = await answer.json();
    for (const request of [zSubscribeRequest, EventsSubscribeBody]) {
      const read = request.safeParse(body);
      assert.ok(read.success, `${JSON.stringify(body)}: ${read.error?.message}`);
    }
    for (const response of [zSubscription, EventsSubscribeResponse]) {
      const read = response.safeParse(subscription);
      assert.ok(read.success, `${JSON.stringify(subscription)}: ${read.error?.message}`);
    }
  }
  const refused = ['http://app.example.com/', 'https://user@app.example.com/', 'https://app.example.com:65536/', 'https://a b/', 'x'];
  for (const url of refused) {
    assert.ok(!zSubscribeRequest.safeParse({ ...app, url }).success, url);
    assert.ok(!EventsSubscribeBody.safeParse({ ...app, url }).success, url);
  }
  for (const secret of ['', 'whsec_', 'whsec_?', 'whsec_YR==']) {
    assert.ok(!zSubscribeRequest.safeParse({ ...app, secret }).success, secret);
  }
}

for (const part of [
  openapiTypescript, heyApi, orval, oazapfts, swaggerTypescriptApi, openapiTypescriptCodegen, openapiGenerator, validators,
]) {
  await part();
  console.log(`✓ ${part.name}`);
}
