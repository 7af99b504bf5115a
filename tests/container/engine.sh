#!/usr/bin/env bash
# The image in a real engine: buildah builds the Dockerfile's last stage, podman with runc runs it, the files of docs/examples for Compose,
# Kubernetes and Testcontainers run on it. Usage: engine.sh STATIC_BINARY PYTHON NODE_MODULES
#
# STATIC_BINARY is what the first stage builds: `tests/container/run.sh` leaves it at `target/image/wrs-emulator`. PYTHON has
# podman-compose, pytest, pyyaml and testcontainers, NODE_MODULES has testcontainers. `engine.py` has the checks.
#
# In separate network, mount and process namespaces: no port is taken, and no process stays. Needs root, or `sudo`.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2") modules=$(realpath "$3")
cd "$(dirname "$0")/../.."

# Removed out here, once the namespaces and their mounts are gone. vfs wants a real file system, and sockets a short path.
work=$(mktemp -d)
become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
trap '"${become[@]}" rm -rf "$work"' EXIT
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net --mount --pid --fork --kill-child --mount-proc bash -c \
  'ip link set lo up && timeout 150 "$@"' engine "$python" tests/container/engine.py "$binary" "$modules" "$work"
