#!/usr/bin/env bash
# Mutation score: changes the code in one place at a time and looks whether a test notices. Prints the score of each area and
# what no test noticed; fails below 80 %. Wants `cargo install cargo-mutants`; takes an hour and more, and is not part of CI.
# Usage: mutants.sh [--shard K/N] [AREA…]     (all areas; --shard 0/4 tries every fourth mutant of each)
#
# Works in a clone of the last commit below target/, so that nobody's files are touched. The unit tests of an area are tried
# first, which takes seconds; what they miss is tried again with the tests over sockets.
set -euo pipefail
cd "$(dirname "$0")/.."
least=80

shard=()
if [ "${1:-}" = --shard ]; then shard=(--shard "$2" --sharding round-robin); shift 2; fi
areas=("$@")
[ ${#areas[@]} -gt 0 ] || areas=(quota signatures egress decisions reload)

# What an area is: its files, the unit tests, the modules of `tests/it`.
files() {
  case $1 in
    quota) echo src/state/quota.rs src/http/headers.rs ;;
    signatures) echo 'src/contract/signature/*.rs' ;;
    egress) echo src/webhook/{guard,egress,dial}.rs ;;
    decisions) echo src/scenario/{decide,matcher,rule}.rs ;;
    reload) echo src/scenario/{files,generation,library,watch}.rs ;;
    *) echo "mutants.sh: no area \`$1\`: quota, signatures, egress, decisions, reload" >&2; return 2 ;;
  esac
}
units() {
  case $1 in
    quota) echo rate_limit http:: ;;
    signatures) echo contract::signature webhook::attempt ;;
    egress) echo webhook:: ;;
    decisions) echo scenario::{action,built_in,decide,emit,matcher,progress,render,rule}:: ;;
    reload) echo scenario::{built_in,knob_patch,library,watch}:: ;;
  esac
}
sockets() {
  case $1 in
    quota) echo quota:: knobs:: snapshots:: ;;
    signatures) echo tools:: webhooks:: ;;
    egress) echo webhooks:: receivers:: subscriptions:: ;;
    decisions) echo scenarios:: explain:: presets:: reset:: snapshots:: ;;
    reload) echo library:: reload:: reset:: snapshots:: patches:: scenarios:: ;;
  esac
}

clone="$PWD/target/mutants/clone" results="$PWD/target/mutants"
mkdir -p "$results"
[ -d "$clone" ] || git clone --quiet . "$clone"
git -C "$clone" fetch --quiet origin HEAD && git -C "$clone" checkout --quiet --force FETCH_HEAD
# What earlier runs left for property tests to repeat would slow these down.
git -C "$clone" clean --quiet --force -d --exclude target
export CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_CASES=${PROPTEST_CASES:-64}

# Tests must pass unchanged, or every mutant would count as noticed.
(cd "$clone" && cargo test --locked --quiet --lib --test it >"$results/unchanged.log" 2>&1) ||
  { tail -n 30 "$results/unchanged.log"; echo "mutants.sh: the tests fail without a mutant" >&2; exit 1; }

try() { # try AREA FLAGS… -- TESTS…
  local area=$1 flags=() examine=()
  shift
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  for file in $(files "$area"); do examine+=(--file "$file"); done
  # 2: mutants were missed; 3: some took too long, which is noticed too.
  local code=0
  cargo mutants --dir "$clone" --in-place --baseline skip --timeout 120 --colors never --no-shuffle "${shard[@]}" \
    --output "$results/$area" "${examine[@]}" "${flags[@]}" -- -- "${@:2}" >>"$results/$area.log" 2>&1 || code=$?
  case $code in 0 | 2 | 3) ;; *) tail -n 20 "$results/$area.log" >&2; return 1 ;; esac
}

below=0
for area in "${areas[@]}"; do
  files "$area" >/dev/null
  rm -rf "${results:?}/$area" "$results/$area.log"
  printf '== %s\n' "$area" >&2
  # shellcheck disable=SC2046 # words are wanted
  try "$area" --cargo-arg=--lib -- $(units "$area")
  found="$results/$area/mutants.out"
  noticed=$(cat "$found"/caught.txt "$found"/timeout.txt | wc -l)
  missed=0
  if [ -s "$found/missed.txt" ]; then
    # shellcheck disable=SC2046
    try "$area" --iterate --cargo-arg=--test --cargo-arg=it -- $(sockets "$area")
    noticed=$((noticed + $(cat "$found"/caught.txt "$found"/timeout.txt | wc -l)))
    missed=$(wc -l <"$found/missed.txt")
  fi
  score=$((100 * noticed / (noticed + missed)))
  printf '%-12s %3d of %3d noticed: %d %%\n' "$area" "$noticed" $((noticed + missed)) "$score"
  [ "$missed" = 0 ] || sed 's/^/    missed: /' "$found/missed.txt"
  [ "$score" -ge "$least" ] || below=1
done
exit "$below"
