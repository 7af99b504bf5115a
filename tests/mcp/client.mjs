// The official clients from npm against `wrs-emulator mcp`: @modelcontextprotocol/sdk begins with a handshake, and
// @modelcontextprotocol/client also without one.
// Usage: wrs-emulator exec -- node client.mjs EMULATOR_BINARY
import assert from "node:assert/strict";
import { Client as Stateless } from "@modelcontextprotocol/client";
import { StdioClientTransport as StatelessTransport } from "@modelcontextprotocol/client/stdio";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const binary = process.argv[2];
const url = process.env.WRS_EMULATOR_URL;
const warnings = [];
console.warn = (...text) => warnings.push(text.join(" "));
const started = { command: binary, args: ["mcp", "--url", url] };

const tried = async (name, revision, client, transport) => {
  await client.connect(transport);
  assert.equal(client.getServerVersion().name, "wrs-emulator");
  if (client.getNegotiatedProtocolVersion) assert.equal(client.getNegotiatedProtocolVersion(), revision);
  assert.match(client.getInstructions(), /Begin with `status`/);
  const { tools } = await client.listTools();
  assert.equal(tools.length, 13);
  assert.deepEqual(tools.filter((tool) => tool.annotations.destructiveHint).map((tool) => tool.name), ["advance_clock", "reset"]);

  const called = new Set();
  const call = async (name, given = {}) => {
    const answer = await client.callTool({ name, arguments: given });
    assert.ok(!answer.isError, `${name}: ${answer.content[0].text}`);
    called.add(name);
    return answer.content[0].text;
  };
  const key = (await call("status")).match(/your key: (\S+)/)[1];
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const send = async (path) => (await fetch(url + path, { headers })).status;
  assert.match(await call("subscribe", { url: "https://app.sink.localhost/x", events: ["workflow.completed"] }), /sub_/);
  assert.equal(await send("/v1/helo"), 404);
  assert.match(await call("find_requests", { key, status: 404 }), /\/v1\/helo/);
  assert.match(await call("fire_event", { type: "workflow.completed" }), / delivered /);
  await call("fire_event", { type: "workflow.completed", tamper: "body" });
  const page = await call("find_deliveries", { key, limit: 1 });
  const [, cursor] = page.match(/… more: cursor (\S+)/);
  assert.match(await call("find_deliveries", { key, cursor }), /dlv_/);
  const [id] = page.match(/dlv_\w+/);
  assert.ok((await call("explain", { id })).startsWith(id));
  assert.match(await call("check_scenario", { toml: "rule = 5" }), /1 error/);
  await call("play_scenario", { active: ["rate-limit-burst"] });
  await call("explain");
  await call("advance_clock", { advance: "72h" });
  assert.match(await call("verification"), /✗ unmatched/);
  await call("review_findings", { key });
  await call("assumptions", { about: "rate_limit" });
  const refused = await client.callTool({ name: "reset", arguments: { key: "sk_test_local" } });
  assert.ok(refused.isError && refused.content[0].text.includes("was not made by this session"));
  await call("reset");
  assert.deepEqual([...called].sort(), tools.map((tool) => tool.name).sort());
  await client.close();
  assert.deepEqual(warnings, []);
  console.log(`✓ npm ${name}, revision ${revision}: ${called.size} tools called`);
};

const self = { name: "tests", version: "1" };
const mode = (mode) => new Stateless(self, { versionNegotiation: { mode } });
await tried("@modelcontextprotocol/sdk", "2025-11-25", new Client(self), new StdioClientTransport(started));
await tried("@modelcontextprotocol/client", "2025-11-25", mode("legacy"), new StatelessTransport(started));
await tried("@modelcontextprotocol/client", "2026-07-28", mode("auto"), new StatelessTransport(started));
await tried("@modelcontextprotocol/client", "2026-07-28", mode({ pin: "2026-07-28" }), new StatelessTransport(started));
