// An Express application with a client that retries, tested without a sleep: what it receives, what it does not, and its back-off.
import assert from "node:assert/strict";
import test, { mock } from "node:test";

import express from "express";
import { Webhook } from "standardwebhooks";
import request from "supertest";
import { withEmulator } from "wrs-emulator";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

function application({ url, headers }) {
  const app = express();
  app.locals.completed = new Set();

  app.get("/health", async (_, answer) => {
    for (let pause = 1000; ; pause *= 2) {
      const status = await fetch(`${url}/v1/system/status`, { headers });
      if (status.status !== 429) return answer.json(await status.json());
      await new Promise((done) => setTimeout(done, pause));
    }
  });

  app.post("/hooks", express.raw({ type: "*/*" }), ({ body, headers: received }, answer) => {
    let event;
    try {
      event = new Webhook(SECRET).verify(body, received);
    } catch {
      return answer.sendStatus(401);
    }
    if (event.type === "workflow.completed") app.locals.completed.add(event.id);
    answer.sendStatus(204);
  });
  return app;
}

/** Posts the bytes as they are. */
const deliver = (app, method, { headers, body }) =>
  request(app)[method.toLowerCase()]("/hooks").set(headers).serialize((raw) => raw).send(body);

test("a completed workflow is taken once", withEmulator(async (wrs) => {
  const app = application(wrs);
  const event = await wrs.signed("workflow.completed", { secret: SECRET, data: { workflow_id: "wf_7", status: "completed" } });
  for (let time = 0; time < 2; time += 1) await deliver(app, "POST", event).expect(204);
  assert.deepEqual([...app.locals.completed], [event.id]);
}));

test("every delivery there may be", withEmulator(async (wrs) => {
  const app = application(wrs);
  for (const one of await wrs.cases(SECRET)) {
    for (const sent of one.requests) {
      const { status } = await deliver(app, sent.method, sent);
      assert.equal(one.problem(status), undefined);
    }
  }
  await wrs.noRequest();
  await wrs.noDelivery();
}));

test("the client backs off", withEmulator(async (wrs) => {
  const app = application(wrs);
  await wrs.set({ rate_limit: { requests: 1, window: "60s" } });
  await wrs.clock.follow(mock.timers);
  await request(app).get("/health").expect(200);
  const again = request(app).get("/health").expect(200).then();
  await wrs.waitForRequests({ status: 429 });
  await wrs.clock.advance("2m");
  await again;
  assert.equal((await wrs.get("requests", { status: 429 })).data.length, 6);
}));
