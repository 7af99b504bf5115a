#!/usr/bin/env bash
# Tests with curl, each with a key of its own, all at the same time. Usage: wrs-emulator exec --preview -- bash suite.sh
#
# WRS_TEST_SECRET and WRS_TEST_RECEIVED belong to the receiver behind https://app.example.com, started with `wrs-emulator
# listen --json`: the secret it verifies with, and the file that it writes.
set -euo pipefail
source "$(dirname "$0")/emulator.sh"

hook='{"url":"https://app.example.com/hooks","events":["workflow.completed"]}'

test_contract() {
  is 200 "$(status /v1/system/status)"
  is 'true sandbox v1.0' "$(call /v1/system/status | jq -r '"\(.ok) \(.environment) \(.version)"')"
  is 1.3.2 "$(curl -sS "$WRS_EMULATOR_URL/v1/hello" | jq -r .version)"
  is active "$(call /v1/events/subscribe -H "$json" -d "$hook" | jq -r .status)"
}

test_refusals() {
  is 401 "$(key=wrong status /v1/system/status)"
  is unauthorized "$(curl -sS "$WRS_EMULATOR_URL/v1/system/status" | jq -r .error.code)"
  is 422 "$(status '/v1/system/status?include_checks=x')"
  is 422 "$(status /v1/events/subscribe -H "$json" -d '{"url":"http://app.example.com","events":[]}')"
}

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

test_retries_of_three_days() {
  local sink=retries-sh id
  freeze
  settings '{"webhooks":{"retry":{"preset":"custom","schedule":["1h","23h","48h"]}}}'
  control POST "sink/$sink" '{"respond":[500,500,500]}' >/dev/null
  call /v1/events/subscribe -H "$json" -d "{\"url\":\"https://$sink.sink.localhost/\",\"events\":[\"workflow.completed\"]}" >/dev/null
  id=$(control POST 'events?wait=20s' "{\"key\":\"$key\",\"type\":\"workflow.completed\"}" | jq -r '.deliveries[0].id')
  advance 72h
  is 'delivered 500 500 500 200' "$(control GET "deliveries/$id" | jq -r '"\(.status) \([.attempts[].outcome.status] | join(" "))"')"
}

test_waiting() {
  about requests/wait '"operation":"hello","count":1,"timeout":"50ms"' >answer.$$ && { echo "it waited for nothing"; return 1; }
  is '0 of 1 requests matched within 0.05 s' "$(jq -r .error.message answer.$$)"; rm answer.$$
  about requests/wait '"operation":"system.status","count":2,"timeout":"60s"' | jq '.data | length' >"$key.count" &
  local waiting=$!
  status /v1/system/status >/dev/null; status /v1/system/status >/dev/null
  wait "$waiting"
  is 2 "$(cat "$key.count")"; rm "$key.count"
}

test_forwarded_webhook() {
  local path="/hooks/$key" answer
  call /v1/events/subscribe -H "$json" -o /dev/null \
    -d "{\"url\":\"https://app.example.com$path\",\"events\":[\"workflow.completed\"],\"secret\":\"$WRS_TEST_SECRET\"}"
  answer=$(control POST 'events?wait=20s' "{\"key\":\"$key\",\"type\":\"workflow.completed\"}")
  is delivered "$(jq -r '.deliveries[0].status' <<<"$answer")"
  # The receiver writes its line before it answers.
  is "$(jq -r '.events[0].id' <<<"$answer") true" \
    "$(jq -r --arg path "$path" 'select(.target == $path) | "\(.id) \(.verified)"' "$WRS_TEST_RECEIVED")"
}

test_workflow_and_token() {
  freeze
  local token id
  token=$(curl -sS -d grant_type=client_credentials -d client_id=sh -d "client_secret=$key" "$WRS_EMULATOR_URL/v1/oauth/token" |
    jq -r .access_token)
  id=$(key=$token call /v1/workflows -H "$json" -d '{"name":"w"}' | jq -r .id)
  is running "$(call "/v1/workflows/$id" | jq -r .status)"
  advance 5s
  is completed "$(call "/v1/workflows/$id" | jq -r .status)"
  advance 1h
  is 401 "$(key=$token status /v1/system/status)"
}

test_scenario_to_its_end() {
  play rate-limit-burst
  local statuses='' turn
  for turn in $(seq 16); do statuses+="$(status "/v1/system/status?n=$turn") "; done
  is "$(printf '200 %.0s' {1..5}; printf '429 %.0s' {1..10})200 " "$statuses"
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
