#!/usr/bin/env bash
# The page's modules without a browser: types, lint, unit tests.
# Usage: tests/ui/run.sh EMULATOR_BINARY FOLDER: the tools are installed in FOLDER.
set -euo pipefail
binary=$(realpath "$1")
mkdir -p "$2"
tools=$(realpath "$2")
cd "$(dirname "$0")/../.."

[ -x "$tools/node_modules/.bin/oxlint" ] && [ -x "$tools/node_modules/.bin/tsc" ] && [ -d "$tools/node_modules/linkedom" ] \
  || npm install --silent --no-save --no-package-lock --prefix "$tools" \
    "typescript@5.9.3" "openapi-typescript@7.13.0" "oxlint@1.94.0" "linkedom@0.18.15"

# A copy, because tools look for packages next to their input.
work="$tools/page"
rm -rf "$work"
mkdir -p "$work/src/ui" "$work/tests"
cp -r src/ui/assets "$work/src/ui/assets"
cp -r tests/ui "$work/tests/ui"
cd "$work/tests/ui"
echo '{"type":"module"}' >"$work/package.json"
# A separate repository: the linter passes over what the project's .gitignore names, such as target/.
git init -q "$work"

"$binary" openapi --control >openapi.json
"$tools/node_modules/.bin/openapi-typescript" openapi.json -o api.d.ts >/dev/null
"$tools/node_modules/.bin/tsc" -p .
(cd "$work" && "$tools/node_modules/.bin/oxlint" -c tests/ui/oxlint.json --deny-warnings src/ui/assets tests/ui)
"$binary" exec -- node --test ./*.test.mjs
