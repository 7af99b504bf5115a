import assert from "node:assert/strict";
import { test } from "node:test";

import { completions, filterWord, matcher, parseFilter, problemOf, toggled, unknownNames, withWord } from "../../src/ui/assets/filter.js";
import { formatRoute, parseRoute } from "../../src/ui/assets/route.js";
import { requestEntry } from "../../src/ui/assets/store.js";

const row = (change) => requestEntry({
  id: "req_1", at: "2026-01-31T09:30:00.000Z", workspace: "ws_1", key: "sk_test_a", method: "GET", path: "/v1/system/status", query: null,
  operation: "system.status", status: 429, broken: null, reason: "scripted", error: "slow down", latency_ms: 1, generation: 1, scenario: "rate-limit-burst", ...change,
});
const NOW = Date.parse("2026-01-31T09:31:00.000Z");

test("words match", () => {
  for (const [filter, expected] of [
    ["", true], ["429", true], ["4xx", true], ["200", false], ["-429", false], ["status:429", true], ["key:sk_test_a", true], ["key:sk_test", true], ["key:test_a", true], ["key:sk_test_b", false], ["method:ge", false],
    ["operation:system.status 429", true], ["operation:hello", false], ["method:get", true], ["path:SYSTEM", true], ["path:/v2", false],
    ["scenario:rate-limit-burst", true], ["scenario:burst", true], ["kind:req", false], ["kind:request", true], ["kind:event", false], ["-kind:event", true], ["since:5m", true], ["since:30s", false],
    ["since:2026-01-31T09:00:00Z", true], ["since:nonsense", true], ["until:5m", false], ["until:30s", true], ["since:2026-01-31T09:00:00Z until:2026-01-31T09:30:00.000Z", true], ["until:2026-01-31T09:29:59Z", false], ["is:failed", false], ["is:scripted", true], ["sk_test_a", true], ["burst", true], ["09:30", true], ["is:tampered", false], ["-is:tampered", true], ["is:nothing", false],
    ["1 ms", true], ['"burst: slow"', true], ["slow", true], ["is:forged", false], ["is:unmatched", false], ["system", true], ["get /v1", true], ['"GET /v1"', true], ['"GET /v2"', false], ["unknown:word", false], ["type:x", false], ["id:req_", true], ["req_1", true], ["REQ_1", true], ["req_2", false],
  ]) {
    assert.equal(matcher(filter, NOW)(row()), expected, filter);
  }
  // The id of an event or of a subscription finds its deliveries.
  const delivery = { ...row(), kind: "delivery", id: "dlv_1", event: "evt_1", subscription: "sub_1" };
  for (const id of ["dlv_1", "evt_1", "sub_1"]) assert.ok(matcher(id, NOW)(delivery), id);
});

test("words are parsed and written", () => {
  assert.deepEqual(parseFilter('-key:"a b" 404 x'), [
    { not: true, name: "key", value: "a b" }, { not: false, name: "status", value: "404" }, { not: false, name: "", value: "x" },
  ]);
  assert.equal(filterWord("status", "404"), "404");
  assert.equal(filterWord("path", "a b"), 'path:"a b"');
  assert.equal(withWord("404", "key", "k"), "404 key:k");
  assert.equal(withWord("404 key:k", "key", "k"), "404 key:k");
  for (const [name, value] of [["path", 'say "hi"'], ["key", ""], ["type", "a:b"]]) assert.equal(parseFilter(filterWord(name, value))[0].name, name);
});

test("a chip adds its word or removes it; unknown fields are named", () => {
  assert.equal(toggled("429", "is:failed"), "429 is:failed");
  assert.equal(toggled("429 is:failed", "is:failed"), "429");
  assert.equal(matcher("is:failed", NOW)(row({ scenario: null, reason: "rate_limited" })), true);
  assert.deepEqual(unknownNames("opration:x key:a is:failed https://a 429"), ["opration"]);
  assert.match(problemOf("is:scrpted"), /^“scrpted” is not a value of “is:”; values: tampered, failed/);
  assert.equal(problemOf("is:failed 422"), "");
  for (const either of ["422 429", "422,429", "503 4xx"]) assert.equal(matcher(either, NOW)(row({ status: 429 })), true, either);
  assert.equal(matcher("422 -429", NOW)(row({ status: 429 })), false);
});

test("words are completed from names and from what there is", () => {
  const entries = [row(), row({ status: 200, key: "sk_test_b" })];
  assert.ok(completions("op", entries).includes("operation:"));
  assert.deepEqual(completions("429 key:", entries), ["429 key:sk_test_a", "429 key:sk_test_b"]);
  assert.deepEqual(completions("-operation:sys", entries), ["-operation:system.status"]);
  assert.deepEqual(completions("nothing:", entries), []);
});

test("addresses come back as they were written", () => {
  for (const route of [
    { view: "activity", id: "", filter: "", key: "" }, { view: "activity", id: "req_1", filter: "429 -x", key: "sk_test_a" }, { view: "activity", id: "evt_1", filter: "", key: "" },
    { view: "activity", id: "dlv_1", filter: "a&b=c#d?e", key: "ключ" }, { view: "scenarios", id: "a/b ?%", filter: "", key: "" }, { view: "settings", id: "errors.codes", filter: "x", key: "" },
  ]) assert.deepEqual(parseRoute(formatRoute(route), "summary"), route);
  assert.equal(parseRoute("#/requests/req_1?filter=429", "x").view, "activity");
  assert.equal(parseRoute("", "summary").view, "summary");
  assert.equal(parseRoute("#/%%%/%E0%A4%A", "activity").view, "activity");
  assert.equal(parseRoute("#/scenarios/%E0%A4%A", "activity").id, "%E0%A4%A");
});
