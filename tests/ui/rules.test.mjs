// What the sources must keep to, so that a report can be joined from them line by line and comments can be dropped.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

const FOLDER = new URL("../../src/ui/assets/", import.meta.url);
const names = readdirSync(FOLDER);
const read = (name) => readFileSync(new URL(name, FOLDER), "utf8");
const modules = names.filter((name) => name.endsWith(".js"));
const IMPORT = /^import \{ (\w+(?:, \w+)*) \} from '\.\/([\w-]+\.js)';$/;

/** The lines without those that are only comments. */
function withoutComments(text) {
  let isInside = false;
  return text.split("\n").filter((line) => {
    const start = line.trimStart();
    if (!isInside && start.startsWith("//")) return false;
    if (!isInside && !start.startsWith("/*")) return true;
    isInside = !line.trimEnd().endsWith("*/");
    return false;
  }).join("\n");
}

const importsOf = (name) => read(name).split("\n").map((line) => IMPORT.exec(line)).filter(Boolean).map((found) => ({ names: found[1].split(", "), from: found[2] }));

test("imports are single lines at the top, of names that are exported", () => {
  for (const name of modules) {
    const lines = withoutComments(read(name)).split("\n").filter((line) => line.trim() !== "");
    const imports = lines.findIndex((line) => !line.startsWith("import"));
    assert.ok(lines.slice(0, imports).every((line) => IMPORT.test(line)), `${name}: an import has another form`);
    const code = lines.slice(imports).map((line) => line.replace(/\/\*\*.*?\*\//g, ""));
    assert.ok(code.every((line) => !/^\s*import\b/.test(line) && !/\bimport\(/.test(line)), `${name}: an import further below`);
    for (const { names: wanted, from } of importsOf(name)) {
      const source = read(from);
      for (const one of wanted) assert.match(source, new RegExp(`^export (async )?(function|const|class) ${one}\\b`, "m"), `${name}: ${one} of ${from}`);
    }
  }
});

test("exports are declarations, and there is neither a default export nor an await at the top", () => {
  for (const name of modules) {
    const code = withoutComments(read(name));
    for (const line of code.split("\n").filter((line) => line.startsWith("export"))) assert.match(line, /^export (async function|function|const|class) \w+/, `${name}: ${line}`);
    assert.doesNotMatch(code, /^(await|for await)\b/m, name);
  }
});

test("names at the top are unique over all modules", () => {
  const seen = new Map();
  for (const name of modules) {
    for (const [, declared] of read(name).matchAll(/^(?:export )?(?:async function|function|const|let|class) (\w+)/gm)) {
      assert.ok(!seen.has(declared), `${declared} is declared in ${seen.get(declared)} and ${name}`);
      seen.set(declared, name);
    }
  }
});

test("modules do not need each other in a circle", () => {
  const done = new Set();
  const visit = (name, path) => {
    assert.ok(!path.includes(name), [...path, name].join(" → "));
    if (done.has(name)) return;
    for (const { from } of importsOf(name)) visit(from, [...path, name]);
    done.add(name);
  };
  visit("app.js", []);
  assert.deepEqual([...done].sort(), [...modules].sort(), "each module is reached from app.js");
});

test("no text could end a script, and nothing is made of markup", () => {
  for (const name of modules) {
    const text = read(name);
    assert.doesNotMatch(text, /<\/script|<!--/i, name);
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|srcdoc/, name);
  }
  assert.match(read("index.html"), /^<link rel="stylesheet" href="style\.css">$/m);
  assert.match(read("index.html"), /^<link rel="icon" href="icon\.svg">$/m);
  assert.match(read("index.html"), /^<script type="module" src="app\.js"><\/script>$/m);
});

test("comments are lines of their own, and no string looks like one", () => {
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
  const [bytes, zipped] = [served.join("").length, gzipSync(served.join(""), { level: 9 }).length];
  t.diagnostic(`${names.length} files, ${raw.join("").length} bytes; as served ${bytes}, gzip -9 ${zipped}`);
  assert.ok(bytes <= 160 * 1024, `${bytes} bytes`);
  assert.ok(zipped <= 48 * 1024, `${zipped} bytes, compressed`);
  for (const name of names) assert.ok(read(name).split("\n").length <= 450, `${name} is too long`);
});
