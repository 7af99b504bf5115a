#!/usr/bin/env bash
# The OpenAPI documents in the tools that people use: linters, generators of clients with a call by each client, and Prism as a proxy.
# Usage: run.sh EMULATOR_BINARY TOOLS NODE_MODULES, where TOOLS has python, openapi-python-client and openapi-generator-cli, which needs java.
set -euo pipefail
binary=$(realpath "$1") tools=$(realpath "$2") modules=$(realpath "$3")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
cp "$here"/* "$work"
ln -s "$modules" "$work/node_modules"
cd "$work"
export PATH="$work/node_modules/.bin:$tools:$PATH" NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true SCARF_ANALYTICS=false DO_NOT_TRACK=1
clean() { # clean WHAT COMMAND…: it must succeed, and its output must have no warning
  local what=$1; shift
  if ! "$@" > log 2>&1 || grep --quiet --ignore-case --extended-regexp 'warning|error' log; then
    echo "✗ $what"; tail -n 60 log; exit 1
  fi
  echo "✓ $what"
}
started() { # started FILE TEXT: waits until a program has written the text
  for _ in $(seq 300); do if grep --quiet -- "$2" "$1"; then return; fi; sleep 0.1; done
  echo "✗ not started: $2"; cat "$1"; exit 1
}

"$binary" serve --quiet --listen 127.0.0.1:0 --port-file url.txt --set rate_limit.enabled=false > emulator.log &
pids+=($!)
started emulator.log ready
WRS_EMULATOR_URL=$(cat url.txt)
export WRS_EMULATOR_URL
curl -sf "$WRS_EMULATOR_URL/_emulator/openapi.json" > control.json
curl -sf "$WRS_EMULATOR_URL/_emulator/v1/openapi.json" > emulated.json
# What settings add.
"$binary" exec --set rate_limit.ietf=true --set rate_limit.retry_after=date -- \
  sh -c 'curl -sf "$WRS_EMULATOR_URL/_emulator/v1/openapi.json" > changed.json' > exec.log 2>&1

for name in emulated changed control; do
  redocly lint "$name.json" --config redocly.yaml --format json --max-problems 1000 > redocly.json 2> log
  problems=$("$tools/python" -c 'import json; print(*(p["ruleId"] + " " + p["message"] for p in json.load(open("redocly.json"))["problems"]), sep="\n")')
  [ -z "$problems" ] || { printf '✗ Redocly: %s\n%s\n' "$name" "$problems"; exit 1; }
  echo "✓ Redocly: $name"
  clean "Spectral: $name" sh -c "spectral lint --ruleset spectral.yaml --fail-severity hint $name.json || { cat; exit 1; }"
  clean "openapi-typescript: $name" openapi-typescript "$name.json" --output "openapi-typescript/$name.ts"
  clean "hey-api: $name" openapi-ts --input "$name.json" --output "hey-api/$name" \
    --plugins @hey-api/client-fetch @hey-api/typescript @hey-api/sdk zod
  clean "openapi-python-client: $name" openapi-python-client generate --path "$name.json" --meta none --output-path "$name" \
    --config openapi-python-client.yaml --fail-on-warning
done
clean "orval" orval --config orval.config.mjs
clean "oazapfts" oazapfts emulated.json oazapfts.ts
clean "swagger-typescript-api" swagger-typescript-api generate --path emulated.json --output . --name swagger-typescript-api.ts
# Redocly has a command of the same name.
clean "openapi-typescript-codegen" node node_modules/openapi-typescript-codegen/bin/index.js --input emulated.json \
  --output openapi-typescript-codegen --client fetch
for language in python typescript-fetch; do
  # It warns that 3.1 is new to it.
  openapi-generator-cli generate --input-spec emulated.json --generator-name "$language" --output "openapi-generator/$language" > log 2>&1 ||
    { echo "✗ openapi-generator: $language"; tail -n 60 log; exit 1; }
  echo "✓ openapi-generator: $language"
done

clean "the generated TypeScript compiles" tsc --noEmit --strict --skipLibCheck --target es2022 --module esnext --moduleResolution bundler \
  --types node calls.ts hey-api/changed/*.ts orval/*.ts openapi-typescript/*.ts
esbuild calls.ts --bundle --platform=node --format=esm --log-level=error --outfile=calls.mjs
node calls.mjs
PYTHONPATH=openapi-generator/python "$tools/python" calls.py "$WRS_EMULATOR_URL"

# Prism compares each request and each answer with the document, and answers 422 or 500 itself where they differ.
prism proxy emulated.json "$WRS_EMULATOR_URL" --errors --port 0 > prism.log 2>&1 &
pids+=($!)
started prism.log 'Prism is listening on'
"$tools/python" prism.py "$(grep --only-matching 'http://127.0.0.1:[0-9]*' prism.log | tail -n 1)"
echo "33 passed, 0 failed"
