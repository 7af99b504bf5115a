"""Plays action.yml as a runner would, with files instead of GitHub's. Usage: play.py EMULATOR_BINARY

Steps with `run` are run, with the expressions filled in that the action has; steps with `uses` are recorded. An expression that is not
known here ends it.
"""

import functools
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed

binary = pathlib.Path(sys.argv[1])
root = pathlib.Path(__file__).parents[2]
work = pathlib.Path(tempfile.mkdtemp())
version = tomllib.loads((root / "Cargo.toml").read_text())["package"]["version"]
action = yaml.safe_load((root / "action.yml").read_text())


class Job:
    """The machine of one job: its environment as the steps change it, its output, and the actions that it used."""

    def __init__(self, server="https://github.invalid"):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=work))
        for name in ("env", "path", "summary"):
            (self.folder / name).touch()
        (self.folder / "temp").mkdir()
        (self.folder / "home").mkdir()
        self.base = {name: value for name, value in os.environ.items() if not name.startswith(("WRS_", "GITHUB_"))} | {
            "HOME": str(self.folder / "home"), "RUNNER_TEMP": str(self.folder / "temp"), "RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "GITHUB_ACTIONS": "true",
            "GITHUB_SERVER_URL": server, "GITHUB_ACTION_PATH": str(root), "GITHUB_ENV": str(self.folder / "env"),
            "GITHUB_PATH": str(self.folder / "path"), "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
        }
        self.printed, self.used = "", []

    def environment(self):
        added = dict(line.split("=", 1) for line in (self.folder / "env").read_text().splitlines())
        paths = (self.folder / "path").read_text().split()
        return self.base | added | {"PATH": ":".join([*reversed(paths), self.base["PATH"]])}

    def run(self, script, environment=None):
        """One step with `run`: whether it succeeded, and its outputs."""
        output = self.folder / "output"
        output.write_text("")
        given = self.environment() | {"GITHUB_OUTPUT": str(output)} | (environment or {})
        with (self.folder / "log").open("w+") as log:
            code = subprocess.run(["bash", "-eo", "pipefail", "-c", script], env=given, stdout=log, stderr=log, timeout=50, cwd=self.folder).returncode
            log.seek(0)
            self.printed += log.read()
        return code == 0, dict(line.split("=", 1) for line in output.read_text().splitlines())

    def act(self, **inputs):
        """The action with these inputs: whether it succeeded, and the outputs of its steps."""
        unknown = inputs.keys() - action["inputs"].keys()
        assert not unknown, unknown
        inputs = {name: given.get("default") for name, given in action["inputs"].items()} | inputs
        steps = {}

        def fill(text):
            def value(match):
                known = {f"inputs.{name}": given for name, given in inputs.items()}
                known |= {f"steps.{step}.outputs.{name}": given for step, outputs in steps.items() for name, given in outputs.items()}
                known |= {"github.action_repository || github.repository": "owner/wrs-emulator", "runner.os": "Linux", "runner.arch": "X64",
                          "github.action_ref || github.sha": "v1"}
                return known[match[1]]

            return re.sub(r"\$\{\{ (.*?) \}\}", value, str(text))

        def holds(condition):
            known = {"inputs": type("Inputs", (), {n.replace("-", "_"): v for n, v in inputs.items()}), "always": lambda: True}
            return (passed or "always()" in condition) and all(eval(part, known) for part in condition.split(" && "))

        passed = True
        for step in action["runs"]["steps"]:
            if not holds(step["if"]):
                continue
            if "uses" in step:
                self.used.append((step["uses"], {name: fill(value) for name, value in step["with"].items()}))
                continue
            good, outputs = self.run(step["run"], {name: fill(value) for name, value in step.get("env", {}).items()})
            passed &= good
            steps[step.get("id")] = outputs
        return passed, steps


SUBSCRIBE = """curl -fsS -o answer -H "Authorization: Bearer $WRS_API_KEY" -H 'Content-Type: application/json' \
  -d '{"url":"https://action.sink.localhost/","events":["workflow.completed"]}' "$WRS_BASE_URL/v1/events/subscribe"
wrs-emulator trigger workflow.completed --wait"""


def whole_job():
    job = Job()
    good, steps = job.act(binary=str(binary), arguments="--seed=7\n--scenario=rate-limit-burst\n", **{"api-key": "sk_test_action"})
    check("it starts, and is ready when the step ends", good and steps["start"]["url"].startswith("http://127.0.0.1:"), job.printed)
    variables = job.environment()
    check("WRS_BASE_URL, WRS_EMULATOR_URL and WRS_API_KEY are set for later steps",
          variables["WRS_BASE_URL"] == variables["WRS_EMULATOR_URL"] == steps["start"]["url"] and variables["WRS_API_KEY"] == "sk_test_action", variables)
    good, _ = job.run(SUBSCRIBE)
    check("a later step calls it, and the command line is on the path", good and "delivered" in job.printed, job.printed)
    good, _ = job.run("wrs-emulator scenarios list | grep 'rate-limit-burst' | grep -E '[*]|active'")
    check("the arguments were passed, one a line", good, job.printed)
    job.run('curl -sS "$WRS_BASE_URL/v1/helo"')
    good, steps = job.act(command="report", **{"fail-on": "unmatched"})
    uploaded = [given for uses, given in job.used if uses.startswith("actions/upload-artifact@")]
    files = sorted(file.name for file in pathlib.Path(uploaded[0]["path"]).iterdir())
    check("the report is uploaded, with verdict, requests, deliveries and log",
          files == ["deliveries.ndjson", "emulator.log", "report.html", "requests.ndjson", "verdict.txt", "verdict.xml"] and uploaded[0]["name"] == "wrs-emulator-report", files)
    summary = (job.folder / "summary").read_text()
    check("the summary of the job shows the verdict, once", summary.count("✗ unmatched") == 1, summary)
    check("a problem that was named fails the job, after the upload", not good, job.printed)
    check("it is an annotation", "::error title=wrs-emulator%3A unmatched::GET /v1/helo: " in job.printed, job.printed)
    good, _ = job.run("timeout 10 sh -c 'while curl -s -o /dev/null $WRS_BASE_URL/v1/hello; do sleep 0.05; done'", variables)
    check("the emulator is stopped", good)
    good, _ = job.act(command="report")
    check("a report without a start says so", not good and "it was not started" in job.printed, job.printed)

    for allowed, word in (("false", "fails"), ("true", "is allowed to pass")):
        job = Job()
        job.act(binary=str(binary))
        good, _ = job.act(command="report", **{"fail-on": "unmatched", "allow-unused": allowed})
        check(f"a job that called nothing {word}", good == (allowed == "true") and "0 requests arrived" in job.printed, job.printed)

    job = Job()
    good, _ = job.act(binary=str(binary), arguments="--scenario=nothing")
    check("an emulator that cannot start fails the step, and shows its log", not good and "nothing" in job.printed and "did not start" in job.printed, job.printed)


def released():
    """A release as packages/release.sh makes it, served where the action looks for it."""
    folder = work / "served/owner/wrs-emulator/releases/download" / f"v{version}"
    for command in (["pack", "x86_64-unknown-linux-musl", binary, folder], ["sums", folder]):
        subprocess.run(["bash", root / "packages/release.sh", *command], check=True, stdout=subprocess.DEVNULL)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=work / "served"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    job = Job(url)
    good, _ = job.act(version=version)
    check("a released version is downloaded and started", good and job.act(command="report", artifact="")[0], job.printed)
    (archive,) = folder.glob("*.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-1] + b"\xff")
    job = Job(url)
    good, _ = job.act(version=version)
    check("an archive with another checksum is refused", not good and "does not have the checksum" in job.printed, job.printed)
    job = Job(url)
    good, _ = job.act(version="9.9.9")
    check("a version that was not released is named", not good and "is 9.9.9 a release?" in job.printed, job.printed)


def recipe():
    """The example without an image, and the job of this repository: built once, from the cache afterwards."""
    shown = yaml.safe_load((root / "docs/examples/github-action.yml").read_text())
    own = yaml.safe_load((root / ".github/workflows/ci.yml").read_text())
    for name, job in (("docs/examples/github-action.yml", shown["jobs"]["test"]), ("the job `action` of ci.yml", own["jobs"]["action"])):
        cache = play(job["steps"], f"{name} runs, and builds the first time")
        play(job["steps"], f"{name} runs from the cache", cache)


def play(steps, promise, cache=None):
    """Plays a job with a home that has this cache or none; gives its state at the end."""
    job = Job()
    # What `cargo install` leaves; `.ci/nightly` has built it.
    cargo = job.folder / "cargo"
    cargo.write_text(f'#!/bin/sh\nfor last; do :; done\nmkdir -p "$last/bin" && cp {binary} "$last/bin/wrs-emulator" && echo built\n')
    cargo.chmod(0o755)
    job.base["PATH"] = f"{job.folder}:{job.base['PATH']}"
    kept = job.folder / "home/.cache/wrs-emulator"
    if cache:
        shutil.copytree(cache, kept)
    for step in steps:
        good = True
        if "run" in step:
            good, _ = job.run(step["run"])
        elif step["uses"] == "./" or "wrs-emulator@" in step["uses"]:
            good, _ = job.act(**step.get("with", {}))
        if not good:
            sys.exit(f"✗ {promise}: {step}\n{job.printed}")
    paths = [given["path"] for uses, given in job.used if uses.startswith("actions/cache@")]
    check(promise, paths == ["~/.cache/wrs-emulator"] and ("built" in job.printed) == (cache is None), job.printed)
    return kept


try:
    whole_job()
    released()
    recipe()
    print(f"{len(passed)} passed, 0 failed")
finally:
    shutil.rmtree(work)
