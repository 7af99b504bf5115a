#!/usr/bin/env bash
# Mixed traffic for a while, with memory and descriptors sampled; fails if either grows on after the warm-up, if an answer is a
# unexpected failure, or if the emulator does not answer at once in the end.
# Usage: soak.sh [MINUTES] [EMULATOR_BINARY]   (30 minutes, target/release/wrs-emulator)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 "$here/soak.py" "${1:-30}" "${2:-$here/../../target/release/wrs-emulator}"
