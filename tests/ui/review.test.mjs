import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { failing, readiness, reviewView } = await import("../../src/ui/assets/review.js");
const { causesOf, headline, oftenOf } = await import("../../src/ui/assets/causes.js");
const { Store, attemptEntry, requestEntry } = await import("../../src/ui/assets/store.js");
const { summaryView } = await import("../../src/ui/assets/summary.js");
const { reasonOf } = await import("../../src/ui/assets/text.js");

const EVIDENCE = { request: "req_1", delivery: null, detail: "GET /<b>\u202e: no endpoint" };
const finding = (change = {}) => ({
  code: "wrong-path", title: "A request matches no endpoint", severity: "medium", confidence: "certain", clause: "Endpoints", why: "It does nothing.", remedy: "correct it", cwe: null,
  count: 1, evidence: [EVIDENCE], groups: [{ count: 1, first: EVIDENCE, last: EVIDENCE }], ...change,
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

test("certain findings of at least medium severity fail a review", () => {
  for (const [severity, confidence, fails] of [["critical", "certain", 1], ["high", "certain", 1], ["medium", "certain", 1], ["low", "certain", 0], ["info", "certain", 0], ["critical", "likely", 0]]) {
    assert.equal(failing(findings([finding({ severity, confidence })])).length, fails, `${severity} ${confidence}`);
  }
  assert.deepEqual(failing(null), []);
});

test("the first sentence says whether it is ready and why", () => {
  const all = { not_exercised: [] };
  for (const [of, sentence] of [
    [findings([finding()]), "Not ready: 1 finding to fix. The worst: A request matches no endpoint."],
    [findings([finding(), finding()]), "Not ready: 2 findings to fix. The worst: A request matches no endpoint."],
    [findings([], { judged_requests: 0, judged_deliveries: 0 }), "Not tested: no requests and no deliveries."],
    [findings([]), "Ready, as far as the traffic shows: no finding in 2 requests and 1 delivery; 2 checks not tested."],
    [findings([finding({ severity: "low" })], all), "Ready, with 1 finding to look at, none of them certain and severe, in 2 requests and 1 delivery."],
    [findings([finding({ confidence: "likely" })], all), "Ready, with 1 finding to look at, none of them certain and severe, in 2 requests and 1 delivery."],
  ]) assert.equal(readiness(of).textContent, sentence);
});

test("a finding is shown as text, with links to what shows it", () => {
  const delivery = (id) => ({ request: null, delivery: id, detail: "x" });
  const root = shown({}, findings([finding({ count: 4, groups: [...finding().groups, { count: 2, first: delivery("dlv_1"), last: delivery("dlv_2") }] })]));
  const article = root.querySelector("article");
  assert.deepEqual([...article.querySelectorAll("ul a")].map((node) => node.getAttribute("href")), ["#/activity/req_1", "#/deliveries/dlv_1", "#/deliveries/dlv_2"]);
  for (const text of ["GET /<b>\\u{202e}: no endpoint", "(2 times) x", "and 1 more", "It does nothing.", "Correct it", "Endpoints"]) assert.ok(article.textContent.includes(text), text);
  assert.equal(root.querySelector("article b"), null);
  assert.match(root.textContent, /A receiver is slow\? receiver-slowwrs-emulator trigger x/);
  assert.match(root.textContent, /Not visible in traffichow it stores keys/);
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

const verification = { counts: {}, judged_requests: 5, judged_deliveries: 0, unfinished: [], unused: [], active_scenarios: [], forgotten_entries: 0 };
const BEGIN = Date.parse("2026-01-31T09:30:00Z");
/** A refused request of a key, so many milliseconds after the beginning. */
const request = (id, key, change, ms = 0) => requestEntry({
  id, at: new Date(BEGIN + ms).toISOString(), workspace: key && `ws_${key}`, key, method: "GET", path: "/v1/x", query: null, operation: "system.status", status: 422, broken: null, reason: "invalid", error: "`x` is wrong",
  latency_ms: 1, generation: 1, scenario: null, ...change,
});
const limited = { status: 429, reason: "rate_limited", error: "the quota is used up" };
const attempt = (id, key, change) => Object.assign(attemptEntry({
  delivery: id, event: "evt_1", type: "workflow.completed", subscription: "sub_1", workspace: `ws_${key}`, at: "2026-01-31T09:30:01Z", number: 1, url: "https://app.example/hook", damage: null, forged: false, latency_ms: 1, outcome: { accepted: false, failure: "connection_refused", detail: "refused" }, ...change,
}), { key });
const said = (run, entries, of = null) => causesOf({ verification, keys: [], ...run }, entries, of).map(({ title, isBad, often }) => [isBad ? "failed" : "warning", title, often]);

test("equal refusals are one cause, with how often and how fast", () => {
  const storm = Array.from({ length: 1081 }, (_, i) => request(`req_${i}`, "a", limited, i));
  assert.equal(oftenOf(storm, "429"), "429 × 1,081 within 1.1 s, no pause");
  assert.equal(oftenOf(storm.slice(0, 1), "429"), "429, once");
  assert.equal(oftenOf([request("a", "k", {}), request("b", "k", {}, 2000), request("c", "k", {}, 6000)], "422"), "422 × 3 within 6 s, pauses of 2 s and 4 s");
  assert.deepEqual(said({}, storm), [["warning", "the client did not back off after a 429", "429 × 1,081 within 1.1 s, no pause"]]);
  const patient = [0, 1000, 3000, 7000, 15_000].map((ms, i) => request(`req_${i}`, "a", limited, ms));
  assert.deepEqual(said({}, patient).map(([, title]) => title), ["the quota was used up"], "it backed off");
  const run = { verification, keys: [{ key: "a", requests: 1081, test: { test: "t", outcome: "passed" } }], exec: { command: ["x"], exit_status: 0 } };
  assert.deepEqual(headline(run, causesOf(run, storm, null)), { colour: "warn", text: "Passed, but the client did not back off after a 429" });
});

test("causes are those of several keys, the worst first; what a scenario answered is as planned", () => {
  const entries = [request("req_1", "a"), request("req_2", "b"), request("req_3", "b", { status: 429, scenario: "burst", reason: "scripted" }), request("req_4", null, { status: 404, operation: null, reason: "not_found", error: "no endpoint" }), request("req_5", "c", { status: 200 }),
    request("req_6", null, { path: "/favicon.ico", status: 404, operation: null, reason: "not_found", incidental: true })];
  assert.deepEqual(said({}, entries), [["warning", "GET /v1/x was refused with 422: `x` is wrong", "422 × 2 within 0 ms, no pause"], ["warning", "GET /v1/x is not an endpoint", "404, once"]]);
  // A rule that only delays does not excuse what the client sent, and makes no other cause of it.
  const delayed = request("req_7", "d", { scenario: "slow-responses" });
  assert.equal(delayed.failed, true);
  assert.deepEqual(said({}, [entries[0], delayed]).map(([, title]) => title), ["GET /v1/x was refused with 422: `x` is wrong"]);
  assert.equal(reasonOf(delayed), "`x` is wrong");
  const lost = attempt("dlv_1", "a");
  const forged = attempt("dlv_2", "a", { forged: true, damage: "tampered", outcome: { accepted: true, status: 200, body: "" } });
  assert.deepEqual(said({}, [...entries, lost, forged]).slice(0, 2), [["failed", "your receiver accepted a forged webhook", "workflow.completed, once"], ["failed", "a webhook never arrived at https://app.example/hook: connection refused", "workflow.completed, once"]]);
  // The question that the emulator asks comes first.
  const refused = attempt("dlv_5", "a", { outcome: { accepted: false, status: 401, body: "" } });
  const asked = { verification: { ...verification, undelivered: [{ id: "dlv_5", remedy: "does your receiver use the secret?" }] }, keys: [] };
  assert.deepEqual(causesOf(asked, [refused], null).map(({ title, advice }) => [title, advice]), [["a webhook to https://app.example/hook was refused with 401", "Does your receiver use the secret?"]]);
  const slow = attempt("dlv_6", "a", { outcome: { accepted: false, failure: "timeout", detail: "x" } });
  assert.deepEqual(said({}, [slow]).map(([, title]) => title), ["a webhook to https://app.example/hook failed: timeout"]);
  const other = attempt("dlv_4", "a", { url: "https://other.example/hook", forged: true, damage: "tampered", outcome: { accepted: true, status: 200, body: "" } });
  assert.deepEqual(said({}, [forged, other]), [["failed", "your receiver accepted a forged webhook", "workflow.completed × 2"]], "of several receivers it is one cause");
  assert.deepEqual(said({ exec: { exit_status: 0 } }, [lost, forged]).map(([kind]) => kind), ["warning", "warning"], "the command passed, and nothing was to fail it");
  assert.deepEqual(said({ exec: { exit_status: 0, failed_by: ["forged"] } }, [lost, forged]).map(([kind]) => kind), ["failed", "warning"]);
  assert.deepEqual(said({}, [attempt("dlv_3", "a", { forged: true, damage: "tampered", outcome: { accepted: false, status: 401, body: "" } })]), [], "a forgery refused is right");
});

test("a lost webhook and an unfinished part name their test, even if it passed; a 429 says what a client does", () => {
  const test = (name) => ({ test: name, outcome: "passed", message: null, output: null });
  const keys = [{ key: "a", workspace: "ws_a", requests: 1, test: test("webhooks_arrive") }, { key: "b", workspace: "ws_b", requests: 1, test: test("plays_all") }];
  const unfinished = [{ scenario: "burst", rule: "two", workspace: "ws_b", message: "rule `two` applied 1 of 2 times" }];
  const run = { verification: { ...verification, unfinished }, keys, requests: [], emulator: {}, clock: { mode: "real", now: "2026-01-31T09:30:00Z" }, exec: { command: ["x"], exit_status: 0, failed_by: ["undelivered"] } };
  const entries = [attempt("dlv_1", "a")];
  const root = document.createElement("div");
  root.append(...summaryView({ ...page({}, null, true), store: Object.assign(new Store(), { run, entries }) }).filter(Boolean));
  assert.match(root.querySelector(".causes").textContent, /A webhook never arrived .*Testwebhooks_arrive/);
  assert.match(root.textContent, /Unfinished scenariosrule two applied 1 of 2 times; test plays_all scenario/);
  const failed = { verification, keys: [{ key: "a", requests: 1, test: { ...test("t"), outcome: "failed" } }], requests: [] };
  const met = (change) => causesOf(failed, [request("req_1", "a", { ...limited, ...change })], null)[0].advice;
  assert.equal(met({}), "After a 429, a client waits as long as `Retry-After` says, or else with growing pauses.");
  assert.equal(met({ scenario: "burst", reason: "scripted" }), `${met({})} The request shows the rule, and how to lift it.`);
});

test("a command that ran under several readings has a row for each", () => {
  const row = (reading, status, failed) => ({ reading, exit_status: status, problems: 0, failed_test: failed });
  const under = { reading: "key-order", sentence: "your suite passes unless <b>", readings: [row("contract", 0, null), row("key-order", 1, "test_a")] };
  const run = { verification, keys: [], requests: [], emulator: {}, clock: { mode: "real", now: "2026-01-31T09:30:00Z" }, exec: { command: ["x"], exit_status: 1, under } };
  const root = document.createElement("div");
  root.append(...summaryView({ ...page({}, null, true), store: Object.assign(new Store(), { run, entries: [] }) }).filter(Boolean));
  const part = [...root.querySelectorAll("section")].find((one) => one.querySelector("h3").textContent === "Readings");
  assert.equal(part.querySelector("p").textContent, "your suite passes unless <b>. This report is of key-order.");
  assert.deepEqual([...part.querySelectorAll("tbody tr")].map((one) => [...one.children].map(({ textContent }) => textContent)), [["contract", "0", "0", "–"], ["key-order", "1", "0", "test_a"]]);
});

test("the first sentence is what a person would say", () => {
  const entries = [request("req_1", "a")];
  for (const [run, of, text] of [
    [{ exec: { command: ["x"], exit_status: 1 } }, entries, "Failed: GET /v1/x was refused with 422: `x` is wrong"],
    [{ exec: { command: ["x"], exit_status: 3 } }, [], "Failed: the command ended with exit status 3"],
    [{ exec: { command: ["x"], exit_status: 1, problem: "not found" } }, [], "Failed: the command could not be run (not found)"],
    [{ exec: { command: ["x"], exit_status: 0, failed_by: ["unfinished"], failed_because: ["1 part of a scenario was not played"] } }, [], "Failed: 1 part of a scenario was not played"],
    [{ exec: { command: ["x"], exit_status: 1 }, verification: { ...verification, judged_requests: 0 } }, [], "Failed: nothing called the emulator; does your code read WRS_BASE_URL?"],
    [{ exec: { command: ["x"], exit_status: 0 } }, [], "Passed: 5 requests and 0 deliveries, nothing went wrong"],
    [{}, entries, "5 requests and 0 deliveries; 1 thing to look at"],
    [{ verification: { ...verification, judged_requests: 0 } }, [], "Nothing happened yet"],
  ]) {
    const whole = { verification, keys: [], ...run };
    assert.equal(headline(whole, causesOf(whole, of, null)).text, text);
  }
});

test("findings that are only likely are warnings, and none is said twice", () => {
  const of = findings([finding({ code: "no-back-off" }), finding({ code: "no-back-off", confidence: "likely" }), finding({ code: "unknown-parameter", title: "A query parameter is unknown", severity: "low", confidence: "likely" }), finding({ code: "quick-retry", severity: "info" })]);
  const storm = Array.from({ length: 9 }, (_, i) => request(`req_${i}`, "a", limited, i));
  assert.deepEqual(said({}, storm, of).map(([kind, title]) => `${kind}: ${title}`), ["warning: the client did not back off after a 429", "warning: a query parameter is unknown"]);
  const asked = { exec: { exit_status: 0, failed_by: ["findings"] } };
  assert.deepEqual(said(asked, [], findings([finding()])).map(([kind]) => kind), ["failed"]);
  assert.deepEqual(said(asked, [], findings([finding({ confidence: "likely" })])).map(([kind]) => kind), ["warning"]);
});

test("with outcomes, only failed tests stand under what failed; tests without a request are named", () => {
  const ended = (name, outcome, message) => ({ test: name, outcome, message: message ?? null, output: message ? `def ${name}` : null });
  const keys = [
    { key: "k_ok", requests: 1, test: ended("expects a 422", "passed") }, { key: "k_200", requests: 1, test: ended("reads a field", "failed", "KeyError: 'x'") },
    { key: "k_silent", requests: 0, test: ended("never calls", "failed", "assert 0 == 1") }, { key: "k_silent2", requests: 0, test: ended("never calls either", "failed", "assert 0 == 2") },
    { key: "k_control", requests: 0, test: ended("own call", "failed", "wrs_emulator.ControlError: POST events: 404") }, { key: "k_fine", requests: 0, test: ended("fine", "passed") },
    { key: "k_burst", requests: 1, test: ended("meets a burst", "failed", "assert 429 == 200") }, { key: "k_backs_off", requests: 1, test: ended("backs off", "passed") },
  ];
  const run = { verification, keys, requests: [], emulator: {}, clock: { mode: "real", now: "2026-01-31T09:30:00Z" } };
  const burst = { status: 429, scenario: "burst", reason: "scripted", error: "slow down" };
  const entries = [request("req_1", "k_ok"), request("req_2", "k_200", { status: 200 }), request("req_3", "k_burst", burst), request("req_4", "k_backs_off", burst)];
  const causes = causesOf(run, entries, null);
  assert.deepEqual(causes.map(({ isBad, title, tests }) => [isBad, title, tests.map(({ test }) => test)]), [
    [true, "2 tests made no request with their keys", ["never calls", "never calls either"]],
    [true, "the client met the 429 of scenario burst", ["meets a burst"]],
    [true, "KeyError: 'x'", ["reads a field"]],
    [true, "wrs_emulator.ControlError: POST events: 404", ["own call"]],
    [false, "GET /v1/x was refused with 422: `x` is wrong", ["expects a 422"]],
  ]);
  assert.deepEqual(headline(run, causes), { colour: "bad", text: "Failed: 2 tests made no request with their keys, and 3 other causes" });
  const root = document.createElement("div");
  const of = page({}, null, true);
  const store = Object.assign(new Store(), { run, entries });
  root.append(...summaryView({ ...of, store }).filter(Boolean));
  const sections = new Map([...root.querySelectorAll("section")].map((one) => [one.querySelector("h3").textContent, one]));
  assert.deepEqual([...sections.get("What failed").querySelectorAll("h4")].map((one) => one.textContent), ["2 tests made no request with their keys", "The client met the 429 of scenario burst", "KeyError: 'x'", "wrs_emulator.ControlError: POST events: 404"]);
  for (const passed of ["expects a 422", "backs off", "fine"]) assert.ok(!sections.get("What failed").textContent.includes(passed), passed);
  assert.match(sections.get("What failed").textContent, /never callsnever calls either.*assert 0 == 1.*Output of never callsdef never calls/);
  assert.match(sections.get("Also").textContent, /GET \/v1\/x was refused with 422: `?x`? is wrongwarning/);
  assert.match(root.querySelector(".numbers").textContent, /^8tests · 5 failed5requests3refused · 422 and 4290deliveries$/);
  const keyless = { ...run, verification: { ...verification, keys: [{ key: "k_silent", failure: { request: "req_9", reason: "GET /v1/x was refused with 401; it came without a valid key while the test ran" } }] } };
  assert.equal(causesOf(keyless, entries, null)[0].detail, "GET /v1/x was refused with 401; it came without a valid key while the test ran (req_9).");
  // The command may have expected the failures of its tests.
  assert.equal(headline({ ...run, exec: { exit_status: 0 } }, causesOf({ ...run, exec: { exit_status: 0 } }, entries, null)).colour, "warn");
});
