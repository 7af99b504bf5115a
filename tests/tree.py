"""A copy of the sources below target/, to be changed, built and tested there; and the tables in defences.md made from such runs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[1]
page = root / "docs/internals/defences.md"


def copy(tree):
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


def built(tree):
    """The test programs, by `lib` and `it`, and the compiler's errors: one of them is empty."""
    command = ["cargo", "test", "--locked", "--no-run", "--lib", "--test", "it", "--message-format=json", "--target-dir", str(tree.parent / "build")]
    # Debug information would double the time.
    made = subprocess.run(command, cwd=tree, capture_output=True, text=True, env=os.environ | {"CARGO_PROFILE_DEV_DEBUG": "0"})
    messages = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    errors = [one["message"] for one in messages if one["reason"] == "compiler-message" and one["message"]["level"] == "error"]
    if made.returncode != 0:
        return {}, errors or sys.exit(made.stderr[-3000:])
    tests = [one for one in messages if one.get("executable") and one["profile"]["test"]]
    return {("it" if one["target"]["name"] == "it" else "lib"): one["executable"] for one in tests}, []


def document(script, table):
    """Compares the table of a whole run with the one in defences.md, or writes it there."""
    start, end = f"<!-- made by {script} -->\n", "<!-- end -->\n"
    before, rest = page.read_text().split(start)
    old, after = rest.split(end, 1)
    if "--write" in sys.argv:
        page.write_text(before + start + table + end + after)
    elif old != table:
        sys.exit(f"✗ the table in {page.relative_to(root)} is not what this run shows; python3 {script} --write\n{table}")
