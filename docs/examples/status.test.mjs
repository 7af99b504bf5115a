import assert from "node:assert/strict";
import { test } from "node:test";

import { withEmulator } from "wrs-emulator";

test("a scripted burst", withEmulator(async (wrs) => {
  await wrs.scenario("rate-limit-burst");
  const statuses = [];
  for (let turn = 0; turn < 6; turn += 1) {
    statuses.push((await fetch(`${wrs.url}/v1/system/status`, { headers: wrs.headers })).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
}));
