"""Changes the logic in one place at a time, and expects a test to turn red; prints the score of each file.

Usage: mutants.py PART [FILE…]     PART is k/n: the k-th of n equal parts; by default all files below

Those that no unit test notices are tried with the tests over sockets. A survivor that mutants.txt does not list, with the reason
why no test can or need notice it, is an error. Needs cargo-mutants on the path.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[1]
output = root / "target/mutants"
FILES = ["src/state/quota.rs", "src/contract/signature/*.rs", "src/webhook/egress.rs", "src/scenario/decide.rs", "src/scenario/rule.rs",
         "src/state/workspace/queue.rs", "src/clock/agenda.rs"]


def tried(chosen, tests):
    """The summary of each mutant, by its name."""
    command = ["cargo", "mutants", "--no-shuffle", "--colors=never", "--no-times", "--output", output, *chosen, "--", *tests]
    (output / "mutants.out/outcomes.json").unlink(missing_ok=True)
    # Debug information would double the time.
    subprocess.run(command, cwd=root, env=os.environ | {"CARGO_PROFILE_DEV_DEBUG": "0"})
    outcomes = json.loads((output / "mutants.out/outcomes.json").read_text())["outcomes"]
    if any(one["scenario"] == "Baseline" and one["summary"] != "Success" for one in outcomes):
        sys.exit("✗ the tests fail without any change")
    return {one["scenario"]["Mutant"]["name"]: one["summary"] for one in outcomes if one["scenario"] != "Baseline"}


def plain(name):
    """A mutant without its line and column, which move."""
    file, line, column, change = name.split(":", 3)
    return f"{file}:{change}"


def main():
    part, files = sys.argv[1], sys.argv[2:] or FILES
    number, parts = map(int, part.split("/"))
    chosen = [word for file in files for word in ("--file", file)]
    found = tried([*chosen, "--shard", f"{number - 1}/{parts}"], ["--lib"])
    missed = [name for name, summary in found.items() if summary == "MissedMutant"]
    if missed:
        exactly = ["^" + re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", name) + "$" for name in missed]
        found |= tried([*chosen, *(word for one in exactly for word in ("--re", one))], ["--test", "it"])
    scores = collections.defaultdict(collections.Counter)
    for name, summary in found.items():
        scores[name.split(":")[0]][summary] += 1
    print(f"part {part}: mutants, those that a test noticed, those that survived, those that do not compile")
    for file, counts in sorted(scores.items()):
        noticed, missed = counts["CaughtMutant"] + counts["Timeout"], counts["MissedMutant"]
        print(f"{file:44} {sum(counts.values()):4} {noticed:4} {missed:4} {counts['Unviable']:4}")
    accepted = {line.split("  # ")[0] for line in (root / "tests/mutants.txt").read_text().splitlines() if "  # " in line}
    survivors = [name for name, summary in found.items() if summary == "MissedMutant" and plain(name) not in accepted]
    if survivors:
        sys.exit("✗ no test notices\n  " + "\n  ".join(survivors))


main()
