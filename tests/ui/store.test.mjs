import assert from "node:assert/strict";
import { test } from "node:test";

import { Live, eventParser } from "../../src/ui/assets/live.js";
import { reasonOf, statusOf } from "../../src/ui/assets/text.js";
import { MAX_ROWS, Store, attemptEntry, entriesOf, eventEntry, noticeEntry, requestEntry } from "../../src/ui/assets/store.js";

const AT = Date.parse("2026-01-31T09:30:00.000Z");
const at = (ms) => new Date(AT + ms).toISOString();
const request = (n, change = {}) => ({
  id: `req_${n}`, at: at(n), workspace: "ws_1", key: "sk_test_a", method: "GET", path: "/", query: null, operation: null, status: 200, broken: null,
  reason: "answered", latency_ms: 1, generation: 1, scenario: null, ...change,
});
const attempt = (n, change = {}) => ({
  number: 1, at: at(n), url: "https://a/", dialled: "a", damage: null, forged: false, request: { headers: [], body: "" }, signed_content: "", outcome: { accepted: true, status: 200, body: "" }, latency_ms: 1,
  ...change,
});
const event = (n) => ({ id: `evt_${n}`, type: "t", created_at: at(n), workspace: "ws_1", body: "", deliveries: [], skipped: [], damage: null, warnings: [] });
const run = (change = {}) => ({
  clock: { mode: "frozen", now: at(1000) }, keys: [{ key: "sk_test_a", workspace: "ws_1" }], subscriptions: [], requests: [], deliveries: [], events: [], notices: [], ...change,
});
const text = (id, kind, record) => `id: ${id}\nevent: ${kind}\ndata: ${JSON.stringify(record)}\n\n`;

test("rows of a document are in the order of time, each attempt one row", () => {
  const delivery = { id: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1", url: "https://a/", workspace: "ws_1", attempts: [attempt(3), attempt(9, { number: 2 })] };
  const entries = entriesOf(run({ requests: [request(5), request(1)], events: [event(2)], deliveries: [delivery], notices: [{ at: at(4), message: "x", warning: false }] }));
  assert.deepEqual(entries.map((one) => one.kind), ["request", "event", "delivery", "notice", "request", "delivery"]);
  assert.equal(entries[5].number, 2);
});

test("rows of one time, as under a frozen clock, are in the order of the journal", () => {
  const delivery = { id: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1", url: "https://a/", workspace: "ws_1", attempts: [attempt(1)], places: [2] };
  const requests = [{ ...request(1), id: "req_2", place: 1 }, { ...request(1), place: 4 }];
  const entries = entriesOf(run({ requests, events: [{ ...event(1), places: [3] }], deliveries: [delivery], notices: [{ at: at(1), message: "x", warning: false }] }));
  assert.deepEqual(entries.map((one) => one.id), ["req_1", "evt_1", "dlv_1", "req_2", "notice-0"]);
});

test("keys of before a restart or a reset are gone", () => {
  const store = new Store();
  store.takeRun(run({ requests: [request(1, { key: "sk_test_old", workspace: "ws_old" })], keys: [{ key: "sk_test_old", workspace: "ws_old" }] }), 0);
  assert.deepEqual(store.keys(), ["sk_test_old"]);
  store.takeRun(run(), 0);
  assert.deepEqual(store.keys(), ["sk_test_a"]);
});

test("a delivery is shown by the attempt that decides; a refused forgery is good, an accepted one bad", () => {
  const store = new Store();
  const of = (number, outcome, change = {}) => attemptEntry({ ...attempt(number, { number, outcome, ...change }), delivery: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1" });
  const rows = [of(1, { accepted: false, failure: "connection_refused", detail: "x" }), of(2, { accepted: true, status: 200, body: "" })];
  store.append(rows);
  assert.deepEqual(rows.map((one) => [one.superseded, one.failed, one.mark]), [[true, true, "connection refused"], [false, false, ""]]);
  // A receiver that ended with its tests is judged by what it answered.
  const ended = new Store();
  const answered = [of(1, { accepted: false, status: 401, body: "" }), of(2, { accepted: false, failure: "connection_refused", detail: "x" }), of(3, { accepted: false, failure: "connection_refused", detail: "x" })];
  ended.append(answered);
  assert.deepEqual(answered.map((one) => one.superseded), [false, true, true]);
  ended.append([of(4, { accepted: true, status: 200, body: "" })]);
  assert.deepEqual([answered[0].superseded, ended.entries[3].superseded], [true, false]);
  const accepted = { accepted: true, status: 200, body: "" };
  const refused = { accepted: false, status: 401, body: "" };
  const unanswered = { accepted: false, failure: "connection_refused", detail: "x" };
  const forged = { forged: true, damage: "tampered deliberately: body" };
  const copied = { damage: "sent 2 times deliberately" };
  const shown = (row) => [row.failed, statusOf(row)[1], reasonOf(row)];
  assert.deepEqual(shown(of(1, refused, forged)), [false, "ok", "forgery refused with 401"]);
  assert.deepEqual(shown(of(1, accepted, forged)), [true, "bad", "forgery accepted with 200"]);
  assert.deepEqual([refused, accepted].map((outcome) => statusOf(of(1, outcome, forged))[0]), ["401", "200"], "only a request is called refused");
  assert.deepEqual(shown(of(1, unanswered, forged)), [false, "quiet", "forged, connection refused"]);
  assert.deepEqual(shown(of(1, { ...refused, status: 500 }, forged)), [false, "quiet", "forged, answered 500"]);
  assert.deepEqual(shown(of(1, accepted, copied)), [false, "ok", ""]);
  assert.deepEqual(shown(of(1, unanswered, copied)), [true, "bad", "connection refused"]);
});

test("an odd record becomes a row that says so", () => {
  const entries = entriesOf(run({ requests: [null, 7, { id: "req_1" }, request(1)], deliveries: [{ id: "dlv_1", attempts: [{}] }], events: ["x"], notices: [{}] }));
  assert.equal(entries.filter((one) => one.kind === "request").length, 1);
  assert.ok(entries.filter((one) => one.mark === "odd").length >= 4);
});

test("rows of a kind are bounded, the oldest are dropped and counted", () => {
  const store = new Store();
  store.takeRun(run(), 0);
  const rows = (from, to) => Array.from({ length: to - from }, (_, i) => requestEntry(request(from + i)));
  store.append([noticeEntry({ at: at(0), message: "first", warning: false }, "n")]);
  for (let n = 0; n < 25_000; n += 500) store.append(rows(n, n + 500));
  assert.ok(store.kinds.request <= MAX_ROWS + 1000, String(store.kinds.request));
  assert.equal(store.kinds.request + store.dropped, 25_000);
  assert.equal(store.entries[0].text, "first");
  assert.equal(store.entries.at(-1).id, "req_24999");
  assert.equal(store.entries.length, store.kinds.request + 1);
  assert.equal(store.workspaceOfEvent.size, 0);
});

test("attempts get the key of their event's workspace", () => {
  const store = new Store();
  store.takeRun(run({ events: [event(1)], deliveries: [] }), 0);
  const live = new Live(store);
  live.refresh = () => {};
  live.take(eventParser()(text("a-1", "attempt", { ...attempt(2), delivery: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1" })));
  assert.equal(store.entries.at(-1).key, "sk_test_a");
});

test("rows of a new key get it once the state has it", () => {
  const store = new Store();
  store.takeRun(run(), 0);
  store.append([eventEntry({ ...event(1), workspace: "ws_new" }), attemptEntry({ ...attempt(2), delivery: "dlv_1", event: "evt_1", type: "t", subscription: "sub_1" })]);
  const { epoch } = store;
  assert.deepEqual(store.entries.map(({ key }) => key), [null, null]);
  store.takeState(run({ keys: [], subscriptions: [{ key: "sk_test_new", workspace: "ws_new" }] }), 0);
  assert.deepEqual(store.entries.map(({ key }) => key), ["sk_test_new", "sk_test_new"]);
  assert.ok(store.epoch > epoch, "what was computed from the rows is computed again");
});

test("records of one instant keep their order", () => {
  const records = [1, 1, 1].map((n, i) => request(n, { id: `req_${3 - i}` }));
  assert.deepEqual(entriesOf(run({ requests: records })).map((one) => one.id), ["req_1", "req_2", "req_3"], "newest first becomes oldest first");
});

test("details are bounded; a document has them itself", () => {
  const store = new Store();
  store.takeRun(run({ requests: [request(1, { explanation: { id: "req_1", steps: [], summary: "because" } })] }), 0);
  for (let n = 0; n < 500; n++) store.keepDetail(`x${n}`, { error: "" });
  assert.ok(store.details.size <= 60);
  store.phase = "document";
  assert.equal(store.detail("req_1").explanation.summary, "because");
  assert.match(store.detail("req_2").error, /not in the file/);
});

test("the stream is parsed however it is cut", () => {
  const whole = `: greeting\n\n${text("a-1", "request", request(1))}: still here\n\n${text("a-2", "notice", { at: at(1), message: "ü\\n", warning: false })}`;
  const expected = eventParser()(whole);
  assert.deepEqual(expected.map((one) => [one.id, one.event]), [["a-1", "request"], ["a-2", "notice"]]);
  for (const size of [1, 2, 3, 7, 50]) {
    const parse = eventParser();
    const found = [];
    for (let i = 0; i < whole.length; i += size) found.push(...parse(whole.slice(i, i + size)));
    assert.deepEqual(found, expected, String(size));
  }
});

test("what the stream repeats replaces the first document once it has caught up", () => {
  const store = new Store();
  store.takeRun(run({ requests: [request(3), request(2)] }), 0);
  const live = new Live(store);
  live.refresh = () => {};
  live.repeated = [];
  const parse = eventParser();
  const send = (id, n) => live.take(parse(text(`a-${id}`, "request", request(n))));
  send(1, 1);
  assert.equal(store.entries.length, 2);
  send(2, 2);
  send(3, 3);
  assert.deepEqual(store.entries.map((one) => one.id), ["req_1", "req_2", "req_3"]);
  send(4, 4);
  assert.equal(store.entries.length, 4);
  assert.equal(live.last, "a-4");
});

test("a reset, a loaded snapshot and a restart begin anew; repeated ones do not", () => {
  for (const [kind, record, repeated, expected] of [
    ["notice", { kind: "reset", at: at(1), message: "sk_test_a", warning: false }, null, false],
    ["notice", { kind: "snapshot_loaded", at: at(1), message: "x", warning: false }, null, false],
    ["notice", { kind: "reset", at: at(1), message: "sk_test_a", warning: false }, [], true],
    ["restarted", { message: "x" }, null, false],
    ["skipped", { missed: 5 }, null, true],
    ["request", { id: 7 }, null, true],
    ["nonsense", {}, null, true],
  ]) {
    const store = new Store();
    store.takeRun(run({ requests: [request(1)] }), 0);
    const live = new Live(store);
    live.refresh = () => {};
    live.repeated = repeated;
    assert.equal(live.take(eventParser()(text("a-1", kind, record))), expected, kind);
    assert.equal(store.missed, kind === "skipped" ? 5 : 0);
    clearTimeout(live.idle);
  }
});

test("a clock that was moved is told from one that shows real time", () => {
  const store = new Store();
  const moved = (ahead_ms) => {
    store.takeState(run({ clock: { mode: "real", now: at(0), ahead_ms }, keys: [{ key: "sk_test_a", clock: { mode: "real", now: at(0), ahead_ms: -60_000 } }] }), AT);
    return store.movedBy("");
  };
  assert.deepEqual([moved(undefined), moved(3_599_998)], [0, 3_600_000]);
  assert.equal(store.movedBy("sk_test_a"), -60_000);
});
