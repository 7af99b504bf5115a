#!/usr/bin/env bash
# Line coverage of `cargo test`: a table a file, and the total as its last line. Usage: coverage.sh [CARGO_TEST_ARGUMENTS…]
#
# Wants `llvm-profdata` and `llvm-cov` of LLVM 19 or newer, or another folder's in LLVM_TOOLS: rustup's component `llvm-tools`
# has them, and so has Debian's package `llvm-19`. Only reported: no number of lines says what a test would catch.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=${LLVM_TOOLS:-}
for folder in "$(rustc --print target-libdir)/../bin" /usr/lib/llvm-{22,21,20,19}/bin; do
  if [ -z "$tools" ] && [ -x "$folder/llvm-cov" ]; then tools=$folder; fi
done
[ -n "$tools" ] || { echo "no llvm-cov: rustup component add llvm-tools, or apt-get install llvm-19" >&2; exit 2; }

# A separate folder: other flags would rebuild everything each time.
export CARGO_TARGET_DIR=target/coverage RUSTFLAGS="-C instrument-coverage"
profiles="$PWD/target/coverage/profiles"
rm -rf "$profiles"
# Processes of one binary add to the same few files: one each would be gigabytes, as tests start the program often.
export LLVM_PROFILE_FILE="$profiles/%4m.profraw"
cargo test --locked "$@"

# The binaries that ran: those of the tests, and the program that they start.
objects=()
while read -r object; do objects+=(--object "$object"); done < <(
  cargo test --locked --no-run --message-format=json 2>/dev/null |
    python3 -c 'import json, sys; [print(path) for line in sys.stdin for path in [json.loads(line).get("executable")] if path]'
)
objects+=(--object target/coverage/debug/wrs-emulator)
find "$profiles" -name '*.profraw' > "$profiles/list"
"$tools/llvm-profdata" merge --sparse --failure-mode=all --input-files="$profiles/list" --output="$profiles/all.profdata"
"$tools/llvm-cov" report "${objects[@]}" --instr-profile="$profiles/all.profdata" \
  --ignore-filename-regex='(/\.cargo/|/rustc/|/tests/|_tests\.rs|/benches/)' --show-region-summary=false --show-branch-summary=false
