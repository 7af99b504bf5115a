#!/usr/bin/env bash
# Runs schemathesis with all checks against the emulator's own OpenAPI document.
# Usage: schemathesis.sh EMULATOR_BINARY SCHEMATHESIS_BINARY
set -euo pipefail
emulator=$(realpath "$1")
schemathesis=$(realpath -s "$2")
folder=$(mktemp -d)
cd "$folder"

# The quota is raised: a 429 is right for a client that sends thousands of requests, and would hide everything else.
"$emulator" serve --quiet --listen 127.0.0.1:0 --port-file url.txt --set rate_limit.requests=4000000000 >ready.txt &
id=$!
trap 'kill "$id" 2>/dev/null || true; wait "$id" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do grep -q ready ready.txt && break; sleep 0.1; done
url=$(cat url.txt)

"$schemathesis" run "$url/_emulator/openapi.json" --url "$url" -H "Authorization: Bearer sk_test_schemathesis" \
  --checks all --max-examples 200 --seed 20260131 --no-color
