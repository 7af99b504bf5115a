import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { failing, readiness, reviewView } = await import("../../src/ui/assets/review.js");
const { requestEntry } = await import("../../src/ui/assets/store.js");
const { failedKeys, headline, summaryView } = await import("../../src/ui/assets/summary.js");

const finding = (change = {}) => ({
  code: "wrong-path", title: "A request matches no endpoint", severity: "medium", confidence: "certain", clause: "Endpoints", why: "It does nothing.", remedy: "correct it", cwe: null,
  count: 1, evidence: [{ request: "req_1", delivery: null, detail: "GET /<b>\u202e: no endpoint" }], ...change,
});
const findings = (data, change = {}) => ({
  data, not_exercised: [{ code: "secret-weak", title: "A signing secret can be guessed", exercise: "subscribe" }, { code: "receiver-slow", title: "A receiver is slow", exercise: "wrs-emulator trigger x" }],
  beyond: ["how it stores keys"], judged_requests: 2, judged_deliveries: 1, forgotten_entries: 0, ...change,
});
const page = (route, of, isDocument = false) => ({
  store: { findings: of, problem: "" }, route: { view: "review", id: "", filter: "", key: "", ...route }, ui: { copied: "" }, base: "http://127.0.0.1:9770/_emulator/", isDocument,
  address: (to) => `#/${to.view ?? "review"}/${to.id}`, cli: (words) => `wrs-emulator ${words.join(" ")}`, go() {}, redraw() {}, announce() {},
});
/** The view as one node. */
function shown(route, of, isDocument) {
  const root = document.createElement("div");
  root.append(...reviewView(page(route, of, isDocument)).filter(Boolean));
  return root;
}

test("what is certain and at least medium fails a review", () => {
  for (const [severity, confidence, fails] of [["critical", "certain", 1], ["high", "certain", 1], ["medium", "certain", 1], ["low", "certain", 0], ["info", "certain", 0], ["critical", "likely", 0]]) {
    assert.equal(failing(findings([finding({ severity, confidence })])).length, fails, `${severity} ${confidence}`);
  }
  assert.deepEqual(failing(null), []);
});

test("the first sentence says whether it is ready and why", () => {
  const all = { not_exercised: [] };
  for (const [of, sentence] of [
    [findings([finding()]), "✗ Not ready: 1 finding is certain and at least medium. The worst: A request matches no endpoint."],
    [findings([finding(), finding()]), "✗ Not ready: 2 findings are certain and at least medium. The worst: A request matches no endpoint."],
    [findings([], { judged_requests: 0, judged_deliveries: 0 }), "! Not proven: no request was made and nothing was delivered."],
    [findings([]), "✓ Ready, as far as the traffic shows: no finding in 2 requests and 1 delivery; 2 checks had nothing to judge."],
    [findings([finding({ severity: "low" })], all), "✓ Ready, with 1 finding to look at, none certain and at least medium, in 2 requests and 1 delivery."],
    [findings([finding({ confidence: "likely" })], all), "! Ready, with 1 finding to look at, none certain and at least medium, in 2 requests and 1 delivery."],
  ]) assert.equal(readiness(of).textContent, sentence);
});

test("a finding is shown with its evidence as text, and how to see it", () => {
  const root = shown({}, findings([finding({ count: 3, evidence: [...finding().evidence, { request: null, delivery: "dlv_1", detail: "x" }] })]));
  const article = root.querySelector("article");
  assert.deepEqual([...article.querySelectorAll("ul a")].map((node) => node.getAttribute("href")), ["#/activity/req_1", "#/deliveries/dlv_1"]);
  for (const text of ["GET /<b>\\u{202e}: no endpoint", "and 1 more", "It does nothing.", "correct it", "Endpoints", "wrs-emulator requests show req_1"]) assert.ok(article.textContent.includes(text), text);
  assert.equal(root.querySelector("article b"), null);
  assert.match(root.textContent, /A receiver is slow\? receiver-slowwrs-emulator trigger x/);
  assert.match(root.textContent, /What no traffic can showhow it stores keys/);
  assert.equal(shown({}, findings([finding()]), true).textContent.includes("requests show"), false, "nobody answers a command about a file");
});

test("filters and addresses choose, and numbers stay", () => {
  const of = findings([finding({ code: "a", severity: "high" }), finding({ code: "b" }), finding({ code: "b", confidence: "likely" }), finding({ code: "c", severity: "low" })]);
  for (const [route, numbers] of [
    [{}, "1 2 3 4"], [{ filter: "severity:medium" }, "1 2 3"], [{ filter: "severity:medium confidence:certain" }, "1 2"], [{ filter: "confidence:likely" }, "3"], [{ filter: "severity:odd" }, "1 2 3 4"],
    [{ id: "b" }, "2 3"], [{ id: "b", filter: "severity:high" }, "2 3"], [{ id: "secret-weak" }, ""],
  ]) assert.equal([...shown(route, of).querySelectorAll("ol > li")].map((node) => node.getAttribute("value")).join(" "), numbers, JSON.stringify(route));
  assert.match(shown({ id: "secret-weak" }, of).textContent, /A signing secret can be guessed/);
  assert.match(shown({ id: "<x>" }, of).textContent, /<x> is not among the findings/);
});

test("a key is a test: refusals in words, failed deliveries and findings by key", () => {
  const summary = "422 Unprocessable Entity because `x` is wrong";
  const request = (id, key, change) => requestEntry({ id, at: "2026-01-31T09:30:00Z", workspace: key && `ws_${key}`, key, method: "GET", path: "/", query: null, operation: null, status: 422, broken: null, reason: "invalid", latency_ms: 1, scenario: null, ...change });
  const entries = [request("req_1", "a"), request("req_2", "a"), request("req_3", "b", { status: 429, scenario: "burst", reason: "scripted" }), request("req_4", null, { status: 404 }), request("req_5", "c", { status: 200 })];
  const run = { verification: { counts: {}, judged_requests: 5, judged_deliveries: 0 }, requests: [{ id: "req_1", explanation: { summary } }, { id: "req_2", explanation: { summary } }] };
  const groups = failedKeys(run, entries, findings([finding({ evidence: [{ request: "req_5", delivery: null, detail: "x" }] })]));
  assert.deepEqual(groups.map((group) => [group.key, [...group.refusals.values()].map((one) => `${one.count} ${one.words}`), group.findings]), [
    ["a", [`2 ${summary}`], 0], ["without a key", ["1 404: invalid"], 0], ["c", [], 1],
  ]);
  assert.deepEqual(headline(run), { colour: "quiet", text: "5 requests and 0 deliveries" }, "nobody asked for a verdict");
  assert.deepEqual(headline({ ...run, exec: { command: ["x"], exit_status: 1 } }), { colour: "bad", text: "Failed: the command ended with exit status 1" });
  assert.equal(headline({ ...run, exec: { command: ["x"], exit_status: 0 } }).colour, "ok", "the report judges what the verdict was asked for");
  const judged = { ...run, exec: { command: ["x"], exit_status: 0, fail_on: ["forged", "unmatched"], failed_by: ["unmatched"] } };
  assert.deepEqual(headline(judged), { colour: "bad", text: "Failed: the verdict was asked for forged and unmatched, and found unmatched" });
  // A rule that only delays does not excuse what the client sent.
  assert.equal(request("req_6", "d", { scenario: "slow-responses" }).failed, true);
  // A test that never called is named if the command failed.
  const silent = (exit_status) => failedKeys({ ...run, keys: [{ key: "a", requests: 2 }, { key: "q", requests: 0 }], exec: { exit_status } }, entries, null).map(({ key, isSilent }) => [key, Boolean(isSilent)]);
  assert.deepEqual(silent(1), [["a", false], ["without a key", false], ["q", true]]);
  assert.deepEqual(silent(0), [["a", false], ["without a key", false]]);
  // A finding that nobody asked for comes after what counts.
  const order = (exec) => failedKeys({ ...run, exec }, [{ ...entries[0], key: "z" }], findings([finding({ evidence: [1, 2, 3].map(() => ({ request: "req_5", delivery: null, detail: "x" })) }), finding({ evidence: [{ request: "req_5", delivery: null, detail: "x" }] })])).map(({ key }) => key);
  assert.deepEqual([order({ fail_on: ["forged"] }), order({ fail_on: ["findings"] })].map((keys) => keys[0]), ["z", "without a key"]);
});

test("with outcomes, failed tests come first, and what passing tests were refused is information", () => {
  const request = (id, key, status) => requestEntry({ id, at: "2026-01-31T09:30:00Z", workspace: `ws_${key}`, key, method: "GET", path: "/", query: null, operation: "system.status", status, broken: null, reason: status === 429 ? "scripted" : "invalid", latency_ms: 1, scenario: status === 429 ? "burst" : null });
  const ended = (name, outcome, message) => ({ test: name, outcome, message: message ?? null, output: message ? `def ${name}` : null });
  const keys = [
    { key: "k_ok", requests: 1, test: ended("expects a 422", "passed") }, { key: "k_200", requests: 1, test: ended("reads a field", "failed", "KeyError: 'x'") },
    { key: "k_silent", requests: 0, test: ended("never calls", "failed", "assert 0 == 1") }, { key: "k_control", requests: 0, test: ended("own call", "failed", "wrs_emulator.ControlError: POST events: 404") },
    { key: "k_fine", requests: 0, test: ended("fine", "passed") },
    { key: "k_burst", requests: 1, test: ended("meets a burst", "failed", "assert 429 == 200") }, { key: "k_backs_off", requests: 1, test: ended("backs off", "passed") },
  ];
  const run = { verification: { counts: {}, judged_requests: 2, judged_deliveries: 0, unfinished: [], unused: [], active_scenarios: [] }, keys, requests: [], emulator: {}, clock: { mode: "real", now: "2026-01-31T09:30:00Z" } };
  const entries = [request("req_1", "k_ok", 422), request("req_2", "k_200", 200), request("req_3", "k_burst", 429), request("req_4", "k_backs_off", 429)];
  const groups = failedKeys(run, entries, null);
  assert.deepEqual(groups.map(({ key, isSilent }) => [key, isSilent]), [["k_burst", false], ["k_silent", true], ["k_200", false], ["k_control", false], ["k_ok", false]]);
  assert.deepEqual(headline(run), { colour: "bad", text: "Failed: 4 of 7 tests" });
  assert.deepEqual(headline({ ...run, exec: { exit_status: 1, fail_on: ["unmatched"], failed_by: ["unmatched"] } }).text, "Failed: the command ended with exit status 1; the verdict was asked for unmatched, and found unmatched");
  const root = document.createElement("div");
  const of = page({}, null, true);
  root.append(...summaryView({ ...of, store: { ...of.store, run, entries } }).filter(Boolean));
  const sections = new Map([...root.querySelectorAll("section")].map((one) => [one.querySelector("h3").textContent, one]));
  assert.deepEqual([...sections.get("What failed, by test").querySelectorAll("h4")].map((one) => one.textContent), ["meets a burst", "never calls", "reads a field", "own call"]);
  assert.match(sections.get("What failed, by test").textContent, /assert 429 == 200429: scripted evidence/, "a scripted refusal may be the cause");
  assert.match(sections.get("What failed, by test").textContent, /never calls✗ failed k_silentassert 0 == 1no request carried its keyOutputdef never calls/);
  assert.deepEqual([...sections.get("Noticed, by key").querySelectorAll("h4")].map((one) => one.textContent), ["expects a 422"]);
  assert.equal(root.querySelector(".counters").textContent, "4 tests failed3 refusals");
  assert.equal(sections.get("What failed, by test").querySelectorAll("article")[1].querySelector("a").getAttribute("href"), "#/keys/", "Activity would be empty");
});
