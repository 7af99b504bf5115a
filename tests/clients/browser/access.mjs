// axe finds nothing to object to on any view: light and dark, at full size, at 200 % zoom, and on a phone.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { openTab, rows, visit } from "./site.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"];

/** What axe objects to on the page as it is. */
export async function objections(page) {
  // Evaluated by the debugger, to which the page's policy does not apply.
  await page.evaluate(`${AXE}; 0`);
  const { violations } = await page.evaluate((values) => globalThis.axe.run(document, { runOnly: { type: "tag", values } }), TAGS);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any.concat(node.all)[0]?.message ?? ""}`).join(" | ")}`);
}

/** The addresses of every view, with a request, an event, a delivery, a scenario and a setting open. */
async function addresses(emulator) {
  const request = (await emulator.control("GET", "requests?status=429&limit=1")).data[0];
  const deliveries = (await emulator.control("GET", "deliveries?limit=50")).data;
  const tampered = deliveries.find((one) => one.damage && one.type === "reference.matched") ?? deliveries[0];
  return [
    "summary", "review", "review/wrong-path", "review/secret-weak", "activity", "activity?filter=nothing-matches", `requests/${request.id}`, `deliveries/${tampered.id}`, `events/${tampered.event}`, "deliveries", "subscriptions", "scenarios",
    "scenarios/rate-limit-burst", "time", "keys", "settings?filter=rate_limit", "settings/rate_limit.requests?filter=rate_limit", "trigger", "check", "requests/req_unknown",
  ];
}

async function walkAll(emulator, options) {
  const found = [];
  const tab = await openTab(emulator.page, { ...options, expected: [/404/] });
  const { page } = tab;
  await rows(page).first().waitFor();
  for (const address of await addresses(emulator)) {
    await visit(page, address);
    await page.waitForFunction(() => !document.body.textContent.includes("Loading…"));
    // Whatever can be opened is looked at too.
    await page.evaluate(() => document.querySelectorAll("main details:not([name])").forEach((one) => { one.open = true; }));
    for (const text of await objections(page)) found.push(`${address}: ${text}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${address}: ${wide} pixels wider than the window`);
    const small = await page.evaluate(() => [...document.querySelectorAll("button, select, input, nav a, summary")].filter((node) => node.checkVisibility({ visibilityProperty: true })).map((node) => [node.outerHTML.slice(0, 100), node.getBoundingClientRect()]).filter(([, box]) => box.width > 1 && (box.height < 23.5 || box.width < 20)).map(([html]) => html));
    if (small.length) found.push(`${address}: smaller than a finger: ${small.slice(0, 3).join(" | ")}`);
  }
  // The messages of a question asked in place, and the keyboard map.
  await page.evaluate(() => { location.hash = "#/keys"; });
  await page.getByRole("button", { name: "Reset everything" }).click();
  await page.getByRole("button", { name: "Yes, reset everything" }).waitFor();
  for (const text of await objections(page)) found.push(`a question: ${text}`);
  await page.getByRole("button", { name: "Keyboard map" }).click();
  for (const text of await objections(page)) found.push(`the keyboard map: ${text}`);
  await tab.verify();
  return found;
}

/** Every view in every theme and size. */
export async function axe(emulator) {
  const found = [];
  for (const [name, options] of [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark" }],
    ["light, 200 %", { colorScheme: "light", width: 640, height: 400, deviceScaleFactor: 2 }],
    ["dark, 200 %", { colorScheme: "dark", width: 640, height: 400, deviceScaleFactor: 2 }],
    ["phone", { colorScheme: "light", width: 390, height: 844, hasTouch: true }],
    ["more contrast, forced colours, no motion", { contrast: "more", forcedColors: "active", reducedMotion: "reduce" }],
  ]) found.push(...(await walkAll(emulator, options)).map((text) => `${name}: ${text}`));
  assert.deepEqual(found, []);
}
