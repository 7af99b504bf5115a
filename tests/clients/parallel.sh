#!/usr/bin/env bash
# Test suites of real clients, all at the same time, against ONE emulator: pytest (requests, httpx), node:test (fetch) and a shell
# script (curl). Each test has its own key. Passes if all tests do, and if the emulator's verdict is good.
# Usage: parallel.sh EMULATOR_BINARY PYTHON NODE_FOLDER, where NODE_FOLDER has the npm packages.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
# The packages as a checkout has them; tests/packages installs them as users do.
export PYTHONPATH=$here/../../packages/pypi
pytest=(-m pytest -q -p no:cacheprovider -p wrs_emulator.pytest_plugin)

if [ -z "${WRS_EMULATOR_URL:-}" ]; then
  export WRS_EMULATOR; WRS_EMULATOR=$(realpath "$1")
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT

  # A certificate for the receivers of the tests, which the emulator trusts by --webhook-ca.
  export WRS_TEST_CERT="$folder/cert.pem" WRS_TEST_CERT_KEY="$folder/key.pem"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
    -addext "subjectAltName=IP:127.0.0.1,DNS:localhost" -addext "basicConstraints=critical,CA:FALSE" \
    -out "$WRS_TEST_CERT" -keyout "$WRS_TEST_CERT_KEY" 2>/dev/null

  "$WRS_EMULATOR" exec --seed 20260131 --webhook-ca "$WRS_TEST_CERT" \
    --fail-on unmatched,undelivered,unfinished -- bash "$0" "$@"

  # The other way: no `exec`; the fixture starts an emulator for its session.
  output=$("$2" "${pytest[@]}" "$here/python/test_waiting.py") || { echo "$output"; exit 1; }
  echo "pytest with its own emulator: $(tail -n 1 <<<"$output")"
  exit
fi

# From here on inside `exec`.
python=$2 node_folder=$(realpath "$3")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

"$python" "${pytest[@]}" -n 4 "$here/python" >"$logs/pytest" 2>&1 &
suites[0]=$!
# Modules are resolved from the script's folder.
rm -rf "$node_folder/suite"; cp -r "$here/node" "$node_folder/suite"
ln -sfn "$here/../../packages/npm" "$node_folder/node_modules/wrs-emulator"
node --test --test-reporter=tap "$node_folder"/suite/*.test.mjs >"$logs/node" 2>&1 &
suites[1]=$!
bash "$here/shell/suite.sh" >"$logs/shell" 2>&1 &
suites[2]=$!

failed=0 names=(pytest node shell)
for suite in 0 1 2; do
  wait "${suites[$suite]}" || { echo "${names[$suite]} failed:"; cat "$logs/${names[$suite]}"; failed=1; }
done

# A suite that found no test, or left one out, has shown nothing.
count() { # count SUITE PATTERN: the number in the line that matches
  local number; number=$(sed -nE "s/$2/\\1/p" "$logs/$1" | tail -n 1)
  [ "${number:-0}" -gt 0 ] || { echo "$1: no test was passed"; failed=1; }
  echo "$1: ${number:-0} passed"
}
count pytest '^([0-9]+) passed in .*'
count node '^# pass ([0-9]+)$'
count shell '^([0-9]+) passed, 0 failed$'
grep -qx '# skipped 0' "$logs/node" || { echo "node: tests were skipped"; failed=1; }
exit "$failed"
