// The official client SDK from npm (@modelcontextprotocol/sdk) against `wrs-emulator mcp`.
// Usage: wrs-emulator exec -- node client.mjs EMULATOR_BINARY
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const binary = process.argv[2];
const url = process.env.WRS_EMULATOR_URL;
const warnings = [];
console.warn = (...text) => warnings.push(text.join(" "));

const client = new Client({ name: "tests", version: "1" });
await client.connect(new StdioClientTransport({ command: binary, args: ["mcp", "--url", url] }));
assert.equal(client.getServerVersion().name, "wrs-emulator");
assert.match(client.getInstructions(), /sk_test_agent_/);
const { tools } = await client.listTools();
assert.equal(tools.length, 12);
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
const send = async (path, body) => (await fetch(url + path, { headers, method: body ? "POST" : "GET", body })).status;
assert.equal(await send("/v1/events/subscribe", '{"url":"https://app.sink.localhost/x","events":["workflow.completed"]}'), 200);
assert.equal(await send("/v1/helo"), 404);
assert.match(await call("find_requests", { key, status: 404 }), /\/v1\/helo/);
assert.match(await call("fire_event", { type: "workflow.completed" }), / delivered /);
await call("fire_event", { type: "workflow.completed", tamper: "body" });
const [id] = (await call("find_deliveries", { key })).match(/dlv_\w+/);
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
await client.ping();
await client.close();
assert.deepEqual(warnings, []);
console.log(`✓ npm @modelcontextprotocol/sdk: ${called.size} tools called`);
