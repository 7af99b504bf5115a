#!/usr/bin/env bash
# As the first process of a process namespace: `exec` and the commands that serve reap the processes that others leave behind, and the exit code of the
# command is kept, whichever process reaps it.
# Usage: first_process.sh EMULATOR_BINARY     (exit code 3: no namespace can be made here)
set -euo pipefail
emulator=$(realpath "$1")
namespace=(unshare --pid --mount --fork --kill-child --mount-proc)
[ "$(id -u)" = 0 ] || namespace+=(--user --map-root-user)
"${namespace[@]}" true || { echo "first_process.sh: no process namespace can be made here" >&2; exit 3; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fails() { echo "first_process.sh: $*" >&2; exit 1; }

# Prints the number of zombies. Those that have just ended may be reaped a moment later.
cat > zombies << 'SH'
left=
for _ in $(seq 200); do
  left=$(cat /proc/[0-9]*/stat 2> /dev/null | sed 's/.*) //' | grep -c '^Z' || true)
  [ "$left" = 0 ] && break
  sleep 0.05
done
echo "$left"
SH

# A subshell that ends before its child leaves an orphan.
cat > orphans << 'SH'
for _ in $(seq 100); do (sh -c 'echo $PPID >> parents; sleep 0.01' &); done
[ "$(sh -c 'echo $PPID' | head -1)" != 1 ] || exit 90
SH
found=$("${namespace[@]}" "$emulator" exec --quiet -- sh -c '. ./orphans; sleep 0.2; . ./zombies; exit 7') && code=0 || code=$?
[ "$code" = 7 ] || fails "the exit code of the command is $code, not 7"
[ "$found" = 0 ] || fails "exec left $found of 100 orphans"
[ "$(wc -l < parents)" = 100 ] || fails "not all orphans ran"

# The exit code is kept while orphans end at the same time, and so is a signal.
for round in $(seq 50); do
  "${namespace[@]}" "$emulator" exec --quiet -- sh -c 'for i in 1 2 3 4; do (true & true &); done; exit 5' && code=0 || code=$?
  [ "$code" = 5 ] || fails "round $round: the exit code is $code, not 5"
done
"${namespace[@]}" "$emulator" exec --quiet -- sh -c '(true &); kill -TERM $$' && code=0 || code=$?
[ "$code" = 143 ] || fails "the exit code after a signal is $code, not 143"

# What enters the namespace of a command that serves leaves orphans there.
mkfifo ready
"$emulator" exec --quiet -- sh -c '"$0" run save run.json' "$emulator" > /dev/null
for command in "serve --listen 127.0.0.1:0" "listen --listen 127.0.0.1:0 --url http://127.0.0.1:1" "run view run.json --listen 127.0.0.1:0 --no-open"; do
  # shellcheck disable=SC2086 # words
  "${namespace[@]}" "$emulator" $command > ready 2> log &
  outer=$!
  read -r line < ready
  case $line in *http://*) ;; *) fails "not ready: $line $(cat log)" ;; esac
  first=$(pgrep -P "$outer")
  enter=(nsenter --target "$first" --pid --mount)
  [ "$(id -u)" = 0 ] || enter+=(--user --preserve-credentials)
  found=$("${enter[@]}" sh -c "cd '$folder'; . ./orphans; sleep 0.2; . ./zombies")
  [ "$found" = 0 ] || fails "$command left $found of 100 orphans"
  kill -TERM "$first"
  wait "$outer" || fails "$command ended with $?"
done
echo "first_process.sh: passed"
