// A red job: each test but the last fails for another reason, which the report has to name.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import test, { describe } from "node:test";
import { withEmulator } from "wrs-emulator";

const status = async (wrs, query = "") => (await fetch(`${wrs.url}/v1/system/status${query}`, { headers: wrs.headers })).status;

test("a wrong value", withEmulator(async (wrs) => {
  assert.equal(await status(wrs, "?include_checks=True"), 200);
}));

test("too many", withEmulator(async (wrs) => {
  await wrs.set({ rate_limit: { requests: 5, window: "60s" } });
  for (let call = 0; call < 8; call += 1) assert.equal(await status(wrs), 200);
}));

test("forgeries are refused", withEmulator(async (wrs) => {
  // It verifies nothing.
  const receiver = createServer((request, response) => request.resume().on("end", () => response.writeHead(204).end())).listen(0, "127.0.0.1");
  await new Promise((done) => receiver.once("listening", done));
  try {
    await wrs.forward("https://app.example.com", `http://127.0.0.1:${receiver.address().port}`);
    await wrs.post("subscriptions", { url: "https://app.example.com/hooks" });
    const [sent] = await wrs.trigger("workflow.completed", { tamper: "secret" });
    assert.equal(sent.status, "exhausted");
  } finally {
    receiver.closeAllConnections();
    receiver.close();
  }
}));

test("never calls", withEmulator(async () => {
  assert.deepEqual([], ["reported"]);
}));

test("a refusal is expected", withEmulator(async (wrs) => {
  assert.equal(await status(wrs, "?include_checks=maybe"), 422);
}));

for (const suite of ["one", "another"]) {
  describe(suite, () => test("of one name", withEmulator(async (wrs) => assert.equal(await status(wrs), 200))));
}

test("a skipped test is neither", withEmulator((wrs, context) => context.skip()));

test("a failing todo test is not a failure", withEmulator((wrs, context) => {
  context.todo();
  throw new Error("not yet");
}));
