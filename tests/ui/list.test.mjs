import assert from "node:assert/strict";
import { test } from "node:test";

import { document } from "./dom.mjs";

const { VirtualList, scrolledTo, visibleRange } = await import("../../src/ui/assets/list.js");
const { guarded, h, morph } = await import("../../src/ui/assets/element.js");
const { placesOf } = await import("../../src/ui/assets/timeline.js");

test("only what can be seen is in range", () => {
  assert.deepEqual(visibleRange(0, 280, 28, 10_000), { first: 0, last: 16 });
  assert.deepEqual(visibleRange(28_000, 280, 28, 10_000), { first: 994, last: 1016 });
  assert.deepEqual(visibleRange(279_720, 280, 28, 10_000), { first: 9984, last: 10_000 });
  assert.deepEqual(visibleRange(1e9, 280, 28, 5), { first: 5, last: 5 });
  assert.deepEqual(visibleRange(0, 280, 28, 0), { first: 0, last: 0 });
  assert.equal(scrolledTo(0, 100, 280, 28), 0);
  assert.equal(scrolledTo(20, 0, 280, 28), 308);
  assert.equal(scrolledTo(5, 0, 280, 28), 0);
});

test("a list of 10,000 rows has few nodes, and the keyboard walks it", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => ({ kind: "request", id: `req_${i}`, text: `row ${i}` }));
  const opened = [];
  const list = new VirtualList("rows", (row) => [h("span", null, row.text)], (row) => opened.push(row.id));
  document.body.append(list.root);
  list.show({ count: rows.length, at: (i) => rows[i] }, "req_3");
  const nodes = () => [...list.root.querySelectorAll("[role=option]")];
  assert.ok(nodes().length <= 30);
  assert.equal(nodes()[0].getAttribute("aria-setsize"), "10000");
  assert.equal(nodes()[3].getAttribute("aria-selected"), "true");
  const press = (key) => list.key({ key, preventDefault() {} });
  press("ArrowDown");
  press("ArrowDown");
  press("Enter");
  press("End");
  press("Enter");
  press("Home");
  press("PageDown");
  press("Enter");
  assert.deepEqual(opened, ["req_1", "req_9999", "req_7"]);
  assert.ok(list.root.getAttribute("aria-activedescendant"));
});

test("a record opened by its link is in view, and the next one is opened from it", () => {
  const rows = Array.from({ length: 1000 }, (_, i) => ({ kind: i % 2 ? "request" : "notice", id: `id_${i}`, text: `row ${i}` }));
  const opened = [];
  const list = new VirtualList("rows", (row) => [row.text], (row) => opened.push(row.id));
  document.body.append(list.root);
  list.show({ count: 10, at: (i) => rows[i] }, "id_501");
  assert.equal(list.reveal("id_501"), false, "its row comes later");
  list.show({ count: rows.length, at: (i) => rows[i] }, "id_501");
  assert.equal(list.reveal("id_501"), true);
  assert.ok(list.root.scrollTop > 500 * list.rowHeight - 280 && list.root.scrollTop < 501 * list.rowHeight, "neither above nor below what is shown");
  assert.match(list.root.querySelector(".active").textContent, /row 501/);
  assert.equal(list.reveal("id_500"), false, "a notice is no record");
  list.step(1);
  list.step(-1);
  list.step(-1);
  // The rows were read again.
  const again = structuredClone(rows);
  list.show({ count: again.length, at: (i) => again[i] }, "id_499");
  list.step(1);
  assert.deepEqual(opened, ["id_503", "id_501", "id_499", "id_501"]);
});

test("a row that cannot be made shows its record instead of it", () => {
  const list = new VirtualList("rows", (row) => [h("span", null, row.text.toUpperCase())], () => {});
  const rows = [{ kind: "request", id: "1", text: "ok" }, { kind: "request", id: "2", text: null }, { kind: "request", id: "3", text: "fine" }];
  list.show({ count: 3, at: (i) => rows[i] }, "");
  assert.equal(list.root.querySelectorAll("[role=option]").length, 3);
  assert.match(list.root.textContent, /OK.*could not be shown.*"id": "2".*FINE/s);
  const circle = {};
  circle.circle = circle;
  assert.match(guarded(() => { throw new Error("x"); }, circle).textContent, /could not be shown \(x\)/);
});

test("text is text, and only addresses within the page are links", () => {
  const node = h("a", { href: "javascript:alert(1)", title: "\u202ex" }, "<img src=x onerror=alert(1)>");
  assert.equal(node.getAttribute("href"), null);
  assert.equal(node.getAttribute("title"), "\\u{202e}x");
  assert.equal(node.children.length, 0);
  assert.equal(h("a", { href: "#/time" }).getAttribute("href"), "#/time");
});

test("a tree becomes like another and keeps the nodes that stay", () => {
  const make = (items, extra) => h("div", null, items.map((key) => h("p", { key, class: extra }, key)), h("input", { id: "i" }));
  const old = make(["a", "b", "c"], "x");
  document.body.append(old);
  const [a, , c] = old.children;
  const input = old.querySelector("input");
  morph(old, make(["c", "d", "a"], "y"));
  assert.deepEqual([...old.children].map((node) => node.textContent), ["c", "d", "a", ""]);
  assert.equal(old.children[0], c);
  assert.equal(old.children[2], a);
  assert.equal(old.querySelector("input"), input);
  assert.equal(a.getAttribute("class"), "y");
  morph(old, make([], "y"));
  assert.equal(old.children.length, 1);
});

test("a tree becomes like any other", () => {
  let seed = 7;
  const random = (most) => (seed = (seed * 48_271) % 2_147_483_647) % most;
  const tree = (depth) => h(["div", "p", "span"][random(3)], random(2) ? { key: random(4), title: String(random(3)) } : null, ...Array.from({ length: depth ? random(5) : 0 }, () => (random(3) ? tree(depth - 1) : `text ${random(3)}`)));
  const host = h("section", null);
  for (let i = 0; i < 400; i++) {
    const wanted = tree(3);
    const expected = wanted.outerHTML;
    const next = h("section", null, wanted);
    morph(host, next);
    assert.equal(host.innerHTML, expected, `round ${i}`);
  }
});

test("long silences are cut short, and marks stay in order within the width", () => {
  const { places, gaps } = placesOf([0, 10, 20, 3_600_000, 3_600_010], 900);
  assert.equal(gaps.length, 1);
  assert.ok(places.every((x, i) => x <= 900 + 1e-6 && (i === 0 || x >= places[i - 1])), String(places));
  assert.deepEqual(placesOf([], 900).places, []);
  assert.deepEqual(placesOf([5], 900).places, [0]);
  assert.ok(placesOf([5, 5, 5], 900).places.every((x) => x === 0));
});
