// Every setting has a name and an effect in words, and the view shows them with today's answer.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { settingsView } = await import("../../src/ui/assets/settings.js");
const { wordsOf } = await import("../../src/ui/assets/settings_words.js");

const { data: assumptions } = await (await fetch(`${process.env.WRS_EMULATOR_URL}/_emulator/assumptions`)).json();

test("every setting has words, no two the same", () => {
  assert.ok(assumptions.length > 50);
  const all = assumptions.map(({ setting }) => wordsOf(setting));
  assert.deepEqual(assumptions.filter((_, i) => !all[i].effect).map(({ setting }) => setting), []);
  assert.equal(new Set(all.map(({ title }) => title)).size, all.length);
  for (const { title, effect } of all) assert.match(`${title} ${effect}`, /^[A-Z][^~]+\.$/);
});

/** The view for a filter, of settings with their defaults but one. */
function shown(filter, id = "", key = "", results = new Map()) {
  const data = assumptions.map(({ setting, default: value }) => (setting === "rate_limit.ietf" ? { setting, value: true, source: "control API" } : { setting, value, source: "default" }));
  const page = {
    store: { run: { keys: [], profile: { data }, assumptions: { data: assumptions } } }, route: { view: "settings", id, filter, key }, ui: { results, forms: {}, menuOpen: "" }, base: "http://127.0.0.1:9770/_emulator/", isDocument: false,
    address: () => "#/", redraw() {}, go() {},
  };
  const root = document.createElement("div");
  root.append(...settingsView(page).filter(Boolean));
  return root;
}
const sections = (root) => [...root.querySelectorAll("section > h3")].map((one) => one.textContent);

test("what is changed comes first, and what is rare is folded unless it is looked for", () => {
  const all = shown("");
  assert.equal(sections(all)[0], "Changed");
  const [changed] = all.querySelectorAll(".setting");
  assert.match(changed.textContent, /^IETF RateLimit headerschangedUndoSends RateLimit and RateLimit-Policy\.rate_limit\.ietf$/);
  assert.ok(all.querySelectorAll("details.rare .setting").length > 15);
  assert.equal(shown("user_agent").querySelectorAll("details.rare").length, 0);
  assert.match(shown("", "webhooks.user_agent").querySelector(".setting.chosen").textContent, /^User-Agent/);
  assert.equal(shown("changed").querySelectorAll(".setting").length, 1);
  assert.deepEqual(sections(shown("retries")), ["Webhooks"], "names are looked through too");
});

test("a key cannot undo what was changed for all keys", () => {
  const [inherited] = shown("", "", "sk_test_a").querySelectorAll(".setting");
  assert.match(inherited.textContent, /^IETF RateLimit headerschanged for all keysSends /);
});

test("the key that settings and changes are of is named", () => {
  const results = new Map([["set rate_limit.ietf", { ok: true, message: "rate_limit.ietf = true" }]]);
  const texts = (key) => [shown("", "", key, results)].flatMap((root) => ["h2", ".result"].map((part) => root.querySelector(part).textContent.trim()));
  assert.deepEqual(texts(""), ["Settings", "rate_limit.ietf = true"]);
  assert.deepEqual(texts("sk_test_a"), ["Settings of sk_test_a", "rate_limit.ietf = true for sk_test_a"]);
});
