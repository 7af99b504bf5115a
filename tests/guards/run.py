"""Switches off one guard at a time and expects tests to turn red: a guard that no test misses is not tested.

Usage: run.py [--write] [GUARD…]     all of guards.toml, or those whose name has one of these words; --write updates the table

The sources are copied to target/guards, changed there, built and tested; the checkout stays as it is. The table in
docs/internals/defences.md is made from this run, and a difference is an error.
"""

import pathlib
import re
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from tree import built, copy, document, root

tree = root / "target/guards/tree"


def compiled(problem):
    """The test programs; if there are none, the run ends with this problem."""
    programs, errors = built(tree)
    return programs or sys.exit(f"✗ {problem}\n{errors[0]['rendered']}")


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
    copy(tree)
    programs = compiled("the sources do not compile")
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
            programs = compiled(f"{guard['name']}: switched off, it does not compile")
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
    document("tests/guards/run.py", "| switched off | tests that turn red |\n| --- | --- |\n" + "".join(rows))


main()
