import assert from "node:assert/strict";
import { test } from "node:test";

import "./dom.mjs";

const { gridPart, isFailed } = await import("../../src/ui/assets/summary.js");

const page = { address: ({ view, id = "", filter = "" }) => `#/${view}/${id}?${filter}` };
const advice = (name) => ({ scenario: name, advice: `\`wrs-emulator scenarios use ${name}\`, then a valid request` });
const ROWS = [
  { operation: "system.status", method: "GET", path: "/v1/system/status", cells: [{ of_api: true, status: 200, requests: 1200 }, { of_api: true, status: 429, requests: 0, gap: advice("always-429") }] },
  { operation: "events.subscribe", method: "POST", path: "/v1/events/subscribe", cells: [{ of_api: true, status: 200, requests: 0, gap: { advice: "a valid request <b>" } }, { of_api: true, status: 429, requests: 0, gap: advice("always-429") }] },
  { operation: "hello", method: "GET", path: "/v1/hello", cells: [{ of_api: true, status: 200, requests: 1 }, { status: 503, requests: 2, of_api: false }] },
];

const COVERAGE = {
  summary: "2 of 5 answers of the contract met",
  gaps: [{ status: 200, operations: ["events.subscribe"], gap: { advice: "a valid request <b>" } }, { status: 429, operations: ["system.status", "events.subscribe"], gap: advice("always-429") }],
};

test("the grid has a row for each operation, a link for what was met, and one advice for equal gaps", () => {
  const grid = gridPart(page, { grid: ROWS, coverage: COVERAGE });
  assert.match(grid.textContent, /^Contract2 of 5 answers of the contract met\./);
  assert.deepEqual([...grid.querySelectorAll("thead th")].map((one) => one.textContent), ["Operation", "200", "429", "503"]);
  const rows = [...grid.querySelectorAll("tbody tr")].map((row) => [...row.children].map((one) => one.textContent));
  assert.deepEqual(rows, [["system.status", "1,200", "–no request", ""], ["events.subscribe", "–no request", "–no request", ""], ["hello", "1", "", "2"]]);
  assert.equal(grid.querySelector("tbody a").getAttribute("href"), "#/activity/?operation:system.status 200");
  const gaps = [...grid.querySelectorAll("li")].map((one) => one.textContent);
  assert.deepEqual(gaps, ["200 of events.subscribe: a valid request <b>", "429 of system.status, events.subscribe: wrs-emulator scenarios use always-429, then a valid request. Scenario"]);
  assert.equal(grid.querySelector("li a").getAttribute("href"), "#/scenarios/always-429?");
});

test("a file of an earlier version has no grid, and a full one no advice", () => {
  assert.equal(gridPart(page, {}), null);
  assert.equal(gridPart(page, { grid: [ROWS[2]], coverage: { summary: "all", gaps: [] } }).querySelector("details"), null);
});

test("a failed test counts unless the command of its run succeeded", () => {
  const failed = { test: "b", outcome: "failed", message: "no", output: null };
  const exec = (status) => ({ command: ["x"], exit_status: status, signal: null, problem: null });
  const keys = [{ key: "k", workspace: "ws_1", requests: 1, subscriptions: 0, test: failed }];
  const run = (status) => ({ exec: exec(status), keys, verification: { judged_requests: 1, judged_deliveries: 0, forgotten_entries: 0 } });
  assert.deepEqual([0, 1].map((status) => isFailed(run(status), failed)), [false, true]);
});
