import { expect, test } from "vitest";
import { withEmulator } from "wrs-emulator";

test("a scripted burst", withEmulator(async (wrs) => {
  await wrs.scenario("rate-limit-burst");
  const statuses: number[] = [];
  for (let turn = 0; turn < 6; turn += 1) {
    statuses.push((await fetch(`${wrs.url}/v1/system/status`, { headers: wrs.headers })).status);
  }
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429]);
}));

test("a wrong value", withEmulator(async (wrs) => {
  const answer = await fetch(`${wrs.url}/v1/system/status?include_checks=True`, { headers: wrs.headers });
  expect(answer.status).toBe(200);
}));

test("after the failed one", withEmulator(async (wrs) => {
  expect((await fetch(`${wrs.url}/v1/system/status`, { headers: wrs.headers })).status).toBe(200);
}));

test.fails("an expected failure is a pass", withEmulator(async () => {
  throw new Error("as expected");
}));
