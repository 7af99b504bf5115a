// What the contract promises, asked with fetch and axios, and keys that do not meet.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import axios from "axios";

import { Emulator, withEmulator } from "wrs-emulator";

// Both libraries behind one function: an answer is a status, headers that are looked up by name, and a body.
const LIBRARIES = {
  fetch: async (wrs, method, path, body, headers = wrs.headers) => {
    const json = body && { "content-type": "application/json" };
    const answer = await fetch(wrs.url + path, { method, headers: { ...headers, ...json }, body: body && JSON.stringify(body) });
    return { status: answer.status, header: (name) => answer.headers.get(name), body: await answer.json() };
  },
  axios: async (wrs, method, path, body, headers = wrs.headers) => {
    const answer = await axios({ url: wrs.url + path, method, data: body, headers, validateStatus: () => true });
    return { status: answer.status, header: (name) => answer.headers[name], body: answer.data };
  },
};
const HOOK = { url: "https://app.example.com/hooks", events: ["workflow.completed"] };

for (const [library, call] of Object.entries(LIBRARIES)) {
  describe(library, { concurrency: true }, () => {
    test(`${library}: the status check`, withEmulator(async (wrs) => {
      const { status, body } = await call(wrs, "GET", "/v1/system/status");
      assert.deepEqual([status, body.ok, body.environment, body.version], [200, true, "sandbox", "v1.0"]);
      const hello = await call(wrs, "GET", "/v1/hello", undefined, {});
      assert.deepEqual([hello.status, hello.body.version], [200, "1.3.2"]);
    }));

    test(`${library}: subscribing twice updates`, withEmulator(async (wrs) => {
      const first = await call(wrs, "POST", "/v1/events/subscribe", HOOK);
      assert.deepEqual([first.status, first.body.status, first.body.url], [200, "active", HOOK.url]);
      assert.match(first.body.secret, /^whsec_/);
      const again = await call(wrs, "POST", "/v1/events/subscribe", { ...HOOK, events: ["reference.matched"] });
      assert.deepEqual([again.body.id, again.body.events], [first.body.id, ["reference.matched"]]);
      assert.equal(again.body.secret, undefined);
    }));

    for (const authorization of [undefined, "Bearer wrong", "Bearer sk_live_1", "Basic c2s="]) {
      test(`${library}: 401 for ${authorization}`, withEmulator(async (wrs) => {
        const headers = authorization ? { authorization } : {};
        const { status, body } = await call(wrs, "GET", "/v1/system/status", undefined, headers);
        assert.deepEqual([status, body.error.code], [401, "unauthorized"]);
        assert.match(body.error.request_id, /^req_\w+$/);
      }));
    }

    for (const [name, body, field] of [
      ["http", { ...HOOK, url: "http://app.example.com/" }, "url"],
      ["no events", { ...HOOK, events: [] }, "events"],
      ["an unknown event", { ...HOOK, events: ["workflow.exploded"] }, "events"],
      ["no url", { events: HOOK.events }, "url"],
    ]) {
      test(`${library}: 422 for ${name}`, withEmulator(async (wrs) => {
        const answer = await call(wrs, "POST", "/v1/events/subscribe", body);
        assert.deepEqual([answer.status, answer.body.error.code], [422, "validation_error"]);
        assert.ok(answer.body.error.message.startsWith(field), answer.body.error.message);
      }));
    }

    test(`${library}: 429 when the quota is used up`, withEmulator(async (wrs) => {
      await wrs.set({ rate_limit: { requests: 2 } });
      const seen = [];
      for (let turn = 0; turn < 3; turn += 1) {
        const answer = await call(wrs, "GET", "/v1/system/status");
        seen.push([answer.status, answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")]);
      }
      assert.deepEqual(seen, [[200, "2", "1"], [200, "2", "0"], [429, "2", "0"]]);
    }));

    test(`${library}: many keys at once do not meet`, withEmulator(async (wrs) => {
      const use = async (number) => {
        const one = new Emulator(wrs.url, `${wrs.key}_${number}`);
        const { body } = await call(one, "POST", "/v1/events/subscribe", { ...HOOK, url: `${HOOK.url}/${number}` });
        const left = (await call(one, "GET", "/v1/system/status")).header("x-ratelimit-remaining");
        assert.equal(left, "98", `${number} has a quota of its own`);
        const { data } = await one.get("subscriptions");
        assert.deepEqual(data.map(({ id, url }) => [id, url]), [[body.id, `${HOOK.url}/${number}`]]);
        return body.id;
      };
      const ids = await Promise.all(Array.from({ length: 60 }, (_, number) => use(number)));
      assert.equal(new Set(ids).size, 60);
    }));
  });
}
