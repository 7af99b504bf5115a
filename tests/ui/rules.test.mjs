// What the sources must keep to, so that comments can be dropped and no text becomes markup; `tests/it/page.rs` has the rules by
// which a report is joined from them.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const FOLDER = new URL("../../src/ui/assets/", import.meta.url);
const names = readdirSync(FOLDER);
const read = (name) => readFileSync(new URL(name, FOLDER), "utf8");
const modules = names.filter((name) => name.endsWith(".js"));
const IMPORT = /^import \{ .* \} from '\.\/([\w-]+\.js)';$/;

/** The lines without those that are only comments, and without the types in them, as they are served. */
function withoutComments(text) {
  let isInside = false;
  return text.split("\n").filter((line) => {
    const start = line.trimStart();
    if (!isInside && start.startsWith("//")) return false;
    if (!isInside && !start.startsWith("/*")) return true;
    isInside = !line.trimEnd().endsWith("*/");
    return false;
  }).map((line) => line.replace(/\/\*\* @type .*?\*\/ */g, "")).join("\n");
}

test("each module but the first is imported by another", () => {
  const imported = modules.flatMap((name) => read(name).split("\n").map((line) => IMPORT.exec(line)?.[1]).filter(Boolean));
  assert.deepEqual([...new Set(["app.js", ...imported])].sort(), [...modules].sort());
});

test("nothing is made of markup", () => {
  for (const name of modules) {
    const text = read(name);
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|srcdoc/, name);
  }
});

test("comments are separate lines, and no string looks like one", () => {
  for (const name of [...modules, "style.css"]) {
    const text = read(name);
    // A cast at the start of a line would be taken for a comment that goes on.
    assert.deepEqual(text.split("\n").filter((line) => /^\s*\/\*.*\*\/.*\S/.test(line) && !line.trimEnd().endsWith("*/")), [], name);
    // A template over several lines could contain a line that only looks like a comment.
    const ticks = withoutComments(text).split("\n").filter((line) => (line.match(/(?<!\\)`/g) ?? []).length % 2 === 1);
    assert.deepEqual(ticks, [], `${name}: a template over several lines`);
  }
});

test("sizes", (t) => {
  const raw = names.map(read);
  const served = names.map((name) => (/\.(js|css)$/.test(name) ? withoutComments(read(name)).replace(/^ +/gm, "") : read(name)));
  // Each file is fetched on its own, so each is compressed on its own.
  const [bytes, zipped] = [served.join("").length, served.reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0)];
  t.diagnostic(`${names.length} files, ${raw.join("").length} bytes; as served ${bytes}, gzip -9 ${zipped}`);
  assert.ok(bytes <= 270 * 1024, `${bytes} bytes`);
  assert.ok(zipped <= 90 * 1024, `${zipped} bytes, compressed`);
  for (const name of names) assert.ok(read(name).split("\n").length <= 450, `${name} is too long`);
});
