import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { scenariosView } = await import("../../src/ui/assets/scenarios.js");

const scenario = (name, active) => ({ name, title: name, description: null, origin: "inline", active, rules: 1, emits: 0, state: "ok", problem: null, text: "", progress: [] });
const clash = (scenarios) => ({
  scenarios, warning: { severity: "warning", code: "scenario/clash-rule", message: `<b> of ${scenarios}`, file: "b.toml", span: { start: 0, end: 1 }, line: 4, column: 1, source_line: "[[rule]]", hint: `the order in force is ${scenarios}` },
});
/** The view as one node, with a list of all keys and one of a key. */
function shown({ key = "", id = "" } = {}) {
  const run = {
    scenarios: [scenario("a", true), scenario("b", true), scenario("c", false)], clashes: [clash(["a", "b"]), clash(["b", "a"]), clash(["c", "a"])],
    keys: [{ key: "sk_test_own", scenarios: ["b", "a"] }, { key: "sk_test_none", scenarios: [] }], verification: { active_scenarios: ["a", "b"] },
  };
  const page = {
    store: { run }, route: { view: "scenarios", id, filter: "", key }, ui: {}, base: "http://127.0.0.1:9770/_emulator/", isDocument: true,
    address: (to) => `#/${to.id}`, cli: (words) => words.join(" "), go() {}, redraw() {}, announce() {},
  };
  const root = document.createElement("div");
  root.append(...scenariosView(page).filter(Boolean));
  return [...root.querySelectorAll(".note")].map((node) => node.textContent);
}

test("clashes of the list in force are shown, above all scenarios and above each", () => {
  for (const [route, order] of [[{}, "a,b"], [{ id: "c" }, "a,b"], [{ key: "sk_test_own" }, "b,a"]]) {
    assert.deepEqual(shown(route), [`warning <b> of ${order} b.toml line 4, column 1 (scenario/clash-rule)the order in force is ${order}`]);
  }
  assert.deepEqual(shown({ key: "sk_test_none" }), []);
});
