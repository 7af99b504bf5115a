#!/usr/bin/env bash
# A released binary works where it was built: run by `exec`, it asks for the status and sends a webhook round.
# Usage: wrs-emulator exec -- smoke.sh EMULATOR_BINARY
set -euo pipefail
authorization="Authorization: Bearer $WRS_API_KEY"
curl --fail --silent --show-error -H "$authorization" "$WRS_BASE_URL/v1/system/status"
curl --fail --silent --show-error -H "$authorization" -H 'Content-Type: application/json' \
  -d '{"url":"https://smoke.sink.localhost/","events":["workflow.completed"]}' "$WRS_BASE_URL/v1/events/subscribe" > /dev/null
"$1" trigger workflow.completed --wait
