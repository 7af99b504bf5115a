// An emulator with a fresh API key for each test: `withEmulator` for node:test, vitest and jest.
//
// A key has its own workspace, quota, clock and scenarios. So tests run in parallel against one emulator, and none has to
// sleep: it moves its clock or waits for the expected. A failed test shows why the emulator answered as it did.
//
// The emulator is the one at WRS_EMULATOR_URL, which `wrs-emulator exec -- npm test` sets for all processes of a run. Without it each
// test file starts one; if a test fails, the report of its run is kept.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const { existsSync, rmSync } = require("node:fs");
const { basename, relative } = require("node:path");
const { createInterface } = require("node:readline");
const { ControlError, Emulator } = require("./emulator.js");
const { running, shared } = require("./running.js");

let isCleared = false;
let isKept = false;
let server;
let started;

/** The body of a test: gives it an emulator with a key made from the test's name, and explains if it fails. `clock` is the mode in which the clock begins. */
function withEmulator(body, { clock } = {}) {
  // No named parameter: jest would take one for its callback `done`.
  const wrapped = async (...given) => {
    const test = running(given);
    clear(test);
    const url = process.env.WRS_EMULATOR_URL || (await start());
    const emulator = new Emulator(url, test.key);
    // An earlier run may have left something at an emulator that keeps running.
    await emulator.reset();
    if (clock) await emulator.post("clock", { mode: clock });
    const name = `${basename(test.file)}: ${test.name}`;
    let told;
    const tell = (error) => (told ??= telling(error));
    const telling = async (error) => {
      await report(emulator, test, name, ...described(error));
      // The emulator may have failed; the test's own error counts.
      try {
        for (const line of await emulator.story()) test.note(`wrs-emulator: ${line}`);
      } catch (problem) {
        test.note(`wrs-emulator: not reachable: ${problem.message}`);
      }
      keepReport(url, test);
    };
    const tellFailure = (error = test.failure()) => {
      if (!error || told || test.expects() !== "success") return told;
      emulator.clock.release();
      return tell(error);
    };
    // It took too long: its body goes on, and what it meets from now on, such as receivers that have ended, is not why it failed.
    test.signal?.addEventListener("abort", () => tellFailure(test.overdue?.()), { once: true });
    // After the test, where its runner has such hooks: older ones have no signal, or another hook let it fail.
    test.later?.(() => tellFailure());
    if (shared.atExit.length > 0) awaitEnd();
    try {
      try {
        await body(emulator, ...given);
      } finally {
        emulator.clock.release();
      }
    } catch (error) {
      // How vitest ends a test that skips itself.
      if (error?.code === "VITEST_PENDING") throw error;
      if (test.expects() !== "success") {
        await report(emulator, test, name);
        throw error;
      }
      test.failed?.();
      await tell(error);
      throw error;
    }
    if (told) return;
    await report(emulator, test, name, ...(test.expects() === "failure" ? ["the test should have failed"] : []));
  };
  // vitest reads there which fixtures the test uses. It does not give it the emulator.
  wrapped.toString = () => `(${parameters(body).slice(1).join(", ")}) => {}`;
  return wrapped;
}

/** The parameters of a function as they are written, found as vitest finds them. */
function parameters(body) {
  const source = String(body).replace(/\/\*[^]*?\*\/|\/\/.*/g, "");
  const [, list = ""] = /^(?:async\s*)?[\w$]+\s*=>/.test(source) ? [] : source.match(/^[^(]*\(([^)]*)/) ?? [];
  let depth = 0;
  const found = [""];
  for (const sign of list) {
    depth += "{[".includes(sign) - "}]".includes(sign);
    if (sign === "," && depth === 0) found.push("");
    else found[found.length - 1] += sign;
  }
  return found.map((parameter) => parameter.trim());
}

/** Reports how a test ended, unless it was skipped. */
async function report(emulator, test, ...outcome) {
  if (test.expects() === "nothing") return;
  if (outcome.length > 1) shared.hasFailed = true;
  const state = (problem) => (problem instanceof ControlError ? "its outcome was refused" : "not reachable");
  await emulator.ended(...outcome).catch((problem) => test.note(`wrs-emulator: ${state(problem)}: ${problem.message}`));
}

/** Lines of runners that say nothing of the failure. */
const NOT_SAID = /^\+ actual - expected$|^If this is a long-running test\b/;

/** A failure in one line, and as it is printed, both without colours; and its error. */
function described(error) {
  const plain = (text) => String(text).replace(/\x1b\[[0-9;]*m/g, "");
  // The first lines, as assertions tell the values apart from the sentence.
  const lines = plain(error?.message ?? error).split("\n").map((line) => line.trim()).filter((line) => line && !NOT_SAID.test(line)).slice(0, 4);
  const kind = error instanceof ControlError ? "ControlError: " : "";
  return [kind + (lines.join(" ") || "failed without a message"), plain(error?.stack ?? error), error];
}

/** What node:test, in a process for one file, tells of that file as a whole, once it has ended. */
let whole;
const isElsewhere = globalThis.__vitest_worker__ || process.env.JEST_WORKER_ID;
if (process.env.NODE_TEST_CONTEXT && !isElsewhere) {
  require("node:test").after((context) => { whole = context; });
  awaitEnd();
}

function awaitEnd() {
  if (shared.isAwaited) return;
  shared.isAwaited = true;
  process.once("beforeExit", () => {
    // By the next time node:test, which does its part at the same time, is done.
    setImmediate(() => {});
    process.once("beforeExit", reportUnseen);
  });
}

const UNSEEN = "a hook failed, or something outside the tests with an emulator; node:test printed what";

/** Reports failures after the bodies of tests of node:test, or outside them, such as hooks of suites. */
async function reportUnseen() {
  for (const call of shared.atExit) await call();
  const url = process.env.WRS_EMULATOR_URL || (await started);
  const hasFailed = whole?.passed === false || process.exitCode;
  if (!hasFailed || shared.hasFailed || !url) return;
  const name = "outside its tests";
  const test = running([{ name, signal: new AbortController().signal }]);
  const error = whole?.error?.cause;
  // The error is that of a hook of the file, or else the number of tests that failed.
  const outcome = error instanceof Error ? described(error) : [UNSEEN];
  await report(new Emulator(url, test.key), test, `${basename(test.file)}: ${name}`, ...outcome);
  keepReport(url, test);
}

/** Where reports are kept; a test may go elsewhere. */
const HERE = process.cwd();

/** The report of a test file. Files of one name in several folders have one each. */
function reportOf({ file }) {
  const path = relative(HERE, file);
  const isElsewhere = path !== basename(file);
  const name = path.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[.-]+/, "");
  const hash = createHash("sha256").update(path).digest("hex").slice(0, 6);
  return `wrs-emulator-report-${name}${isElsewhere ? `-${hash}` : ""}.html`;
}

const program = () => process.env.WRS_EMULATOR || require("./binary.js")();
/** Prints the address, and waits for the end of its input. If that named a file, it saves the report there. */
const SERVE = 'echo "$WRS_EMULATOR_URL"; report=$(cat); [ -z "$report" ] || "$0" run save "$report" --url "$WRS_EMULATOR_URL" >/dev/null 2>&1';

/** Removes the report of an earlier run. */
function clear(test) {
  if (isCleared) return;
  isCleared = true;
  try {
    rmSync(reportOf(test), { force: true });
  } catch (error) {
    // In a checkout that cannot be written, or of another user.
    if (existsSync(reportOf(test))) test.note(`wrs-emulator: ${reportOf(test)} is from an earlier run and cannot be removed: ${error.message}`);
  }
}

/** The address of this process's emulator, started once. It ends with the process, however that ends: its standard input is closed then. */
function start() {
  started ??= new Promise((resolve, reject) => {
    server = spawn(program(), ["exec", "--", "sh", "-c", SERVE, program()]);
    let errors = "";
    server.stderr.on("data", (text) => { errors += text; });
    server.on("error", reject);
    server.on("exit", (code) => reject(new Error(`wrs-emulator ended with exit code ${code}: ${errors}`)));
    createInterface(server.stdout).once("line", (url) => {
      // A test process ends when its tests are done, whether or not the emulator runs.
      for (const handle of [server, server.stdin, server.stdout, server.stderr]) handle.unref();
      resolve(url);
    });
  });
  return started;
}

/** Saves the report of this process's run now, and has SERVE save it again when the process ends. */
function keepReport(url, test) {
  if (!server) {
    // `exec` saves its own.
    if (!isKept && !process.env.WRS_BASE_URL) test.note(`wrs-emulator: \`wrs-emulator run save report.html\` saves a report from ${url}, the emulator of WRS_EMULATOR_URL`);
    isKept = true;
    return;
  }
  const file = reportOf(test);
  if (!isKept) {
    const { status, stderr } = spawnSync(program(), ["run", "save", file, "--url", url]);
    if (status !== 0) return test.note(`wrs-emulator: no report: ${stderr}`);
    isKept = true;
    server.stdin.write(file);
  }
  test.note(`wrs-emulator: the report of this run: ${file}`);
}

exports.ControlError = ControlError;
exports.Emulator = Emulator;
exports.withEmulator = withEmulator;
