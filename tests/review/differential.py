#!/usr/bin/env python3
"""Clients that each rely on one thing that was never promised, and what the differential run says of them.

Usage: differential.py EMULATOR_BINARY [CLIENT…]

`differential/sound.py` meets every change and must pass under each. Each other client must fail under exactly the changes that EXPECTED
gives, with exactly these parts."""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent / "differential"
BINARY = Path(sys.argv[1]).resolve()
EXPECTED = {
    "sound": {},
    "message-text": {"message-text": ["422"]},
    "error-codes": {"error-codes": ["422"]},
    "key-order": {"key-order": ["answers"]},
    "extra-fields": {"extra-fields": ["answers"]},
    "extra-fields-of-events": {"extra-fields": ["events"]},
    "extra-headers": {"extra-headers": ["Retry-After"]},
    "ids": {"long-ids": []},
    "timestamps": {"whole-seconds": [], "nanoseconds": []},
    "doubled-events": {"doubled-events": []},
    "reordered-events": {"reordered-events": []},
    "malformed-status": {"malformed-status": []},
    "unpublished-shapes": {"unpublished-shapes": ["GET /v1/hello"]},
}


def judge(name):
    """The problems with what is said of a client."""
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.run(
            [BINARY, "review", "differential", "--set", "webhooks.allow_http=true", "--jobs", "2", "--json",
             "--keep", folder, "--", sys.executable, "-SB", CLIENTS / f"{name}.py"],
            cwd=folder, capture_output=True, text=True, timeout=120,
        )
        report = json.loads(asked.stdout)
        failed = {change["name"]: change for change in report["changes"] if change["outcome"] == "failed"}
        problems = []
        found = {name: [part["name"] for part in change["smallest"]] for name, change in failed.items()}
        if found != EXPECTED[name]:
            problems.append(f"expected {EXPECTED[name]}, found {found}")
        if asked.returncode != (1 if EXPECTED[name] else 0):
            problems.append(f"exit status {asked.returncode}")
        if report["unstable"]:
            problems.append("something is unstable")
        if name == "sound" and report["not_exercised"]:
            problems.append("the sound client does not meet every change")
        for change in failed.values():
            if not change["seen"] or not change["printed"] or not Path(change["output"]).read_text():
                problems.append(f"{change['name']}: what the client saw and printed is missing: {change}")
    return problems


def main():
    names = sys.argv[2:] or list(EXPECTED)
    there = {path.stem for path in CLIENTS.glob("*.py")} - {"client"}
    assert there == set(EXPECTED), there ^ set(EXPECTED)
    with ThreadPoolExecutor(4) as pool:
        failed = False
        for name, problems in zip(names, pool.map(judge, names)):
            print(f"{'FAILED' if problems else 'ok'}  {name}")
            for problem in problems:
                failed = True
                print(f"    {problem}")
    if failed:
        sys.exit(1)
    print(f"{len(names)} clients: what each relies on was found, and nothing else")


main()
