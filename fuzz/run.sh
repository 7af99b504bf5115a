#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while. A crash ends its target; the input that caused it lies in fuzz/artifacts/.
# Usage: fuzz/run.sh [--keep] [SECONDS_EACH] [TARGET…]     (60 seconds, all targets)
#   --keep   adds to each corpus the new inputs that cover most: of the fewest that cover everything, the 40 shortest, up to 64 KiB.
#            Those of before go, but for the ones with names that people gave.
#
# Under AddressSanitizer where a nightly toolchain is installed; coverage alone needs only options of the stable one.
set -uo pipefail
cd "$(dirname "$0")" || exit
keep=
if [ "${1:-}" = --keep ]; then keep=1; shift; fi
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .rs src/bin/*.rs)

host=$(rustc -vV | sed -n 's/^host: //p')
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
toolchain=()
if cargo +nightly --version > /dev/null 2>&1; then
  toolchain=(+nightly) flags+=" -Zsanitizer=address"
fi
# With a target named, build scripts and macros stay as they are.
RUSTFLAGS="$flags" cargo "${toolchain[@]}" build --quiet --locked --release --target "$host" || exit
printf '%s\n' "$(cargo "${toolchain[@]}" --version)${toolchain:+, AddressSanitizer}"

keep() { # keep TARGET
  local fewest=found/$1.fewest left=65536 count=40 size file
  rm -rf "$fewest" && mkdir "$fewest"
  "$program" -set_cover_merge=1 "$fewest" "corpus/$1" "found/$1" "${options[@]}" 2> "found/$1.merge.log" || return
  # The fuzzer names an input by its hash.
  find "corpus/$1" -regextype egrep -regex '.*/[0-9a-f]{40}' -delete
  while read -r size file; do
    [ $((count -= 1)) -ge 0 ] && [ $((left -= size)) -ge 0 ] || break
    cp "$fewest/$file" "corpus/$1/"
  done < <(find "$fewest" -type f -printf '%s %f\n' | sort -n)
}

failed=0
for target in "${targets[@]}"; do
  program=target/$host/release/$target
  mkdir -p "found/$target" artifacts
  options=(-timeout=20 -rss_limit_mb=2048 -artifact_prefix="artifacts/$target-")
  [ ! -f "corpus/$target.dict" ] || options+=("-dict=corpus/$target.dict")
  seeds=("corpus/$target")
  case $target in
    scenario) seeds+=(../scenarios ../tests/scenarios) ;;
    profile) seeds+=(../src/settings) ;;
  esac
  # Templates are tried far beyond the longest source that is read, and whole recordings and runs are long.
  case $target in template | har | run) options+=(-max_len=65536) ;; *) options+=(-max_len=8192) ;; esac
  # New inputs go to the first folder.
  "$program" "found/$target" "${seeds[@]}" "${options[@]}" -max_total_time="$seconds" -print_final_stats=1 2> "found/$target.log"
  result=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "found/$target.log")
  coverage=$(grep -oE 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "found/$target.log" | tail -n 1)
  printf '%-12s %12s executions  %s\n' "$target" "${executions:-?}" "$coverage"
  if [ $result != 0 ]; then
    failed=1
    grep -vE '^#[0-9]+' "found/$target.log" | tail -n 40
  elif [ -n "$keep" ]; then
    keep "$target" || failed=1
  fi
done
exit $failed
