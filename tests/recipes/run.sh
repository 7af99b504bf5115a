#!/usr/bin/env bash
# Tries the files of `docs/examples/` as far as a machine without a container engine can. Usage:
#
#   run.sh EMULATOR_BINARY PYTHON
#
# PYTHON has the packages check-jsonschema, kubernetes-validate, pre-commit and pyyaml; the JUnit jars are those of Debian's package
# `junit5`. `try.py` has the checks.
#
# In a network namespace without a way out, so that port 9770 is free and that nothing needs the network. Needs root, or `sudo`.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2")
cd "$(dirname "$0")/../.."

become=()
if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
# shellcheck disable=SC2016 # the inner shell expands them
"${become[@]}" unshare --net --mount bash -c \
  'ip link set lo up && exec timeout 300 "$@"' try "$python" tests/recipes/try.py "$binary"
