#!/usr/bin/env bash
# Three processes behind nginx with docs/examples/nginx.conf. Usage: run.sh EMULATOR_BINARY. Needs Debian's nginx.
#
# In separate network and process namespaces, where the ports are free and nothing stays. Needs root, or `sudo`. `fleet.py` has the checks.
set -euo pipefail
binary=$(realpath "$1")
cd "$(dirname "$0")/../.."

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive); fi
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net --pid --fork --kill-child --mount-proc bash -c 'ip link set lo up && timeout 60 "$@"' fleet python3 tests/fleet/fleet.py "$binary"
