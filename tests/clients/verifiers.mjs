// Deliveries signed by the emulator, verified by npm packages: standardwebhooks, stripe, @octokit/webhooks-methods.
//
// A good delivery must be accepted, each tampered copy and each delivery that the emulator falsifies itself rejected, as
// far as the library promises to.
// Usage: deliveries.py EMULATOR_BINARY | node verifiers.mjs, from a folder next to which the packages are installed.

import { readFileSync } from "node:fs";

import { verify as octokitVerify } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

const OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const { secret, received, signed } = JSON.parse(readFileSync(0, "utf8"));
const { "": { headers, body }, ...tampered } = received;
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
  await check("a body signed by the command line", true, secret, signed[scheme].now, body);
  await check("a changed body", false, secret, headers, body.replace("completed", "cancelled"));
  await check("a body with a newline", false, secret, headers, `${body}\n`);
  await check("a body written again", false, secret, headers, JSON.stringify(JSON.parse(body), null, 1));
  await check("a changed signature", false, secret, { ...headers, [signature]: forge(headers[signature]) }, body);
  await check("another secret", false, OTHER, headers, body);
  if (retimed) await check("a changed timestamp", false, secret, retimed(headers), body);
  await check("a stale timestamp", stale, secret, signed[scheme].stale, body);
  await check("a future timestamp", future, secret, signed[scheme].future, body);
  for (const name of needed) {
    const left = { ...headers };
    delete left[name];
    await check(`a delivery without ${name}`, false, secret, left, body);
  }
  for (const [tamper, forged] of Object.entries(tampered)) {
    const accepted = { timestamp: stale, future_timestamp: future }[tamper] ?? false;
    await check(`a delivery with \`tamper: ${tamper}\``, accepted, secret, forged.headers, forged.body);
  }
}

console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
