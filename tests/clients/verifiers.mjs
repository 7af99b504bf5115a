// Deliveries signed by the emulator, verified by npm packages: standardwebhooks, stripe, @octokit/webhooks-methods.
//
// A good delivery must be accepted, each tampered copy and each delivery that the emulator falsifies itself rejected, as
// far as the library promises to.
// Usage: node verifiers.mjs EMULATOR_BINARY, from a folder beside which the packages are installed.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

import { verify as octokitVerify } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

const KEY = "sk_test_verifiers_node";
const OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PUBLIC = "https://app.example.com";
const TAMPERS = ["body", "signature", "secret", "timestamp", "future_timestamp", "headers"];
const emulator = resolve(process.argv[2]);

/** Subscribes, fires a good event and one of each tampering; gives the secret and what the receiver got for each. */
async function deliver() {
  let last;
  const receiver = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    last = { headers: request.headers, body: Buffer.concat(parts).toString() };
    response.writeHead(204).end();
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const emulated = spawn(
    emulator,
    ["serve", "--quiet", "--listen", "127.0.0.1:0",
      "--set", 'webhooks.scheme=["standard", "svix", "stripe", "github", "slack"]',
      "--forward", `${PUBLIC}=http://127.0.0.1:${receiver.address().port}`],
    { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(emulated, "exit");
  try {
    const [ready] = await once(createInterface({ input: emulated.stdout }), "line");
    const url = ready.split(" ").at(-1);
    const call = async (path, body) => {
      const headers = { "content-type": "application/json", authorization: `Bearer ${KEY}` };
      const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    };
    const hook = { url: `${PUBLIC}/hooks`, events: ["workflow.completed"] };
    const { secret } = await call("/v1/events/subscribe", hook);
    const received = new Map();
    for (const tamper of [undefined, ...TAMPERS]) {
      const fired = await call("/_emulator/events?wait=20s", { type: "workflow.completed", key: KEY, tamper });
      if (fired.deliveries[0].status !== "delivered") throw new Error(JSON.stringify(fired));
      // The answer is written once the delivery is kept.
      received.set(tamper, last);
    }
    return { secret, received };
  } finally {
    emulated.kill("SIGTERM");
    const [code] = await ended;
    if (code !== 0) throw new Error(`the emulator ended with ${code}`);
    receiver.close();
    receiver.closeAllConnections();
  }
}

/** The headers that `sign` makes: a signature that holds, at any time. */
function signed(scheme, secret, timestamp, body) {
  const result = spawnSync(
    emulator, ["sign", "--scheme", scheme, "--timestamp", String(timestamp), "--json", "-"],
    { input: body, env: { ...process.env, WRS_WEBHOOK_SECRET: secret }, stdio: ["pipe", "pipe", "ignore"] });
  if (result.status !== 0) throw new Error(`sign ended with ${result.status}`);
  return JSON.parse(result.stdout).headers;
}

const stripe = new Stripe("sk_test_unused");

// `verify` accepts by returning true, and rejects by returning false or throwing.
const LIBRARIES = [
  {
    library: "standardwebhooks",
    scheme: "standard",
    signature: "webhook-signature",
    needed: ["webhook-id", "webhook-timestamp", "webhook-signature"],
    // A verified event comes back, whatever it is.
    verify: (secret, headers, body) => new Webhook(secret).verify(body, headers) !== undefined,
    retimed: (headers) => ({ ...headers, "webhook-timestamp": String(headers["webhook-timestamp"] - 1) }),
    stale: false,
    future: false,
  },
  {
    library: "stripe",
    scheme: "stripe",
    signature: "stripe-signature",
    needed: ["stripe-signature"],
    verify: (secret, headers, body) => stripe.webhooks.constructEvent(body, headers["stripe-signature"], secret).id !== "",
    retimed: (headers) => {
      const earlier = (_, time) => `t=${time - 1}`;
      return { ...headers, "stripe-signature": headers["stripe-signature"].replace(/t=(\d+)/, earlier) };
    },
    stale: false,
    // The library asks only that a timestamp is not too old.
    future: true,
  },
  {
    library: "@octokit/webhooks-methods",
    scheme: "github",
    signature: "x-hub-signature-256",
    needed: ["x-hub-signature-256"],
    verify: (secret, headers, body) => octokitVerify(secret, body, headers["x-hub-signature-256"]),
    // The scheme signs the body alone.
    retimed: null,
    stale: true,
    future: true,
  },
];

const { secret, received } = await deliver();
const { headers, body } = received.get(undefined);
const now = Math.floor(Date.now() / 1000);
let passed = 0;
let failed = 0;

for (const { library, scheme, signature, needed, verify, retimed, stale, future } of LIBRARIES) {
  const check = async (what, accepted, secret, headers, body) => {
    let verdict;
    let why = "";
    try {
      verdict = await verify(secret, headers, body);
    } catch (error) {
      verdict = false;
      why = `: ${error.message}`;
    }
    if (verdict === accepted) {
      passed += 1;
    } else {
      failed += 1;
      console.log(`${library}: ${what} was ${accepted ? `rejected${why}` : "accepted"}`);
    }
  };
  // Another last digit before any padding: still well-formed, and never part of a version or a time.
  const forge = (value) => value.replace(/.(=*)$/, (last, padding) => (last.startsWith("0") ? "1" : "0") + padding);
  await check("a good delivery", true, secret, headers, body);
  await check("a body signed by the command line", true, secret, signed(scheme, secret, now, body), body);
  await check("a changed body", false, secret, headers, body.replace("completed", "cancelled"));
  await check("a body with a newline", false, secret, headers, `${body}\n`);
  await check("a body written again", false, secret, headers, JSON.stringify(JSON.parse(body), null, 1));
  await check("a changed signature", false, secret, { ...headers, [signature]: forge(headers[signature]) }, body);
  await check("another secret", false, OTHER, headers, body);
  if (retimed) await check("a changed timestamp", false, secret, retimed(headers), body);
  await check("a stale timestamp", stale, secret, signed(scheme, secret, now - 400, body), body);
  await check("a future timestamp", future, secret, signed(scheme, secret, now + 400, body), body);
  for (const name of needed) {
    const left = { ...headers };
    delete left[name];
    await check(`a delivery without ${name}`, false, secret, left, body);
  }
  for (const tamper of TAMPERS) {
    const accepted = { timestamp: stale, future_timestamp: future }[tamper] ?? false;
    const forged = received.get(tamper);
    await check(`a delivery with \`tamper: ${tamper}\``, accepted, secret, forged.headers, forged.body);
  }
}

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
