#!/usr/bin/env bash
# The steps of action.yml. Usage: action.sh start | report | judge
#
#   start    finds or makes the binary, serves on a free port until the job ends or `judge` stops it, and exports where
#   report   writes what happened to a folder
#   judge    writes the summary of the job, fails for the problems in FAIL_ON, and stops the emulator
set -euo pipefail
folder="$RUNNER_TEMP/wrs-emulator"

fail() { echo "::error title=wrs-emulator::$1"; exit 1; }

target() {
  case "$RUNNER_OS-$RUNNER_ARCH" in
    Linux-X64) echo x86_64-unknown-linux-musl ;;
    Linux-ARM64) echo aarch64-unknown-linux-musl ;;
    macOS-X64) echo x86_64-apple-darwin ;;
    macOS-ARM64) echo aarch64-apple-darwin ;;
    *) fail "there is no release for $RUNNER_OS $RUNNER_ARCH; leave \`version\` empty to build from source" ;;
  esac
}

download() { # download FOLDER: the released binary, compared with its checksum
  local name base
  name="wrs-emulator-v$VERSION-$(target)"
  base="$GITHUB_SERVER_URL/$REPOSITORY/releases/download/v$VERSION"
  curl --fail --silent --show-error --location --retry 3 --output-dir "$1" --remote-name "$base/$name.tar.gz" --remote-name "$base/SHA256SUMS" ||
    fail "cannot download $base/$name.tar.gz; is $VERSION a release?"
  (cd "$1" && grep --fixed-strings "  $name.tar.gz" SHA256SUMS | shasum --algorithm 256 --check --status) ||
    fail "$name.tar.gz does not have the checksum of the release"
  tar -xzf "$1/$name.tar.gz" -C "$1" --strip-components 1
}

start() {
  local bin="$folder/bin" cached="$HOME/.cache/wrs-emulator"
  mkdir -p "$bin"
  if [ -n "$BINARY" ]; then
    cp "$BINARY" "$bin/wrs-emulator"
  elif [ -n "$VERSION" ]; then
    download "$bin"
  else
    [ -x "$cached/bin/wrs-emulator" ] || cargo install --quiet --locked --profile release --path "$GITHUB_ACTION_PATH" --root "$cached"
    cp "$cached/bin/wrs-emulator" "$bin/"
  fi

  local arguments=() line
  while IFS= read -r line; do [ -z "$line" ] || arguments+=("$line"); done <<< "$ARGUMENTS"
  rm -f "$folder/url"
  "$bin/wrs-emulator" serve --listen 127.0.0.1:0 --port-file "$folder/url" ${arguments[@]+"${arguments[@]}"} > "$folder/emulator.log" 2>&1 < /dev/null &
  echo $! > "$folder/pid"
  local end=$((SECONDS + 30))
  until [ -s "$folder/url" ] && "$bin/wrs-emulator" health --url "$(cat "$folder/url")" > /dev/null 2>&1; do
    kill -0 "$(cat "$folder/pid")" 2> /dev/null || { cat "$folder/emulator.log"; fail "the emulator did not start"; }
    [ "$SECONDS" -lt "$end" ] || { cat "$folder/emulator.log"; fail "the emulator was not ready within 30 s"; }
    sleep 0.05
  done
  local url; url=$(cat "$folder/url")
  printf '%s\n' "WRS_BASE_URL=$url" "WRS_EMULATOR_URL=$url" "WRS_API_KEY=$API_KEY" >> "$GITHUB_ENV"
  echo "url=$url" >> "$GITHUB_OUTPUT"
  echo "$bin" >> "$GITHUB_PATH"
  echo "wrs-emulator serves on $url"
}

running() { [ -s "$folder/url" ] || fail "it was not started: a step with \`command: start\` comes first"; }

report() {
  running
  local out="$folder/report" emulator=("$folder/bin/wrs-emulator") url; url=$(cat "$folder/url")
  mkdir -p "$out"
  # The summary and the annotations are those of `judge`.
  unset GITHUB_ACTIONS
  echo "folder=$out" >> "$GITHUB_OUTPUT"
  "${emulator[@]}" verdict --url "$url" --key '*' --wait 5s > "$out/verdict.txt"
  "${emulator[@]}" verdict --url "$url" --key '*' --format junit > "$out/verdict.xml"
  "${emulator[@]}" requests list --url "$url" --key '*' --limit 1000 --json > "$out/requests.ndjson"
  "${emulator[@]}" deliveries list --url "$url" --key '*' --limit 1000 --json > "$out/deliveries.ndjson"
  "${emulator[@]}" run save "$out/report.html" --url "$url"
  cp "$folder/emulator.log" "$out/"
}

judge() {
  running
  local code=0 options=()
  [ -z "$FAIL_ON" ] || options+=(--fail-on "$FAIL_ON")
  [ "$ALLOW_UNUSED" != true ] || options+=(--allow-unused)
  "$folder/bin/wrs-emulator" verdict --url "$(cat "$folder/url")" --key '*' ${options[@]+"${options[@]}"} || code=$?
  kill "$(cat "$folder/pid")" 2> /dev/null || true
  # The emulator removes it as well, when it has stopped.
  rm -f "$folder/url"
  [ "$code" != 3 ] || fail "the emulator had stopped; emulator.log in the artifact of the report may say why"
  [ "$code" = 0 ] || fail "problems were found; report.html in the artifact of the report has the details"
}

case "${1:-}" in
  start | report | judge) "$1" ;;
  *) sed -n '2,6p' "$0" >&2; exit 2 ;;
esac
