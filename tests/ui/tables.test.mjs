// Tables and rows: how far scenarios came, keys by what they did, deliveries with their attempts, a scenario's text by lines.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { keysView } = await import("../../src/ui/assets/keys.js");
const { attemptDots } = await import("../../src/ui/assets/parts.js");
const { progress, scenariosView } = await import("../../src/ui/assets/scenarios.js");
const { Store, attemptEntry, requestEntry } = await import("../../src/ui/assets/store.js");
const { timeOfId } = await import("../../src/ui/assets/text.js");

const page = (run, entries = [], route = {}) => {
  const store = Object.assign(new Store(), { run: { keys: [], subscriptions: [], scenarios: [], active: [], verification: { active_scenarios: [] }, clock: { mode: "real" }, ...run } });
  store.append(entries);
  return { store, route: { view: "scenarios", id: "", filter: "", key: "", ...route }, ui: { asked: "", results: new Map(), forms: {}, menuOpen: "" }, base: "http://127.0.0.1:9770/_emulator/", isDocument: false, width: 1200, address: ({ id = "" }) => `#/${id}`, cli: (words) => words.join(" "), go() {}, redraw() {} };
};
const drawn = (nodes) => {
  const root = document.createElement("main");
  root.append(...nodes.filter(Boolean));
  return root;
};
const rows = (root) => [...root.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent));

const of = (key, applied, fired = 0) => ({ workspace: `ws_${key}`, key, rules: [{ rule: "too many", line: 9, applied, turns: 4 }, { rule: "slow", line: 12, applied: 0, turns: null }], step: null, ends: [], emissions: [{ emission: "done", fired, planned: 0 }] });

test("the progress of a scenario is a table of the keys that met it, those that met it most on top", () => {
  const one = page({ scenarios: [{ name: "burst", progress: [of("k_idle", 0), of("k_a", 1), of("k_b", 4), ...Array.from({ length: 8 }, (_, i) => of(`k_${i}`, 0, 1))] }] });
  const root = drawn([progress(one, "burst")]);
  assert.deepEqual([...root.querySelectorAll("thead th")].map((head) => head.textContent), ["Key", "too many", "slow", "done"]);
  assert.deepEqual(rows(root).slice(0, 2), [["k_b", "4 of 4", "0 times", "0 times"], ["k_a", "1 of 4", "0 times", "0 times"]]);
  assert.equal(rows(root).length, 8);
  assert.match(root.textContent, /2 more keys met it; 1 key met no rule yet\.$/);
  assert.equal(progress(page({ scenarios: [{ name: "burst", progress: [of("k_idle", 0)] }] }), "burst"), null);
});

test("what plays is on top with its Stop, and each other has its Play", () => {
  const scenarios = ["burst", "mine", "calm"].map((name) => ({ name, title: `T ${name}`, description: "First. Second.", origin: name === "mine" ? "inline" : "built-in", state: "ok", progress: [], text: "" }));
  const root = drawn(scenariosView(page({ scenarios, active: ["burst"], keys: [{ key: "sk_test_a", scenarios: ["burst"] }] })));
  const sections = [...root.querySelectorAll("section")].map((one) => [one.querySelector("h3").textContent, one.querySelector(".card").textContent]);
  assert.deepEqual(sections.map(([name]) => name), ["Playing", "Yours", "Shipped"]);
  assert.match(sections[0][1], /^T burstburst.*Stop burst$/);
  assert.match(sections[2][1], /^T calmcalm.*Play instead for all keys: calm$/);
});

test("a scenario's text has a line for each line, in colours, and marks what is wrong", () => {
  const problem = { severity: "error", line: 2, column: 1, message: "unknown `x`", code: "scenario/unknown-key", hint: null };
  const one = page({ scenarios: [{ name: "odd", title: "Odd", origin: "inline", state: "broken", problem, text: "[[rule]]\nreply = { statu = 500 } # <b>\n", progress: [] }] }, [], { id: "odd" });
  const lines = [...drawn(scenariosView(one)).querySelectorAll("pre.source > span")];
  assert.deepEqual(lines.map((line) => line.textContent), ["[[rule]]", "reply = { statu = 500 } # <b>", " "]);
  assert.deepEqual([...lines[1].children].map((part) => `${part.className} ${part.textContent}`), ["name reply", "name statu", "value 500", "comment # <b>"]);
  assert.deepEqual(lines.map((line) => line.className), ["", "at bad", ""]);
});

const BEGIN = Date.parse("2026-01-31T09:30:00Z");
const request = (key, status, ms) => requestEntry({ id: `req_${key}${ms}`, at: new Date(BEGIN + ms).toISOString(), workspace: `ws_${key}`, key, method: "GET", path: "/v1/x", query: null, operation: null, status, broken: null, reason: "x", error: null, latency_ms: 1, generation: 1, scenario: null });

test("keys are sorted by what was clicked, and found by a part of their name or test", () => {
  const keys = ["sk_a", "sk_b", "sk_c"].map((key, i) => ({ key, workspace: `ws_${key}`, requests: [5, 9, 1][i], subscriptions: 0, quota: { limit: 10, remaining: 10 - i }, test: key === "sk_c" ? { test: "buys a ticket", outcome: "failed" } : null }));
  const one = page({ keys }, [request("sk_a", 429, 2000), request("sk_a", 429, 3000), request("sk_b", 200, 1000), request("sk_c", 404, 4000)], { view: "keys" });
  const names = () => rows(drawn(keysView(one))).map(([name]) => name.replace("failed buys a ticket", ""));
  assert.deepEqual(names(), ["sk_c", "sk_a", "sk_b"], "the last seen first");
  const click = (head) => [...drawn(keysView(one)).querySelectorAll("thead button")].find((button) => button.textContent === head).onclick();
  for (const [head, order] of [["Requests", "bac"], ["Requests", "cab"], ["Refused", "acb"], ["Key", "abc"], ["Quota", "cba"]]) {
    click(head);
    assert.deepEqual(names().map((name) => name.slice(-1)).join(""), order, head);
  }
  assert.deepEqual(rows(drawn(keysView(one)))[2].slice(1, 4), ["5", "2", "10 of 10"]);
  one.route.filter = "ticket";
  assert.deepEqual(names(), ["sk_c"]);
  one.route.filter = "is:failed";
  assert.deepEqual(names(), ["sk_c"]);
});

test("a delivery has a dot for each attempt, and says when the next one is", () => {
  const attempt = (number, status) => attemptEntry({ delivery: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1", workspace: "ws_a", at: new Date(BEGIN + number).toISOString(), number, url: "https://a.example/", damage: null, forged: false, latency_ms: 1, outcome: { accepted: status < 300, status, body: "" } });
  const attempts = [attempt(1, 500), attempt(2, 503)];
  const shown = (due) => drawn(attemptDots(page({ due }, attempts), attempts[1], "answered 503"));
  const waiting = shown([{ delivery: "dlv_1", in_ms: 5000 }]);
  assert.equal(waiting.textContent, "answered 503; next in 5 s");
  assert.deepEqual([...waiting.querySelectorAll("rect, circle")].map((one) => one.getAttribute("class")), ["bad", "bad", "open"]);
  assert.equal(shown([]).textContent, "answered 503");
});

test("the id of a record says when it was made", () => {
  assert.equal(new Date(timeOfId("req_01m8f9j1w9ykbg6zehrgjbdv91")).toISOString(), "2026-11-27T20:01:15.145Z");
  for (const id of ["req_unknown", "req_1", ""]) assert.equal(timeOfId(id), 0, id);
});
