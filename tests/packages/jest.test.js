const { withEmulator } = require("wrs-emulator");

test("its own scenario", withEmulator(async (wrs) => {
  await wrs.scenario({ toml: '[[rule]]\nwhen = { path = "/v1/hello" }\nreply = { error = "rate_limit_exceeded" }\n' });
  expect((await fetch(`${wrs.url}/v1/hello`, { headers: wrs.headers })).status).toBe(429);
}));

test("a wrong value", withEmulator(async (wrs) => {
  const answer = await fetch(`${wrs.url}/v1/system/status?include_checks=True`, { headers: wrs.headers });
  expect(answer.status).toBe(200);
}));

test("after the failed one", withEmulator(async (wrs) => {
  expect((await fetch(`${wrs.url}/v1/system/status`, { headers: wrs.headers })).status).toBe(200);
}));
