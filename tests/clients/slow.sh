#!/usr/bin/env bash
# Slow and stuck clients against the emulator, and a process with too few descriptors: others are served meanwhile, a good request
# is answered within a second of the end, memory stays below 128 MiB, and nothing spins. Uses slowhttptest (a Debian package).
# Usage: slow.sh [SECONDS_EACH] [EMULATOR_BINARY]     (8 seconds, target/release/wrs-emulator)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-8}
emulator=$(realpath "${2:-$here/../../target/release/wrs-emulator}")
folder=$(mktemp -d)
cd "$folder"
id=
trap '[ -z "$id" ] || kill "$id" 2>/dev/null || true; rm -rf "$folder"' EXIT

fail() { echo "slow.sh: $*" >&2; exit 1; }
megabytes() { awk '/^VmRSS:/ { printf "%d", $2 / 1024 }' "/proc/$id/status"; }
ticks() { sed 's/.*) //' "/proc/$id/stat" | cut -d ' ' -f 12,13 | tr ' ' '+' | { read -r sum; echo $((sum)); }; }
# A good request: prints how long it took in milliseconds; fails if it was not answered with 200 in so many seconds.
good() {
  curl -s -o /dev/null -w '%{http_code} %{time_total}' --max-time "$1" "$url/v1/hello" | awk '$1 != 200 { exit 1 } { printf "%d", $2 * 1000 }'
}
mkdir scenarios
# An answer that no socket takes whole.
{
  printf 'title = "A long answer"\n[[rule]]\nwhen = { operation = "hello", query.long = "1" }\nreply = { status = 200, body = "'
  head -c 200000 /dev/zero | tr '\0' x
  printf '" }\n'
} >scenarios/long.toml

start() { # start DESCRIPTORS
  rm -f ready.txt url.txt
  (ulimit -n "$1"; exec "$emulator" serve --quiet --listen 127.0.0.1:0 --port-file url.txt --set rate_limit.enabled=false --scenarios scenarios --scenario long) >ready.txt &
  id=$!
  for _ in $(seq 100); do grep -qs ready ready.txt && break; sleep 0.05; done
  url=$(cat url.txt)
}
stop() { kill "$id"; wait "$id" || fail "it did not end in order"; id=; }

# attack NAME OTHERS PATH ARGUMENTS…: OTHERS is `served` where places are left, `queued` where the attack takes them all.
attack() {
  local name=$1 others=$2 path=$3 worst=0 asked=0 most=0 took grown began=$SECONDS before=
  shift 3
  start 8192
  slowhttptest "$@" -u "$url$path" -l "$seconds" -p 2 -v 0 >attack.txt 2>&1 &
  local attacker=$!
  sleep 1
  while kill -0 "$attacker" 2>/dev/null; do
    if [ "$others" = served ]; then
      took=$(good 5) || fail "$name: a good request was not answered"
      [ "$took" -le 1000 ] || fail "$name: a good request took $took ms"
      worst=$((took > worst ? took : worst))
      asked=$((asked + 1))
    fi
    grown=$(megabytes)
    most=$((grown > most ? grown : most))
    [ -n "$before" ] || [ $((SECONDS - began)) -le $((seconds * 3 / 5)) ] || before=$(ticks)
    sleep 0.1
  done
  wait "$attacker" || true
  took=$(good 1) || fail "$name: not answered within a second of the end"
  [ "$most" -le 128 ] || fail "$name: $most MiB of memory"
  # Once all are connected nothing is left to do but to wait; who spins would use a second for each second.
  local used=$(($(ticks) - before))
  [ "$used" -le $((seconds * 12)) ] || fail "$name: $used hundredths of a second of processor time while nothing happens"
  [ "$others" != served ] || [ "$asked" -ge 5 ] || fail "$name: only $asked good requests were made meanwhile"
  printf '%-34s %4d requests meanwhile, slowest %4d ms; after the end %3d ms; at most %3d MiB; %d.%02d s of processor in the end\n' \
    "$name" "$asked" "$worst" "$took" "$most" $((used / 100)) $((used % 100))
  stop
}

many=(-c 900 -r 300 -i 1)
attack "slow headers, 900" served /v1/hello -H "${many[@]}" -t GET -x 24
attack "slow headers, 2,000 over the cap" queued /v1/hello -H -c 2000 -r 500 -i 1 -t GET -x 24
attack "slow bodies, 900" served /v1/events/subscribe -B "${many[@]}" -s 200000 -t POST -f application/json -x 24
attack "slow readers of 200 KiB, 500" served "/v1/hello?long=1" -X -c 500 -r 250 -i 1 -w 10 -y 20 -n 1 -z 8 -k 3
attack "ranges, 900" served /v1/hello -R "${many[@]}" -a 1 -b 3000 -t HEAD

# More connections than descriptors: they wait, the process does not spin, and once they leave it serves as before.
start 64
good 1 >/dev/null || fail "descriptors: not answered before the attack"
python3 - "${url##*:}" "$id" <<'PYTHON'
import os, socket, sys, time

port, process = int(sys.argv[1]), sys.argv[2]
held = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(150)]
opened = -1
while opened != (opened := len(os.listdir(f"/proc/{process}/fd"))):
    time.sleep(0.2)
assert 20 < opened < 60, f"{opened} descriptors are open: connections take most of them and leave some"
def ticks():
    fields = open(f"/proc/{process}/stat").read().rsplit(") ", 1)[1].split(" ")
    return int(fields[11]) + int(fields[12])
before = ticks()
time.sleep(2)
used = ticks() - before
assert used <= 40, f"{used} hundredths of a second in two seconds of accepting nothing"
print(f"150 connections on 64 descriptors     waited; {used / 100:.2f} s of processor in 2 s")
for connection in held:
    connection.close()
PYTHON
took=$(good 1) || fail "descriptors: not answered within a second of the end"
printf '%-34s answered %d ms after they left\n' "" "$took"
stop
echo "slow.sh: passed"
