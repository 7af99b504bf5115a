// Every way of vitest to write a test: each notes the key that it got, in the file KEYS.
import { appendFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { withEmulator } from "wrs-emulator";

const note = (label: string) => (wrs: { key: string }) => { appendFileSync(process.env.KEYS!, `${label}\t${wrs.key}\n`); };
const pause = () => new Promise((done) => setTimeout(done, 20));

test("plain", withEmulator(note("plain")));
describe("suite", () => { test("nested", withEmulator(note("nested"))); });
test.each([[1, 2], [3, 4]])("each %i", withEmulator((wrs, a, b) => { note("each")(wrs); expect([1, 3]).toContain(a); expect(b).toBe(a + 1); }));
test.each([1, 2])("each of one name", withEmulator(note("each-same")));
test.for([[1, 2], [3, 4]])("for %i", withEmulator((wrs, [a], { task }) => { note("for")(wrs); expect(task.name).toBe(`for ${a}`); }));
describe("together", () => {
  for (let turn = 0; turn < 4; turn += 1) test.concurrent("one name", withEmulator(async (wrs) => { await pause(); note("concurrent-same")(wrs); }));
  for (let turn = 0; turn < 4; turn += 1) test.concurrent(`name ${turn}`, withEmulator(note("concurrent")));
  test.concurrent.each([1, 2, 3])("row %i", withEmulator(note("concurrent-each")));
  test.concurrent.for([1, 2, 3])("for row %i", withEmulator(note("concurrent-for")));
});
let tries = 0;
test("again", { retry: 3 }, withEmulator((wrs) => { note("retry")(wrs); if ((tries += 1) < 3) throw new Error("not yet"); }));
const extended = test.extend<{ page: string; db: string }>({ page: async ({}, use) => use("a page"), db: async ({ page }, use) => use(`db of ${page}`) });
extended("fixtures", withEmulator(async (wrs, { db, page: p = "" }) => { note("extend")(wrs); expect(db).toBe("db of a page"); expect(p).toBe("a page"); }));
extended("no fixtures", withEmulator(async (wrs) => { note("extend-none")(wrs); }));
extended("arrow", withEmulator(wrs => note("extend-arrow")(wrs)));
extended("function", withEmulator(async function (wrs, { page, task }) { note("extend-function")(wrs); expect(page).toBe("a page"); expect(task.name).toBe("function"); }));
extended.for([1, 2])("fixtures for %i", withEmulator(async ({ key }, row, { db }) => { note("extend-for")({ key }); expect(db).toBe("db of a page"); }));
test("with context", withEmulator((wrs, context) => { note("context")(wrs); expect(context.task.name).toBe("with context"); }));
test("skips itself", withEmulator((wrs, context) => context.skip()));
