#!/usr/bin/env bash
# A machine whose clock is before 1970, played by libfaketime (the Debian package faketime): every command refuses it with one line and
# exit code 2, and a clock after 1970 is fine.
# Usage: clock_before_1970.sh EMULATOR_BINARY     (it must be linked dynamically)
set -euo pipefail
emulator=$(realpath "$1")
library=$(find /usr/lib -name libfaketimeMT.so.1 | head -1)
[ -n "$library" ] || { echo "clock_before_1970.sh: libfaketime is missing; install the Debian package faketime" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

at() { # TIME COMMAND…
  local time=$1; shift
  timeout 20 env LD_PRELOAD="$library" FAKETIME="@$time" FAKETIME_DONT_FAKE_MONOTONIC=1 "$emulator" "$@" > out 2> err
}

ask='curl -s -m 5 -o /dev/null -w "%{http_code}" $WRS_BASE_URL/v1/hello'
for command in "serve --listen 127.0.0.1:0" "exec -- true" "listen --listen 127.0.0.1:0" "health" "serve --clock 2026-01-31T09:30:00Z"; do
  # shellcheck disable=SC2086 # words
  at "1969-12-31 20:00:00" $command && code=0 || code=$?
  [ "$code" = 2 ] && [ "$(wc -l < err)" = 1 ] && grep -q "the machine's clock shows a time before 1970" err && [ ! -s out ] ||
    { echo "clock_before_1970.sh: $command: exit code $code: $(cat out err)" >&2; exit 1; }
done
at "1970-01-02 00:00:00" exec --quiet -- sh -c "$ask"
[ "$(cat out)" = 200 ] || { echo "clock_before_1970.sh: in 1970: $(cat out err)" >&2; exit 1; }
echo "clock_before_1970.sh: passed"
