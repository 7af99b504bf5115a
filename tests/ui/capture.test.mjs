import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { messagesOf } from "../../src/ui/assets/signature.js";

const CASES = JSON.parse(readFileSync(new URL("captures.json", import.meta.url), "utf8"));

for (const { name, capture, messages } of CASES) {
  test(`a capture is read as the command line reads it: ${name}`, () => assert.deepEqual(messagesOf(capture), messages));
}

test("anything else has no messages", () => {
  for (const text of ["", "\n", "{", "nothing", '{"a":', "no header\n\n{}"]) assert.deepEqual(messagesOf(text).flatMap(({ headers }) => headers), [], text);
});
