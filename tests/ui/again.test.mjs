import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import "./dom.mjs";

const { scenarioOf, testsOf } = await import("../../src/ui/assets/request.js");

const request = {
  id: "req_1", method: "POST", path: "/v1/events/subscribe", query: "a=it's", operation: "events.subscribe", status: 422,
  headers: [["Content-Type", "application/json"], ["Authorization", "Bearer sk_test_a"]], body: '{"url":"no\'pe"}',
  answer: { headers: [["content-type", "application/json"]], body: '{"error":{"code":"validation_error","message":"`url` is \\"no\'pe\\"","request_id":"req_1"}}' },
};

test("an answer becomes a scenario", () => {
  assert.equal(scenarioOf(request, 422), 'title = "422 for events.subscribe?a=it\'s"\n\n[[rule]]\nwhen = { operation = "events.subscribe", query."a" = "it\'s" }\ntimes = 1\nreply = { error = "validation_error", message = "`url` is \\"no\'pe\\"" }\n');
  assert.match(scenarioOf(request, 429), /^reply = \{ error = "rate_limit_exceeded" \}$/m);
  assert.match(scenarioOf({ ...request, operation: null, key: "sk_test_a" }, 503), /when = \{ method = "POST", path = "\/v1\/events\/subscribe", query\."a" = "it's" \}\ntimes = 1\nreply = \{ error = "internal_error", status = 503 \}/);
  const answered = (body, status = 200) => /^reply = (.*)$/m.exec(scenarioOf({ ...request, status, answer: { ...request.answer, body } }, status))[1];
  assert.equal(answered('{"id":"sub_1","note":null,"secret":"…"}'), `{ status = 200, headers = { content-type = "application/json" }, body = '{"id":"sub_1","note":null,"secret":"…"}' }`, "the bytes are the same, nulls and all");
  assert.equal(answered("it's {{ now }}\n\u007f"), '{ templates = false, status = 200, headers = { content-type = "application/json" }, body = "it\'s {{ now }}\\n\\u007f" }');
  assert.equal(answered('{"error":{"code":"taken","message":"{%","request_id":"req_1"}}', 422), '{ templates = false, error = "validation_error", code = "taken", message = "{%" }');
  assert.match(answered('{"error":{"code":"taken","message":"no","request_id":"req_1","details":[]}}', 422), /^\{ status = 422, .* body = '\{"error":/, "no error of a scenario has details");
  assert.equal(answered("", 204), "{ status = 204 }");
  // A path that the contract lacks, and that a scenario answers: its operation is the same for all such paths.
  const stub = { ...request, method: "GET", path: "/v1/references/ref_1", query: null, operation: "stub", key: "sk_test_a" };
  assert.match(scenarioOf(stub, 429), /^title = "429 for \/v1\/references\/ref_1"\n\n\[\[rule\]\]\nwhen = \{ method = "GET", path = "\/v1\/references\/ref_1" \}$/m);
  assert.match(scenarioOf({ ...stub, key: null }, 429), /path = "\/v1\/references\/ref_1", authenticated = false \}/);
  assert.match(testsOf(stub)[0][1], /^def test_get_v1_references_ref_1\(wrs\):$/m);
  assert.match(scenarioOf({ ...request, operation: null, key: "sk_test_a", path: "/a*", query: "token=…" }, 503), /path = \{ equals = "\/a\*" \}, query\."token" = \{ present = true \}/);
});

test("a test asserts the recorded answer", () => {
  const texts = (change) => testsOf({ ...request, ...change }).map(([, text]) => text);
  for (const [change, python, node, curl] of [
    [{}, /assert status == 422$/m, /assert\.equal\(answer\.status, 422,/, /^test "\$\(curl .*\)" = 422$/ms],
    [{ status: 200, reason: "answered" }, /urlopen\(request\)\.status == 200$/m, /assert\.equal\(answer\.status, 200,/, /= 200$/m],
    [{ status: 429, scenario: "burst", reason: "scripted" }, /assert status == 429$/m, /answer\.status, 429,/, /= 429$/m],
    [{ status: 0, scenario: "flaky", reason: "scripted" }, /except OSError:\n {8}status = 0\n {4}assert status == 0$/m, /assert\.rejects\(fetch\(/, /^! curl /m],
  ]) {
    const [asPython, asNode, asCurl] = texts(change);
    assert.match(asPython, python);
    assert.match(asNode, node);
    assert.match(asCurl, curl);
    execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", asPython]);
    execFileSync("node", ["--check", "--input-type=module", "-"], { input: asNode });
    execFileSync("sh", ["-n"], { input: asCurl });
  }
});

test("a request becomes a test that its language can read", () => {
  const [[, python], [, node], [, curl]] = testsOf(request);
  execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", python]);
  execFileSync("node", ["--check", "--input-type=module", "-"], { input: node });
  execFileSync("bash", ["-n", "-c", curl]);
  for (const text of [python, node, curl]) assert.ok(text.includes("a=it") && text.includes("no") && !text.includes("sk_test_a"), text);
});

test("a test of a scripted refusal starts the scenario, without which it would pass", () => {
  const limited = { body: '{"error":{"code":"rate_limit_exceeded","message":"slow down","request_id":"req_1"}}' };
  const scripted = { ...request, status: 429, scenario: "burst", reason: "scripted", answer: limited };
  const [[, python], [, node], [, curl]] = testsOf(scripted);
  execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", python]);
  execFileSync("node", ["--check", "--input-type=module", "-"], { input: node });
  assert.match(python, /wrs\.scenario\(toml="title = .*rate_limit_exceeded/);
  assert.match(node, /await wrs\.scenario\(\{ toml: "title = .*rate_limit_exceeded/);
  assert.match(curl, /-X PUT .*scenarios\/again-429-[a-z-]+\n.*-H 'X-Emulator-Scenario: again-429-/s);
  assert.match(testsOf({ ...scripted, status: 0 })[0][1], /wrs\.scenario\("burst"\)/, "a broken connection has no reply to repeat");
  const [[, byQuota], , [, asCurl]] = testsOf({ ...request, status: 429, scenario: null, reason: "quota", answer: limited });
  assert.match(byQuota, /# The quota gave this answer\.\n    wrs\.scenario\(toml="title = .*rate_limit_exceeded/);
  assert.match(asCurl, /^printf 'title = .*rate_limit_exceeded[^|]*\| curl .* -X PUT .*scenarios\/again-429-[a-z-]+\n.*-H 'X-Emulator-Scenario: again-429-/s);
  execFileSync("sh", ["-n"], { input: asCurl });
  assert.match(testsOf({ ...scripted, status: 0 })[2][1], /-H 'X-Emulator-Scenario: burst'/);
  assert.match(testsOf({ ...scripted, status: 200 })[0][1], /wrs\.scenario\("burst"\)/, "the answer may be cut off");
  const refused = { ...request, key: null, status: 401, scenario: null, reason: "unauthorized" };
  const [keyless, wrong] = [[], [["authorization", "Bearer …gkey"]]].map((headers) => testsOf({ ...refused, headers }).map(([, text]) => text));
  for (const text of keyless) assert.doesNotMatch(text, /uthorization|headers=dict\(wrs|: wrs\.headers/, "it carried no key");
  for (const text of wrong) assert.match(text, /uthorization"?: "?Bearer not-the-key["']/);
  assert.match(scenarioOf({ ...refused, headers: [] }, 401), /header\.authorization = \{ present = false \}/);
  assert.ok(!testsOf({ ...scripted, reason: "invalid" })[0][1].includes("scenario"), "it decided nothing here");
});
