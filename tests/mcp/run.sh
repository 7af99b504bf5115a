#!/usr/bin/env bash
# `wrs-emulator mcp` with the official client SDKs: PyPI mcp, npm @modelcontextprotocol/sdk.
# Usage: run.sh EMULATOR_BINARY PYTHON NODE_TOOLS, where PYTHON has mcp and NODE_TOOLS/node_modules the SDK.
set -euo pipefail
binary=$(realpath "$1") python=$2 node_tools=$3
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
"$binary" serve --listen 127.0.0.1:0 --port-file "$work/url" 2> "$work/log" > /dev/null &
emulator=$!
trap 'kill "$emulator" 2> /dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 200); do [ -s "$work/url" ] && break; sleep 0.05; done
url=$(cat "$work/url")
"$python" tests/mcp/client.py "$binary" "$url"
# Modules are looked for beside the script.
cp tests/mcp/client.mjs "$node_tools/mcp-client.mjs"
node "$node_tools/mcp-client.mjs" "$binary" "$url"
