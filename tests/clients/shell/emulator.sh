# Functions for shell tests against wrs-emulator, to be sourced. Copy this file next to your tests: it needs bash, curl and jq.
#
# `run_tests` runs every function called `test_…` in the background, each with an API key of its own in $key, made from its
# name and the script's, and with it its own workspace, quota, clock and scenarios. So no test has to sleep or to wait for another one.
# If a test fails, its output is followed by the reasons of the emulator's answers.
#
# The emulator is the one at WRS_EMULATOR_URL, which `wrs-emulator exec -- bash your-tests.sh` sets.

json='Content-Type: application/json'

# call PATH [CURL OPTIONS…]: a call of the emulated API with the test's key; prints the body.
# No proxy is used for an emulator, whatever http_proxy says.
call() { local path=$1; shift; curl -sS --noproxy '*' -H "Authorization: Bearer $key" "$@" "$WRS_EMULATOR_URL$path"; }

# status PATH [CURL OPTIONS…]: the same, and prints the status only.
status() { call "$@" -o /dev/null -w '%{http_code}'; }

# control METHOD PATH [JSON]: a call of the control API; prints the body, and fails if it is refused.
control() {
  curl -sS --noproxy '*' --fail-with-body -X "$1" -H "$json" ${3:+-d "$3"} \
    ${WRS_EMULATOR_CONTROL_TOKEN:+-H "Authorization: Bearer $WRS_EMULATOR_CONTROL_TOKEN"} "$WRS_EMULATOR_URL/_emulator/$2"
}

# about KEY'S PATH FIELDS: a POST about the test's key; FIELDS are JSON without the braces.
about() { control POST "$1" "{\"key\":\"$key\"${2:+,$2}}"; }

freeze() { about clock '"mode":"frozen"' >/dev/null; }
# advance DURATION: returns once everything that was due meanwhile is done.
advance() { about clock "\"advance\":\"$1\"" >/dev/null; }
play() { about scenarios/active "\"active\":[\"$1\"]" >/dev/null; }
settings() { control PATCH "profile?key=$key" "$1" >/dev/null; }

# is EXPECTED FOUND [WHAT]: fails unless both are the same.
is() { [ "$1" = "$2" ] || { printf 'expected %s, found %s%s\n' "$1" "$2" "${3:+: $3}"; return 1; }; }

# story: the last requests of the test's key, each with the reason for its answer.
story() {
  control GET "requests?key=$key&limit=10" | jq -r '.data | reverse[] | "\(.id) \(.method) \(.path)\(if .query then "?" + .query else "" end)"' |
    while read -r id what; do printf '%s  %s\n' "$what" "$(control GET "explain/$id" | jq -r .summary)"; done
}

# run_tests: all functions `test_…`, at the same time; prints one line each and `N passed, M failed`, and fails if one did, or
# if there is none.
run_tests() {
  local folder name passed=0 failed=0; local -A jobs=()
  folder=$(mktemp -d)
  for name in $(compgen -A function test_); do
    (
      # Inside a condition bash would go on after a failing line.
      set -euo pipefail
      key=sk_test_sh_${name}_$(printf %s "$PWD $0" | cksum | cut -d ' ' -f 1)
      about reset >/dev/null
      trap 'code=$?; [ "$code" = 0 ] || { echo "what the emulator says:"; story; }' EXIT
      "$name"
    ) >"$folder/$name" 2>&1 &
    jobs[$name]=$!
  done
  for name in "${!jobs[@]}"; do
    if wait "${jobs[$name]}"; then
      passed=$((passed + 1)); echo "ok $name"
    else
      failed=$((failed + 1)); echo "not ok $name"; sed 's/^/    /' "$folder/$name"
    fi
  done
  rm -rf "$folder"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
