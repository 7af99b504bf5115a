"""Switches off one guard at a time and expects tests to turn red: a guard that no test misses is not tested.

Usage: run.py [--write] [GUARD…]     all of guards.toml, or those whose name has one of these words; --write updates the table

The sources are copied to target/guards, changed there, built and tested; the checkout stays as it is. The table in
docs/internals/defences.md is made from this run, and a difference is an error.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

root = pathlib.Path(__file__).resolve().parents[2]
tree = root / "target/guards/tree"
page = root / "docs/internals/defences.md"
start, end = "<!-- made by tests/guards/run.py -->\n", "<!-- end -->\n"


def copy():
    """Files that have not changed keep their time, so that only what changed is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True, capture_output=True)
    names = {name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()}
    for old in tree.rglob("*"):
        if old.is_file() and str(old.relative_to(tree)) not in names:
            old.unlink()
    for name in names:
        source, target = root / name, tree / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def built():
    """The test programs, by `lib` and `it`; None if they do not compile."""
    command = ["cargo", "test", "--locked", "--no-run", "--lib", "--test", "it", "--message-format=json", "--target-dir", str(tree.parent / "build")]
    made = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if made.returncode != 0:
        print(made.stderr[-3000:])
        return None
    messages = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    tests = [one for one in messages if one.get("executable") and one["profile"]["test"]]
    return {("it" if one["target"]["name"] == "it" else "lib"): one["executable"] for one in tests}


def tested(programs, guard):
    """The number of tests that ran, and the names of those that failed."""
    ran, failed = 0, []
    for program, filters in [("it", guard.get("tests", [])), ("lib", guard.get("lib", []))]:
        if filters:
            try:
                output = subprocess.run([programs[program], *filters], cwd=tree, capture_output=True, text=True, errors="replace", timeout=600).stdout
            except subprocess.TimeoutExpired:
                failed.append(f"a test of {', '.join(filters)} that no longer ends")
                continue
            ran += sum(map(int, re.findall(r"^running (\d+) tests?$", output, re.M)))
            failed += re.findall(r"^test (\S+) \.\.\. FAILED$", output, re.M)
    return ran, sorted(failed)


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    guards = tomllib.loads((root / "tests/guards/guards.toml").read_text())["guard"]
    chosen = [guard for guard in guards if not words or any(word in guard["name"] for word in words)]
    copy()
    programs = built() or sys.exit("✗ the sources do not compile")
    for guard in chosen:
        ran, failed = tested(programs, guard)
        if failed or not ran:
            sys.exit(f"✗ {guard['name']}: before it is switched off, {ran} tests ran, and these fail: {failed}")
    print(f"✓ with every guard on, the tests of {len(chosen)} guards pass", flush=True)

    rows, unmissed = [], []
    for guard in chosen:
        file = tree / guard["file"]
        source = file.read_text()
        if source.count(guard["text"]) != 1:
            sys.exit(f"✗ {guard['name']}: {guard['file']} has its text {source.count(guard['text'])} times, not once")
        file.write_text(source.replace(guard["text"], guard["instead"]))
        try:
            programs = built() or sys.exit(f"✗ {guard['name']}: switched off, it does not compile")
            _, failed = tested(programs, guard)
        finally:
            file.write_text(source)
        print(f"{'✓' if failed else '✗'} {guard['name']}: {len(failed)} turn red", *failed, sep="\n    ", flush=True)
        unmissed += [] if failed else [guard["name"]]
        first = ", ".join(f"`{name}`" for name in failed[:2]) + (f" and {len(failed) - 2} more" if len(failed) > 2 else "")
        rows.append(f"| {guard['name']} | {first} |\n")
    if unmissed:
        sys.exit(f"✗ no test misses {', '.join(unmissed)}")
    if words:
        return
    before, rest = page.read_text().split(start)
    old, after = rest.split(end)
    table = "| switched off | tests that turn red |\n| --- | --- |\n" + "".join(rows)
    if "--write" in sys.argv:
        page.write_text(before + start + table + end + after)
    elif old != table:
        sys.exit(f"✗ the table in {page.relative_to(root)} is not what this run shows; python3 tests/guards/run.py --write\n{table}")


main()
