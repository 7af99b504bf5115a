import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { bodyVariants, checkSignature, difference, messagesOf, schemesOf, signatureHeaders, SCHEMES, takenApart, undecorated } from "../../src/ui/assets/signature.js";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const KEY = Buffer.from(SECRET.slice(6), "base64");
const BODY = '{"id":"evt_1","data":{}}';
const NOW = 1_700_000_000_000;
const TIME = "1700000000";
const mac = (key, text, form) => createHmac("sha256", key).update(text).digest(form);

/** Headers of a delivery, as each scheme has them. */
const HEADERS = {
  standard: `webhook-id: evt_1\nwebhook-timestamp: ${TIME}\nwebhook-signature: v1,AAAA v1,${mac(KEY, `evt_1.${TIME}.${BODY}`, "base64")}`,
  svix: `svix-id: evt_1\nsvix-timestamp: ${TIME}\nsvix-signature: v1,${mac(KEY, `evt_1.${TIME}.${BODY}`, "base64")}`,
  stripe: `Stripe-Signature: t=${TIME},v1=${mac(SECRET, `${TIME}.${BODY}`, "hex")}`,
  github: `X-Hub-Signature-256: sha256=${mac(SECRET, BODY, "hex")}`,
  slack: `X-Slack-Request-Timestamp: ${TIME}\nX-Slack-Signature: v0=${mac(SECRET, `v0:${TIME}:${BODY}`, "hex")}`,
  shopify: `X-Shopify-Hmac-Sha256: ${mac(SECRET, BODY, "base64")}`,
};

test("a right signature of each scheme is right, and a wrong one wrong", async () => {
  for (const [name, headers] of Object.entries(HEADERS)) {
    assert.deepEqual(schemesOf(messagesOf(headers)[0].headers), [name]);
    const good = await checkSignature(headers, BODY, SECRET, NOW);
    assert.equal(good.summary, "The signature is right.", name);
    assert.ok(good.ok);
    const bad = await checkSignature(headers, `${BODY.slice(0, -1)} }`.replace("evt_1", "evt_2"), SECRET, NOW);
    assert.equal(bad.ok, false, name);
    assert.ok(bad.expected, name);
    assert.notEqual(bad.expected, bad.found);
  }
});

test("common mistakes are named", async () => {
  for (const [body, secret, expected] of [
    [`${BODY}\n`, SECRET, /without its last line end/],
    [JSON.stringify(JSON.parse(BODY), null, 2), SECRET, /compact JSON/],
    [BODY, ` ${SECRET} `, /white space/],
    [BODY, `"v1,${SECRET}"`, /the quotes around it and the `v1,` in front of it/],
    ["[object Object]", SECRET, /parsed it before/],
  ]) {
    const found = await checkSignature(HEADERS.standard, body, secret, NOW);
    assert.equal(found.ok, false);
    assert.match(found.findings.join("\n"), expected);
  }
  assert.match((await checkSignature(HEADERS.standard, BODY, SECRET, NOW + 3_600_000)).findings.join("\n"), /3600 s in the past/);
  assert.match((await checkSignature("x: y", BODY, SECRET, NOW)).summary, /no signature header/);
  assert.match((await checkSignature(HEADERS.standard, BODY, "", NOW)).summary, /Without the secret/);
  assert.match((await checkSignature(HEADERS.standard.replace(/^webhook-id.*\n/, ""), BODY, SECRET, NOW)).findings.join("\n"), /webhook-id is missing/);
});

test("a secret loses the same decorations as on the command line", () => {
  const cases = JSON.parse(readFileSync(new URL("secrets.json", import.meta.url), "utf8"));
  for (const [secret, plain, decorations] of cases) assert.deepEqual(undecorated(secret), [plain, decorations], secret);
});

test("a whole capture brings its body, and each value of a repeated header counts", async () => {
  const headers = HEADERS.standard.split("\n").map((line) => line.split(": "));
  const capture = JSON.stringify({ attempts: [{ request: { headers: [...headers.slice(0, 2), ["webhook-signature", "v1,BBBB"], headers[2]], body: BODY } }] });
  assert.equal((await checkSignature(capture, "", SECRET, NOW)).summary, "The signature is right.");
});

test("the text of a secret is tried as a key too", async () => {
  const headers = HEADERS.standard.replace(/v1,[^ ]+$/, `v1,${mac(SECRET, `evt_1.${TIME}.${BODY}`, "base64")}`);
  const found = await checkSignature(headers, BODY, SECRET, NOW);
  assert.ok(found.ok);
  assert.match(found.findings.join(), /the text itself/);
});

test("signed content comes apart and is whole again", () => {
  for (const [signed, known, roles] of [
    [`evt_1.${TIME}.${BODY}`, { id: "evt_1", time: TIME, body: BODY }, ["id", "rest", "time", "rest", "body"]],
    [`evt_1.${TIME}.${BODY}`, { id: "evt_1", time: "1600000000", body: "{}" }, ["id", "rest", "time", "rest", "body"]],
    [`v0:${TIME}:${BODY}`, { id: "", time: TIME, body: BODY }, ["rest", "time", "rest", "body"]],
    [BODY, { id: "", time: "", body: BODY }, ["body"]],
    ["", { id: "", time: "", body: "" }, []],
    ["nothing known", { id: "a", time: "b", body: "c" }, ["body"]],
  ]) {
    const parts = takenApart(signed, known);
    assert.equal(parts.map((part) => part.text).join(""), signed);
    assert.deepEqual(parts.map((part) => part.role), roles, signed);
  }
});

test("differences lie between a common start and a common end", () => {
  assert.deepEqual(difference("abcdef", "abXdef"), { before: "ab", one: "c", other: "X", after: "def" });
  assert.deepEqual(difference("aa", "aaa"), { before: "aa", one: "", other: "a", after: "" });
  assert.deepEqual(difference("", ""), { before: "", one: "", other: "", after: "" });
  assert.deepEqual(signatureHeaders(SCHEMES.stripe, [["stripe-signature", "t=1,v1=a,v1=b"]]), { id: "", time: "1", signatures: ["a", "b"] });
  assert.equal(bodyVariants("x\r\ny\r\n").length, 3);
});
