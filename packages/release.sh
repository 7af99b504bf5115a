#!/usr/bin/env bash
# Makes the files of a release from binaries. The release workflow calls it, and tests/release/dry_run.sh.
#
#   release.sh pack TARGET BINARY FOLDER   the archive, the wheel and the SBOM of one target
#   release.sh npm FOLDER                  the packages for npm, with the binaries of all archives there
#   release.sh sums FOLDER                 SHA256SUMS of everything there
#
# Archives have sorted names and no times or owners: the same binary gives the same bytes.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
version=$(sed -nE 's/^version = "(.*)"$/\1/p' "$root/Cargo.toml" | head -n 1)

pack() { # pack TARGET BINARY FOLDER
  local name="wrs-emulator-v$version-$1" work
  mkdir -p "$3"
  work=$(mktemp -d)
  mkdir "$work/$name"
  cp "$2" "$work/$name/wrs-emulator"
  cp "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE" "$work/$name/"
  # Python and not tar, whose flags differ between GNU and BSD.
  python3 - "$work" "$name" "$3/$name.tar.gz" <<'END'
import gzip, pathlib, sys, tarfile
work, name, target = sys.argv[1:]
def plain(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.name.endswith("/wrs-emulator") else 0o644
    return entry
with open(target, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
    archive.add(pathlib.Path(work, name), name, filter=plain)
END
  python3 "$root/packages/build.py" "$2" "$work/packages"
  mv "$work"/packages/*.whl "$3"
  rm -rf "$work"
  python3 "$root/packages/sbom.py" "$1" > "$3/$name.cdx.json"
}

npm() { # npm FOLDER
  local archive work
  work=$(mktemp -d)
  for archive in "$1"/*.tar.gz; do tar -xzf "$archive" -C "$work"; done
  python3 "$root/packages/build.py" "$work"/*/wrs-emulator "$work/packages"
  mv "$work"/packages/*.tgz "$1"
  python3 "$root/packages/build.py" --publish "$work"/*/wrs-emulator "$1"
  rm -rf "$work"
}

sums() { # sums FOLDER
  cd "$1"
  rm -f SHA256SUMS
  sha256sum -- * > SHA256SUMS
}

case "${1:-}:$#" in
  pack:4 | npm:2 | sums:2) "$@" ;;
  *) sed -n '2,8p' "$0" >&2; exit 2 ;;
esac
