// The page's tests for pytest and node:test, and its scenarios: what others wrote stays text. The scenarios are given to the
// emulator that `run.sh` starts.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import "./dom.mjs";
import { TEXTS, pick, randomOf, requestOf, textOf } from "./hostile.mjs";

const { scenarioOf, testsOf } = await import("../../src/ui/assets/request.js");

const random = randomOf(40);
const requests = [
  ...TEXTS.map((text) => ({ method: text.replaceAll(/[^\w!#$%&'*+.^`|~-]/g, "") || "PUT", path: `/${text}`, query: text, headers: [["content-type", text]], body: text, operation: text, status: 200, reason: "answered" })),
  ...Array.from({ length: 500 }, () => requestOf(random)),
];
for (const [i, request] of requests.entries()) {
  if (i % 3 === 0) Object.assign(request, { status: 429, scenario: "burst", reason: "scripted", answer: { headers: [["content-type", "text/plain"]], body: textOf(random) } });
}

/** What each test has to send. */
const expected = requests.map((request) => {
  const { method, path, query, headers, body } = request;
  const type = headers.find(([name]) => name === "content-type")?.[1] ?? null;
  const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.from(body.base64, "base64");
  return { method, url: `http://w${path}${query === null ? "" : `?${query}`}`, type, body: bytes.toString("base64"), toml: request.status === 429 ? scenarioOf(request, 429) : null };
});

test("Python reads a test as it is meant", () => {
  const script = `
import base64, json, sys, urllib.request
sent, found = [], []
class Kept:
    def __init__(self, url, method, headers):
        self.url, self.method, self.type, self.data = url, method, None, b""
        sent.append(self)
    def add_header(self, name, value):
        assert name == "Content-Type"
        self.type = value
class Answer:
    status = 200
class Wrs:
    url, headers = "http://w", {}
    toml = None
    def scenario(self, toml):
        Wrs.toml = toml
urllib.request.Request, urllib.request.urlopen = Kept, lambda request: Answer
for status, code in json.load(sys.stdin):
    Answer.status = status
    Wrs.toml, names = None, {}
    exec(code, names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test(Wrs())
    one = sent.pop()
    found.append(dict(method=one.method, url=one.url, type=one.type or None, body=base64.b64encode(one.data or b"").decode(), toml=Wrs.toml))
print(json.dumps(found))
`;
  const found = JSON.parse(execFileSync("python3", ["-c", script], { input: JSON.stringify(requests.map((request) => [request.status, testsOf(request)[0][1]])), maxBuffer: 1e9 }));
  for (const [i, one] of found.entries()) assert.deepEqual(one, { ...expected[i], type: expected[i].type || null }, testsOf(requests[i])[0][1]);
});

test("JavaScript reads a test as it is meant", async () => {
  const AsyncFunction = (async () => {}).constructor;
  for (const [i, request] of requests.entries()) {
    const code = testsOf(request)[1][1];
    const found = { toml: null };
    const wrs = { url: "http://w", headers: {}, scenario: async ({ toml }) => { found.toml = toml; } };
    const keep = async (url, { method, headers, body = "" }) => {
      Object.assign(found, { method, url, type: headers["content-type"] || null, body: Buffer.from(body).toString("base64") });
      return { status: request.status, text: async () => "" };
    };
    await new AsyncFunction("test", "withEmulator", "fetch", "assert", `await ${code.replaceAll(/^import .*\n/gm, "").trim()}`)((title, body) => body(), (body) => () => body(wrs), keep, assert);
    const isBodiless = ["GET", "HEAD"].includes(request.method);
    assert.deepEqual(found, { ...expected[i], type: expected[i].type || null, body: isBodiless ? "" : expected[i].body }, code);
  }
});

const CONTROL = `${process.env.WRS_EMULATOR_URL}/_emulator`;

async function control(method, path, type, body) {
  const answer = await fetch(`${CONTROL}/${path}`, { method, headers: type ? { "content-type": type, "x-emulator-control": "1" } : {}, body });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${text}\n${body}`);
  return text && JSON.parse(text);
}

/** A scenario, as JSON, that gives an answer of any kind; null for an ordinary answer. */
function originOf() {
  // Of a longer answer only a part is recorded.
  const text = textOf(random).slice(0, 5000);
  const status = pick(random, [200, 201, 302, 400, 404, 405, 422, 429, 500, 503, 599]);
  const types = [{}, {}, { headers: { "content-type": pick(random, ["application/json", "text/html; charset=\"utf-8\"", "a/b;c='d'"]) } }];
  switch (random(5)) {
    case 0: return null;
    case 1: return { status: Math.max(status, 400), code: pick(random, ["taken", "validation_error", "it's \"so\"", "{{"]), message: text };
    case 2: return { error: pick(random, ["validation_error", "not_found", "rate_limit_exceeded", "internal_error", "unauthorized", "bad_request"]), message: text };
    case 3: return { status, body: { text, "it's": [1, false, text], "": { "{{": 1.5 } }, ...pick(random, types) };
    default: return { status, body: text, ...pick(random, types) };
  }
}

/** A request that the emulator answers by itself, with text of the client in the answer where it can be. */
function callOf(key) {
  const query = random(2) ? `?${pick(random, ["a", "include_checks", "x[1]", "{{"])}=${encodeURIComponent(textOf(random).slice(0, 300))}` : "";
  const headers = { authorization: `Bearer ${key}` };
  if (random(2)) return [`/v1/hello${query}`, { headers }];
  const body = JSON.stringify({ url: "https://a.example/", events: [textOf(random).slice(0, 300)] });
  return [`/v1/events/subscribe${query}`, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body }];
}

/** An answer as far as it is the same each time: of an error, without the id of the request. */
async function answered([path, { headers, ...options }], scenario) {
  const answer = await fetch(process.env.WRS_BASE_URL + path, { ...options, redirect: "manual", headers: scenario ? { ...headers, "x-emulator-scenario": scenario } : headers });
  const id = answer.headers.get("x-emulator-request-id");
  return { id, status: answer.status, type: answer.headers.get("content-type"), body: withoutId(Buffer.from(await answer.arrayBuffer()).toString(), id) };
}

const withoutId = (body, id) => body.replace(`"request_id":"${id}"`, '"request_id":""');

test("an answer is given again by its scenario", { skip: !process.env.WRS_BASE_URL && "run.sh starts the emulator" }, async () => {
  for (let i = 0; i < 1500; i++) {
    const call = callOf(`sk_test_again_${i}`);
    const reply = originOf();
    if (reply) await control("PUT", "scenarios/origin", "application/json", JSON.stringify({ rule: [{ reply: { templates: false, ...reply } }] }));
    const { id, ...first } = await answered(call, reply && "origin");
    const request = await control("GET", `requests/${id}`);
    // Recorded, a secret is masked.
    const recorded = { ...first, body: withoutId(request.answer.body, id) };
    if (!recorded.body.includes("…")) assert.deepEqual(recorded, first);
    const scenario = scenarioOf(request, request.status);
    const { diagnostics = [] } = await control("PUT", "scenarios/again", "application/toml", scenario) ?? {};
    assert.deepEqual(diagnostics, [], scenario);
    const { id: _, ...again } = await answered(call, "again");
    assert.deepEqual(again, recorded, `${i}: ${scenario}`);
  }
});
