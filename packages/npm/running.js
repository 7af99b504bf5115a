// The running test: its name and file, the API key made from them, and its expected end, from its runner.
"use strict";

const { createHash, randomBytes } = require("node:crypto");

/**
 * What outlives a second copy of this module, as `jest.resetModules()` makes: who has which name in which file. Test files have a global
 * object each in jest, and a process each in node:test.
 */
const shared = (globalThis[Symbol.for("wrs-emulator")] ??= { names: new WeakMap(), failed: new Map(), atExit: [] });

/** The test that gave its body these arguments. */
function running(given) {
  const known = inVitest(given) ?? inNode(given) ?? inJest() ?? {};
  const { project, file = process.argv[1] ?? "", holder, scope = shared } = known;
  const name = known.name ? claim(scope, known.name, holder) : "a test without a name";
  // Nothing tells unknown tests apart, and some may be in other processes.
  const identity = known.name ? [project, file, name].filter(Boolean).join(" ") : randomBytes(16);
  const hash = createHash("sha256").update(identity).digest("hex").slice(0, known.name ? 8 : 16);
  const key = `sk_test_${name.replace(/[^A-Za-z0-9]+/g, "_").slice(0, 80)}_${hash}`;
  return { expects: () => "success", note: (line) => console.error(line), failure: () => undefined, ...known, file, name, key };
}

/** The name, with a number if another test of this file has it. A test that is tried again keeps its own. */
function claim(scope, name, holder) {
  const holders = shared.names.get(scope) ?? new Map();
  shared.names.set(scope, holders);
  let unique = name;
  for (let number = 2; (holders.get(unique) ?? holder) !== holder; number += 1) unique = `${name} ${number}`;
  holders.set(unique, holder);
  return unique;
}

/** vitest gives a context, after the row of `test.for`, but not to `test.each`. */
function inVitest(given) {
  const worker = globalThis.__vitest_worker__;
  const context = given.find((one) => typeof one?.task?.id === "string" && one.task.file);
  const task = context?.task ?? alone(worker?.current);
  if (!task) return worker && { file: worker.filepath };
  const path = ({ name, suite }) => (suite?.name ? `${path(suite)} ${name}` : name);
  return {
    name: path(task), file: task.file.filepath ?? task.file.name ?? "", project: task.file.projectName, holder: task, scope: task.file,
    expects: () => (task.fails ? "failure" : "success"),
    signal: context?.signal,
    overdue: () => context.signal.reason,
    failure: () => (task.result?.state === "fail" ? task.result.errors?.[0] : undefined),
    later: (call) => context?.onTestFinished?.(call),
  };
}

/** The test that began last, unless it may run in parallel. */
function alone(task) {
  if (task?.type === "suite" || !task?.file) return undefined;
  for (let part = task; part; part = part.suite) if (part.concurrent) return undefined;
  return task;
}

/** node:test gives its tests and hooks a context. */
function inNode(given) {
  const context = given.find((one) => typeof one?.name === "string" && one.signal instanceof AbortSignal);
  if (!context) return undefined;
  let expected = "success";
  // What a test says of itself; its options are not shown.
  for (const [call, outcome] of [["skip", "nothing"], ["todo", "anything"]]) {
    const said = context[call];
    if (!said) continue;
    context[call] = (...words) => {
      expected = outcome;
      return said.apply(context, words);
    };
  }
  return {
    name: (context.fullName ?? context.name).replaceAll(" > ", " "), file: context.filePath ?? process.argv[1] ?? "", holder: context,
    expects: () => expected,
    signal: context.signal,
    failure: () => (context.passed === false ? context.error?.cause ?? context.error : undefined),
    note: (line) => (context.diagnostic ? context.diagnostic(line) : console.error(line)),
    later: (call) => shared.atExit.push(call),
  };
}

/** jest gives nothing, but `expect` knows. */
function inJest() {
  const state = jestExpect()?.getState?.();
  if (!state) return undefined;
  // Older versions have only a name, for both kinds of tests in its own place.
  const concurrent = state.currentConcurrentTestName?.();
  const test = state.currentTestIdentity?.();
  const name = state.currentTestIdentity && !test ? undefined : concurrent ?? state.currentTestName;
  const isRetried = !concurrent && globalThis[Symbol.for("RETRY_TIMES")] > 0;
  const holder = test ?? ((isRetried && shared.failed.get(name)) || Symbol(name));
  return {
    name, file: state.testPath ?? "", holder,
    expects: () => (test?.failing ? "failure" : "success"),
    failed: () => shared.failed.set(name, holder),
  };
}

function jestExpect() {
  try {
    // Known inside jest alone, also where it injects no globals.
    if (process.env.JEST_WORKER_ID) return require("@jest/globals").expect;
  } catch {
    // A process that a test of jest started.
  }
  return globalThis.expect;
}

exports.running = running;
exports.shared = shared;
