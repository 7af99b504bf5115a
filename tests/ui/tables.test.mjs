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
  assert.match(root.textContent, /2 more keys met it; no rule has applied yet for k_idle\.$/);
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
  const text = "[[rule]]\nreply = { statu = 500 } # <b>\n";
  const one = page({}, [], { filter: "new" });
  one.ui.forms["scenario  "] = { name: "odd", text, problems: [problem], said: "" };
  const linesOf = (view) => [...drawn(view).querySelectorAll("pre.source > span")];
  const lines = linesOf(scenariosView(one));
  assert.deepEqual(lines.map((line) => line.textContent), ["[[rule]]", "reply = { statu = 500 } # <b>", " "]);
  assert.deepEqual([...lines[1].children].map((part) => `${part.className} ${part.textContent}`), ["name reply", "name statu", "value 500", "comment # <b>"]);
  assert.deepEqual(lines.map((line) => line.className), ["", "at bad", ""]);
  // What plays is the last good text, of which the problem of its file says nothing.
  const broken = { name: "odd", title: "Odd", origin: "scenarios/odd.toml", state: "broken", problem, text, progress: [] };
  const shown = page({ scenarios: [broken], active: ["odd"] }, [], { id: "odd" });
  assert.deepEqual(linesOf(scenariosView(shown)).map((line) => line.className), ["", "", ""]);
  assert.match(drawn(scenariosView(shown)).textContent, / lists all that is wrong; the last good version, shown here, is still playing\./);
  const never = page({ scenarios: [{ ...broken, text: "" }] }, [], { id: "odd" });
  assert.doesNotMatch(drawn(scenariosView(never)).textContent, /last good version/);
});

test("the key that a scenario was played for leaves the field", () => {
  const performed = [];
  const one = Object.assign(page({ scenarios: [{ name: "a", title: "A", origin: "inline", state: "ok", progress: [], text: "" }] }), { perform: (action) => performed.push(action) });
  one.ui.forms.play = { key: "sk_test_a" };
  [...drawn(scenariosView(one)).querySelectorAll("button")].find(({ textContent }) => textContent.startsWith("Play")).onclick();
  assert.equal(performed[0].body.key, "sk_test_a");
  performed[0].after();
  assert.equal(one.ui.forms.play.key, "");
});

test("the text beside an error is called the last good version", () => {
  const problem = { severity: "error", code: "x", message: "wrong", file: "a.toml", line: 1, column: 1, hint: null };
  const titles = (change) => [...drawn(scenariosView(page({ scenarios: [{ name: "a", origin: "a.toml", state: "ok", progress: [], text: "x = 1", ...change }] }, [], { id: "a" }))).querySelectorAll("section h3")].map((one) => one.textContent);
  assert.deepEqual([titles({}), titles({ problem }), titles({ problem, text: null })], [["Text, a.toml"], ["Last good version, a.toml"], []]);
});

test("what stops scenarios names the key that it is for", () => {
  const long = `sk_test_${"a".repeat(40)}_end`;
  const keys = ["sk_test_a", "sk_test_b", long].map((key) => ({ key, scenarios: ["burst"] }));
  const one = (key) => page({ scenarios: [{ name: "burst", title: "T", origin: "built-in", state: "ok", progress: [], text: "" }], keys: [...keys, { key: "sk_test_idle", scenarios: [] }], active: ["burst"] }, [], { key });
  const names = (key) => [...drawn(scenariosView(one(key))).querySelectorAll("button")].map((button) => button.firstChild.textContent).filter((name) => /^(Stop|Turn)/.test(name));
  assert.deepEqual(names(""), ["Turn all off", "Stop"]);
  assert.deepEqual(names("sk_test_a"), ["Turn all off for sk_test_a", "Stop for sk_test_a"]);
  assert.deepEqual(names("sk_test_idle").map((name) => name.replace(/…a*/, "…")), ["Stop for sk_test_a", "Stop for sk_test_b", "Stop for sk_test_…_end"]);
});

test("the editor says at the name what a name is, and checks the text under another", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const calls = [];
  const one = Object.assign(page({}, [], { filter: "new" }), { live: { call: async (method, path) => { calls.push(path); return { ok: true, data: {} }; } } });
  drawn(scenariosView(one)).querySelector("input").oninput({ target: { value: "qa burst" } });
  t.mock.timers.tick(300);
  assert.deepEqual(calls, ["scenarios/unnamed?dry_run=true"]);
  const root = drawn(scenariosView(one));
  assert.match(root.querySelector("[role=alert]").textContent, /^A name has 1 to 100 of the characters/);
  assert.equal(root.querySelector("[role=status]").className, "quiet", "the text is right");
  assert.ok([...root.querySelectorAll("button")].every((button) => button.hasAttribute("disabled")));
  one.ui.forms["scenario  "].problems = [{ severity: "error", line: 0, column: 0, message: "m", code: "c", hint: "" }];
  assert.doesNotMatch(drawn(scenariosView(one)).textContent, /line 0/);
});

test("a reset of everything names the scenarios that are in memory alone", () => {
  const scenarios = ["mine", "file", "other"].map((name) => ({ name, origin: name === "file" ? "scenarios/file.toml" : "inline" }));
  const said = (all) => {
    const one = page({ scenarios: all });
    one.ui.asked = "reset *";
    return drawn(keysView(one)).querySelector(".confirm p").textContent;
  };
  assert.match(said(scenarios), /every key, and the scenarios kept only in memory: mine, other\.$/);
  assert.match(said([scenarios[1]]), /every key\.$/);
});

const BEGIN = Date.parse("2026-01-31T09:30:00Z");
const request = (key, status, ms) => requestEntry({ id: `req_${key}${ms}`, at: new Date(BEGIN + ms).toISOString(), workspace: `ws_${key}`, key, method: "GET", path: "/v1/x", query: null, operation: null, status, broken: null, reason: "x", error: null, latency_ms: 1, generation: 1, scenario: null });

test("keys are sorted by what was clicked, and found by a part of their name or test", () => {
  const keys = ["sk_a", "sk_b", "sk_c"].map((key, i) => ({ key, workspace: `ws_${key}`, requests: [5, 9, 1][i], subscriptions: 0, quota: { limit: 10, remaining: 10 - i }, test: key === "sk_c" ? { test: "buys a ticket", outcome: "failed" } : null }));
  const one = page({ keys }, [request("sk_a", 429, 2000), request("sk_a", 429, 3000), request("sk_b", 200, 1000), request("sk_c", 404, 4000)], { view: "keys" });
  const names = () => rows(drawn(keysView(one))).map(([name]) => name.replace("failed buys a ticket", ""));
  assert.deepEqual(names(), ["sk_c", "sk_a", "sk_b"], "the last seen first");
  const click = (head) => [...drawn(keysView(one)).querySelectorAll("thead button")].find((button) => button.textContent === head).onclick();
  for (const [head, order] of [["Requests", "bac"], ["Requests", "cab"], ["Refused", "acb"], ["Key", "abc"], ["Quota left", "cba"]]) {
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
