// Archives of the emulator, read by others: npm har-validator checks them, and a Chromium under playwright-core replays one when the
// emulator is gone.
//
// Usage: node har.mjs EMULATOR_BINARY CHROMIUM, from a folder beside which the packages are installed.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

import { har as validate } from "har-validator";
import { chromium } from "playwright-core";

const [binary, chromiumBinary] = process.argv.slice(2, 4).map((path) => resolve(path));
const folder = mkdtempSync(join(tmpdir(), "har-"));
const emulator = spawn(binary, ["serve", "--quiet", "--listen", "127.0.0.1:0", "--seed", "7"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
const ended = once(emulator, "exit");
const [ready] = await once(createInterface({ input: emulator.stdout }), "line");
const url = ready.split(" ").at(-1);
const LIVE = "sk_live_0123456789abcdef", SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/** Answer and status of a request, or nothing if the connection was cut off. */
const ask = async (path, { key = "sk_test_local", headers = {}, ...options } = {}) => {
  try {
    const answer = await fetch(url + path, { ...options, headers: { authorization: `Bearer ${key}`, ...headers } });
    return [answer.status, await answer.text()];
  } catch { return undefined; }
};
const run = (...args) => execFileSync(binary, args, { cwd: folder, env: { ...process.env, WRS_EMULATOR_URL: url }, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));

let passed = 0;
async function check(what, test) {
  await test();
  passed += 1;
  console.log(`✓ ${what}`);
}

let browser;
try {
  const json = { "content-type": "application/json" };
  const hook = JSON.stringify({ url: "https://app.sink.localhost/hooks?a=b", events: ["workflow.completed"], secret: SECRET, description: "ä ✓" });
  const recorded = {
    status: await ask("/v1/system/status"),
    missing: await ask("/v1/nowhere?a=b%20c&d=%C3%A4&e={}"),
    refused: await ask("/v1/events/subscribe", { method: "POST", headers: json, body: '{"url":7}' }),
  };
  const [status, answer] = await ask("/v1/events/subscribe", { method: "POST", headers: json, body: hook });
  assert.equal(status, 200, answer);
  await ask("/v1/events/subscribe", { method: "POST", body: Buffer.from([0xff, 0xfe, 0x00]) });
  await ask("/v1/system/status", { key: LIVE });
  await ask(`/v1/${LIVE}?token=${LIVE}`);
  assert.equal(await ask("/v1/system/status", { key: "sk_test_broken", headers: { "x-emulator-scenario": "magic-keys" } }), undefined);
  run("trigger", "workflow.completed", "--key", "sk_test_local", "--wait");
  run("run", "save", "run.har");
  run("run", "save", "run.json");
  run("requests", "export", "--har", "failed.har", "--status", "404");
  run("requests", "export", "--har", "none.har", "--status", "599");
  run("requests", "export", "--har", "saved.har", "--from", "run.json", "--deliveries");

  await check("har-validator accepts a run, a selection, an empty selection and a saved run", async () => {
    for (const [name, entries] of [["run.har", 9], ["failed.har", 2], ["none.har", 0], ["saved.har", 9]]) {
      const archive = read(name);
      await validate(archive);
      assert.equal(archive.log.entries.length, entries, name);
    }
    const answers = read("run.har").log.entries.map((entry) => entry.response);
    assert.ok(answers.some(({ _error, status }) => _error === "reset" && status === 0));
    assert.deepEqual(read("run.har").log.entries.map((entry) => entry.request.postData?.encoding).filter(Boolean), ["base64"]);
    const damaged = read("run.har");
    delete damaged.log.entries[3].request.url;
    await assert.rejects(validate(damaged), "it would see a wrong one");
  });

  await check("no credential is in any of them", () => {
    for (const name of ["run.har", "saved.har"]) {
      const text = readFileSync(join(folder, name), "utf8");
      for (const shown of [text, decodeURIComponent(text.replaceAll(/%(?![0-9A-F]{2})/g, "%25"))]) assert.ok(!shown.includes(LIVE.slice(8)) && !shown.includes(SECRET.slice(6)), name);
    }
  });

  emulator.kill("SIGTERM");
  assert.equal((await ended)[0], 0);

  await check("Chromium replays it without the emulator", async () => {
    browser = await chromium.launch({ executablePath: chromiumBinary, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
    const page = await browser.newPage();
    await page.routeFromHAR(join(folder, "run.har"), { notFound: "abort" });
    const opened = await page.goto(`${url}/v1/nowhere?a=b%20c&d=%C3%A4&e={}`);
    assert.deepEqual([opened.status(), await opened.text()], recorded.missing);
    const replayed = (path, options) => page.evaluate(async ([path, options]) => {
      try {
        const answer = await fetch(path, options);
        return [answer.status, await answer.text()];
      } catch { return undefined; }
    }, [path, options]);
    const headers = { ...json, authorization: "Bearer sk_test_local" };
    assert.deepEqual(await replayed("/v1/system/status", { headers }), recorded.status);
    assert.deepEqual(await replayed("/v1/events/subscribe", { method: "POST", headers, body: '{"url":7}' }), recorded.refused);
    assert.equal(await replayed("/v1/events/subscribe", { method: "POST", headers, body: "{}" }), undefined, "what was not recorded");
  });
  console.log(`${passed} passed, 0 failed`);
} finally {
  await browser?.close();
  if (emulator.exitCode === null) emulator.kill("SIGKILL");
  rmSync(folder, { recursive: true });
}
