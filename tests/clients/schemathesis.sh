#!/usr/bin/env bash
# Runs schemathesis with all checks against the emulator's own OpenAPI documents: the emulated API's, then the control API's.
# Usage: schemathesis.sh EMULATOR_BINARY SCHEMATHESIS_BINARY [EXAMPLES]: how many for each operation of the emulated API; the control
# API, which has many more operations, gets a quarter.
set -euo pipefail
emulator=$(realpath "$1")
schemathesis=$(realpath -s "$2")
examples=${3:-30}
folder=$(mktemp -d)
cd "$folder"

# The quota is raised: a 429 is right for a client that sends thousands of requests, and would hide everything else.
"$emulator" serve --quiet --listen 127.0.0.1:0 --port-file url.txt --set rate_limit.requests=4000000000 \
  --control-token schemathesis >ready.txt &
id=$!
trap 'kill "$id" 2>/dev/null || true; wait "$id" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 100); do grep -q ready ready.txt && break; sleep 0.1; done
url=$(cat url.txt)
token="Authorization: Bearer schemathesis"

curl -sf -H "$token" "$url/_emulator/v1/openapi.json" >emulated.json
# Which international names are hosts no pattern can say: IDNA decides.
cat >schemathesis.toml <<'TOML'
[[operations]]
include-operation-id = "events_subscribe"
checks.positive_data_acceptance.expected-statuses = ["2xx", 422]
TOML
"$schemathesis" --config-file schemathesis.toml run emulated.json --url "$url" -H "Authorization: Bearer sk_test_schemathesis" \
  --checks all --max-examples "$examples" --seed 20260131 --no-color

# The stream never ends and is left out. What waits gets short limits.
curl -sf -H "$token" "$url/_emulator/openapi.json" | python3 -c '
import json, sys
document = json.load(sys.stdin)
del document["paths"]["/_emulator/stream"]
for operation in (operation for path in document["paths"].values() for operation in path.values()):
    for parameter in operation["parameters"]:
        if parameter["name"] == "wait":
            parameter.update(schema={"type": "string", "pattern": "^(0|[0-9]ms)$"}, example="1ms")
for path in ["requests", "deliveries"]:
    body = document["paths"][f"/_emulator/{path}/wait"]["post"]["requestBody"]["content"]["application/json"]
    body["schema"]["properties"]["timeout"] = {"type": "string", "enum": ["1ms"]}
    body["schema"]["required"] = ["timeout"]
json.dump(document, sys.stdout)' >control.json
# Schemathesis has no serializer of TOML.
cat >hooks.py <<'PYTHON'
import schemathesis


@schemathesis.serializer("application/toml")
def toml(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
PYTHON
# What a schema cannot say (the settings in force, the scenario language, which scenarios there are, what a snapshot holds) is refused with 422 or 404.
cat >schemathesis.toml <<'TOML'
[[operations]]
include-operation-id = ["post_requests_wait", "post_deliveries_wait"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 408, 409]
checks.negative_data_rejection.expected-statuses = [400, 401, 404, 406, 408, 415, 422]
checks.max_response_time = 20.0

[[operations]]
include-operation-id = ["post_events", "post_events_sign", "post_events_cases", "patch_profile", "post_subscriptions", "put_scenarios_by_name",
  "post_clock", "post_subscriptions_by_id_rotate", "post_scenarios_active", "delete_scenarios_by_name", "put_snapshot"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 422]

# It changes nothing without a body, which the document allows; Schemathesis counts a body left out as wrong data all the same.
[[operations]]
include-operation-id = "put_subscriptions_by_id"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 422]
checks.negative_data_rejection.expected-statuses = [200, 400, 401, 404, 406, 408, 415, 422]
TOML
# An empty body is taken for `{}`, and a wait without its own time-out lasts ten seconds.
SCHEMATHESIS_HOOKS=hooks "$schemathesis" --config-file schemathesis.toml run control.json --url "$url" -H "$token" \
  --request-timeout 20 --checks all --max-examples "$((examples / 4))" --seed 20260131 --no-color
