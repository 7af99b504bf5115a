#!/usr/bin/env bash
# No packet leaves the machine at start, idle, or when commands run; one does once a webhook is allowed to leave. Usage: silent.sh EMULATOR_BINARY
#
# In a network namespace whose only way out is a device that counts, with nothing behind it. Needs root, or `sudo`.
set -euo pipefail
binary=$(realpath "$1")

if [ -z "${SILENT_INSIDE:-}" ]; then
  become=()
  if [ "$(id -u)" != 0 ]; then become=(sudo --non-interactive --preserve-env=PATH env "PATH=$PATH"); fi
  exec "${become[@]}" unshare --net --mount --pid --fork --kill-child --mount-proc env SILENT_INSIDE=1 timeout 60 bash "$0" "$binary"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ip link set lo up
# Whatever is sent to anybody goes here: the default route, and the name server.
ip link add out type veth peer name nobody
# The kernel's own announcements would count.
for device in out nobody; do ip link set "$device" addrgenmode none multicast off up; done
ip address add 10.97.71.1/24 dev out
ip route add default via 10.97.71.2
ip neighbour add 10.97.71.2 lladdr 02:00:00:00:00:02 dev out
ip neighbour add 10.97.71.53 lladdr 02:00:00:00:00:53 dev out
echo "nameserver 10.97.71.53" > resolv.conf
mount --bind resolv.conf /etc/resolv.conf
sent() { awk '$1 == "out:" { print $11 }' /proc/net/dev; }
silent() { [ "$(sent)" = 0 ] || { echo "✗ $1: $(sent) packets were sent"; exit 1; }; echo "✓ $1: no packet was sent"; }

mkfifo log
"$binary" --listen 127.0.0.1:0 --port-file url --state state.json --allow-egress any > log 2>&1 &
emulator=$!
read -r _ < log
cat log > output &
until [ -s url ]; do sleep 0.05; done
url=$(cat url)
silent "at the start"
# Longer than the time after which the state is saved, settings are looked at again, and scenario folders are polled.
sleep 6
silent "idle for 6 s"
export WRS_EMULATOR_URL=$url
"$binary" health > /dev/null
"$binary" requests list > /dev/null
"$binary" subscriptions create https://app.sink.localhost/hooks > /dev/null
"$binary" trigger workflow.completed --wait > /dev/null
"$binary" exec -- true > /dev/null 2>&1
"$binary" openapi > /dev/null
"$binary" scenarios > /dev/null
"$binary" --help > /dev/null
silent "with commands, and a webhook to the built-in receiver"
# The counter counts: a webhook that may leave asks the name server.
"$binary" subscriptions create https://receiver.example/hooks --key sk_test_out > /dev/null
"$binary" trigger workflow.completed --key sk_test_out > /dev/null
for _ in $(seq 100); do [ "$(sent)" = 0 ] || break; sleep 0.05; done
[ "$(sent)" != 0 ] || { echo "✗ the counter does not count"; exit 1; }
echo "✓ a webhook that was allowed to leave is counted: $(sent) packets"
kill "$emulator"
wait "$emulator" || true
echo "4 passed, 0 failed"
