import assert from "node:assert/strict";
import { test } from "node:test";

import { withEmulator } from "./emulator.mjs";

test("a scripted burst", withEmulator(async (emulator) => {
  await emulator.play("rate-limit-burst");
  const statuses = [];
  for (let turn = 0; turn < 6; turn += 1) {
    statuses.push((await fetch(`${emulator.url}/v1/system/status`, { headers: emulator.headers })).status);
  }
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
}));
