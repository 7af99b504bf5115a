// Archives of the emulator, checked by npm har-validator. Usage: wrs-emulator exec -- node har.mjs EMULATOR_BINARY

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { har as validate } from "har-validator";

const binary = resolve(process.argv[2]);
const { WRS_BASE_URL: url, WRS_API_KEY: key } = process.env;
const folder = mkdtempSync(join(tmpdir(), "har-"));
const run = (...args) => execFileSync(binary, args, { cwd: folder, stdio: "ignore" });
const read = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
/** A request; it may be cut off. */
const ask = (path, headers = {}, body = undefined) =>
  fetch(url + path, { method: body ? "POST" : "GET", headers: { authorization: `Bearer ${key}`, ...headers }, body }).catch(() => {});

try {
  const json = { "content-type": "application/json" };
  await ask("/v1/system/status");
  await ask("/v1/nowhere?a=b%20c&d=%C3%A4&e={}");
  await ask("/v1/events/subscribe", json, '{"url":7}');
  await ask("/v1/events/subscribe", json, JSON.stringify({ url: "https://app.sink.localhost/hooks?a=b", events: ["workflow.completed"], description: "ä ✓" }));
  await ask("/v1/events/subscribe", {}, Buffer.from([0xff, 0xfe, 0x00]));
  await ask("/v1/system/status", { authorization: "Bearer sk_test_broken", "x-emulator-scenario": "magic-keys" });
  run("trigger", "workflow.completed", "--wait");
  run("run", "save", "run.har");
  run("run", "save", "run.json");
  run("requests", "export", "--har", "failed.har", "--status", "404");
  run("requests", "export", "--har", "none.har", "--status", "599");
  run("requests", "export", "--har", "saved.har", "--from", "run.json", "--deliveries");
  // An export is that of the key in the environment.
  for (const [name, entries] of [["run.har", 7], ["failed.har", 1], ["none.har", 0], ["saved.har", 6]]) {
    const archive = read(name);
    await validate(archive);
    assert.equal(archive.log.entries.length, entries, name);
  }
  const { entries } = read("run.har").log;
  assert.ok(entries.some(({ response }) => response._error === "reset" && response.status === 0));
  assert.ok(entries.some(({ request }) => request.postData?.encoding === "base64"));
  run("calibrate", url, "--pause", "0s");
  const calibration = read("sandbox.har");
  await validate(calibration);
  assert.ok(calibration.log.entries.length > 20 && !JSON.stringify(calibration).includes(key));
  const damaged = read("run.har");
  delete damaged.log.entries[3].request.url;
  await assert.rejects(validate(damaged), "it would see a wrong one");
  console.log("✓ har-validator accepts a run, a selection, an empty selection, a saved run and a calibration");
} finally {
  rmSync(folder, { recursive: true });
}
