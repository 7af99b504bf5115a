// The page's commands, pasted into bash, dash and zsh: what arrives is compared byte for byte, and no file may appear. With
// WRS_ALL_COMMANDS every shell gets every command; otherwise each gets its share, and all of them those of the hostile texts.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import "./dom.mjs";
import { TEXTS, randomOf, requestOf } from "./hostile.mjs";

const { attemptLine, commandOfAdvice, curlLine, optionOfAdvice, repeatLine } = await import("../../src/ui/assets/command.js");
const { testsOf } = await import("../../src/ui/assets/request.js");

const SHELLS = { bash: ["--norc", "--noprofile", "-i"], dash: ["-i"], zsh: ["-f", "-i"] };
const COUNT = 2000;

/** A server that answers everything and keeps what came, by the number at the end of the target. */
async function recorder() {
  const found = new Map();
  const server = createServer((socket) => {
    let bytes = Buffer.alloc(0);
    let isDone = false;
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      const end = bytes.indexOf("\r\n\r\n");
      if (end < 0 || isDone) return;
      const [line, ...fields] = bytes.toString("latin1", 0, end).split("\r\n");
      const headers = fields.map((field) => [field.slice(0, field.indexOf(":")).toLowerCase(), field.slice(field.indexOf(":") + 1).replaceAll(/^[ \t]+|[ \t]+$/g, "")]);
      const length = Number(headers.find(([name]) => name === "content-length")?.[1] ?? 0);
      if (bytes.length < end + 4 + length) return;
      isDone = true;
      const [method, ...target] = line.replace(/ HTTP\/1\.1$/, "").split(" ");
      const number = /~(\d+)$/.exec(target.join(" "))?.[1] ?? line;
      const body = bytes.subarray(end + 4);
      found.set(number, [...(found.get(number) ?? []), { method, target: target.join(" "), headers, body: body.toString("latin1") }]);
      socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${method === "HEAD" ? 5 : 0}\r\nConnection: close\r\n\r\n`);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { found, server, origin: `http://127.0.0.1:${server.address().port}` };
}

const latin1 = (text) => Buffer.from(text).toString("latin1");

/** A command for a request, and what has to arrive. */
function commandFor(request, number, origin) {
  const target = `${request.path}${request.query === null ? "" : `?${request.query}`}~${number}`;
  const [path, query] = [target.split("?")[0], target.includes("?") ? target.slice(target.indexOf("?") + 1) : null];
  const numbered = { ...request, path, query };
  const body = typeof request.body === "string" ? latin1(request.body) : Buffer.from(request.body.base64, "base64").toString("latin1");
  const expected = { method: request.method, target: latin1(target), headers: request.headers.map(([name, value]) => [name.toLowerCase(), latin1(value)]), body };
  const isDelivery = number % 5 === 0 && target.startsWith("/") && body;
  if (isDelivery) return { line: attemptLine({ url: origin + target, request }), expected: { ...expected, method: "POST" } };
  if (number % 5 === 1) return { line: testsOf(numbered)[2][1].trimEnd(), expected: { ...expected, headers: [["authorization", "Bearer it's"], ...expected.headers.filter(([name]) => name === "content-type")] } };
  return { line: repeatLine(numbered, `${origin}/_emulator/`), expected };
}

/** The request of one command next to the expected one; without curl's own headers. */
function check(shell, number, { line, expected }, came) {
  const what = `${shell} ${number}: ${JSON.stringify(line.slice(0, 2000))}`;
  assert.equal(came?.length, 1, `arrived ${came?.length ?? 0} times: ${what}`);
  const [{ headers, ...rest }] = came;
  const own = new Set(["host", "user-agent", "accept", "content-length", "connection"]);
  assert.deepEqual({ ...rest, headers: headers.filter(([name]) => !own.has(name)) }, expected, what);
}

/** Runs the lines as if they were pasted, and returns the names of the files that appeared. */
async function paste(shell, lines, env) {
  const folder = mkdtempSync(join(tmpdir(), `paste-${shell}-`));
  const child = spawn(shell, SHELLS[shell], { cwd: folder, env: { PATH: process.env.PATH, HOME: "/nonexistent", LC_ALL: "C.UTF-8", HISTFILE: "/dev/null", NO_PROXY: "*", ...env }, stdio: ["pipe", "ignore", "ignore"] });
  child.stdin.on("error", () => {});
  child.stdin.end(lines.map((line) => `{ ${line}\n} >/dev/null\n`).join(""));
  await once(child, "close");
  const files = readdirSync(folder);
  rmSync(folder, { recursive: true });
  return files;
}

async function compare(shell, requests) {
  const { found, server, origin } = await recorder();
  const commands = requests.map(([number, request]) => [number, commandFor(request, number, origin)]);
  const files = await paste(shell, commands.map(([, { line }]) => line), { WRS_BASE_URL: origin, WRS_API_KEY: "it's" });
  server.close();
  assert.deepEqual(files, [], `${shell}: files appeared`);
  for (const [number, command] of commands) check(shell, number, command, found.get(String(number)));
  assert.equal(found.size, commands.length, `${shell}: ${[...found.keys()].filter((key) => !/^\d+$/.test(key))}`);
}

/** Each hostile text wherever it can stand. */
function core() {
  const plain = { method: "POST", path: "/v1/hello", query: null, headers: [], body: "", operation: null, status: 200, key: "a", reason: "answered", answer: { headers: [], body: "" } };
  const token = (text) => text.replaceAll(/[^\w!#$%&'*+.^`|~-]/g, "");
  const seen = (text) => text.replaceAll(/[^!-~\u00a1-\uffff]/gu, "");
  const withBodies = TEXTS.map((text) => ({ ...plain, body: text }));
  const withTargets = TEXTS.map((text) => ({ ...plain, path: `/${seen(text).replaceAll("?", "")}`, query: seen(text) }));
  const value = (text) => text.replaceAll(/[^ -~\u00a1-\uffff]/g, "").trim();
  const withHeaders = TEXTS.map((text) => ({ ...plain, headers: [["x-a", value(text)], ["x-b", `a\t${value(text)}`.trim()]] }));
  const methods = new Set([...TEXTS.map(token), ..."!#$%&'*+-.^_`|~"].filter(Boolean));
  const withMethods = Array.from(methods, (method) => ({ ...plain, method }));
  return [...withBodies, ...withTargets, ...withHeaders, ...withMethods, { ...plain, method: "HEAD" }, { ...plain, method: "HEAD", body: "x" }, { ...plain, body: { base64: Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("base64") } }, { ...plain, body: "long ".repeat(40_000) }];
}

const random = randomOf(39);
const generated = Array.from({ length: COUNT }, () => requestOf(random));
const hostile = core().map((request, i) => [COUNT + i, request]);

test("a pasted command sends what was recorded", { concurrency: 3 }, async (t) => {
  await Promise.all(Object.keys(SHELLS).map((shell, at) => t.test(shell, () => {
    const isShare = (number) => process.env.WRS_ALL_COMMANDS || number % 3 === at;
    return compare(shell, [...hostile, ...generated.map((request, i) => [i, request]).filter(([number]) => isShare(number))]);
  })));
});

test("actions as curl send their body", async () => {
  const { found, server, origin } = await recorder();
  const bodies = TEXTS.map((text, i) => ({ id: "", label: "", method: i % 2 ? "POST" : "PATCH", path: `profile?key=a~${i}`, body: { text }, cli: [] }));
  const lines = bodies.map((action) => curlLine(action, `${origin}/_emulator/`, true));
  assert.deepEqual(await paste("dash", lines, { WRS_EMULATOR_CONTROL_TOKEN: "t' t" }), []);
  server.close();
  for (const [i, { method, body }] of bodies.entries()) {
    check("dash", i, { line: lines[i], expected: { method, target: `/_emulator/profile?key=a~${i}`, headers: [["content-type", "application/json"], ["authorization", "Bearer t' t"]], body: latin1(JSON.stringify(body)) } }, found.get(String(i)));
  }
});

test("advice is a command with the emulator's address, and in a report, whose emulator may have ended, an option of the next run", () => {
  const forward = { do: "forward", url: "https://a.example", to: "http://localhost:3000" };
  assert.equal(commandOfAdvice(forward, "http://127.0.0.1:9771"), "wrs-emulator forwards add https://a.example=http://localhost:3000 --url http://127.0.0.1:9771");
  for (const [advice, option] of [
    [forward, "--forward https://a.example=http://localhost:3000"],
    [{ do: "set", setting: "webhooks.allow_http", value: "true" }, "--set webhooks.allow_http=true"],
    [{ do: "use_scenarios", active: ["rate-limit-burst"], key: null }, "--scenario rate-limit-burst"],
    [{ do: "use_scenarios", active: [], key: null }, null],
    [{ do: "explain", id: "req_1" }, null],
  ]) assert.equal(optionOfAdvice(advice), option);
});
