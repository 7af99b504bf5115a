// A browser's attacks on the control API, in a real Chromium: pages of another port, another site, a sandboxed frame and a
// name that is rebound to the emulator try to change and to read something. Afterwards nothing may be changed at the emulator
// and nothing read by the page. The same calls from a page of the emulator's own origin work, so each check can fail.
//
// Between browser and emulator stands a gate that passes every byte on and notes what came by: so it is known that an attack
// arrived and was refused, and was not only lost on the way.
// Usage: node browser.mjs EMULATOR_BINARY CHROMIUM, from a folder next to which playwright-core is installed.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { WRITES, attacks, fetchCors, frame, stream, xhr } from "./attacks.mjs";
import { Emulator, chromiumBinary } from "./site.mjs";

const PATIENCE = 20_000;
const PAGE = '<!doctype html><link rel="icon" href="data:,"><title>a page</title><body></body>';
// `allow-same-origin` is left out, so the frame's origin is `null`.
const SANDBOX = `${PAGE}<iframe sandbox="allow-scripts allow-forms" srcdoc='${PAGE.replaceAll("'", "")}'></iframe>`;

/** A server on a free port of 127.0.0.1; gives the port. */
async function listen(server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

/** Fails if a promise lasts longer than anything here may. */
async function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`${what}: no end in ${PATIENCE} ms`)), PATIENCE); });
  try { return await Promise.race([promise, late]); } finally { clearTimeout(timer); }
}

/** Passes requests on to the emulator and notes them. While `rebound` is false, a page stands here in its place. */
class Gate extends EventEmitter {
  notes = [];
  rebound = true;

  constructor(emulator) {
    super();
    const { hostname, port } = new URL(emulator);
    this.server = createServer((incoming, outgoing) => {
      // Browsers ask for this by themselves, and late.
      if (incoming.url === "/favicon.ico") return outgoing.writeHead(404).end();
      if (!this.rebound) return outgoing.writeHead(200, { "content-type": "text/html" }).end(PAGE);
      this.pass({ hostname, port }, incoming, (answer) => {
        outgoing.writeHead(answer.statusCode, answer.rawHeaders);
        answer.pipe(outgoing);
        outgoing.on("close", () => answer.destroy());
      });
    });
    // A handshake of WebSocket; whatever the answer, the connection is not a socket afterwards.
    this.server.on("upgrade", (incoming, socket) => {
      this.pass({ hostname, port }, incoming, (answer) => {
        socket.end(`HTTP/1.1 ${answer.statusCode} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
        answer.destroy();
      });
    });
  }

  pass(to, incoming, answered) {
    const { method, url, headers } = incoming;
    const note = { method, url, host: headers.host, origin: headers.origin, site: headers["sec-fetch-site"], status: null };
    this.notes.push(note);
    const onward = httpRequest({ ...to, method, path: url, setHost: false, headers: incoming.rawHeaders });
    onward.on("response", (answer) => {
      note.status = answer.statusCode;
      note.invites = Object.keys(answer.headers).filter((name) => name.startsWith("access-control"));
      answered(answer);
      this.emit("note");
    });
    onward.on("error", () => incoming.destroy());
    incoming.pipe(onward);
  }

  /** Waits until something came by and all of it has been answered; gives it and begins anew. */
  async taken(what) {
    const settled = () => this.notes.length > 0 && this.notes.every((note) => note.status !== null);
    const wait = async () => { while (!settled()) await once(this, "note"); };
    await inTime(wait(), `${what}: nothing arrived at the emulator`);
    return this.notes.splice(0);
  }
}

/** A running emulator with something in it to steal and to spoil. */
class Emulated extends Emulator {
  static async start(...flags) {
    const self = await super.start("--clock", "frozen", ...flags);
    self.gate = new Gate(self.url);
    self.port = await listen(self.gate.server);
    self.subscription = (await self.subscribe("https://app.sink.localhost/")).id;
    self.delivery = (await self.control("POST", "events?wait=20s", { type: "workflow.completed" })).deliveries[0].id;
    return self;
  }

  /** Everything that an attack could change. */
  async state() {
    // The snapshot has settings, scenarios and scripts too; `health` has the number of changes.
    const paths = ["snapshot?key=*", "requests?key=*", "deliveries?key=*", "sink/app", "health"];
    return JSON.stringify(await Promise.all(paths.map((path) => this.control("GET", path))));
  }

  /** What an attack asks for, with the ids of this emulator. */
  ask(ask) {
    return { ...ask, path: ask.path.replace("SUBSCRIPTION", this.subscription).replace("DELIVERY", this.delivery) };
  }

  async stop() {
    this.gate.server.close();
    this.gate.server.closeAllConnections();
    await super.stop();
    assert.equal(this.process.exitCode, 0, "the emulator ended well");
  }
}

/** Runs one attack in a page or frame; gives what it read. */
const run = (place, attack, ask) => inTime(place.evaluate(attack.run, ask), attack.name);

let passed = 0;

/** Tries every attack from one page against one origin. `expect` judges what came by at the gate. */
async function assail(emulated, who, place, origin, expect) {
  const before = await emulated.state();
  for (const attack of attacks()) {
    const what = `${who} → ${origin}: ${attack.name}`;
    const read = await run(place, attack, { ...emulated.ask(attack.ask), origin });
    const notes = await emulated.gate.taken(what);
    assert.equal(read, null, `${what}: the page read ${read}`);
    for (const note of notes) {
      assert.deepEqual(note.invites, [], `${what}: the answer invites other origins`);
      expect(attack, note, `${what}: ${JSON.stringify(note)}`);
    }
    assert.ok((await emulated.state()) === before, `${what}: something was changed`);
    passed += 1;
  }
}

/** Of a foreign page everything is refused, reads as well: another port of this host is no less foreign. */
const refusesForeign = (_, note, what) => assert.ok(note.status >= 400, `${what}: not refused`);

/** A foreign name is told nothing at all. */
const refusesName = (_, note, what) => assert.equal(note.status, 421, what);

// Each attacker: its name, where its page is (with the port of the site instead of PORT), and under which name it calls
// the emulator.
const FOREIGN = [
  ["another port", "http://127.0.0.1:PORT/", "127.0.0.1"],
  ["another port of localhost", "http://localhost:PORT/", "localhost"],
  ["another local name", "http://localhost:PORT/", "127.0.0.1"],
  ["another site", "http://evil.example:PORT/", "127.0.0.1"],
  ["another site", "http://evil.example:PORT/", "localhost"],
  ["a sandboxed frame", "http://127.0.0.1:PORT/sandbox", "127.0.0.1"],
];

async function foreignPage(context, [who, address, target]) {
  const emulated = await Emulated.start();
  const site = createServer((incoming, outgoing) => {
    outgoing.writeHead(200, { "content-type": "text/html" }).end(incoming.url === "/sandbox" ? SANDBOX : PAGE);
  });
  const url = new URL(address.replace("PORT", await listen(site)));
  const page = await context.newPage();
  await page.goto(url.href);
  const isSandbox = url.pathname === "/sandbox";
  const place = isSandbox ? page.frames()[1] : page.mainFrame();
  assert.equal(await place.evaluate(() => self.origin), isSandbox ? "null" : url.origin, "the page has the expected origin");
  await assail(emulated, who, place, `http://${target}:${emulated.port}`, refusesForeign);
  await page.close();
  site.close();
  site.closeAllConnections();
  await emulated.stop();
}

/** A page under a name that then means the emulator: for the browser it is the page's own origin. */
async function rebind(context, emulated) {
  emulated.gate.rebound = false;
  const page = await context.newPage();
  const origin = `http://rebound.example:${emulated.port}`;
  await page.goto(`${origin}/`);
  emulated.gate.rebound = true;
  return { page, origin };
}

async function reboundPage(context) {
  const emulated = await Emulated.start();
  const { page, origin } = await rebind(context, emulated);
  // The page may look into every answer, but each is the refusal only.
  const before = await emulated.state();
  for (const attack of attacks()) {
    const what = `a rebound name: ${attack.name}`;
    const read = await run(page, attack, { ...emulated.ask(attack.ask), origin });
    const notes = await emulated.gate.taken(what);
    for (const note of notes) refusesName(attack, note, `${what}: ${JSON.stringify(note)}`);
    const told = read === null || attack.run.name === "script" || read.includes("misdirected_request") || read === "0 rules";
    assert.ok(told, `${what}: the page read ${read}`);
    assert.ok((await emulated.state()) === before, `${what}: something was changed`);
    passed += 1;
  }
  await page.close();
  await emulated.stop();
}

/** An emulator and a page that may call it: its own, or one under a name that the user allowed. */
async function ownPage(context, allowed) {
  const emulated = await Emulated.start(...(allowed ? ["--allow-host", "rebound.example"] : []));
  if (allowed) return { emulated, ...(await rebind(context, emulated)) };
  const page = await context.newPage();
  const origin = `http://127.0.0.1:${emulated.port}`;
  await page.goto(`${origin}/_emulator/health`);
  emulated.gate.notes.splice(0);
  return { emulated, page, origin };
}

/** The same functions where they may: without this, a check that never fails would go unseen. */
async function ownPages(context, allowed) {
  for (const read of [fetchCors, xhr, frame, stream]) {
    const { emulated, page, origin } = await ownPage(context, allowed);
    const got = await run(page, { run: read, name: read.name }, { origin, path: "requests?key=*" });
    assert.match(got, /events\.subscribe|the stream is open/, `${read.name} reads from an own page`);
    passed += 1;
    await page.close();
    await emulated.stop();
  }
  for (const write of WRITES) {
    const { emulated, page, origin } = await ownPage(context, allowed);
    const what = `${write.method} ${write.path} from an own page`;
    const before = await emulated.state();
    const read = await run(page, { run: fetchCors, name: what }, { ...emulated.ask(write), origin });
    const [note] = await emulated.gate.taken(what);
    // An empty snapshot is none, and reloading what did not change changes nothing; but both were let in.
    assert.equal(note.status, write.path === "snapshot" ? 422 : 200, `${what}: ${read}`);
    const changes = !["snapshot", "scenarios/reload"].includes(write.path);
    assert.equal((await emulated.state()) !== before, changes, `${what} changes something: ${changes}`);
    passed += 1;
    await page.close();
    await emulated.stop();
  }
}

const folder = mkdtempSync(join(tmpdir(), "wrs-chromium-"));
const context = await chromium.launchPersistentContext(folder, {
  executablePath: chromiumBinary,
  headless: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    // Two names mean this machine, and no other name means anything.
    "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
  ],
});
try {
  // Each has its own emulator, so they need not wait for each other.
  await Promise.all([
    ownPages(context, false),
    ownPages(context, true),
    ...FOREIGN.map((foreign) => foreignPage(context, foreign)),
    reboundPage(context),
  ]);
} finally {
  // What a failure left behind would live on.
  for (const left of Emulated.running) left.kill("SIGKILL");
  await context.close();
  rmSync(folder, { recursive: true, force: true });
}
assert.ok(passed > 500, `only ${passed} attempts were made`);
console.log(`${passed} passed, 0 failed`);
