#!/usr/bin/env bash
# The program for Windows, run by Wine: builds it for x86_64-pc-windows-gnu, then tries what tests/windows/prove.py says.
# Needs wine, mingw-w64's gcc and rustup's target. Usage: run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
# Debug information would double the time.
CARGO_PROFILE_DEV_DEBUG=0 cargo build --locked --target x86_64-pc-windows-gnu
folder=$PWD/target/x86_64-pc-windows-gnu/debug
work=$(mktemp -d)
export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
# Ends all programs of this prefix, and no others.
trap 'wineserver --kill 2> /dev/null || true; rm -rf "$work"' EXIT
PATH=$PATH:/usr/lib/wine
[ -e /usr/lib/x86_64-linux-gnu/wine/x86_64-windows/bcryptprimitives.dll ] ||
  x86_64-w64-mingw32-gcc -shared -o "$folder/bcryptprimitives.dll" tests/windows/bcryptprimitives.c -ladvapi32
wineboot --init > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
python3 tests/windows/prove.py "$folder/wrs-emulator.exe"
