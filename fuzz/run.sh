#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while. A crash ends the run; what caused it lies in fuzz/artifacts/.
# Usage: fuzz/run.sh [SECONDS_EACH] [TARGET…]     (60 seconds, all targets)
#
# Coverage comes from compiler options that the stable toolchain takes; there is no `unsafe` here for a memory sanitizer to
# watch. `cargo fuzz run --sanitizer none TARGET` does the same where cargo-fuzz is installed.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(scenario profile body webhook_url signature snapshot connection template)

host=$(rustc -vV | sed -n 's/^host: //p')
instrument="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
# With a target named, build scripts and macros stay as they are.
[ -n "${NO_BUILD:-}" ] || RUSTFLAGS="$instrument" cargo build --release --target "$host"

for target in "${targets[@]}"; do
  printf '\n== %s, %s s\n' "$target" "$seconds"
  mkdir -p "found/$target" artifacts
  dictionary=()
  [ -f "corpus/$target.dict" ] && dictionary=("-dict=corpus/$target.dict")
  seeds=("corpus/$target")
  case $target in
    scenario) seeds+=(../scenarios ../tests/scenarios) ;;
    profile) seeds+=(../src/settings) ;;
  esac
  # Templates are tried far beyond the longest source that is read.
  longest=8192
  [ "$target" = template ] && longest=65536
  # New inputs go to the first folder; the seeds stay as they were written.
  "target/$host/release/$target" "found/$target" "${seeds[@]}" "${dictionary[@]}" \
    -artifact_prefix="artifacts/$target-" -max_total_time="$seconds" -max_len="$longest" -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1 \
    2>"found/$target.log" || { tail -40 "found/$target.log"; exit 1; }
  grep -E 'stat::number_of_executed_units|stat::peak_rss_mb' "found/$target.log"
  grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "found/$target.log" | tail -1
done
