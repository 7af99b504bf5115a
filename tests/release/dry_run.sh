#!/usr/bin/env bash
# Makes the files of a release from one binary as the release workflow does, and checks them. Usage: dry_run.sh BINARY PYTHON
#
# PYTHON has cyclonedx-python-lib with its schemas. `dry_run.py` has the checks. Nothing is uploaded.
set -euo pipefail
binary=$(realpath "$1") python=$(realpath --no-symlinks "$2")
cd "$(dirname "$0")/../.."
target=$(rustc --version --verbose | sed -n 's/^host: //p')
folder="$PWD/target/release-files"
rm -rf "$folder"
for attempt in first second; do
  bash packages/release.sh pack "$target" "$binary" "$folder/$attempt" > /dev/null
  bash packages/release.sh npm "$folder/$attempt" > /dev/null
  bash packages/release.sh sums "$folder/$attempt"
done
cmp "$folder/first/SHA256SUMS" "$folder/second/SHA256SUMS"
echo "✓ the same binary gives the same files, byte for byte"
(cd "$folder/first" && sha256sum --check --strict --quiet SHA256SUMS)
echo "✓ SHA256SUMS is right"
"$python" tests/release/dry_run.py "$binary" "$folder/first" "$target"
# The binary in the archive works.
tar -xzf "$folder/first/"*.tar.gz -C "$folder"
unpacked=$(echo "$folder"/wrs-emulator-v*/wrs-emulator)
"$unpacked" exec --fail-on unmatched,undelivered -- bash -e -o pipefail tests/release/smoke.sh "$unpacked" > "$folder/smoke.log" 2>&1 ||
  { cat "$folder/smoke.log"; exit 1; }
echo "✓ the archive's binary serves, and a webhook goes round"
