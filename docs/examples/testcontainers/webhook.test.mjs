// A webhook from the emulator in a container to this process: npm install --save-dev testcontainers
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { GenericContainer, Wait } from "testcontainers";

const TOKEN = "only-for-this-run", KEY = "sk_test_node_webhook";
let container, url;

// Containers reach it only if it listens on all addresses.
const receiver = createServer(async (request, answer) => {
  let body = "";
  for await (const part of request) body += part;
  answer.writeHead(204).end();
  receiver.emit("delivery", request.headers, body);
});

before(async () => {
  await once(receiver.listen(0, "0.0.0.0"), "listening");
  container = await new GenericContainer("wrs-emulator")
    .withExposedPorts(9770)
    .withEnvironment({
      WRS_EMULATOR_CONTROL_TOKEN: TOKEN,
      WRS_EMULATOR_FORWARD: `https://app.example.com=http://host.docker.internal:${receiver.address().port}`,
    })
    .withExtraHosts([{ host: "host.docker.internal", ipAddress: "host-gateway" }])
    .withWaitStrategy(Wait.forHttp("/_emulator/health", 9770))
    .start();
  url = `http://${container.getHost()}:${container.getMappedPort(9770)}`;
});

after(async () => {
  receiver.close();
  await container?.stop();
});

async function post(path, bearer, body) {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 200);
}

test("a webhook arrives", async () => {
  const arrived = once(receiver, "delivery", { signal: AbortSignal.timeout(10_000) });
  await post("/v1/events/subscribe", KEY, { url: "https://app.example.com/hooks", events: ["workflow.completed"] });
  await post("/_emulator/events", TOKEN, { key: KEY, type: "workflow.completed" });
  const [headers, body] = await arrived;
  assert.match(headers["webhook-signature"], /^v1,/);
  assert.equal(JSON.parse(body).type, "workflow.completed");
});
