// Time that is moved and not slept through, waiting, state that is saved.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";

import { ControlError, withEmulator } from "wrs-emulator";

async function call(wrs, path, body) {
  const json = body && { method: "POST", headers: { ...wrs.headers, "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(wrs.url + path, json || { headers: wrs.headers });
  return { status: answer.status, id: answer.headers.get("x-emulator-request-id"), body: await answer.json() };
}

const subscribe = async (wrs, url) => {
  const answer = await call(wrs, "/v1/events/subscribe", { url, events: ["workflow.completed"] });
  assert.equal(answer.status, 200, JSON.stringify(answer));
  return answer.body;
};

describe("time", { concurrency: true }, () => {
  test("a client backs off until the window is over", withEmulator(async (wrs) => {
    await wrs.clock.freeze();
    await wrs.set({ rate_limit: { requests: 1, window: "60s" } });
    const pauses = [];
    const sleep = (seconds) => { pauses.push(seconds); return wrs.clock.advance(`${seconds}s`); };
    // A client as a user might have: twice as long each time. `sleep` is where a test comes in.
    const patient = async () => {
      for (let pause = 1; pause < 200; pause *= 2) {
        const answer = await call(wrs, "/v1/system/status");
        if (answer.status !== 429) return answer;
        await sleep(pause);
      }
      throw new Error("the quota did not come back");
    };
    assert.equal((await patient()).status, 200);
    assert.equal((await patient()).status, 200);
    assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32]);
  }));

  test("a workflow completes by the clock", withEmulator(async (wrs) => {
    await wrs.clock.freeze();
    await wrs.scenario("announced-endpoints");
    await subscribe(wrs, wrs.sinkUrl);
    const { body: made } = await call(wrs, "/v1/workflows", { name: "w" });
    assert.equal(made.status, "running");
    await wrs.clock.advance("5s");
    const [receipt] = await wrs.received();
    assert.deepEqual(JSON.parse(receipt.body).data, { workflow_id: made.id, status: "completed" });
    assert.ok(receipt.verified);
  }));
});

describe("waiting", { concurrency: true }, () => {
  test("a wait ends as soon as it holds", withEmulator(async (wrs) => {
    const waiting = wrs.waitForRequests({ operation: "system.status", count: 2, timeout: "60s" });
    await Promise.all([call(wrs, "/v1/system/status"), call(wrs, "/v1/system/status")]);
    assert.equal((await waiting).length, 2);
  }));

  test("a wait that times out says what came nearest", withEmulator(async (wrs) => {
    await call(wrs, "/v1/system/status?include_checks=x");
    const wish = { operation: "system.status", status: 200, timeout: "50ms" };
    await assert.rejects(wrs.waitForRequests(wish), (error) => {
      assert.ok(error instanceof ControlError);
      assert.deepEqual([error.status, error.body.nearest[0].differs], [408, ["status: expected 200, found 422"]]);
      return true;
    });
  }));

  test("a failed test says why the emulator answered so", withEmulator(async (wrs) => {
    const folder = mkdtempSync(join(tmpdir(), "wrs-failing-"));
    writeFileSync(join(folder, "failing.test.mjs"), `
      import { test } from "node:test";
      import { withEmulator } from ${JSON.stringify(import.meta.resolve("wrs-emulator"))};
      test("fails", withEmulator(async (wrs) => {
        await wrs.scenario("always-401");
        const answer = await fetch(wrs.url + "/v1/system/status", { headers: wrs.headers });
        if (!answer.ok) throw new Error("not ok");
      }));`);
    // Left in place, this variable makes the inner run report to the outer one.
    const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
    const run = spawnSync(process.execPath, ["--test", "--test-reporter=tap", folder], { env: environment, encoding: "utf8" });
    assert.equal(run.status, 1, run.stdout);
    assert.match(run.stdout, /wrs-emulator: GET \/v1\/system\/status {2}req_\w+: 401 Unauthorized because/);
    assert.ok(wrs.key);
  }));
});

describe("state", { concurrency: true }, () => {
  const play = async (wrs) => {
    const subscribed = await subscribe(wrs, wrs.sinkUrl);
    const status = await call(wrs, "/v1/system/status");
    const [delivery] = await wrs.trigger("workflow.completed");
    return [subscribed, status, delivery.id, delivery.attempts[0].request];
  };

  test("a key that is reset or loaded does the same again", withEmulator(async (wrs) => {
    const fromTheStart = async () => {
      await wrs.reset();
      await wrs.clock.freeze("2026-01-31T09:30:00Z");
      return play(wrs);
    };
    assert.deepEqual(await fromTheStart(), await fromTheStart());
    const saved = await wrs.save();
    const first = await play(wrs);
    await wrs.clock.advance("1h");
    await wrs.load(saved);
    assert.deepEqual(await play(wrs), first);
  }));

  test("a story is played to its end", withEmulator(async (wrs) => {
    await wrs.scenario({ toml: `
      [[rule]]
      when = { operation = "system.status" }
      sequence = [{ error = "rate_limit_exceeded", times = 2 }, { status = 422, message = "no" }]
    ` });
    const statuses = [];
    for (let turn = 0; turn < 4; turn += 1) statuses.push((await call(wrs, "/v1/system/status")).status);
    assert.deepEqual(statuses, [429, 429, 422, 200]);
  }));
});
