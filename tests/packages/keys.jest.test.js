// Every way of jest to write a test: each notes the key that it got, in the file KEYS.
const { appendFileSync } = require("node:fs");
// Without `injectGlobals` they have to be asked for.
const { test: it, describe: group, jest: mock } = typeof test === "undefined" ? require("@jest/globals") : { test, describe, jest };
const { withEmulator } = require("wrs-emulator");

const note = (label) => (wrs) => { appendFileSync(process.env.KEYS, `${label}\t${wrs.key}\n`); };
const pause = () => new Promise((done) => setTimeout(done, 20));

it("plain", withEmulator(note("plain")));
group("suite", () => it("nested", withEmulator(note("nested"))));
it.each([1, 2])("each %i", withEmulator((wrs, row) => note("each")(wrs)));
for (const turn of [1, 2]) it("one name", withEmulator(note("same")));
group("together", () => {
  for (let turn = 0; turn < 8; turn += 1) it.concurrent(`name ${turn}`, withEmulator(async (wrs) => { await pause(); note("concurrent")(wrs); }));
  for (let turn = 0; turn < 3; turn += 1) it.concurrent("one name", withEmulator(async (wrs) => { await pause(); note("concurrent-same")(wrs); }));
  it.concurrent.each([1, 2, 3])("row %i", withEmulator(async (wrs) => note("concurrent-each")(wrs)));
});
// jest 29 does not tell that a test should fail.
if (process.env.FAILING) it.failing("that fails", withEmulator((wrs) => { note("failing")(wrs); throw new Error("as expected"); }));
mock.retryTimes(2);
let tries = 0;
it("again", withEmulator((wrs) => { note("retry")(wrs); if ((tries += 1) < 3) throw new Error("not yet"); }));
it("after all", withEmulator(note("last")));
