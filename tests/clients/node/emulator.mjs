// A helper for node:test against wrs-emulator. Copy this file beside your tests: it needs Node 20 and nothing else.
//
// `withEmulator` gives each test an API key of its own, made from its name, and with it a workspace, a quota, a clock and scenarios
// of its own. So tests run in parallel against one emulator and none has to sleep: it moves its own clock or waits for what
// it expects. If a test fails, its diagnostics say why the emulator answered as it did.
//
// The emulator is the one at WRS_EMULATOR_URL, which `wrs-emulator exec -- node --test` sets.

import { createHash } from "node:crypto";

/** A control call was refused: `status`, `code`, and the whole answer in `body`. */
export class ControlError extends Error {
  constructor(call, status, body) {
    super(`${call}: ${status} ${body.error.code}: ${body.error.message}`);
    Object.assign(this, { status, code: body.error.code, body });
  }
}

/** One key of a running emulator: what to give to the client under test, and the control API for that key. */
export class Emulator {
  constructor(url, key) {
    this.url = url.replace(/\/$/, "");
    this.key = key;
    this.headers = { authorization: `Bearer ${key}` };
    // Built-in receivers are shared by name, so each key uses a name of its own.
    this.sink = `t${createHash("sha256").update(key).digest("hex").slice(0, 20)}`;
    this.sinkUrl = `https://${this.sink}.sink.localhost/hooks`;
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

  /** Stops this key's clock; with `at`, a timestamp, at that time. */
  async freeze(at) {
    await this.post("clock", { mode: "frozen" });
    if (at) await this.post("clock", { set: at });
  }

  /** Moves this key's clock, and is done once everything that was due meanwhile is: retries, completions, emissions. */
  async advance(duration) {
    return (await this.post("clock", { advance: duration })).now;
  }

  /** Waits for requests: `operation`, `status`, `method`, `path`, `count`, `since`, `timeout`; on timeout, a 408 that says what came. */
  async waitForRequests(wish) {
    return (await this.post("requests/wait", wish)).data;
  }

  /** Waits for deliveries: `status`, `type`, `event`, `subscription`, `count`, `timeout`. */
  async waitForDeliveries(wish) {
    return (await this.post("deliveries/wait", wish)).data;
  }

  /** Makes these scenarios active for this key, from their beginning. */
  play(...names) {
    return this.post("scenarios/active", { active: names });
  }

  /** Adds a scenario from its text and makes it active. */
  async addScenario(toml) {
    await this.control("PUT", `scenarios/${this.sink}`, toml, "application/toml");
    return this.play(this.sink);
  }

  /** Changes settings of this key: `set({ rate_limit: { requests: 5 } })`. */
  set(settings) {
    return this.control("PATCH", `profile?key=${this.key}`, settings);
  }

  /** Fires an event, waits for the first attempts and gives the deliveries. */
  async trigger(type, fields = {}) {
    return (await this.control("POST", "events?wait=20s", { key: this.key, type, ...fields })).deliveries;
  }

  /** What this key's built-in receiver answers next; 200 after that. */
  scriptSink(...statuses) {
    return this.control("POST", `sink/${this.sink}`, { respond: statuses });
  }

  /** What this key's built-in receiver got, oldest first. */
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

  /** Puts a saved state back. */
  load(snapshot) {
    return this.control("PUT", "snapshot", snapshot);
  }

  /** Why a request (`req_…`) was answered so, or how an event or delivery came about: one sentence. */
  async explain(id) {
    return (await this.control("GET", `explain/${id}`)).summary;
  }

  /** The last requests of this key, oldest first, each with the reason for its answer. */
  async story() {
    const { data } = await this.get("requests", { limit: 10 });
    const line = async (row) => `${row.method} ${row.path}  ${row.id}: ${await this.explain(row.id)}`;
    return Promise.all(data.reverse().map(line));
  }
}

/** The body of a test: gives it an emulator with a key made from the test's name, and explains if it fails. */
export function withEmulator(body) {
  return async (context) => {
    const url = process.env.WRS_EMULATOR_URL;
    if (!url) throw new Error("WRS_EMULATOR_URL is not set; run: wrs-emulator exec -- node --test");
    const hash = createHash("sha256").update(`${process.argv[1]} ${context.name}`).digest("hex").slice(0, 8);
    const readable = context.name.replace(/[^A-Za-z0-9]+/g, "_").slice(0, 80);
    const emulator = new Emulator(url, `sk_test_${readable}_${hash}`);
    // A run before may have left something at an emulator that keeps running.
    await emulator.reset();
    try {
      await body(emulator, context);
    } catch (error) {
      for (const line of await emulator.story()) context.diagnostic(`the emulator says: ${line}`);
      throw error;
    }
  };
}
