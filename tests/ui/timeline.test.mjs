// The timeline's lanes and bands, an event with its attempts as one group, what the palette finds, which control a setting has.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { Activity, grouped } = await import("../../src/ui/assets/activity.js");
const { found, frame } = await import("../../src/ui/assets/frame.js");
const { choicesOf } = await import("../../src/ui/assets/settings.js");
const { Store, eventEntry, requestEntry } = await import("../../src/ui/assets/store.js");
const { banded, lanesOf, timeline } = await import("../../src/ui/assets/timeline.js");

const BEGIN = Date.parse("2026-01-31T09:30:00Z");
const request = (key, ms, change) => requestEntry({
  id: `req_${ms}`, at: new Date(BEGIN + ms).toISOString(), workspace: null, key, method: "GET", path: "/v1/x", query: null, operation: "system.status", status: 200, broken: null, reason: "answered", error: null, latency_ms: 1, generation: 1, scenario: null, ...change,
});
const page = (entries, change = {}) => {
  const store = Object.assign(new Store(), change);
  store.append(entries);
  return { store, route: { view: "activity", filter: "", key: "" }, isDocument: false, go() {}, address: () => "#/" };
};

test("at most six lanes, the busiest keys; the others share one", () => {
  const entries = Array.from({ length: 9 }, (_, i) => Array.from({ length: i + 1 }, (__, j) => request(`sk_test_${i}`, j))).flat();
  const lanes = lanesOf(entries, (key) => key.slice(-1));
  assert.deepEqual([...new Set(lanes.values())], ["4", "5", "6", "7", "8", "others"], "in the order of their names, wherever the traffic begins");
  assert.equal(new Set(lanesOf(entries.slice(0, 21), (key) => key).values()).size, 6);
});

test("keys whose clocks were moved are drawn in the order of their times", () => {
  const entries = [request("sk_test_late", 900_000), request("sk_test_a", 10), request("sk_test_late", 950_000), request("sk_test_a", 20)];
  const drawing = timeline(page(entries), entries, 1000);
  assert.match(drawing.querySelector("svg").getAttribute("aria-label"), /from 09:30:00.010 to 09:45:50.000/);
  const places = [...drawing.querySelectorAll("circle.mark")].map((mark) => Number(mark.getAttribute("cx")));
  assert.equal(places.length, 4);
  assert.ok(places.every((x) => x > 100 && x < 1000), String(places));
});

test("a thousand requests in a second are a band with a count, a few stay dots", () => {
  const entries = Array.from({ length: 1000 }, (_, i) => request("sk_test_a", i, i > 100 ? { status: 429, reason: "rate_limited" } : {}));
  const few = banded([3, 50, 90].map((x, i) => ({ entry: entries[i], x })));
  assert.deepEqual([few.single.length, few.bands.length], [3, 0]);
  const many = banded(entries.map((entry, i) => ({ entry, x: i / 2 })));
  assert.deepEqual([many.single.length, many.bands.length, many.bands[0].flat().length], [0, 1, 1000]);
  const drawing = timeline(page([...entries, request("sk_test_b", 5000)]), [...entries, request("sk_test_b", 5000)], 1000);
  assert.match(drawing.textContent, /× 1,000/);
  assert.ok(drawing.querySelectorAll(".mark").length < 5, "one dot, of the other key");
  assert.match(drawing.querySelector("svg").getAttribute("aria-label"), /^Timeline: 1,001 marks from 09:30:00.000 to 09:30:05.000, 899 of them refused or failed$/);
});

test("a moved clock is a break that names it, and the quota a line", () => {
  const quota = (remaining) => ({ quota: { limit: 10, remaining } });
  const entries = [request("sk_test_a", 0, quota(9)), request("sk_test_a", 100, quota(8)), request("sk_test_a", 200, quota(7)), request("sk_test_a", 300, quota(6)), request("sk_test_a", 3_600_000, quota(10))];
  const drawing = timeline(page([...entries, { ...entries[0], kind: "notice", at: BEGIN + 400, text: "clock of all keys advanced by 1 h" }]), entries, 1000);
  assert.match(drawing.querySelector(".break").parentNode.textContent, /clock of all keys advanced by 1 h/);
  assert.ok([...drawing.querySelectorAll("svg > text")].some(({ textContent }) => textContent.startsWith("10:30:00")), "what comes after it has its time, at the right edge as well");
  assert.match(drawing.querySelector(".quota").getAttribute("d"), /^M[\d.]+ [\d.]+H/);
  assert.equal(timeline(page([]), [], 1000).textContent, "Nothing happened.");
});

test("of marks at one place the worst is on top, and keys that share a lane have no line of their quota", () => {
  const quota = { quota: { limit: 10, remaining: 9 } };
  const entries = [500, 429, 200, 422].map((status, i) => request("sk_test_a", i, { status, reason: status === 200 ? "answered" : "invalid", ...quota }));
  const classes = (drawing) => [...drawing.querySelectorAll("svg.lanes .mark")].map((mark) => mark.getAttribute("class").split(" ")[1]);
  assert.deepEqual(classes(timeline(page([]), [...entries.slice(0, 3), request("sk_test_a", 5000)], 1000)), ["ok", "ok", "warn", "bad"]);
  const folded = page([]);
  folded.ui = { folded: true };
  assert.ok(timeline(folded, entries, 1000).querySelector("svg.lanes .quota"));
  assert.equal(timeline(folded, [...entries, request("sk_test_b", 9, quota)], 1000).querySelector("svg.lanes .quota"), null);
});

test("an accepted forgery is not called failed", () => {
  const accepted = (change) => Object.assign(request("sk_test_a", 0), { kind: "delivery", failed: true, ...change });
  const legend = (change) => timeline(Object.assign(page([]), { ui: {} }), [accepted(change), request("sk_test_a", 1000)], 1000).querySelector(".legend").textContent;
  assert.match(legend({ forged: true }), /answered forgery accepted/);
  assert.match(legend({ forged: false }), /answered failed/);
});

test("it folds to one lane of 54 pixels, on a phone at first; lanes have the names of tests", () => {
  const entries = [request("sk_test_a", 0), request("sk_test_b", 10)];
  const one = page(entries, { run: { keys: [{ key: "sk_test_a", test: { test: "tests/test_a.py::test_burst[5]", outcome: "failed" } }] } });
  one.ui = {};
  one.redraw = () => {};
  const height = (wide) => Number(timeline(one, entries, wide).querySelector("svg.lanes").getAttribute("height"));
  assert.equal(height(390), 54);
  const drawn = timeline(one, entries, 1000);
  assert.match(drawn.textContent, /test_burst\[5\]/);
  // It names what is drawn.
  for (const [mark, isDrawn] of [["answered", true], ["refused", false], ["failed", false], ["event", false], ["its attempts", false], ["quota left", false]]) assert.equal(drawn.querySelector(".legend").textContent.includes(mark), isDrawn, mark);
  drawn.querySelector("button").onclick();
  assert.equal(height(1000), 54);
});

test("an event and its first delivery, of the same time, are both seen", () => {
  const entries = ["event", "delivery"].map((kind) => Object.assign(request("sk_test_a", 0), { kind, event: "evt_1" }));
  const drawing = timeline(page([]), [...entries, request("sk_test_a", 1000)], 1000);
  const [event, delivery] = [Number(/^M([\d.]+)/.exec(drawing.querySelector("svg.lanes path.mark").getAttribute("d"))[1]), Number(drawing.querySelectorAll("svg.lanes circle.mark")[1].getAttribute("cx"))];
  assert.ok(event >= 4 && delivery - event >= 8, `${event} ${delivery}`);
});

test("a record that was opened elsewhere is among the rows, others that are new wait", () => {
  const one = page([request("sk_test_a", 0)], { phase: "live" });
  const activity = new Activity(one);
  activity.update("");
  one.store.append([request("sk_test_a", 10), request("sk_test_a", 20)]);
  one.route.id = "req_0";
  activity.update("");
  assert.equal(activity.shown, 1);
  Object.assign(one, { hidden: "req_10", route: { ...one.route, id: "req_10" } });
  activity.update("");
  assert.equal(activity.shown, 3);
});

test("the row of a new key's first event names the key once it is known", () => {
  const one = page([], { phase: "live" });
  const activity = new Activity(one);
  one.store.append([eventEntry({ id: "evt_1", type: "t", created_at: new Date(BEGIN).toISOString(), workspace: "ws_new", deliveries: [] })]);
  const who = () => {
    activity.update("");
    return activity.list.root.querySelector(".who").textContent;
  };
  assert.equal(who(), "");
  one.store.takeState({ keys: [{ key: "sk_test_new", workspace: "ws_new" }, { key: "sk_live_x" }] }, 0);
  assert.equal(who(), "sk_test_new");
});

test("the header of one key's report names the key", () => {
  globalThis.innerWidth = 1300;
  const keyOf = (key) => {
    const one = Object.assign(page([], { phase: "document", run: { key } }), { isDocument: true, ui: { forms: {} }, base: "http://127.0.0.1:9770/_emulator/" });
    return frame(one, document.createElement("div"), null)[1].querySelector("#key").getAttribute("placeholder");
  };
  assert.deepEqual([keyOf("sk_test_a"), keyOf(null)], ["sk_test_a", "all keys"]);
});

test("deliveries are shown below their event, in the order of the list", () => {
  const row = (kind, id, event = null) => ({ kind, id, event });
  const [event, first, between, second, alone] = [row("event", "evt_1", "evt_1"), row("delivery", "dlv_1", "evt_1"), row("request", "req_1"), row("delivery", "dlv_2", "evt_1"), row("delivery", "dlv_3", "evt_0")];
  const { rows, children } = grouped([event, first, between, second, alone]);
  // Newest first, the event comes before its deliveries.
  assert.deepEqual(rows.toReversed().map(({ id }) => id), ["dlv_3", "req_1", "evt_1", "dlv_1", "dlv_2"]);
  assert.deepEqual([...children].map(({ id }) => id), ["dlv_1", "dlv_2"]);
});

test("the palette finds views, keys, scenarios, settings and ids by parts of their names", () => {
  const run = { scenarios: [{ name: "always-429", title: "The quota is always used up" }], profile: { data: [{ setting: "rate_limit.requests" }] }, subscriptions: [], keys: [{ key: "sk_test_a" }] };
  const names = (text) => found(page([], { run }), text).map(([name, kind]) => `${kind}: ${name}`);
  assert.deepEqual(names("").filter((name) => /^action: Save|Summary/.test(name)), ["view: Summary", "action: Save the report"], "views first");
  assert.equal(names("quota used")[0], "scenario: always-429: The quota is always used up");
  assert.equal(names("rate requests")[0], "setting: Requests: rate_limit.requests");
  assert.equal(names("sk_test_a")[0], "key: sk_test_a");
  assert.equal(names("dlv_01abc")[0], "record: dlv_01abc");
  assert.deepEqual(names("zzz"), ["filter: Filter the activity by “zzz”"]);
});

test("the palette does what the page can do, to the chosen key or to all", async () => {
  const subscription = { id: "sub_1", url: "https://a.sink.localhost/", key: "sk_test_a", status: "active", events: ["workflow.completed"] };
  const run = { scenarios: [{ name: "always-429" }, { name: "mine" }], active: ["mine"], clock: { mode: "real" }, profile: { data: [] }, subscriptions: [subscription], keys: [{ key: "sk_test_a" }] };
  const done = [];
  const one = Object.assign(page([], { run }), { perform: async (action) => { done.push([action.path, action.body]); return { message: "Done." }; }, say() {} });
  const names = (text) => found(one, text).filter(([, kind]) => kind === "action").map(([name]) => name);
  assert.ok(names("").includes("Save the report"), "they are found without a word");
  assert.deepEqual(names("advance 1 min"), ["Advance the clock by 1 min"]);
  assert.deepEqual(names("freeze"), ["Freeze the clock"]);
  assert.deepEqual(names("play"), ["Play always-429 for all keys"]);
  assert.deepEqual(names("turn mine off"), ["Turn mine off for all keys"]);
  assert.deepEqual(names("trigger"), ["Trigger workflow.completed for sk_test_a"]);
  await found(one, "advance 1 min")[0][2]();
  one.route.key = "sk_test_a";
  await found(one, "play")[0][2]();
  assert.deepEqual(done, [["clock", { advance: "1m" }], ["scenarios/active", { active: ["always-429"], key: "sk_test_a" }]]);
  assert.deepEqual(found({ ...one, isDocument: true }, "").filter(([, kind]) => kind === "action"), [], "a file does nothing");
});

test("the timeline of the activity shows what the filter leaves", () => {
  const entries = [request("sk_test_a", 0), request("sk_test_a", 10, { status: 429, reason: "rate_limited" }), request("sk_test_b", 20)];
  const one = page(entries, { phase: "live" });
  one.ui = {};
  const activity = new Activity(one);
  const marks = (filter, key = "") => {
    Object.assign(one.route, { filter, key });
    activity.update("");
    return activity.drawing().querySelector("svg.lanes").getAttribute("aria-label");
  };
  assert.match(marks(""), /^Timeline: 3 marks/);
  assert.match(marks("429"), /^Timeline: 1 mark .* 1 of them refused/);
  assert.match(marks("-429", "sk_test_a"), /^Timeline: 1 mark .* 0 of them refused/);
});

test("a setting of a few values is a choice", () => {
  assert.deepEqual(choicesOf('"off" | "seconds" | "date"'), ["off", "seconds", "date"]);
  assert.deepEqual(choicesOf("400 | 422"), [400, 422]);
  for (const values of ["a string such as \"x\"", "true | false", 'a field name such as "X-Request-Id", or ""', undefined]) assert.equal(choicesOf(values), null, String(values));
});
