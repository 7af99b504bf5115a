#!/usr/bin/env python3
"""Real clients, sound and faulty, and what a review says of each.

Usage: corpus.py EMULATOR_BINARY NODE_MODULES [NAME…]

`sound/` has clients of thirteen libraries that do the same: four status checks against a quota of two a second, then a subscription.
None may have a finding. `quick/` has clients that begin to retry at once, or within 100 ms, and then back off: none may be accused of
more than `quick-retry`. `faulty/` has clients that retry or poll too soon, each named after the expected finding; other permitted findings are in
BESIDE. Faults that do not depend on time are in tests/it/findings."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from emulator import Emulator

BINARY, MODULES = (Path(argument).resolve() for argument in sys.argv[1:3])
SETTINGS = ["--set", "rate_limit.requests=2", "--set", "rate_limit.window=1s"]
RETRY_AFTER = ["--set", "rate_limit.retry_after=seconds"]
RUN = {
    ".py": [sys.executable], ".mjs": ["node"], ".sh": ["bash"], ".php": ["php"], ".rb": ["ruby"],
    ".java": ["java"], ".go": ["go", "run"],
}
# What follows from a planted fault, or is the same fault by another name.
BESIDE = {
    "no-back-off": {"before-retry-after", "quick-retry"},
    "before-retry-after": {"quick-retry"},
    "quick-retry": {"before-retry-after"},
    "polls-while-subscribed": {"no-back-off", "before-retry-after", "quick-retry"},
}


def review(client, folder):
    """The codes of the findings after this client, certain and likely ones apart, and whether the client itself went well."""
    script = folder / client.name
    shutil.copy(client, script)
    if not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(MODULES)
    environment = {**os.environ, "WRS_API_KEY": "sk_test_corpus", "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    flags = ["--seed", "1", *SETTINGS, *(RETRY_AFTER if client.parent.name != "quick" else [])]
    with Emulator(BINARY, *flags, cwd=folder) as emulator:
        environment["WRS_BASE_URL"] = environment["WRS_EMULATOR_URL"] = emulator.url
        ran = subprocess.run([*RUN[client.suffix], script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        asked = subprocess.run([BINARY, "review", "findings", "--json"], env=environment, capture_output=True, text=True, timeout=20)
        found = json.loads(asked.stdout)
    codes = {kind: {finding["code"] for finding in found["data"] if finding["confidence"] == kind} for kind in ("certain", "likely")}
    return codes, ran, found


def judge(client):
    with tempfile.TemporaryDirectory() as folder:
        codes, ran, found = review(client, Path(folder))
    everything = codes["certain"] | codes["likely"]
    if client.parent.name in ("sound", "quick"):
        if ran.returncode != 0:
            return f"the client itself failed: {ran.stderr[-500:]}"
        if found["judged_requests"] < 6:
            return f"only {found['judged_requests']} requests: the client met no 429"
        wrong = everything - ({"quick-retry"} if client.parent.name == "quick" else set())
        return f"accused of {sorted(wrong)}: {json.dumps(found['data'])[:600]}" if wrong else None
    planted = client.stem
    if planted not in everything:
        return f"not found; {sorted(everything)} instead: {ran.stderr[-300:]}"
    wrong = everything - {planted} - BESIDE.get(planted, set())
    return f"also accused of {sorted(wrong)}" if wrong else None


def main():
    wanted = sys.argv[3:]
    clients = sorted(path for kind in ("sound", "quick", "faulty") for path in (HERE / kind).iterdir())
    clients = [client for client in clients if not wanted or client.stem in wanted]
    failed = 0
    # Two at a time: a client that is held up for long would look as if it had waited.
    with ThreadPoolExecutor(2) as pool:
        for client, problem in zip(clients, pool.map(judge, clients)):
            failed += bool(problem)
            print(f"{'FAILED' if problem else 'ok'} {client.parent.name}/{client.name}{': ' + problem if problem else ''}", flush=True)
    sound = sum(client.parent.name != "faulty" for client in clients)
    print(f"{sound} sound and {len(clients) - sound} faulty clients, {failed} judged wrongly")
    sys.exit(bool(failed))


main()
