// An emulator with its page, and a Chromium that reports everything a page must not do.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, createServer, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

export const [binary, chromiumBinary] = process.argv.slice(2, 4).map((path) => resolve(path));
export const KEY = "sk_test_local";

/** A running emulator. */
export class Emulator {
  static running = new Set();

  static async start(...flags) {
    const self = new this();
    self.process = spawn(binary, ["serve", "--quiet", ...(flags.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"]), "--seed", "7", ...flags], { cwd: tmpdir(), stdio: ["ignore", "pipe", "inherit"] });
    Emulator.running.add(self.process);
    const ended = once(self.process, "exit").then(([code]) => assert.fail(`the emulator ended with ${code}`));
    ended.catch(() => {});
    const [ready] = await Promise.race([once(createInterface({ input: self.process.stdout }), "line"), ended]);
    self.url = ready.split(" ").at(-1);
    self.page = `${self.url}/_emulator/`;
    self.agent = new Agent({ keepAlive: true, maxSockets: 8 });
    return self;
  }

  async stop() {
    this.agent.destroy();
    Emulator.running.delete(this.process);
    if (this.process.exitCode !== null) return;
    this.process.kill("SIGTERM");
    await once(this.process, "exit");
  }

  /** A call of the control API. */
  async control(method, path, body, headers = {}) {
    const answer = await fetch(`${this.page}${path}`, { method, headers: { "content-type": "application/json", ...headers }, body: body === undefined ? undefined : JSON.stringify(body) });
    return answer.json();
  }

  /** A request of a client; gives the status, or 0 if the connection was broken. */
  client(path, { method = "GET", headers = {}, body } = {}) {
    const { hostname, port } = new URL(this.url);
    return new Promise((done) => {
      const sent = httpRequest({ hostname, port, path, method, agent: this.agent, headers: { authorization: `Bearer ${KEY}`, ...headers } }, (answer) => {
        answer.resume();
        answer.on("end", () => done(answer.statusCode));
        answer.on("error", () => done(0));
      });
      sent.on("error", () => done(0));
      sent.end(body);
    });
  }

  async subscribe(url, events = ["workflow.completed"]) {
    const answer = await fetch(`${this.url}/v1/events/subscribe`, { method: "POST", headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" }, body: JSON.stringify({ url, events }) });
    return answer.json();
  }

  /** What the screenshots and most walks begin with: requests of every outcome, webhooks, a retry, forgeries, a burst of 429s. */
  async liven() {
    const first = await this.subscribe("https://orders.sink.localhost/events", ["workflow.completed", "reference.matched"]);
    await this.subscribe("https://demo.sink.localhost/hook");
    await this.client("/v1/hello");
    await this.client("/v1/system/status");
    await this.client("/v1/system/statuss");
    await this.client("/v1/system/status", { headers: { authorization: "Bearer wrong" } });
    await this.client("/v1/events/subscribe", { method: "POST", headers: { "content-type": "application/json" }, body: '{"url":"nope"}' });
    await this.control("POST", "sink/demo", { respond: [500, 200] });
    await this.control("POST", "events?wait=5s", { type: "workflow.completed" });
    await this.control("POST", "events?wait=5s", { type: "workflow.completed", tamper: "signature" });
    await this.control("POST", "events?wait=5s", { type: "reference.matched", tamper: "body" });
    await this.control("POST", "scenarios/active", { active: ["rate-limit-burst"] });
    for (let i = 0; i < 9; i++) await this.client("/v1/system/status?include_checks=true");
    this.secret = first.secret;
  }
}

/** A server that forwards requests below a path to an emulator, until it is told to break. Gives its address. */
export async function gate(emulator, prefix = "") {
  const { hostname, port } = new URL(emulator.url);
  const state = { broken: false, streams: 0 };
  const server = createServer((incoming, outgoing) => {
    if (state.broken) return incoming.destroy();
    if (!incoming.url.startsWith(`${prefix}/`)) return outgoing.writeHead(404).end();
    if (incoming.url.endsWith("/stream")) state.streams += 1;
    const onward = httpRequest({ hostname, port, method: incoming.method, path: incoming.url.slice(prefix.length), headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.rawHeaders);
      answer.pipe(outgoing);
      outgoing.on("close", () => answer.destroy());
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    state,
    address: `http://127.0.0.1:${server.address().port}${prefix}/_emulator/`,
    /** From now on every connection is cut, or no longer. */
    break(isBroken) {
      state.broken = isBroken;
      if (isBroken) server.closeAllConnections();
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** nginx that forwards requests below a path to an emulator, with the lines that docs/control-api.md shows. Gives its address. */
export async function nginx(emulator, prefix) {
  const page = readFileSync(new URL("../../../docs/control-api.md", import.meta.url), "utf8");
  const location = page.match(/```nginx[^\n]*\n([^`]*)```/)[1].replace("/wrs/", `${prefix}/`).replace("http://127.0.0.1:9770/", `${emulator.url}/`);
  const folder = mkdtempSync(`${tmpdir()}/page-nginx-`);
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");
  writeFileSync(`${folder}/nginx.conf`, `daemon off; pid ${folder}/pid; error_log stderr error; events {}\nhttp { access_log off; ${temporary}\nserver { listen 127.0.0.1:${port};\n${location}} }\n`);
  const process = spawn("nginx", ["-p", folder, "-c", `${folder}/nginx.conf`], { stdio: "inherit" });
  Emulator.running.add(process);
  const address = `http://127.0.0.1:${port}${prefix}/_emulator/`;
  for (let tries = 0; tries < 100; tries++) {
    if (await fetch(`${address}health`).then((answer) => answer.ok, () => false)) break;
    await new Promise((done) => setTimeout(done, 50));
  }
  return {
    address,
    async close() {
      Emulator.running.delete(process);
      process.kill("SIGTERM");
      await once(process, "exit");
      rmSync(folder, { recursive: true });
    },
  };
}

/** Chromium, started once. */
let browser;
/** The tab opened last, of which a failure leaves a picture. */
let lastTab;

/** Saves what a failed part shows, and closes it. */
export async function abandon(name) {
  const path = `${tmpdir()}/page-failed-${name}.png`;
  await lastTab?.screenshot({ path, timeout: 5000 }).catch(() => {});
  await lastTab?.context().close().catch(() => {});
  return path;
}

export async function startBrowser() {
  browser = await chromium.launch({ executablePath: chromiumBinary, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-lcd-text"] });
  return browser;
}

export async function stopAll() {
  await browser?.close();
  for (const one of Emulator.running) one.kill("SIGTERM");
}

/**
 * A tab whose context records what must not happen: requests to elsewhere, errors, dialogs, violations of a policy.
 * Gives the page and `verify`, which fails if any did.
 */
export async function openTab(address, { width = 1280, height = 800, colorScheme = "light", offline = false, expected = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, offline, ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const faults = [];
  const origin = new URL(address).origin;
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  const page = await context.newPage();
  lastTab = page;
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.origin !== origin) faults.push(`a request to ${request.url()}`);
    if (address.startsWith("file:") && url.protocol === "file:" && request.resourceType() !== "document") faults.push(`a request to ${request.url()}`);
  });
  page.on("console", (message) => {
    if (message.type() === "error" && !expected.some((pattern) => pattern.test(message.text()))) faults.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.setDefaultTimeout(15_000);
  await page.goto(address);
  const verify = async () => {
    faults.push(...(await page.evaluate(() => window.violations)).map((text) => `violation: ${text}`));
    assert.deepEqual(faults, []);
    await context.close();
  };
  return { page, context, faults, verify };
}

/** The list's rows. */
export function rows(page) {
  return page.getByRole("listbox", { name: /newest first/ }).getByRole("option");
}

/** Goes to a view, and returns once it is drawn, which the page does in the first frame after its address changed. */
export async function visit(page, address) {
  await page.evaluate((hash) => new Promise((drawn) => {
    const next = () => requestAnimationFrame(() => drawn());
    if (location.hash === hash) return next();
    addEventListener("hashchange", next, { once: true });
    location.hash = hash;
  }), `#/${address}`);
}

/** Waits until a condition in the page holds. */
export async function until(page, condition, argument, timeout = 15_000) {
  await page.waitForFunction(condition, argument, { timeout });
}

/** Presses keys one after the other, each once the page has drawn what came before it. */
export async function press(page, ...keys) {
  const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  for (const key of keys) {
    await drawn();
    await page.keyboard.press(key);
  }
  await drawn();
}

/** Presses Tab until an element has the focus. */
export async function tabTo(page, locator, most = 120) {
  for (let i = 0; i < most; i++) {
    if (await locator.evaluate((node) => node === document.activeElement, null, { timeout: 500 }).catch(() => false)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`not reached by Tab: ${locator}`);
}
