#!/usr/bin/env bash
# What editors and hooks do with scenario files: pre-commit runs the hook of this repository, Taplo and Tombi check the shipped scenarios
# and profiles with the schemas that the binary prints. Usage: run.sh EMULATOR_BINARY TOOLS, where TOOLS has pre-commit, taplo and tombi.
set -euo pipefail
binary=$(realpath "$1") tools=$(realpath "$2")
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home"
ln -s "$binary" "$work/bin/wrs-emulator"
# Without a network: nothing may be downloaded, and nobody's settings count.
alone() { env -i HOME="$work/home" PATH="$work/bin:$tools:$PATH" GIT_CONFIG_NOSYSTEM=1 unshare --net --map-root-user "$@" > "$work/log" 2>&1; }
good() { local what=$1; shift; alone "$@" || { echo "✗ $what"; cat "$work/log"; exit 1; }; echo "✓ $what"; }
bad() { # bad WHAT TEXT COMMAND…: it must fail, and its output must have the text
  local what=$1 text=$2; shift 2
  if alone "$@" || ! grep --quiet --fixed-strings -- "$text" "$work/log"; then echo "✗ $what"; cat "$work/log"; exit 1; fi
  echo "✓ $what"
}

# The hook as another repository would have it, from a commit of these files.
hooks="$work/hooks" user="$work/user"
mkdir "$hooks"
cp .pre-commit-hooks.yaml "$hooks"
mkdir -p "$user/scenarios"
cp scenarios/rate-limit-burst.toml "$user/scenarios/good.toml"
printf 'this is = not TOML\n' > "$user/elsewhere.toml"
for repository in "$hooks" "$user"; do
  git -C "$repository" init --quiet
  git -C "$repository" add .
  git -C "$repository" -c user.name=test -c user.email=test@localhost commit --quiet --message=test
done
cd "$user"
good "pre-commit try-repo passes a good scenario, and leaves other files alone" pre-commit try-repo "$hooks" wrs-emulator-check --all-files --verbose
grep --quiet Passed "$work/log" || { echo "✗ the hook was skipped"; cat "$work/log"; exit 1; }
printf '[[rule]]\nwhen = { operation = "helo" }\n' > scenarios/broken.toml
git add scenarios
bad "pre-commit try-repo refuses a broken one, with the place" "scenarios/broken.toml:2" pre-commit try-repo "$hooks" wrs-emulator-check --all-files

# Each shipped file names the schema next to it.
cp -r "$root/scenarios" "$work/shipped"
cd "$work/shipped"
wrong=$(grep --files-without-match '^#:schema ./scenario.schema.json$' -- *.toml || true)
[ -z "$wrong" ] || { echo "✗ no line #:schema in $wrong"; exit 1; }
"$binary" scenarios schema > scenario.schema.json
printf '[schema]\nstrict = true\n' > tombi.toml
shopt -s extglob
files=(!(tombi).toml)
good "Tombi finds nothing in the ${#files[@]} shipped scenarios" tombi lint --offline --error-on-warnings "${files[@]}"
good "Taplo finds nothing in the ${#files[@]} shipped scenarios" taplo lint "${files[@]}"
sed 's/^title = /titel = /' rate-limit-burst.toml > wrong.toml
bad "Tombi refuses an unknown key" '"titel" is not allowed' tombi lint --offline wrong.toml
bad "Taplo refuses an unknown key" "titel" taplo lint wrong.toml
[ "${#files[@]}" -ge 18 ] || { echo "✗ only ${#files[@]} files"; exit 1; }

# Profiles: the built-in one, the presets, and the example of docs/sandbox.md.
mkdir "$work/profiles"
cp tombi.toml "$root"/src/settings/*.toml "$work/profiles"
cd "$work/profiles"
sed -n '/^```toml file=mine.toml$/,/^```$/p' "$root/docs/sandbox.md" | grep --invert-match '^```' > sandbox.toml
"$binary" profile schema > profile.schema.json
"$binary" profile default > default.toml
files=(!(tombi).toml)
wrong=$(grep --files-without-match '^#:schema ./profile.schema.json$' -- "${files[@]}" || true)
[ -z "$wrong" ] && [ "${#files[@]}" = 4 ] || { echo "✗ no line #:schema in $wrong of ${files[*]}"; exit 1; }
good "Tombi finds nothing in ${files[*]}" tombi lint --offline --error-on-warnings "${files[@]}"
good "Taplo finds nothing in ${files[*]}" taplo lint "${files[@]}"
sed 's/^requests = /request = /' sandbox.toml > wrong.toml
bad "Tombi names a mistyped setting" '"request" is not allowed' tombi lint --offline wrong.toml
bad "Taplo names a mistyped setting" "'request' was unexpected" taplo lint wrong.toml
echo "10 passed, 0 failed"
