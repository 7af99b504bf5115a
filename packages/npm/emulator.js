// One API key of a running emulator, and the control API for it.
"use strict";

const { createHash } = require("node:crypto");
const { exchange } = require("./exchange.js");
const { ClientClock } = require("./follow.js");

/** The text with escapes for control characters and for commands of GitHub: `##[`, and `::name` at the beginning of a line. Line ends are kept. */
const visible = (text) =>
  text
    .replace(/[^\P{C}\n]|[\u2028\u2029]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`)
    .replaceAll("##[", "#\\u{23}[")
    .replace(/^([^\S\n]*):(?=:[a-z])/gim, "$1\\u{3a}");

/** The same, with line ends as escapes. */
const oneLine = (text) => visible(text).replaceAll("\n", "\\n");

/** A hint with the call of `wrs` that follows its advice in the next run of the test; nothing if there is no such call. */
function inTest({ text, advice }) {
  const literal = (value) => (/^(true|false|\d+)$/.test(value) ? value : JSON.stringify(value));
  const calls = {
    set: ({ setting, value }) => `set({ ${setting.split(".").reduceRight((inner, name) => `${name}: ${inner === undefined ? literal(value) : `{ ${inner} }`}`, undefined)} })`,
    forward: ({ url, to }) => `forward(${JSON.stringify(url)}, ${JSON.stringify(to)})`,
    use_scenarios: ({ active }) => active.length > 0 && `scenario(${active.map((name) => JSON.stringify(name)).join(", ")})`,
  };
  const call = advice && calls[advice.do]?.(advice);
  return call ? [`${text} \`wrs.${call}\``] : [];
}

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&nbsp;": " ", "&amp;": "&" };

/** The first line that a person reads of an answer: of a page its title, if it has one. */
function firstLine(answer) {
  let text = answer.slice(0, 16384);
  if (/^\ufeff?\s*<(!doctype html|html)/i.test(text)) {
    text = text.replace(/<(script|style|template|svg)\b[^]*?<\/\1[^>]*>|<!--[^]*?-->|<[^>]*>/gi, "\n");
    text = text.replace(/&(lt|gt|quot|#39|nbsp|amp);/g, (entity) => ENTITIES[entity]);
  }
  return text.split("\n").map((line) => line.trim()).find(Boolean) ?? "nothing";
}

/** The entries that a wait names, one a line; after a timeout the nearest ones. */
function nearest(body) {
  return (body.nearest ?? []).map(({ request, delivery, differs }) => {
    const what = request ? `${request.method} ${request.path}  ${request.id}` : `${delivery.type} to ${delivery.url}  ${delivery.id}`;
    return [what, differs.join("; ")].filter(Boolean).join(": ");
  });
}

/** A refused control call: `status`, `code`, the `reason`, and the whole answer in `body`. */
class ControlError extends Error {
  constructor(call, status, body) {
    const entries = nearest(body);
    if (status === 408 && entries.length === 0) entries.push(call.startsWith("POST deliveries") ? NO_DELIVERY : NO_REQUEST);
    for (const advice of body.advice ?? []) entries.push(...inTest({ text: "try", advice }));
    super([`${body.error.message} [${call}: ${status} ${body.error.code}]`, ...entries].map(oneLine).join("\n  "));
    // `told`: the reason, and what is nearest to it.
    Object.assign(this, { call, status, code: body.error.code, reason: body.error.message, told: [body.error.message, ...entries.slice(0, 1)].join("; "), body });
  }
}

const NO_DELIVERY = "no event was sent for this key";
const NO_REQUEST = "no request carried this key; does your code read WRS_BASE_URL, and send `wrs.key`?";

/** The error of an invalid argument. */
function refused(call, message) {
  return withoutSource(new ControlError(call, 422, { error: { code: "validation_error", message } }));
}

/** Durations are texts with their unit, because a number could mean seconds or milliseconds. */
function checkDuration(call, name, value) {
  if (typeof value === "string") return;
  const example = typeof value === "number" ? `"${value}s"` : '"60s"';
  throw refused(call, `${name}: write the duration with its unit, such as ${example}; found ${shown(value)}`);
}

/** A value as it is written in a test. */
function shown(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** One key of a running emulator: address and headers for the client under test, and the control API for that key. */
class Emulator {
  constructor(url, key) {
    this.url = url.replace(/\/$/, "");
    this.key = key;
    this.headers = { authorization: `Bearer ${key}` };
    // Built-in receivers are shared by name, so each key uses its own name.
    this.sink = `t${createHash("sha256").update(key).digest("hex").slice(0, 20)}`;
    this.sinkUrl = `https://${this.sink}.sink.localhost/hooks`;
    this.forks = 0;
    this.clock = new KeyClock(this);
  }

  /** Any call of the control API, `path` below `/_emulator/`. */
  async control(method, path, body, contentType = "application/json") {
    const headers = { "content-type": contentType };
    const token = process.env.WRS_EMULATOR_CONTROL_TOKEN?.trim();
    if (token) headers.authorization = `Bearer ${token}`;
    const url = `${this.url}/_emulator/${path}`;
    const sent = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await exchange(url, method, headers, sent).catch((error) => {
      throw withoutSource(new Error(oneLine(`${method} ${url}: ${error.message || error.code}`)));
    });
    const parsed = parse(answer.text);
    const isGood = answer.status >= 200 && answer.status < 300;
    if (isGood ? !parsed : !parsed?.error?.code) {
      throw withoutSource(new Error(oneLine(`${method} ${url}: status ${answer.status} with an answer that is not the emulator's: ${firstLine(answer.text).slice(0, 200)}`)));
    }
    if (!isGood) throw withoutSource(new ControlError(`${method} ${path}`, answer.status, parsed));
    return parsed;
  }

  /** A POST about this key. */
  post(path, fields = {}) {
    return this.control("POST", path, { key: this.key, ...fields });
  }

  /** A GET about this key. */
  get(path, query = {}) {
    if (/^(\/|v1\/)/.test(path)) {
      throw refused(`GET ${path}`, "`wrs.get` calls the control API, such as `wrs.get(\"requests\")`; for the API itself, send `wrs.headers` to `wrs.url` and the path");
    }
    return this.control("GET", `${path}?${new URLSearchParams({ key: this.key, ...query })}`);
  }

  /** Waits for requests: `operation`, `status`, `method`, `path`, `count`, `since`, `timeout`; on timeout a 408 that lists the nearest ones and how they differ. */
  async waitForRequests(filters) {
    return (await this.wait("requests/wait", filters)).data;
  }

  /** Waits for deliveries: `status`, `type`, `event`, `subscription`, `count`, `timeout`. */
  async waitForDeliveries(filters) {
    return (await this.wait("deliveries/wait", filters)).data;
  }

  /** Proves that no delivery matches (`status`, `type`, `event`, `subscription`), and that no matching one is due. Returns at once, or throws a 409 that names the deliveries found, or the next one due. Waits, at most `timeout`, only for requests and attempts under way. */
  async noDelivery(filters = {}) {
    await this.wait("deliveries/wait", { ...filters, none: true });
  }

  /** The same of requests: `operation`, `status`, `method`, `path`, `since`. */
  async noRequest(filters = {}) {
    await this.wait("requests/wait", { ...filters, none: true });
  }

  /** A call that waits for less than 5 s, because vitest and jest then end a test without naming the wait. */
  async wait(path, filters) {
    const fields = { timeout: "4s", ...filters };
    checkDuration(`POST ${path}`, "timeout", fields.timeout);
    return this.post(path, fields);
  }

  /** Starts these scenarios: names, or one `{ toml }`, the text of a scenario only for this key. Without arguments, no scenario is active. */
  async scenario(...given) {
    const active = [];
    for (const one of given) {
      if (typeof one === "string") active.push(one);
      else if (typeof one?.toml !== "string") {
        throw refused("POST scenarios/active", `write the names one by one: \`scenario("rate-limit-burst")\`; found ${shown(one)}`);
      } else {
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

  /** Fires an event, waits for the first attempts, at most `timeout`, and returns the deliveries. */
  async trigger(type, { timeout = "4s", ...event } = {}) {
    try {
      if (event.delay !== undefined) checkDuration("POST events", "delay", event.delay);
      checkDuration("POST events", "timeout", timeout);
      return (await this.control("POST", `events?wait=${timeout}`, { key: this.key, type, ...event })).deliveries;
    } catch (error) {
      // A key with subscriptions, for other events say, is told which.
      if (error.body?.advice?.some(({ advice }) => advice?.do === "subscribe")) {
        error.reason = `no subscription of this test's key is for ${type}: let the client under test subscribe first, ` +
          "or subscribe for it with `await wrs.post(\"subscriptions\", { url: wrs.sinkUrl })`";
        error.message = error.told = error.reason;
      }
      throw error;
    }
  }

  /** An event as a receiver would get it, for a handler that the test calls itself: `secret` (that of the key's subscription if absent), `data`, `set`, `tamper` (body, signature, secret, old_secret, timestamp, future_timestamp, headers), `scheme`, `url`. Nothing is sent. */
  async signed(type, fields = {}) {
    const { id, headers, body } = await this.post("events/sign", { type, ...fields });
    return { id, headers, body: Buffer.from(body) };
  }

  /** Every case of the probe, genuine and forged, for a handler that the test calls itself; `problem(status)` gives the problem of an answer. */
  async cases(secret, fields = {}) {
    const { data } = await this.post("events/cases", { secret, ...fields });
    return data.map((made) => ({
      ...made,
      requests: made.requests.map((request) => ({ ...request, body: Buffer.from(request.body) })),
      problem: (status) =>
        [String(status), `${Math.trunc(status / 100)}xx`].some((it) => made.accepted.includes(it))
          ? undefined
          : `${made.name}: ${made.sends}: expected ${made.expects}, found ${status}; ${made.remedy}`,
    }));
  }

  /** Sends the deliveries for `origin`, such as `https://app.example.com`, to your own receiver, such as `http://127.0.0.1:3000`. */
  forward(origin, to) {
    return this.set({ webhooks: { forwards: { [origin]: to } } });
  }

  /** The statuses of the next answers of this key's built-in receiver; 200 after that. */
  async scriptSink(...statuses) {
    const wrong = statuses.find((status) => typeof status !== "number");
    if (wrong !== undefined) {
      throw refused(`POST sink/${this.sink}`, `write the statuses one by one, as numbers: \`scriptSink(500, 200)\`; found ${shown(wrong)}`);
    }
    return this.control("POST", `sink/${this.sink}`, { respond: statuses });
  }

  /** The deliveries to this key's built-in receiver, oldest first. */
  async received() {
    const received = [];
    for (let cursor = ""; ;) {
      const page = await this.control("GET", `sink/${this.sink}?limit=1000${cursor}`);
      received.push(...page.data);
      if (!page.has_more) return received;
      cursor = `&cursor=${page.next_cursor}`;
    }
  }

  /** Returns this key to its state before its first request. */
  reset() {
    return this.post("reset");
  }

  /** The state of this key as a document. */
  save() {
    return this.get("snapshot");
  }

  /** The emulator of a new key with the state of this one: subscriptions, secrets, settings, quota, clock, scenarios. */
  async fork(key = `${this.key}_${(this.forks += 1)}`) {
    const copy = new Emulator(this.url, key);
    // An earlier run may have left something there.
    await copy.reset();
    await this.control("POST", "snapshot/fork", { from: this.key, key });
    return copy;
  }

  /** Restores a saved state. */
  load(snapshot) {
    return this.control("PUT", "snapshot", snapshot);
  }

  /** Explains a request (`req_…`), an event or a delivery in one sentence. */
  async explain(id) {
    return (await this.control("GET", `explain/${id}`)).summary;
  }

  /** Reports how the test with this key ended, so that the report of the run puts it first if it failed. `error` is the error that failed the test: if it is a refused control call, that is the cause. */
  ended(test, failure, output, error) {
    // More than is kept, so that credentials are masked before the rest is cut.
    const texts = [test, failure?.slice(0, 2000), output?.slice(-32768)];
    // Halves of surrogate pairs, which are not valid UTF-8, become question marks.
    const [name, message, end] = texts.map((text) => text && Buffer.from(text).toString());
    const refused = error instanceof ControlError ? { call: error.call.split("?")[0], status: error.status, code: error.code, message: error.told } : undefined;
    return this.post("outcome", { test: name, outcome: failure ? "failed" : "passed", message, output: end, refused });
  }

  /** Why the test with this key failed, if that was reported; its last requests, oldest first, each with the reason for its answer, those alike in one line; and the deliveries that went wrong or took more than one attempt. */
  async story() {
    const requests = (await this.get("requests", { limit: 10 })).data.reverse();
    const deliveries = (await this.get("deliveries", { limit: 10 })).data.reverse();
    const failed = deliveries.filter((row) => !["delivered", "refused"].includes(row.forgery ?? row.status) || row.attempts > 1);
    const entries = await Promise.all([
      ...requests.map((row) => [`${row.method} ${row.path}${row.query ? `?${row.query}` : ""}`, row.id]),
      ...failed.map((row) => [`${row.type} to ${row.url}`, row.id]),
    ].map(async ([what, id]) => {
      const { summary, advice } = await this.control("GET", `explain/${id}`);
      return { what, id, text: [summary, ...(advice ?? []).flatMap(inTest)].join("; "), more: 0 };
    }));
    const groups = [];
    for (const entry of entries) {
      const last = groups.at(-1);
      if (last?.what === entry.what && last.text === entry.text) last.more += 1;
      else groups.push(entry);
    }
    const lines = groups.map(({ what, id, text, more }) => visible(`${what}  ${id}${more ? ` and ${more} more` : ""}: ${text}`));
    const cause = (await this.get("verdict")).causes.find(({ tests }) => tests.length > 0);
    const remedy = cause && (inTest({ text: cause.remedy, advice: cause.advice })[0] ?? cause.remedy);
    const first = cause ? [visible([`cause: ${cause.sentence}`, remedy, cause.records[0]].filter(Boolean).join("\n  "))] : [];
    // A receiver's test sends none.
    const silent = deliveries.length || cause ? [] : [visible(`no request carried the key ${this.key}`)];
    return [...first, ...(lines.length ? lines : silent)];
  }
}

/** The clock of one key, and once they `follow` it, the timers of the client under test. */
class KeyClock {
  constructor(emulator) {
    this.emulator = emulator;
    this.client = undefined;
  }

  change(fields) {
    return this.emulator.post("clock", fields);
  }

  /** Stops it; with `at`, a timestamp, at that time. */
  async freeze(at) {
    await this.change({ mode: "frozen" });
    if (at) await this.set(at);
  }

  /** Time passes by itself: while a call of this key waits, the clock moves to the next retry or emission. */
  auto() {
    this.release();
    return this.change({ mode: "auto" });
  }

  /** Moves it, and is done once everything that became due is: retries, completions, emissions; and the timers that follow it. */
  async advance(duration) {
    checkDuration("POST clock", "advance", duration);
    return this.move({ advance: duration });
  }

  /** Sets the time: a step forward is time that passes, a step back changes the time shown alone. */
  set(at) {
    return this.move({ set: at });
  }

  /** The timers of a client follow this clock, which stands still: `vi` of vitest, `jest`, or `mock.timers` of node:test, which fake timers and `Date` until the test ends. Without them, this clock follows the emulator's again. */
  async follow(timers) {
    this.release();
    if (!timers) return this.change({ mode: "follow" });
    const clock = await this.change({ mode: "frozen" });
    this.client = new ClientClock(timers, this.emulator.url, Date.parse(clock.now));
    return clock;
  }

  /** The client has real timers again. */
  release() {
    this.client?.end();
    this.client = undefined;
  }

  /** One step for each instant at which the emulator or the client has something due, the emulator first. */
  async move(whole) {
    const { client } = this;
    if (!client) return (await this.change(whole)).now;
    const milliseconds = (count) => `${count.toFixed(6)}ms`;
    let rest = whole;
    for (;;) {
      const { now, left_ms: left, due_in_ms: due } = await client.rest(() => this.change({ ...rest, step: "0" }));
      const at = Date.parse(now);
      if (left === 0) {
        client.moveTo(at);
        return now;
      }
      // Rounded up, so that the last one reaches the end.
      const step = Math.ceil(Math.min(due ?? left, client.next(), left));
      // While the emulator delivers, the client is a millisecond short of its own timers.
      client.moveTo(at + step - 1);
      const moved = await this.change({ ...rest, step: milliseconds(step) });
      client.moveTo(Date.parse(moved.now));
      if (whole.advance) rest = { advance: milliseconds(moved.left_ms) };
    }
  }
}

/** An error that shows the test's source and not this package's, because runners print the source that its stack names. */
function withoutSource(error) {
  error.stack = error.stack.split("\n").filter((line) => !line.includes(__dirname)).join("\n");
  return error;
}

/** An object in JSON, or nothing. */
function parse(received) {
  try {
    const parsed = JSON.parse(received);
    return typeof parsed === "object" && parsed ? parsed : undefined;
  } catch {
    return undefined;
  }
}

exports.ControlError = ControlError;
exports.Emulator = Emulator;
