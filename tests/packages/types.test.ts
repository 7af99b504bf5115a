import assert from "node:assert/strict";
import test, { after, before, beforeEach, describe, it, mock, suite } from "node:test";
import { ControlError, Emulator, withEmulator } from "wrs-emulator";
import type { WebhookEvent, control } from "wrs-emulator";

test("async", withEmulator(async (wrs) => { assert.ok(wrs.url.startsWith(wrs.key)); }));
test("a value", withEmulator((wrs) => wrs.key));
test("with options", { timeout: 1000 }, withEmulator(async (wrs, context) => { context.diagnostic(wrs.sinkUrl); }));
test.skip("skipped", withEmulator(() => undefined));
test.todo("to do", withEmulator(() => undefined));
describe("a suite", () => { it("it", withEmulator(async () => 1)); it.only("only", withEmulator(async () => 1)); });
suite("another", () => { before(withEmulator(async () => 1)); after(withEmulator(async () => 1)); beforeEach(withEmulator(async () => 1)); });
test("nested", async (context) => { await context.test("inner", withEmulator(async () => 1)); });
export const nothing: Promise<void> = withEmulator(() => 5)();
export const emulator = new Emulator("http://127.0.0.1:9770", "sk_test_own");
export const isRefusal = (error: unknown): error is ControlError => error instanceof ControlError && error.status === 409;
export function subject(event: WebhookEvent): string {
  switch (event.type) {
    case "workflow.completed": return `${event.data.workflow_id} ${event.data.status satisfies "completed"}`;
    case "reference.matched": return event.data.reference_id;
    default: return event satisfies never;
  }
}
test("webhooks", withEmulator(async (wrs) => {
  const [delivery] = await wrs.trigger("workflow.completed", { data: { workflow_id: "wf_1" } });
  assert.ok(delivery.attempts.every(({ url }) => url === wrs.sinkUrl));
  const [received] = await wrs.received();
  const event: WebhookEvent = JSON.parse(received.body);
  assert.ok(received.body.includes(subject(event)));
  const many = await wrs.trigger("workflow.completed", { count: 200 });
  assert.ok(many.every(({ status }) => status === "delivered"));
}));
test("records", withEmulator(async (wrs) => {
  const [delivery] = await wrs.waitForDeliveries({ status: "delivered" });
  const requests: control.Request[] = await wrs.waitForRequests();
  assert.ok(delivery.url.startsWith("https://") && requests.every(({ status }) => status === 200));
}));
test("one clock", withEmulator(async (wrs) => {
  await wrs.clock.follow(mock.timers);
  assert.equal(await wrs.clock.set("2030-01-01T00:00:00Z"), await wrs.clock.advance("0s"));
}));
