// An emulator with a fresh API key for each test: `withEmulator` for node:test, vitest and jest.
//
// A key has a workspace, a quota, a clock and scenarios of its own. So tests run in parallel against one emulator, and none has to
// sleep: it moves its clock or waits for what it expects. A failed test shows why the emulator answered as it did.
//
// The emulator is the one at WRS_EMULATOR_URL, which `wrs-emulator exec -- npm test` sets for all processes of a run. Without it each
// test file starts one; if a test fails, the report of its run is kept.
"use strict";

const { spawn, spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const { rmSync } = require("node:fs");
const { basename } = require("node:path");
const { createInterface } = require("node:readline");

/** A refused control call: `status`, `code`, and the whole answer in `body`. */
class ControlError extends Error {
  constructor(call, status, body) {
    super(`${call}: ${status} ${body.error.code}: ${body.error.message}`);
    Object.assign(this, { status, code: body.error.code, body });
  }
}

/** One key of a running emulator: what the client under test needs, and the control API for that key. */
class Emulator {
  constructor(url, key) {
    this.url = url.replace(/\/$/, "");
    this.key = key;
    this.headers = { authorization: `Bearer ${key}` };
    // Built-in receivers are shared by name, so each key uses a name of its own.
    this.sink = `t${createHash("sha256").update(key).digest("hex").slice(0, 20)}`;
    this.sinkUrl = `https://${this.sink}.sink.localhost/hooks`;
    /** The clock of this key. */
    this.clock = {
      /** Stops it; with `at`, a timestamp, at that time. */
      freeze: async (at) => {
        await this.post("clock", { mode: "frozen" });
        if (at) await this.post("clock", { set: at });
      },
      /** Moves it, and is done once everything that became due is: retries, completions, emissions. */
      advance: async (duration) => (await this.post("clock", { advance: duration })).now,
      /** It follows the emulator's clock again. */
      follow: () => this.post("clock", { mode: "follow" }),
    };
  }

  /** Any call of the control API, `path` below `/_emulator/`. */
  async control(method, path, body, contentType = "application/json") {
    const headers = { "content-type": contentType };
    const token = process.env.WRS_EMULATOR_CONTROL_TOKEN;
    if (token) headers.authorization = `Bearer ${token}`;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(`${this.url}/_emulator/${path}`, { method, headers, body: text });
    const parsed = await answer.json();
    if (!answer.ok) throw new ControlError(`${method} ${path}`, answer.status, parsed);
    return parsed;
  }

  /** A POST about this key. */
  post(path, fields = {}) {
    return this.control("POST", path, { key: this.key, ...fields });
  }

  /** A GET about this key. */
  get(path, query = {}) {
    return this.control("GET", `${path}?${new URLSearchParams({ key: this.key, ...query })}`);
  }

  /** Waits for requests: `operation`, `status`, `method`, `path`, `count`, `since`, `timeout`; on timeout a 408 with the nearest ones. */
  async waitForRequests(filters) {
    return (await this.post("requests/wait", filters)).data;
  }

  /** Waits for deliveries: `status`, `type`, `event`, `subscription`, `count`, `timeout`. */
  async waitForDeliveries(filters) {
    return (await this.post("deliveries/wait", filters)).data;
  }

  /** Starts these scenarios: names, or one `{ toml }`, the text of a scenario of this key's own. Without arguments none is active. */
  async scenario(...given) {
    const active = [];
    for (const one of given) {
      if (typeof one === "string") active.push(one);
      else {
        await this.control("PUT", `scenarios/${this.sink}`, one.toml, "application/toml");
        active.push(this.sink);
      }
    }
    return this.post("scenarios/active", { active });
  }

  /** Changes settings of this key: `set({ rate_limit: { requests: 5 } })`. */
  set(settings) {
    return this.control("PATCH", `profile?key=${this.key}`, settings);
  }

  /** Fires an event, waits for the first attempts and returns the deliveries. */
  async trigger(type, fields = {}) {
    try {
      return (await this.control("POST", "events?wait=20s", { key: this.key, type, ...fields })).deliveries;
    } catch (error) {
      if (error.code === "no_match") {
        error.message = `no subscription of this test's key takes ${type}: let the client under test subscribe first, ` +
          "or subscribe for it with `await wrs.post(\"subscriptions\", { url: wrs.sinkUrl })`";
      }
      throw error;
    }
  }

  /** Sends the deliveries for `origin`, such as `https://app.example.com`, to a receiver of one's own, `http://127.0.0.1:3000` say. */
  forward(origin, to) {
    return this.set({ webhooks: { forwards: { [origin]: to } } });
  }

  /** The statuses of the next answers of this key's built-in receiver; 200 after that. */
  scriptSink(...statuses) {
    return this.control("POST", `sink/${this.sink}`, { respond: statuses });
  }

  /** The deliveries to this key's built-in receiver, oldest first. */
  async received() {
    return (await this.control("GET", `sink/${this.sink}`)).data;
  }

  /** This key as before its first request. */
  reset() {
    return this.post("reset");
  }

  /** The state of this key as a document. */
  save() {
    return this.get("snapshot");
  }

  /** Restores a saved state. */
  load(snapshot) {
    return this.control("PUT", "snapshot", snapshot);
  }

  /** Why a request (`req_…`) was answered so, or how an event or delivery came about: one sentence. */
  async explain(id) {
    return (await this.control("GET", `explain/${id}`)).summary;
  }

  /** Reports how the test with this key ended, so that the report of the run puts it first if it failed. */
  ended(test, failure, output) {
    // More than is kept, so that credentials are masked before the rest is cut.
    const [message, end] = [failure?.slice(0, 2000), output?.slice(-32768)].map((text) => text?.toWellFormed());
    return this.post("outcome", { test: test.toWellFormed(), outcome: failure ? "failed" : "passed", message, output: end });
  }

  /** The last requests of this key, oldest first, each with the reason for its answer, and the deliveries that went wrong. */
  async story() {
    const requests = (await this.get("requests", { limit: 10 })).data.reverse();
    const deliveries = (await this.get("deliveries", { limit: 10 })).data.reverse();
    const failed = deliveries.filter((row) => !["delivered", "refused"].includes(row.forgery ?? row.status));
    const lines = [
      ...requests.map((row) => [`${row.method} ${row.path}${row.query ? `?${row.query}` : ""}`, row.id]),
      ...failed.map((row) => [`${row.type} to ${row.url}`, row.id]),
    ].map(async ([what, id]) => `${what}  ${id}: ${await this.explain(id)}`);
    return lines.length ? Promise.all(lines) : [`no request carried the key ${this.key}`];
  }
}

/** The body of a test: gives it an emulator with a key made from the test's name, and explains if it fails. */
function withEmulator(body) {
  // No named parameter: jest would take one for its callback `done`.
  return async (...given) => {
    const test = describe(given[0]);
    clear(test);
    const url = process.env.WRS_EMULATOR_URL ?? (await start());
    const hash = createHash("sha256").update(`${test.file} ${test.name}`).digest("hex").slice(0, 8);
    const emulator = new Emulator(url, `sk_test_${test.name.replace(/[^A-Za-z0-9]+/g, "_").slice(0, 80)}_${hash}`);
    // An earlier run may have left something at an emulator that keeps running.
    await emulator.reset();
    const name = `${basename(test.file)}: ${test.name}`;
    let result;
    try {
      result = await body(emulator, ...given);
    } catch (error) {
      // How vitest ends a test that skips itself.
      if (error?.code === "VITEST_PENDING") throw error;
      if (test.expects() !== "success") {
        await report(emulator, test, name);
        throw error;
      }
      await report(emulator, test, name, ...described(error));
      // The emulator may be what failed; the test's own error counts.
      try {
        // The error of a wait that timed out explains itself.
        if (error instanceof ControlError && error.status !== 408) test.note("wrs-emulator: the test's own control call was refused; before that:");
        for (const line of await emulator.story()) test.note(`wrs-emulator: ${line}`);
      } catch (problem) {
        test.note(`wrs-emulator: not reachable: ${problem.message}`);
      }
      if (!process.env.WRS_EMULATOR_URL) keepReport(url, test);
      throw error;
    }
    await report(emulator, test, name, ...(test.expects() === "failure" ? ["the test should have failed"] : []));
    return result;
  };
}

/** Reports how a test ended, unless it was skipped. */
async function report(emulator, test, ...outcome) {
  if (test.expects() === "nothing") return;
  const state = (problem) => (problem instanceof ControlError ? "its outcome was refused" : "not reachable");
  await emulator.ended(...outcome).catch((problem) => test.note(`wrs-emulator: ${state(problem)}: ${problem.message}`));
}

/** A failure in one line, and as it is printed, both without colours. */
function described(error) {
  const plain = (text) => String(text).replace(/\x1b\[[0-9;]*m/g, "");
  // The first lines, as assertions tell the values apart from the sentence.
  const lines = plain(error?.message ?? error).split("\n").map((line) => line.trim()).filter((line) => line && line !== "+ actual - expected").slice(0, 4);
  const kind = error instanceof ControlError ? "ControlError: " : "";
  return [kind + (lines.join(" ") || "failed without a message"), plain(error?.stack ?? error)];
}

/** Name, file and output of the running test, and how it should end, from the context that its runner gives. */
function describe(context) {
  const note = (line) => console.error(line);
  let expected = "success";
  const expects = () => expected;
  // Two tests of a file may have one name. vitest tells their suites, and so does jest.
  const path = ({ name, suite }) => (suite?.name ? `${path(suite)} ${name}` : name);
  if (context?.task) {
    if (context.task.fails) expected = "failure";
    return { name: path(context.task), file: context.task.file?.name ?? "", note, expects };
  }
  if (context?.diagnostic) {
    const uses = (named.get(context.name) ?? 0) + 1;
    named.set(context.name, uses);
    const name = uses > 1 ? `${context.name} ${uses}` : context.name;
    // What a test says of itself; its options are not shown.
    for (const [call, outcome] of [["skip", "nothing"], ["todo", "anything"]]) {
      const said = context[call];
      context[call] = (...words) => {
        expected = outcome;
        return said.apply(context, words);
      };
    }
    return { name, file: process.argv[1], note: (line) => context.diagnostic(line), expects };
  }
  const state = globalThis.expect?.getState?.() ?? {};
  return { name: state.currentTestName ?? "test", file: state.testPath ?? "", note, expects };
}

const reportOf = (test) => `wrs-emulator-report-${basename(test.file)}.html`;
const program = () => process.env.WRS_EMULATOR ?? require("./binary.js")();
/** How often node:test ran a test of each name. */
const named = new Map();
let started;
let server;
let isKept = false;
let isCleared = false;
/** Prints the address, and waits for the end of its input. If that named a file, it saves the report there. */
const SERVE = 'echo "$WRS_EMULATOR_URL"; report=$(cat); [ -z "$report" ] || "$0" run save "$report" --url "$WRS_EMULATOR_URL" >/dev/null 2>&1';

/** Removes the report of an earlier run. */
function clear(test) {
  if (!isCleared) rmSync(reportOf(test), { force: true });
  isCleared = true;
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
