// Text that would like to be more than text, in every place where others can put some: it stays text, and blanks no page.

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";

import { Emulator, KEY, openTab, rows, until, visit } from "./site.mjs";

const FLAG = "globalThis.pwned=1";
const MARKUP = [
  `<script>${FLAG}</script>`, `<img src=x onerror=${FLAG}>`, `<svg onload=${FLAG}>`, `<iframe srcdoc="<script>parent.pwned=1</script>">`, `<math><mi//xlink:href="data:x,<script>${FLAG}</script>">`,
  `"><script>${FLAG}</script>`, `'><img src=x onerror=${FLAG}>`, `</title><script>${FLAG}</script>`, `</textarea><img src=x onerror=${FLAG}>`, `</script><script>${FLAG}</script>`, `<!--<script>${FLAG}</script>-->`,
  `<a href="javascript:${FLAG}">x</a>`, `<form action="javascript:${FLAG}"><button>x</button></form>`, `<base href="http://127.0.0.1:1/">`, `<meta http-equiv="refresh" content="0;url=javascript:${FLAG}">`,
  `<link rel=stylesheet href=http://127.0.0.1:1/x.css>`, `<style>*{display:none}</style>`, `<object data="data:text/html,<script>${FLAG}</script>">`, `<embed src=data:text/html,x>`, `<video><source onerror=${FLAG}>`, `<details open ontoggle=${FLAG}>`,
  `<body onload=${FLAG}>`, `<template><img src=x onerror=${FLAG}></template>`, `<noscript><p title="</noscript><img src=x onerror=${FLAG}>">`, `<x-y onclick=${FLAG}>x</x-y>`, `{{constructor.constructor('${FLAG}')()}}`, `\${${FLAG}}`, `<%= ${FLAG} %>`,
  `javascript:${FLAG}`, `JaVaScRiPt:${FLAG}`, `data:text/html,<script>${FLAG}</script>`, `vbscript:x`, `//127.0.0.1:1/x`, `blob:null/x`, `&lt;script&gt;${FLAG}&lt;/script&gt;`, `&#60;script&#62;`, `%3Cscript%3E${FLAG}%3C/script%3E`, `\\u003cscript\\u003e`,
];
const ODD = [
  "\u202egnp.exe", "\u2066\u2067\u2068x\u2069", "\u200b\u200d\ufeff", "a\u0000b", "\u0001\u0007\u001b[2J\u001b]0;x\u0007", "\u007f\u0085", "\u2028\u2029", "\ud83d\ude00".repeat(50), "Z\u0351\u0346\u0368".repeat(60), "\u0627\u0644\u0639", "\u05d0\u05d1",
  "__proto__", "constructor", "toString", "null", "undefined", "NaN", "-1", "1e999", "[object Object]", "../../../etc/passwd", "..%2f..%2f", "%00", "%", "%E0%A4%A", "#/keys?key=*", "?filter=x", "a b", '"', "'", "`", "\\", "$(id)", "`id`", "; rm -rf /", "a\nb", "a\r\nb", "\t",
  "x".repeat(6000), "<".repeat(3000), "\u202e".repeat(500), "]]>", "--!>", "\uffff\ufffe", "\u{e0001}\u{e0041}", "\ufff9a\ufffb", "\u115f\u3164",
];

/** At least 200 strings: each markup as it is, and turned around; all that is odd, and with markup behind. */
export const STRINGS = [...MARKUP, ...MARKUP.map((text) => `\u202e${text}\u0000`), ...MARKUP.map((text) => text.toUpperCase()), ...ODD, ...ODD.map((text) => `${text.slice(0, 100)}<img src=x onerror=${FLAG}>`)];

/** One request whose bytes are not all text. */
async function raw(emulator, bytes) {
  const { hostname, port } = new URL(emulator.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.end(bytes);
  socket.resume();
  await once(socket, "close");
}

/** Puts every string into headers, bodies, URLs, subscriptions, event data, scenario names and texts, settings and keys. */
export async function poison(emulator) {
  const subscription = await emulator.subscribe("https://odd.sink.localhost/");
  assert.ok(subscription.id);
  for (const [i, text] of STRINGS.entries()) {
    const bytes = Buffer.from(text.replace(/[\r\n\0]/g, " "), "utf8");
    const body = Buffer.from(JSON.stringify({ url: text, events: [text], [text]: text }));
    await raw(emulator, Buffer.concat([
      Buffer.from(`POST /v1/events/subscribe?q=${encodeURIComponent(text.replace(/[\ud800-\udfff]/g, "?").slice(0, 900))} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\nx-odd: `), bytes,
      Buffer.from(`\r\nuser-agent: `), bytes, Buffer.from(`\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n`), body,
    ]));
    await raw(emulator, Buffer.concat([Buffer.from("GET /v1/"), bytes.subarray(0, 300), Buffer.from(` HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${KEY}\r\nconnection: close\r\n\r\n`)]));
    if (i % 2 === 0) await emulator.control("POST", "events", { type: "workflow.completed", data: { [text]: text, text } });
    if (i % 4 === 0) await fetch(`${emulator.page}scenarios/${encodeURIComponent(text.replace(/[\ud800-\udfff]/g, "?").slice(0, 200))}`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ title: text, description: text, rule: [{ name: text, when: { method: "PUT" }, reply: { status: 500 } }] }) });
    if (i % 4 === 1) await emulator.control("PUT", `scenarios/odd-${i}`, { title: text, description: text, rule: [{ name: text, when: { operation: "hello" }, times: 1, reply: { status: 500, message: text } }] });
    if (i % 4 === 2) await emulator.control("PUT", `subscriptions/${subscription.id}`, { description: text.slice(0, 200) });
    if (i % 4 === 3) await emulator.control("POST", "events", { type: text });
  }
  // Bytes that are not UTF-8, and not HTTP.
  for (const bytes of [[0xff, 0xfe, 0x00], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf8, 0x88], Array.from({ length: 256 }, (_, i) => i)]) {
    const odd = Buffer.from(bytes);
    await raw(emulator, odd);
    await raw(emulator, Buffer.concat([Buffer.from(`POST /v1/events/subscribe HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${KEY}\r\ncontent-type: application/json\r\nconnection: close\r\nx-odd: `), odd.filter((byte) => byte > 127), Buffer.from(`\r\ncontent-length: ${odd.length}\r\n\r\n`), odd]));
  }
  // As much text as headers and a body may have.
  await raw(emulator, Buffer.from(`POST /v1/events/subscribe HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${KEY}\r\nconnection: close\r\n${Array.from({ length: 40 }, (_, i) => `x-long-${i}: ${"<b>".repeat(250)}\r\n`).join("")}content-length: 200000\r\n\r\n${"<i>\u202e".repeat(40_000).slice(0, 100_000)}${" ".repeat(100_000)}`));
  await raw(emulator, Buffer.concat([Buffer.from(`POST /v1/events/subscribe HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: `), Buffer.alloc(1_000_000, "<b>"), Buffer.from("\r\n\r\n")]));
  await emulator.control("PATCH", "profile", { environment: "<img src=x onerror=globalThis.pwned=1>" });
}

/** Elements that only markup of others could have made. */
const strangers = () => ({
  elements: [...document.querySelectorAll("img, iframe, object, embed, video, audio, math, form[action], base, body meta[http-equiv], body style, template, x-y, a[href^='javascript' i], a:not([href^='#'], [href='openapi.json'], [href='v1/openapi.json']), link:not([rel=icon]):not([rel=stylesheet]), script:not([src='app.js']):not([type='application/json']):not([type=module])")].map((node) => node.outerHTML.slice(0, 100)),
  pwned: globalThis.pwned,
  blank: !document.querySelector("main") || document.querySelector("main").textContent.trim() === "",
});

/** Looks at a page full of hostile text: every view, and every record's details. */
export async function lookAround(page, ids, views) {
  const check = async (where) => assert.deepEqual(await page.evaluate(strangers), { elements: [], pwned: undefined, blank: false }, where);
  for (const view of views) {
    await visit(page, view);
    await check(view);
  }
  for (const id of ids) {
    await page.evaluate((hash) => { location.hash = hash; }, `#/requests/${id}`);
    await until(page, (wanted) => location.hash.endsWith(wanted) && document.querySelector("#pane article, #pane .odd"), id);
    await check(id);
  }
}

/** All of it, live. */
export async function hostile() {
  assert.ok(STRINGS.length >= 200, String(STRINGS.length));
  const emulator = await Emulator.start("--set", "rate_limit.enabled=false");
  const tab = await openTab(emulator.page);
  // Some of it comes while the page is looked at.
  await poison(emulator);
  const requests = (await emulator.control("GET", "requests?key=*&limit=1000")).data.map((one) => one.id);
  const deliveries = (await emulator.control("GET", "deliveries?key=*&limit=1000")).data;
  const scenarios = (await emulator.control("GET", "scenarios")).data.map((one) => `scenarios/${encodeURIComponent(one.name)}`).filter((name) => !/^scenarios\/[a-z][a-z-]+$/.test(name));
  await rows(tab.page).first().waitFor();
  const filters = STRINGS.slice(0, 120).map((text) => `activity?filter=${encodeURIComponent(text.replace(/[\ud800-\udfff]/g, "?").slice(0, 500))}`);
  const views = ["summary", "review", "review/wrong-path", ...STRINGS.slice(0, 60).map((text) => `review/${encodeURIComponent(text)}`), "activity", "deliveries", "subscriptions", "scenarios", "time", "keys", "settings", "trigger", "check", ...scenarios, ...filters, "activity?key=%3Cimg%20src%3Dx%3E"];
  await lookAround(tab.page, [...requests, ...deliveries.map((one) => one.id), ...deliveries.slice(0, 60).map((one) => one.event)], views);
  // Text of clients is evidence, and stays text.
  await tab.page.evaluate(() => { location.hash = "#/review/unknown-field"; });
  await tab.page.getByRole("list", { name: "Seen for unknown-field" }).getByText(/<script>/).first().waitFor();
  // Shown as text, with every character visible.
  await tab.page.evaluate(() => { location.hash = "#/activity?filter=onerror"; });
  await rows(tab.page).first().click();
  await tab.page.getByText(/<img src=x onerror=/).first().waitFor();
  assert.equal(await tab.page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u0000\u001b]/.test(document.body.textContent)), false, "no character that turns text around is in the page");
  await tab.verify();
  await emulator.stop();
  return `${STRINGS.length} strings, ${requests.length} requests, ${deliveries.length} deliveries, ${scenarios.length} scenarios`;
}

/** A record of an unexpected form is a row that says so; all others are shown. */
export async function oddRecord(emulator) {
  const tab = await openTab("about:blank");
  const { page } = tab;
  await page.route("**/_emulator/run*", async (route) => {
    const answer = await route.fetch();
    const run = await answer.json();
    run.requests?.unshift(null, 7, { id: "req_odd" }, { id: "req_deep", path: { a: 1 } });
    run.deliveries?.unshift({ id: "dlv_odd", attempts: [{ outcome: null }] });
    run.subscriptions.unshift({ id: "sub_odd" });
    run.scenarios.unshift({ name: "odd", rules: {}, title: 5 });
    run.keys.unshift({ key: "odd", scenarios: 5 });
    run.profile.data.unshift({ setting: "odd" });
    await route.fulfill({ response: answer, json: run });
  });
  await page.route("**/_emulator/explain/*", async (route) => {
    const answer = await route.fetch();
    const explanation = await answer.json();
    delete explanation.request?.headers;
    if (explanation.request) explanation.request.answer = { headers: 5 };
    explanation.steps = [{ verdict: "new", check: 1 }, null];
    await route.fulfill({ response: answer, json: explanation });
  });
  await page.goto(emulator.page);
  await rows(page).first().waitFor();
  await rows(page).filter({ hasText: "GET" }).first().click();
  await page.getByText(/This could not be shown/).first().waitFor();
  await page.getByText(/"summary":/).first().waitFor();
  await page.route("**/_emulator/findings*", async (route) => {
    const answer = await route.fetch();
    const findings = await answer.json();
    findings.data.unshift({ code: "odd" }, { severity: 7, evidence: [null] });
    findings.not_exercised.unshift({});
    await route.fulfill({ response: answer, json: findings });
  });
  await page.evaluate(() => { location.hash = "#/review"; });
  await page.getByText(/"code": "odd"/).waitFor();
  await page.getByRole("article").first().waitFor();
  for (const view of ["subscriptions", "scenarios", "scenarios/odd", "keys", "settings", "time", "trigger", "summary"]) {
    await visit(page, view);
    assert.ok((await page.getByRole("main").textContent()).length > 100, view);
    assert.ok(await page.getByRole("navigation").isVisible());
  }
  tab.faults.splice(0, tab.faults.length, ...tab.faults.filter((text) => !text.startsWith("a request to http")));
  await tab.verify();
}
