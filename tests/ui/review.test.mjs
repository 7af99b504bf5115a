import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { failing, readiness, reviewView } = await import("../../src/ui/assets/review.js");
const { Store, attemptEntry, requestEntry } = await import("../../src/ui/assets/store.js");
const { causesOf, headOf, runnerOf, summaryView } = await import("../../src/ui/assets/summary.js");

const EVIDENCE = { request: "req_1", delivery: null, detail: "GET /<b>\u202e: no endpoint" };
const finding = (change = {}) => ({
  code: "wrong-path", title: "A request matches no endpoint", severity: "medium", confidence: "certain", clause: "Endpoints", why: "It does nothing.", remedy: "correct it", cwe: null,
  count: 1, evidence: [EVIDENCE], groups: [{ count: 1, first: EVIDENCE, last: EVIDENCE }], ...change,
});
const findings = (data, change = {}) => ({
  data, not_exercised: [{ code: "secret-weak", title: "A signing secret can be guessed", exercise: "subscribe", advice: [] }, { code: "receiver-slow", title: "A receiver is slow", exercise: "fire an event", advice: [{ do: "fire", type: "x", tamper: null, duplicate: null }] }],
  rules: 28, beyond: ["how it stores keys"], judged_requests: 2, judged_deliveries: 1, forgotten_entries: 0, ...change,
});
const page = (route, of, isDocument = false) => ({
  store: { findings: of, problem: "" }, route: { view: "review", id: "", filter: "", key: "", ...route }, ui: { copied: "", menuOpen: "" }, base: "http://127.0.0.1:9770/_emulator/", isDocument,
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
    [findings([finding()]), "1 finding to fix: A request matches no endpoint."],
    [findings([finding(), finding()]), "2 findings to fix. The worst: A request matches no endpoint."],
    [findings([], { judged_requests: 0, judged_deliveries: 0 }), "Not tested: no requests and no deliveries."],
    [findings([]), "Nothing to fix: no finding in 2 requests and 1 delivery; 2 checks not tested."],
    [findings([finding({ severity: "low" })], all), "Nothing to fix: 1 finding to look at, none certain and severe, in 2 requests and 1 delivery."],
    [findings([finding({ confidence: "likely" })], all), "Nothing to fix: 1 finding to look at, none certain and severe, in 2 requests and 1 delivery."],
  ]) assert.equal(readiness(of).textContent, sentence);
});

test("a finding is shown as text, with links to what shows it", () => {
  const delivery = (id) => ({ request: null, delivery: id, detail: "x" });
  const root = shown({}, findings([finding({ count: 4, groups: [...finding().groups, { count: 2, first: delivery("dlv_1"), last: delivery("dlv_2") }] })]));
  const article = root.querySelector("article");
  assert.deepEqual([...article.querySelectorAll("ul a")].map((node) => node.getAttribute("href")), ["#/activity/req_1", "#/deliveries/dlv_1", "#/deliveries/dlv_2"]);
  for (const text of ["GET /<b>\\u{202e}: no endpoint", "(2 times) x", "and 1 more", "It does nothing.", "Correct it", "Endpoints"]) assert.ok(article.textContent.includes(text), text);
  assert.equal(root.querySelector("article b"), null);
  assert.match(root.textContent, /A receiver is slow\?receiver-slowFire an eventwrs-emulator trigger x/);
  assert.match(root.textContent, /26 of 28 checks had something to judge; 25 of them found nothing\./);
  assert.match(root.textContent, /Not visible in traffichow it stores keys/);
});

test("an address chooses a finding, and numbers stay", () => {
  const of = findings([finding({ code: "a", severity: "high" }), finding({ code: "b" }), finding({ code: "b", confidence: "likely" }), finding({ code: "c", severity: "low" })]);
  for (const [route, numbers] of [
    [{}, "1 2 3 4"], [{ id: "b" }, "2 3"], [{ id: "secret-weak" }, ""],
  ]) assert.equal([...shown(route, of).querySelectorAll("ol > li")].map((node) => node.getAttribute("value")).join(" "), numbers, JSON.stringify(route));
  const sections = [...shown({}, of).querySelectorAll("section")].filter((one) => one.querySelector("ol"));
  assert.deepEqual(sections.map((one) => [one.querySelector("h3").textContent, one.querySelectorAll("ol > li").length]), [["To fix", 2], ["To look at", 2]]);
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
const attempt = (id, key, change) => Object.assign(attemptEntry({
  delivery: id, event: "evt_1", type: "workflow.completed", subscription: "sub_1", workspace: `ws_${key}`, at: "2026-01-31T09:30:01Z", number: 1, url: "https://app.example/hook", damage: null, forged: false, latency_ms: 1, outcome: { accepted: false, failure: "connection_refused", detail: "refused" }, ...change,
}), { key });
/** A cause as the emulator finds it. */
const cause = (kind, sentence, change = {}) => ({ kind, name: "x", sentence, outcome: null, remedy: "mend it", also: [], tests: [], keys: [], records: [], count: 1, findings: [], standing: "warning", ...change });
const ended = (name, outcome, message) => ({ test: name, outcome, message: message ?? null, output: message ? `def ${name}` : null });
const of = (causes, change = {}) => ({ verification: { ...verification, causes }, keys: [], requests: [], emulator: {}, clock: { mode: "real", now: "2026-01-31T09:30:00Z" }, ...change });
/** The summary of a report, with a test chosen, or of a running emulator. */
function summary(run, entries = [], id = "", isDocument = true) {
  const root = document.createElement("div");
  root.append(...summaryView({ ...page({ id }, null, isDocument), store: Object.assign(new Store(), { run, entries }) }).filter(Boolean));
  return root;
}

test("what failed the run comes first, what is shown elsewhere has no card, and a running emulator has problems but has not failed", () => {
  const causes = [cause("forged", "b", { standing: "failed" }), cause("refused", "d"), cause("silent", "e", { standing: "elsewhere" })];
  const run = of(causes, { verification: { ...verification, causes, headline: { tone: "bad", sentence: "Failed: b" } } });
  const root = summary(run);
  const titles = (name) => [...root.querySelectorAll("section")].filter((one) => one.querySelector("h3").textContent === name).flatMap((one) => [...one.querySelectorAll("h4")].map((title) => title.textContent));
  assert.deepEqual([titles("What failed"), titles("Also")], [["Forgery accepted: b"], ["d"]]);
  assert.equal(root.querySelector(".verdict.bad").textContent, "Failed: b");
  assert.equal(summary(run, [], "", false).querySelector(".verdict").textContent, "1 problem, and 1 more thing to look at");
  assert.deepEqual(causesOf({ verification }, []), [], "a file of an earlier version has none");
});

test("the tests are on the left, and the cause of the chosen one with what it said, its records, what to do, and a command that works from the file", () => {
  const failed = cause("refused", "GET /v1/x was refused with 422: `x` is wrong", {
    tests: [{ test: "reads <b>", key: "k_a", message: "assert 0 == 1" }, { test: "writes", key: "k_b", message: "assert 0 == 1" }], also: ["GET /v1/y: no endpoint"], records: ["req_1", "req_2"], count: 1081, findings: ["unknown-field"], standing: "failed",
  });
  const keys = [{ key: "k_c", workspace: "ws_c", requests: 1, test: ended("hooks.test.ts: webhooks_arrive", "passed") }, { key: "k_a", workspace: "ws_a", requests: 1, test: ended("tests/test_x.py::reads <b>", "failed", "assert 0 == 1") }];
  const lost = cause("undelivered", "workflow.completed to https://app.example/hook: nothing listens", { keys: ["k_c"], records: ["dlv_1"] });
  const run = of([failed, lost], { keys, viewing: "my run.json", exec: { command: ["x"], exit_status: 1 } });
  const entries = [request("req_1", "k_a"), request("req_2", "k_b", {}, 1000), attempt("dlv_1", "k_c")];
  const root = summary(run, entries);
  const tests = [...root.querySelectorAll(".list-of-tests a")];
  assert.deepEqual(tests.map((one) => one.textContent), ["failedreads <b>1 request", "passedwebhooks_arrive1 request"], "the failed one is first");
  const card = root.querySelector("article");
  assert.equal(card.querySelector(".sentence").textContent, "GET /v1/x was refused with 422: x is wrong");
  for (const part of ["Messageassert 0 == 1", "GET /v1/y: no endpoint", "req_1", "Mend it", "Output of tests/test_x.py::reads <b>"]) assert.ok(card.textContent.includes(part), `${part}: ${card.textContent}`);
  assert.equal(card.querySelector(".command code").textContent, "wrs-emulator explain req_1 --from 'my run.json'");
  assert.equal(card.querySelector("b"), null);
  assert.match(summary(run, entries, "k_c").querySelector(".chosen-test > div").textContent, /webhooks_arriveworkflow.completed to .*nothing listens/);
  const also = [...root.querySelectorAll("section")].find((one) => one.querySelector("h3").textContent === "Also");
  assert.deepEqual([...also.querySelectorAll("h4")].map((one) => one.textContent), [lost.sentence], "what is beside its test is not listed again");
});

test("a report begins with what ran, how it ended, how long it took, and how many failed", () => {
  const head = (command, exec, change) => headOf({ exec: { command, exit_status: 1, ...exec }, verification: { tests: 8, failed_tests: 8, ...change } });
  assert.equal(head(["/usr/bin/python3", "-m", "pytest", "-q"], { duration_ms: 17_600 }), "pytest · exit 1 · 17.6 s · 8 of 8 failed");
  assert.equal(head(["npx", "vitest", "run"], { exit_status: 0 }), "vitest · exit 0 · 8 tests passed");
  assert.equal(head(["sh"], { signal: 9, exit_status: 137 }, { tests: 0, failed_tests: 0 }), "sh · signal 9");
  assert.equal(headOf({ verification: {} }), "Report");
  for (const [command, name] of [[["uv", "run", "pytest"], "pytest"], [["CI=1", "env", "node", "--test"], "node"], [["npm", "test"], "npm"], [["C:\\tools\\jest"], "jest"], [["python"], "python"]]) assert.equal(runnerOf(command), name);
});

test("statuses are counted, the most frequent first, and only what failed is red", () => {
  const statuses = [422, 404, 404, 401, 429, 429, 429, 500, 405];
  const run = of([], { keys: [{ key: "k", requests: 1, test: ended("a", "failed", "no") }, { key: "l", requests: 1, test: ended("b", "passed") }], verification: { ...verification, causes: [], tests: 2002, failed_tests: 2001, judged_deliveries: 2 } });
  const root = summary(run, [...statuses.map((status, i) => request(`req_${i}`, "k", { status })), attempt("dlv_1", "k"), attempt("dlv_2", "k", { outcome: { accepted: true, status: 200, body: "" } })]);
  const numbers = [...root.querySelectorAll(".numbers li")].map((one) => one.textContent);
  assert.equal(numbers[2], "9refused · 429 × 3, 404 × 2, 422 × 1, 401 × 1, 500 × 1, 405 × 1");
  assert.equal(numbers[0], "2,002tests · 2,001 failed");
  assert.deepEqual([...root.querySelectorAll(".numbers .bad")].map((one) => one.textContent), ["2,001 failed", "1 failed"]);
});

test("an accepted forgery is not a failed delivery", () => {
  const rows = [attempt("dlv_1", "k"), ...["dlv_2", "dlv_3"].map((id) => attempt(id, "k", { forged: true, outcome: { accepted: true, status: 200, body: "" } }))];
  const said = (entries) => summary(of([]), entries).querySelector(".numbers li:last-child").textContent;
  assert.match(said(rows), /1 failed and 2 forgeries accepted$/);
  assert.match(said(rows.slice(2)), /· 1 forgery accepted$/);
});

test("an unfinished part names its test", () => {
  const unfinished = [{ scenario: "burst", rule: "two", workspace: "ws_b", message: "rule `two` applied 1 of 2 times" }];
  const run = of([], { keys: [{ key: "b", workspace: "ws_b", requests: 1, test: ended("plays_all", "passed") }], verification: { ...verification, unfinished } });
  assert.match(summary(run).textContent, /Unfinished scenariosrule two applied 1 of 2 times; test plays_all scenario/);
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

test("a test's pane has its own message, records and output; others with the same cause are links", () => {
  const names = ["a[10]", "a[2]", "b"];
  const failed = cause("undelivered", "workflow.completed to https://app.example/hook: nothing listens", {
    tests: names.map((name) => ({ test: `t.py::${name}`, key: `k_${name}`, message: `assert ${name}` })), keys: names.map((name) => `k_${name}`), records: ["dlv_a[10]", "dlv_a[2]"], count: 3, standing: "failed",
  });
  const keys = names.map((name) => ({ key: `k_${name}`, workspace: `ws_${name}`, requests: 0, test: ended(`t.py::${name}`, "failed", `assert ${name}`) }));
  const entries = names.map((name) => attempt(`dlv_${name}`, `k_${name}`));
  // The last delivery is not among the records that the cause names.
  for (const name of names) {
    const article = summary(of([failed], { keys, viewing: "a.json", exec: { command: ["x"], exit_status: 1 } }), entries, `k_${name}`).querySelector(".chosen-test article");
    const others = ["a[2]", "a[10]", "b"].filter((one) => one !== name);
    for (const part of [`Messageassert ${name}Delivery`, `Deliverydlv_${name} at 09:30:01.000`, `explain `, `Output of t.py::${name}def t.py::${name}`]) assert.ok(article.textContent.includes(part), `${part}: ${article.textContent}`);
    assert.equal(article.querySelectorAll("details").length, 1);
    assert.ok(article.textContent.endsWith(`The same cause in 2 other testst.py::${others[0]}t.py::${others[1]}`), article.textContent);
    assert.deepEqual([...article.querySelectorAll("section a")].map((one) => one.getAttribute("href")), others.map((one) => `#/summary/k_${one}`));
    for (const other of others) assert.ok(!article.textContent.includes(`dlv_${other}`) && !article.textContent.includes(`assert ${other}`));
  }
});

test("each message of a cause is a line", () => {
  const failed = cause("refused", "422", { tests: ["one", "two"].map((message) => ({ test: message, key: `k_${message}`, message })), standing: "failed" });
  const root = summary(of([failed]), [], "", false);
  const message = [...root.querySelectorAll("dl > div")].find((one) => one.firstChild.textContent === "Message");
  assert.deepEqual([...message.querySelectorAll("li")].map((one) => one.textContent), ["one", "two"]);
});

test("the time of the last record is shown if one clock has all of them", () => {
  const shownWith = (clock) => {
    const refused = cause("refused", "429", { keys: ["a", "b"], records: ["req_1", "req_2"], count: 2 });
    const keys = ["a", "b"].map((key, i) => ({ key, workspace: `ws_${key}`, requests: 1, clock: i ? clock : null }));
    return summary(of([refused], { keys }), [request("req_1", "a"), request("req_2", "b", {}, 1000)], "", false).textContent;
  };
  assert.match(shownWith(null), /req_1 at 09:30:00.000, the last at 09:30:01.000/);
  const moved = shownWith({ mode: "frozen", now: "2026-01-31T10:30:00Z" });
  assert.match(moved, /req_1 at 09:30:00.000/);
  assert.doesNotMatch(moved, /the last at/);
});

test("failed tests come first, and numbers in names are in the order of their values", () => {
  const test = (name, outcome = "passed") => ({ key: name, workspace: name, requests: 1, test: ended(`t.py::${name}`, outcome, "no") });
  const keys = [test("many[0]"), test("many[10]"), test("many[2]"), test("also[11]", "failed"), test("also[3]", "failed")];
  const root = summary(of([], { keys, exec: { command: ["x"], exit_status: 1 } }));
  assert.deepEqual([...root.querySelectorAll(".list-of-tests bdi")].map((one) => one.textContent), ["also[3]", "also[11]", "many[0]", "many[2]", "many[10]"]);
});

test("what failed a run whose tests passed comes before them, and names its tests", () => {
  const found = cause("finding", "requests follow each 429 at once", { name: "no-back-off", records: ["req_1"], standing: "failed" });
  const keys = ["a", "b"].map((key) => ({ key, workspace: `ws_${key}`, requests: 1, test: ended(`t.py::${key}`, "passed") }));
  const root = summary(of([found], { keys, exec: { command: ["x"], exit_status: 0 } }), [request("req_1", "b", { status: 429 })]);
  const part = [...root.querySelectorAll("section")].find((one) => one.querySelector("h3").textContent === "What failed");
  assert.equal(part.nextElementSibling, root.querySelector(".chosen-test"));
  assert.match(part.textContent, /What to doMend it.*Testt.py::bRequestreq_1/);
  assert.deepEqual([...root.querySelectorAll(".list-of-tests bdi")].map((one) => one.textContent), ["b", "a"]);
  assert.match(root.querySelector(".chosen-test > div").textContent, /^t.py::brequests follow each 429 at once/);
  // With a failed test the tests come first.
  keys[0].test.outcome = "failed";
  assert.equal(summary(of([found], { keys, exec: { command: ["x"], exit_status: 1 } })).querySelector(".verdict").nextElementSibling.className, "chosen-test");
});

test("a running emulator's summary has what only findings show, as its report has", () => {
  const causes = [cause("undelivered", "a", { standing: "failed" }), cause("finding", "b"), cause("finding", "c")];
  const root = document.createElement("div");
  const verdict = { ...verification, causes, headline: { tone: "bad", sentence: "1 problem, and 2 more things to look at" } };
  const store = Object.assign(new Store(), { run: of(causes.slice(0, 1), { verification: { ...verification, causes: causes.slice(0, 1), headline: { tone: "bad", sentence: "1 problem" } } }), verdict });
  root.append(...summaryView({ ...page({}, null), store }).filter(Boolean));
  assert.equal(root.querySelector(".verdict").textContent, "1 problem, and 2 more things to look at");
  assert.deepEqual([...root.querySelectorAll(".causes h4")].map((one) => one.textContent), ["a", "b", "c"]);
  store.takeRun(of([]), 0);
  assert.equal(store.verdict, null, "of another run nothing is known");
});

test("how far the clock was moved is among the facts of the environment", () => {
  const clock = { mode: "real", now: new Date(BEGIN).toISOString(), ahead_ms: 40_000 };
  const store = Object.assign(new Store(), { phase: "document", run: of([], { clock }) });
  const shownClock = () => {
    const root = document.createElement("div");
    root.append(...summaryView({ ...page({}, null), store }).filter(Boolean));
    return [...root.querySelectorAll("dl > div")].find((one) => one.firstChild.textContent === "Clock").lastChild.textContent;
  };
  assert.equal(shownClock(), "real, 40 s ahead");
  delete clock.ahead_ms;
  assert.equal(shownClock(), "real");
  // A key has its own.
  store.run.keys = [{ key: "sk_test_a", clock: { mode: "frozen", now: new Date(BEGIN + 7_200_000).toISOString(), ahead_ms: 7_200_000 } }];
  assert.equal(shownClock(), "real, 1 key has its own clock");
  store.run.key = "sk_test_a";
  assert.equal(shownClock(), "frozen, 2 h 0 min ahead");
});

test("a setting that several keys have alike is one line", () => {
  const forwards = (port) => ({ setting: "webhooks.forwards", value: { "https://a.example": `http://127.0.0.1:${port}` }, source: "control API" });
  const keys = ["a", "b", "c"].map((key) => ({ key, workspace: key, requests: 0, settings: [forwards(key === "c" ? 2 : 1)] }));
  const profile = { data: [{ setting: "api.auth", value: "off", source: "--set" }, { setting: "x", value: 1, source: "default" }] };
  const part = [...summary(of([], { keys, profile })).querySelectorAll("section")].find((one) => one.querySelector("h3").textContent === "Changed settings");
  assert.deepEqual([...part.querySelectorAll("li")].map((one) => one.textContent), [
    "api.auth = off from --set", 'webhooks.forwards of 2 keys = {"https://a.example":"http://127.0.0.1:1"} from control API', 'c: webhooks.forwards = {"https://a.example":"http://127.0.0.1:2"} from control API',
  ]);
});
