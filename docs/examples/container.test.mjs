import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { GenericContainer, Wait } from "testcontainers";

let container, url;

before(async () => {
  container = await new GenericContainer("wrs-emulator")
    .withExposedPorts(9770)
    .withEnvironment({ WRS_EMULATOR_CONTROL_TOKEN: "only-for-this-run" })
    .withWaitStrategy(Wait.forHealthCheck())
    .start();
  url = `http://${container.getHost()}:${container.getMappedPort(9770)}`;
});
after(() => container.stop());

test("status", async () => {
  const answer = await fetch(`${url}/v1/system/status`, { headers: { authorization: "Bearer sk_test_node_status" } });
  assert.equal(answer.status, 200);
});
