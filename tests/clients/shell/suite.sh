#!/usr/bin/env bash
# Tests with curl, each with its own key, all at the same time. Usage: wrs-emulator exec -- bash suite.sh
set -euo pipefail
source "$(dirname "$0")/emulator.sh"

hook='{"url":"https://suite.sink.localhost/","events":["workflow.completed"]}'

test_backoff() {
  freeze
  settings '{"rate_limit":{"requests":1,"window":"60s"}}'
  local pause=1 pauses='' turn
  for turn in first second; do
    # A script as a user might have: twice as long each time. Where it would sleep, the test moves the clock.
    until [ "$(status /v1/system/status)" = 200 ]; do
      advance "${pause}s"; pauses+="$pause "; pause=$((pause * 2))
      [ "$pause" -lt 200 ] || { echo "the quota did not come back for the $turn call"; return 1; }
    done
  done
  is '1 2 4 8 16 32 ' "$pauses"
}

test_waiting() {
  about requests/wait '"operation":"hello","count":1,"timeout":"50ms"' >answer.$$ && { echo "it waited for nothing"; return 1; }
  is '0 of 1 requests matched within 0.05 s (timeout)' "$(jq -r .error.message answer.$$)"; rm answer.$$
  about requests/wait '"operation":"system.status","count":2,"timeout":"60s"' | jq '.data | length' >"$key.count" &
  local waiting=$!
  status /v1/system/status >/dev/null; status /v1/system/status >/dev/null
  wait "$waiting"
  is 2 "$(cat "$key.count")"; rm "$key.count"
}

test_scenario_to_its_end() {
  play rate-limit-burst
  local statuses='' turn
  for turn in $(seq 10); do statuses+="$(status "/v1/system/status?n=$turn") "; done
  is "$(printf '200 %.0s' {1..5}; printf '429 %.0s' {1..4})200 " "$statuses"
}

test_snapshot() {
  # The command line does the same, for people and scripts.
  local saved=$key.json
  freeze
  call /v1/events/subscribe -H "$json" -d "$hook" -o /dev/null
  "$WRS_EMULATOR" snapshot save "$saved" --key "$key" >/dev/null
  local first; first=$(status /v1/system/status -D "$key.headers"; grep -i '^x-ratelimit-remaining\|^x-emulator-request-id' "$key.headers")
  about reset >/dev/null
  "$WRS_EMULATOR" snapshot load "$saved" >/dev/null
  is "$first" "$(status /v1/system/status -D "$key.headers"; grep -i '^x-ratelimit-remaining\|^x-emulator-request-id' "$key.headers")"
  rm "$saved" "$key.headers"
}

cd "$(mktemp -d)"
run_tests
