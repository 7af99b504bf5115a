// The page in a real Chromium: every view walked through, by keyboard too; axe; hostile text; load; the report as a file.
// Usage: node page.mjs EMULATOR_BINARY CHROMIUM [PART…], from a folder next to which playwright-core and axe-core are installed.
// The part `load` is all that measures time, `red` reads reports made before, `functional` is everything else.

import { axe } from "./access.mjs";
import { hostile, oddRecord } from "./hostile.mjs";
import { fullJournal, thousandASecond } from "./load.mjs";
import { forbidden, hostileReport, red, report, viewed } from "./report.mjs";
import { Emulator, abandon, startBrowser, stopAll } from "./site.mjs";
import * as walks from "./walks.mjs";

const wanted = process.argv.slice(4);

const parts = [];
const lively = ["activity", "menus", "delivery", "subscriptions", "scenarios", "time", "settings", "trigger", "followed", "brushed", "check", "summary", "again", "review", "history", "pause", "keyboard", "resume", "acted", "keys"];
for (const name of lively) parts.push([name, (emulator) => walks[name](emulator)]);
parts.push(["odd record", oddRecord], ["axe", axe], ["hostile", hostile], ["report", report], ["forbidden", forbidden], ["viewed", viewed], ["hostile report", hostileReport], ["below a path", walks.belowPath], ["restart", walks.restart], ["broken scenario", walks.brokenScenario], ["own lists", walks.ownLists], ["lanes", walks.lanes], ["empty", walks.empty], ["test request", walks.testRequest], ["linked", walks.linked], ["write scenario", walks.writeScenario], ["token", walks.token]);

const load = [["full journal", fullJournal], ["thousand a second", thousandASecond]];

/** The parts with this name; those of a group. */
function named(name) {
  if (name === "load") return load;
  if (name === "functional") return parts;
  return [...parts, ...load, ["red", red]].filter(([part]) => part === name);
}

const chosen = wanted.length === 0 ? [...parts, ...load] : wanted.flatMap(named);
let failed = chosen.length === 0 ? 1 : 0;
const began = Date.now();
try {
  await startBrowser();
  const emulator = await Emulator.start();
  await emulator.liven();
  for (const [name, run] of chosen) {
    const start = Date.now();
    try {
      const said = await run(emulator);
      console.log(`ok ${name} (${Date.now() - start} ms)${said ? `: ${said}` : ""}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error.stack}\nits picture: ${await abandon(name)}`);
    }
  }
} finally {
  await stopAll();
}
console.log(`${failed ? `${failed} failed` : "all passed"} in ${Math.round((Date.now() - began) / 1000)} s`);
process.exit(failed ? 1 : 0);
