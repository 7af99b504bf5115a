// What acts on a key: the form of an event asks for one and forgets what another did, and commands of advice are buttons.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { h, morph } = await import("../../src/ui/assets/element.js");
const { actionOf, commandOfAdvice, outcomeOf } = await import("../../src/ui/assets/command.js");
const { adviceList } = await import("../../src/ui/assets/parts.js");
const { Store } = await import("../../src/ui/assets/store.js");
const { subscriptionsView, triggerView } = await import("../../src/ui/assets/subscriptions.js");
const { timeView } = await import("../../src/ui/assets/time.js");

const KEYS = ["sk_test_a", "sk_test_b"];
const subscription = (key) => ({ id: `sub_${key}`, url: "https://a.sink.localhost/", key, status: "active", events: ["workflow.completed"], signing_secrets: 1 });

function pageOf(change = {}) {
  const store = new Store();
  store.takeState({ clock: { mode: "real" }, keys: KEYS.map((key) => ({ key, workspace: key })), subscriptions: KEYS.map(subscription), profile: { data: [] } }, 0);
  const performed = [];
  const ui = { asked: "", copied: "", results: new Map(), menuOpen: "", forms: {} };
  return { store, ui, performed, base: "http://127.0.0.1:9770/_emulator/", route: { view: "trigger", id: "", filter: "", key: "" }, isDocument: false, address: () => "#/", redraw() {}, perform: async (action) => performed.push(action), ...change };
}
const drawn = (view, page) => {
  const root = document.createElement("main");
  root.append(...view(page).filter(Boolean));
  return root;
};
const button = (root, name) => [...root.querySelectorAll("button")].find((one) => one.textContent === name);

test("a field keeps its element when another appears before it", () => {
  const form = (...names) => h("form", null, names.map((name) => h("label", null, name, h("textarea", { controlled: "" }))));
  const shown = form("Headers", "Body");
  const [, body] = shown.querySelectorAll("textarea");
  for (const names of [["Use a recent delivery", "Headers", "Body"], ["Body", "Secret"]]) {
    morph(shown, form(...names));
    assert.equal(shown.querySelectorAll("textarea")[names.indexOf("Body")], body, String(names));
    assert.deepEqual([...shown.querySelectorAll("label")].map((one) => one.textContent), names);
  }
});

test("for all keys, the forms ask for the key", () => {
  for (const [view, name, asks] of [[triggerView, "Trigger", "Choose the key whose subscriptions get the event."], [subscriptionsView, "Subscribe", "Choose the key that subscribes."]]) {
    const page = pageOf();
    const before = drawn(view, page);
    assert.ok(before.textContent.includes(asks), view.name);
    const field = before.querySelector("input[list=keys]");
    assert.equal(field.getAttribute("placeholder"), "Choose a key");
    const isOpen = (drawing) => button(drawing, name) && !button(drawing, name).hasAttribute("disabled");
    assert.ok(!isOpen(before));
    field.oninput({ target: { value: "sk_test" } });
    assert.ok(!isOpen(drawn(view, page)), "a part of a key is none");
    field.oninput({ target: { value: "sk_test_b" } });
    const after = drawn(view, page);
    assert.ok(!after.textContent.includes(asks) && isOpen(after), view.name);
    after.querySelector("form").onsubmit({ preventDefault() {} });
    assert.equal(page.performed[0].body.key, "sk_test_b");
  }
});

test("the outcome of an event is that of its key, and a subscription of another key is not sent to", () => {
  const page = pageOf();
  page.route.key = "sk_test_a";
  page.ui.forms.trigger = { type: "", data: "", subscription: "sub_sk_test_a", count: 1, delay: "", tamper: "", duplicate: 1, shuffle: false, drop: false };
  drawn(triggerView, page).querySelector("form").onsubmit({ preventDefault() {} });
  assert.equal(page.performed[0].body.subscription, "sub_sk_test_a");
  page.ui.results.set(page.performed[0].id, { ok: true, busy: false, data: { events: [{}], deliveries: [] } });
  assert.match(drawn(triggerView, page).textContent, /1 event fired/);
  page.route.key = "sk_test_b";
  const other = drawn(triggerView, page);
  assert.doesNotMatch(other.textContent, /event fired/);
  other.querySelector("form").onsubmit({ preventDefault() {} });
  assert.deepEqual([page.performed[1].body.key, page.performed[1].body.subscription], ["sk_test_b", undefined]);
});

test("a key without a subscription is named, although no key was chosen", () => {
  const store = new Store();
  store.takeState({ clock: { mode: "real" }, keys: [{ key: "sk_test_a", workspace: "ws_a" }], subscriptions: [], profile: { data: [] } }, 0);
  assert.match(drawn(triggerView, pageOf({ store })).textContent, /sk_test_a has no active subscription/);
});

test("keys whose own clocks stay are counted where the emulator's is moved", () => {
  const page = pageOf();
  page.store.clockOf = () => ({ mode: "frozen", now: "2026-01-31T09:30:00.000Z" });
  const said = (own) => {
    page.store.run.keys = KEYS.map((key, i) => ({ key, clock: i < own ? { mode: "real", now: "2026-01-31T09:30:00.000Z" } : null }));
    return /\d+ keys? .*not moved/.exec(drawn(timeView, page).querySelector(".card").textContent)?.[0];
  };
  assert.deepEqual([0, 1, 2].map(said), [undefined, "1 key has its own clock and is not moved", "2 keys have their own clocks and are not moved"]);
  page.route.key = "sk_test_a";
  assert.equal(said(2), undefined);
});

test("a text that is no duration moves no clock, and the form says how it is written", () => {
  const page = pageOf();
  page.store.clockOf = () => ({ mode: "frozen", now: "2026-01-31T09:30:00.000Z" });
  const form = (by) => {
    page.ui.forms.time = { by, set: "" };
    const root = drawn(timeView, page);
    return [root.querySelector("form button").textContent, root.querySelector("form button").hasAttribute("disabled"), root.textContent.includes("Write it as 2h, 90m or 60s.")];
  };
  assert.deepEqual([form("2 hours"), form("2h")], [["Advance", true, true], ["Advance 2h", false, false]]);
});

test("what an action led to is said as the page shows it", () => {
  const row = { url: "https://a/", status: "exhausted", forgery: null };
  assert.equal(outcomeOf({ events: [{}], deliveries: [row] }), "1 fired: https://a/ exhausted");
  assert.equal(outcomeOf({ events: [{}], deliveries: [{ ...row, forgery: "refused", last: { status: 401 } }] }), "1 fired: https://a/ forgery refused with 401");
  assert.equal(outcomeOf({ active: [], own_lists: [{ key: "sk_test_a", active: ["burst"] }] }), "Off for all keys except those with their own list: sk_test_a.");
  assert.equal(outcomeOf({ active: [], own_lists: [] }), "Done.");
});

test("advice is a button, or a command that does the same", () => {
  for (const [advice, line, scenario, label, method, path, body] of [
    [{ do: "use_scenarios", active: [], key: null }, "scenarios off", "burst", "Turn burst off for all keys", "POST", "scenarios/active", { active: [] }],
    [{ do: "use_scenarios", active: [], key: "sk_test_a" }, "scenarios off --key sk_test_a", null, "Turn scenarios off for sk_test_a", "POST", "scenarios/active", { active: [], key: "sk_test_a" }],
    [{ do: "use_scenarios", active: ["a", "b"], key: "sk_test_a" }, "scenarios use a b --key sk_test_a", "burst", "Turn burst off for sk_test_a", "POST", "scenarios/active", { active: ["a", "b"], key: "sk_test_a" }],
    [{ do: "advance_clock", advance: "38s", key: "sk_test_a" }, "clock advance 38s --key sk_test_a", null, "Advance the clock by 38s", "POST", "clock", { advance: "38s", key: "sk_test_a" }],
    [{ do: "set", setting: "rate_limit.retry_after", value: "seconds" }, "profile set rate_limit.retry_after=seconds", null, "Set rate_limit.retry_after to seconds for all keys", "PATCH", "profile", { "rate_limit.retry_after": "seconds" }],
    [{ do: "set", setting: "rate_limit.requests", value: "100" }, "profile set rate_limit.requests=100", null, "Set rate_limit.requests to 100 for all keys", "PATCH", "profile", { "rate_limit.requests": 100 }],
    [{ do: "redeliver", id: "dlv_1" }, "deliveries redeliver dlv_1", null, "Send it again", "POST", "deliveries/dlv_1/redeliver?wait=5s", undefined],
  ]) {
    const action = actionOf(advice, scenario);
    assert.deepEqual([action.label, action.method, action.path, action.body], [label, method, path, body], line);
    assert.equal(action.cli.join(" "), line);
    assert.equal(commandOfAdvice(advice, "http://127.0.0.1:9771/"), `wrs-emulator ${line} --url http://127.0.0.1:9771`);
  }
  const explain = { do: "explain", id: "req_1" };
  const verify = { do: "verify", body: "{}", headers: ["a: b"], now: 1, scheme: null, secret_key: null };
  assert.equal(commandOfAdvice(verify, "http://127.0.0.1:9771/"), "printf %s '{}' | wrs-emulator verify - --header 'a: b' --now 1");
  for (const advice of [explain, verify]) assert.equal(actionOf(advice, null), null, advice.do);
  const page = pageOf();
  const explanation = { steps: [], request: { scenario: "burst" }, advice: [{ text: "to turn it off:", advice: { do: "use_scenarios", active: [], key: null } }, { text: "see", advice: explain }] };
  const shown = adviceList(page, explanation);
  button(shown, "Turn burst off for all keys").onclick();
  assert.deepEqual(page.performed[0].body, { active: [] });
  assert.equal(shown.querySelector("code").textContent, "wrs-emulator explain req_1");
  assert.equal(adviceList(pageOf({ isDocument: true }), explanation).querySelectorAll("button").length, 2, "in a file there is nothing to act on: both are commands with a button to copy");
});
