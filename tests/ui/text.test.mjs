import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { attemptLine, changeSetting, cliLine, curlLine, repeatLine, resetOf, trigger } from "../../src/ui/assets/command.js";
import { commandOf } from "../../src/ui/assets/shell.js";
import { linesOf } from "../../src/ui/assets/settings.js";
import { capital, duration, milliseconds, shortKey, visible } from "../../src/ui/assets/text.js";

test("every character is made visible", () => {
  for (const [text, expected] of [
    ["a\u202eb", "a\\u{202e}b"], ["\u0000", "\\u{00}"], ["\u001b[31m", "\\u{1b}[31m"], ["\u200d\ufeff", "\\u{200d}\\u{feff}"], ["\ud800x", "\\u{d800}x"], ["\udc00", "\\u{dc00}"],
    ["\u{1f600}", "\u{1f600}"], ["a\nb\tc", "a\nb\tc"], ["\r", "\\u{0d}"], ["\u2028", "\\u{2028}"], ["\u2066x\u2069", "\\u{2066}x\\u{2069}"],
  ]) assert.equal(visible(text), expected);
  assert.equal(visible(null), "null");
  assert.ok(visible("x".repeat(1e6)).length < 210_000);
});

test("a sentence begins with a capital, a name does not", () => {
  for (const [text, expected] of [["as usual", "As usual"], ["not sent", "Not sent"], ["sk_test_", "sk_test_"], ["rate_limit.window = 1s", "rate_limit.window = 1s"], ["100 requests", "100 requests"], ["", ""], [null, ""]]) assert.equal(capital(text), expected);
});

test("lists and tables of texts are lines to edit", () => {
  for (const [value, text] of [[["1s", "30s"], "1s\n30s"], [[], ""], [{ a: "x", b: "y = z" }, "a = x\nb = y = z"], [{}, ""]]) {
    const lines = linesOf(value);
    assert.equal(lines.text, text);
    // A table without a row and a list without one differ in what they become.
    assert.deepEqual(lines.parse(`${text}\n\n`), value);
  }
  for (const value of ["a", 1, null, { a: 1 }, [" a"], { "a=b": "c" }, ["a\nb"]]) assert.equal(linesOf(value), null);
});

test("keys are shortened in the middle, without a prefix that all have", () => {
  const long = "sk_test_test_of_a_long_name_checkout_42";
  assert.equal(shortKey(long, [long, "sk_test_a"]), "test_of_…ame_checkout_42");
  assert.equal(shortKey("sk_test_a", [long, "sk_test_a"]), "a");
  assert.equal(shortKey("sk_test_a", ["sk_live_b", "sk_test_a"]), "sk_test_a");
});

test("durations are written and read", () => {
  for (const [ms, expected] of [[0.25, "0.25 ms"], [12.6, "13 ms"], [1500, "1.5 s"], [59_960, "1 min 0 s"], [90_000, "1 min 30 s"], [3_599_900, "1 h 0 min"], [3_600_000, "1 h 0 min"], [260_000_000, "3 d 0 h"], [null, "unknown"]]) assert.equal(duration(ms), expected);
  for (const [text, expected] of [["60s", 60_000], ["1h30m", 5_400_000], ["250ms", 250], ["x", null], ["5", null]]) assert.equal(milliseconds(text), expected);
});

test("a shell reads quoted words as they were", () => {
  for (const word of ["a b", "it's", "$(id)", "`id`", "a\\b", '"', "", "!x", "a\nb", "\u001b]0;x\u0007", "'\\'\n", "ü", "*", "~", "-x", "a;b", "\u0001'", "=ls", "\n\n", "\t!!%\n", "\u2028"]) {
    for (const shell of ["bash", "dash", "zsh"]) {
      assert.equal(execFileSync(shell, ["-c", commandOf(["printf", "%s", word])], { encoding: "utf8" }), word, `${shell}: ${JSON.stringify(word)}`);
    }
  }
  assert.equal(commandOf(["a", { before: "B: ", env: "C", after: "'; d" }]), `a "B: $C"''\\''; d'`);
});

test("actions as commands", () => {
  const base = "http://127.0.0.1:9771/_emulator/";
  assert.equal(cliLine(["clock", "advance", "60s"], base), "wrs-emulator clock advance 60s --url http://127.0.0.1:9771");
  assert.equal(cliLine(["reset", "--all"], "http://127.0.0.1:9770/_emulator/"), "wrs-emulator reset --all");
  assert.equal(curlLine(resetOf("sk_test_a"), base, false), `curl -s -g -H 'Content-Type: application/json' --data-raw '{"key":"sk_test_a"}' ${base}reset`);
  assert.match(curlLine(resetOf("*"), base, true), /-H "Authorization: Bearer \$WRS_EMULATOR_CONTROL_TOKEN"/);
  assert.match(curlLine(changeSetting("rate_limit.requests", 5, "sk_test_a"), base, false), /^curl -s -g -X PATCH .*'\{"rate_limit.requests":5\}'.*key=sk_test_a/);
  const form = { type: "t", data: '{"a":1}', key: "", subscription: "", count: 2, delay: "", tamper: "body", duplicate: 1, shuffle: false, drop: true };
  assert.deepEqual(trigger(form).body, { type: "t", data: { a: 1 }, tamper: "body", count: 2, drop: true });
  assert.deepEqual(trigger(form).cli, ["trigger", "t", "--data-json", '{"a":1}', "--tamper", "body", "--count", "2", "--drop", "--wait"]);
  assert.throws(() => trigger({ ...form, data: "{" }));
});

test("requests and attempts as curl", () => {
  const request = { method: "POST", path: "/v1/x", query: "a=b&c", headers: [["host", "h"], ["authorization", "Bearer sk_test_a"], ["content-length", "2"]], body: "it's" };
  assert.equal(repeatLine(request, "http://127.0.0.1:9770/_emulator/"), `curl -s -g -H 'authorization: Bearer sk_test_a' -H Content-Type: --data-raw 'it'\\''s' 'http://127.0.0.1:9770/v1/x?a=b&c'`);
  assert.match(repeatLine({ ...request, body: { base64: "/w==" } }, "file:///x"), /^printf '\\377' \| curl .* --data-binary @- /);
  assert.match(attemptLine({ url: "https://a/", request: { headers: [["x", "y"]], body: "{}" } }), /^curl -s -g -H 'x: y' -H Content-Type: --data-raw '\{\}' https:\/\/a\/$/);
});
