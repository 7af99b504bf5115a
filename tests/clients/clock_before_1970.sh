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

# Stepped back while it runs: each request is answered as before, also on new connections and with TLS.
for tls in "" "--tls self-signed"; do
  rm -f url; echo "@2026-01-31 09:30:00" > now
  # shellcheck disable=SC2086 # words
  LD_PRELOAD="$library" FAKETIME_TIMESTAMP_FILE="$PWD/now" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
    "$emulator" serve $tls --listen 127.0.0.1:0 --port-file url > out 2> err &
  served=$!
  for _ in $(seq 200); do [ -s url ] && break; sleep 0.05; done
  curl -sk -m 5 -o /dev/null "$(cat url)/v1/hello"
  echo "@1969-12-31 20:00:00" > now
  for path in /v1/hello /v1/system/status /_emulator/requests /v1/nowhere; do
    found=$(curl -sk -m 5 -o /dev/null -w "%{http_code}" -H 'Authorization: Bearer sk_test_local' "$(cat url)$path" || true)
    case $path:$found in /v1/nowhere:404 | *:200) ;; *) echo "clock_before_1970.sh: $tls $path: $found $(cat err)" >&2; kill "$served"; exit 1 ;; esac
  done
  curl -sk -m 5 -X POST -H 'Content-Type: application/json' -d '{"url":"https://localhost:'"$(sed 's/.*://' url)"'/v1/hello"}' "$(cat url)/_emulator/subscriptions" > /dev/null
  curl -sk -m 5 -X POST -H 'Content-Type: application/json' -d '{"type":"workflow.completed"}' "$(cat url)/_emulator/events" > /dev/null
  for _ in $(seq 200); do grep -q "attempt 1 to" err && break; sleep 0.05; done
  kill "$served"
  wait "$served" || { echo "clock_before_1970.sh: $tls the end: $? $(cat err)" >&2; exit 1; }
  if grep -q panicked err || ! grep -q "attempt 1 to" err; then echo "clock_before_1970.sh: $tls $(cat err)" >&2; exit 1; fi
done
echo "clock_before_1970.sh: passed"
