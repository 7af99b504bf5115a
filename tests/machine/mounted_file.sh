#!/usr/bin/env bash
# Mounts a file alone, as `docker run -v FILE:FILE` does, and has it written: refused in words, before anything is done.
# Usage: mounted_file.sh EMULATOR_BINARY     (exit code 3: nothing can be mounted here)
set -euo pipefail
binary=$(realpath "$1")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
namespace=(unshare --mount --map-root-user)
"${namespace[@]}" mount --bind "$folder" "$folder" 2> /dev/null || { echo "mounted_file.sh: nothing can be mounted here" >&2; exit 3; }

fails() { echo "mounted_file.sh: $*" >&2; exit 1; }

# mounted ARGUMENTS...: runs the program with `given` mounted at `mounted`; prints its output.
mounted() {
  : > "$folder/given"; : > "$folder/mounted"
  "${namespace[@]}" sh -c 'mount --bind "$0/given" "$0/mounted"; shift; exec timeout 20 "$@"' "$folder" - "$binary" "$@" 2>&1
}

for flag in --state --port-file; do
  if said=$(mounted serve --listen 127.0.0.1:0 "$flag" "$folder/mounted"); then fails "$flag: it has started: $said"; fi
  [[ $said == *"$flag"*"is a mount point"*"mount its folder instead"* && $said != *"ready on"* ]] || fails "$flag: $said"
  [ ! -s "$folder/given" ] || fails "$flag: the file was changed"
done
echo "mounted_file.sh: passed"
