#!/usr/bin/env bash
# Proves the container image without a container engine: builds what the Dockerfile builds, lays out what its last stage
# copies in a separate folder, and runs it there as process 1 of a new process namespace, as the user and with the
# environment that the Dockerfile names, and with nothing else in the root. `prove.py` has the checks.
#
# Everything happens in a network namespace without a way out, so that the ports 9770, 443 and 53 are free and a name server
# can be played. Needs root, or `sudo`, for the namespaces.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="$PWD/target/container"
rm -rf "$folder"
mkdir -p "$folder"
python3 tests/container/dockerfile.py Dockerfile "$folder"

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive); fi
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net --mount bash -c \
  'ip link set lo up && ip address add 10.97.70.1/32 dev lo && exec timeout 120 "$(command -v python3)" tests/container/prove.py "$1"' \
  prove "$folder"
