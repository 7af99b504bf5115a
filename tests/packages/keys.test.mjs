// Tests of node:test with one name, and some without their own context; each writes the key that it got, in the file KEYS.
import { appendFileSync } from "node:fs";
import test, { describe } from "node:test";
import { withEmulator } from "wrs-emulator";

const note = (label) => (wrs) => appendFileSync(process.env.KEYS, `${label}\t${wrs.key}\n`);

test("plain", withEmulator(note("plain")));
for (const turn of [1, 2, 3]) test("one name", withEmulator(note("same")));
test("one name 2", withEmulator(note("same")));
for (const suite of ["first", "second"]) describe(suite, { concurrency: true }, () => test("one name", withEmulator(note("suite"))));
test("outer", async (context) => { await context.test("inner", withEmulator(note("inner"))); });
test("called by hand", async () => { for (const turn of [1, 2]) await withEmulator(note("unknown"))(); });
