// The fake timers of a test runner, in step with the emulator's clock: `wrs.clock.follow`.
//
// A move goes from one instant to the next at which the emulator or the client has something due, and waits at each until both are at rest. What the
// emulator does it says itself. What the client does is seen here: its timers, and its requests to the emulator, which take real time.
"use strict";

const channels = require("node:diagnostics_channel");
const { performance } = require("node:perf_hooks");
const { promisify } = require("node:util");
// Before a runner replaces it.
const { setImmediate } = require("node:timers");

const FAKED = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"];
/** Functions that jest must not fake: sockets, and the code that handles their answers, need the rest of the event loop. */
const NOT_FAKED = ["hrtime", "nextTick", "performance", "queueMicrotask", "requestAnimationFrame", "cancelAnimationFrame",
  "requestIdleCallback", "cancelIdleCallback", "setImmediate", "clearImmediate"];
/** Where runners replace functions. */
const PLACES = [globalThis, require("node:timers"), require("node:timers/promises")];

/** Turns of the event loop in which a client that has its answer comes to its next request or timer. */
const TURNS = 20;
/** How long a request of the client may take, by the machine's time. */
const PATIENCE = 10_000;

/** The timers of a client, faked by vitest, jest or node:test; times are in milliseconds. */
class ClientClock {
  constructor(timers, url, now) {
    if (typeof timers?.advanceTimersByTime === "function") {
      this.install = () => timers.useFakeTimers({ now, toFake: FAKED, doNotFake: NOT_FAKED });
      this.uninstall = () => timers.useRealTimers();
      this.pass = (by) => timers.advanceTimersByTime(by);
      this.date = (time, by) => {
        timers.setSystemTime(time);
        // The others keep their time; these keep how far they are.
        this.due = new Set([...this.due].map((due) => due + by));
      };
    } else if (typeof timers?.tick === "function") {
      this.install = () => timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now });
      this.uninstall = () => timers.reset();
      this.pass = (by) => timers.tick(by);
      this.date = (time) => timers.setTime(time);
    } else throw new TypeError("clock.follow: expected `vi` of vitest, `jest` of jest, or `mock.timers` of node:test");
    this.now = now;
    this.due = new Set();
    this.requests = new Map();
    this.begun = 0;
    this.uninstall();
    const real = PLACES.map(({ setTimeout, setInterval }) => ({ setTimeout, setInterval }));
    this.install();
    PLACES.forEach((place, at) => {
      for (const name of ["setTimeout", "setInterval"]) if (place[name] !== real[at][name]) place[name] = this.watched(place[name], name);
    });
    this.watchRequests(new URL(url).host);
  }

  /** A faked function that also notes when its timers are due. A cleared one is not forgotten: a stop too many. */
  watched(faked, name) {
    const note = (delay) => this.due.add(this.now + Math.max(1, Math.ceil(delay) || 0));
    const watched = (...given) => {
      const [call, delay] = given;
      // Those of `timers/promises` have no callback.
      note(typeof call === "function" ? delay : call);
      if (name === "setInterval" && typeof call === "function") {
        given[0] = function again(...args) {
          note(delay);
          return call.apply(this, args);
        };
      }
      return faked(...given);
    };
    // A runner needs some of them to restore the rest.
    Object.assign(watched, faked);
    if (faked[promisify.custom]) watched[promisify.custom] = (delay, value) => new Promise((done) => watched(done, delay, value));
    return watched;
  }

  /** Notes the requests to the emulator by `fetch` and `node:http`, until the end of their answers. */
  watchRequests(host) {
    const begin = (request) => {
      this.requests.set(request, `${request.method} ${request.path}`);
      this.begun += 1;
    };
    const end = ({ request }) => this.requests.delete(request);
    const heard = {
      "undici:request:create": ({ request }) => new URL(request.origin).host === host && begin(request),
      "undici:request:trailers": end,
      "undici:request:error": end,
      "http.client.request.start": ({ request }) => {
        if (request.getHeader("host") !== host) return;
        begin(request);
        request.once("close", () => end({ request }));
      },
    };
    for (const [name, hear] of Object.entries(heard)) channels.subscribe(name, hear);
    this.unwatch = () => {
      for (const [name, hear] of Object.entries(heard)) channels.unsubscribe(name, hear);
    };
  }

  /** Waits until the client has no request under way but those that a scenario holds back. `ask` gives the emulator's clock once that is at rest. */
  async rest(ask) {
    const began = performance.now();
    for (;;) {
      for (let turn = 0; turn < TURNS; turn += 1) await new Promise((done) => setImmediate(done));
      const { begun } = this;
      const clock = await ask();
      if (begun === this.begun && this.requests.size <= clock.held) return clock;
      if (performance.now() - began > PATIENCE) {
        const requests = [...this.requests.values()].join(", ") || "requests";
        throw new Error(`clock: the client did not come to rest within ${PATIENCE / 1000} s of real time, so the clock does not move: ${requests} under way`);
      }
    }
  }

  /** How far its next timer is. */
  next() {
    for (const due of this.due) if (due <= this.now) this.due.delete(due);
    return Math.min(...this.due) - this.now;
  }

  /** Moves it to a time and runs the timers due by then; moving back changes only the date. */
  moveTo(time) {
    const by = Math.floor(time) - this.now;
    if (by === 0) return;
    this.now += by;
    if (by > 0) this.pass(by);
    else this.date(this.now, by);
  }

  /** Real timers again. */
  end() {
    this.unwatch();
    this.uninstall();
  }
}

exports.ClientClock = ClientClock;
