// The page under load: a full journal, and a thousand events a second.

import assert from "node:assert/strict";

import { Emulator, openTab, until } from "./site.mjs";

const FIRST_ROWS_MS = 200;
const LONG_TASK_MS = 100;
const MAX_HEAP = 120 * 1024 * 1024;

/** Sends requests at a rate, as evenly as the machine allows; gives how many were answered. */
async function send(emulator, number, perSecond) {
  const began = performance.now();
  let [sent, answered] = [0, 0];
  const open = new Set();
  while (sent < number) {
    const due = perSecond ? Math.min(number, Math.floor(((performance.now() - began) / 1000) * perSecond)) : Math.min(number, sent + 200);
    for (; sent < due && open.size < 400; sent++) {
      const one = emulator.client(`/v1/hello?n=${sent}`).then((status) => { open.delete(one); if (status) answered += 1; });
      open.add(one);
    }
    if (perSecond && open.size < 400) await new Promise((done) => setTimeout(done, 5));
    else await Promise.race(open);
  }
  await Promise.all(open);
  return { answered, seconds: (performance.now() - began) / 1000 };
}

/** How many rows the tab has seen: those it shows, and those it dropped to stay small. */
async function counted(page) {
  const text = await page.locator(".foot").textContent();
  const number = (pattern) => Number((pattern.exec(text)?.[1] ?? "0").replaceAll(",", ""));
  return { shown: number(/^([\d,]+) rows?/), dropped: number(/([\d,]+) older rows? dropped/), missed: number(/([\d,]+) entr(?:y|ies) forgotten/) };
}

/** Since the start of loading: when the first row was drawn. */
async function firstRows(emulator) {
  const tab = await openTab("about:blank");
  await tab.context.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector("[role=option]")) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => { window.firstRows = performance.now(); }));
    }).observe(document, { childList: true, subtree: true });
  });
  await tab.page.goto(emulator.page);
  await until(tab.page, () => window.firstRows);
  const measured = await tab.page.evaluate(() => ({ start: window.firstRows, load: window.firstRows - performance.getEntriesByType("navigation")[0].loadEventEnd }));
  return { ...measured, tab };
}

/** 10,000 entries: the first rows are there at once, and all of them soon. */
export async function fullJournal() {
  const emulator = await Emulator.start("--set", "rate_limit.enabled=false");
  await send(emulator, 10_000, 0);
  let best = { start: Infinity, load: Infinity };
  // The machine is shared: the best of a few.
  for (let i = 0; i < 6; i++) {
    const { tab, ...measured } = await firstRows(emulator);
    if (measured.load < best.load) best = measured;
    await until(tab.page, () => /^10,000 rows/.test(document.querySelector(".foot").textContent));
    assert.ok(await tab.page.locator("[role=option]").count() < 100);
    await tab.page.getByRole("listbox").press("End");
    await tab.page.getByRole("option").filter({ hasText: "n=0" }).last().waitFor();
    await tab.context.close();
    if (i > 0 && best.load < FIRST_ROWS_MS) break;
    await new Promise((done) => setTimeout(done, 1000 * i));
  }
  assert.ok(best.load < FIRST_ROWS_MS, `${Math.round(best.load)} ms after load`);
  await emulator.stop();
  return `first rows ${Math.round(best.load)} ms after load, ${Math.round(best.start)} ms after the start of navigation`;
}

/** A thousand events a second for ten seconds: no long task, nothing lost, a bounded heap. The machine is shared, so it may try again. */
export async function thousandASecond() {
  const first = await thousandOnce();
  const { longest, said } = first.longest <= LONG_TASK_MS ? first : await thousandOnce();
  assert.ok(longest <= LONG_TASK_MS, said);
  return said;
}

async function thousandOnce() {
  const emulator = await Emulator.start("--set", "rate_limit.enabled=false", "--max-journal-entries", "50000");
  const tab = await openTab(emulator.page);
  const { page } = tab;
  await page.getByText(/No request has arrived yet/).waitFor();
  await page.evaluate(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => Math.round(one.duration)))).observe({ type: "longtask" });
  });
  const { answered, seconds } = await send(emulator, 10_000, 1000);
  assert.equal(answered, 10_000);
  const whole = async (number) => until(page, (wanted) => {
    const text = document.querySelector(".foot")?.textContent.replaceAll(",", "") ?? "";
    return Number(/^(\d+)/.exec(text)?.[1] ?? 0) + Number(/(\d+) older/.exec(text)?.[1] ?? 0) + Number(/(\d+) entr/.exec(text)?.[1] ?? 0) >= wanted;
  }, number, 30_000);
  await whole(10_000);
  const first = await counted(page);
  assert.equal(first.missed, 0);
  // As much again, for rows that have to be dropped.
  await send(emulator, 5000, 1000);
  await whole(15_000);
  const { shown, dropped, missed } = await counted(page);
  assert.equal(missed, 0);
  assert.equal(shown + dropped, 15_000);
  assert.ok(shown <= 11_000, `${shown} rows`);
  const longTasks = (await page.evaluate(() => window.longTasks)).sort((a, b) => b - a);
  const client = await tab.context.newCDPSession(page);
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  assert.ok(usedSize < MAX_HEAP, `${usedSize} bytes`);
  const said = `${Math.round(answered / seconds)} a second, longest task ${longTasks[0] ?? "below 50"} ms, heap ${(usedSize / 1048576).toFixed(1)} MiB`;
  await tab.verify();
  await emulator.stop();
  return { said, longest: longTasks[0] ?? 0 };
}
