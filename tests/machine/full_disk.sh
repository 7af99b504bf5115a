#!/usr/bin/env bash
# Starts emulators in the background with their records on a disk that is full, at the start and later.
# Usage: full_disk.sh EMULATOR_BINARY     (exit code 3: nothing can be mounted here)
set -euo pipefail
if [ -z "${FULL_DISK:-}" ]; then
  binary=$(realpath "$1")
  FULL_DISK=$(mktemp -d)
  export FULL_DISK
  trap 'rm -rf "$FULL_DISK"' EXIT
  unshare --mount --map-root-user mount -t tmpfs tmpfs "$FULL_DISK" 2> /dev/null || { echo "full_disk.sh: nothing can be mounted here" >&2; exit 3; }
  unshare --mount --map-root-user bash "$0" "$binary"
  exit
fi

binary=$1
mount -t tmpfs -o size=64k,mode=700 tmpfs "$FULL_DISK"
cd "$FULL_DISK"
export XDG_RUNTIME_DIR=$FULL_DISK
fails() { echo "full_disk.sh: $*" >&2; exit 1; }
fill() { dd if=/dev/zero of="$FULL_DISK/fill" bs=1k count=100 2> /dev/null || true; }

fill
if said=$("$binary" start --listen 127.0.0.1:0 2>&1); then fails "it has started: $said"; fi
[[ $said == *"No space left on device"*"free some space there"* ]] || fails "$said"
rm "$FULL_DISK/fill"

url=$("$binary" start --listen 127.0.0.1:0 2> /dev/null)
trap '"$binary" stop 2> /dev/null' EXIT
fill
# More lines than the disk has room for.
for _ in $(seq 100); do curl -sf -o /dev/null "$url/v1/hello" || fails "it does not answer"; done
"$binary" status > /dev/null || fails "its status is unknown"
"$binary" stop 2> /dev/null || fails "it was not stopped"
trap - EXIT
echo "full_disk.sh: passed"
