#!/usr/bin/env bash
# Runs the steps of action.yml, and docs/examples/github-action.yml, which uses it, as a GitHub runner does. Usage: run.sh EMULATOR_BINARY PYTHON
#
# PYTHON has pyyaml and check-jsonschema. In a network namespace without a way out: the release is served from this machine. Needs
# root, or `sudo`. `play.py` has the checks.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2")
cd "$(dirname "$0")/../.."

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net --pid --fork --kill-child --mount-proc bash -c 'ip link set lo up && timeout 60 "$@"' play "$python" tests/action/play.py "$binary"
