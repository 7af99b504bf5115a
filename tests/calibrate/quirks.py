"""Calibrates services written by hand in Python and Node: the report matches their behaviour.
Usage: quirks.py BINARY"""
import json
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BINARY = Path(sys.argv[1]).resolve()
KEY = "wrs_sandbox_4f1d9a"

# Setting: value, or the result where there is none.
PYTHON = {
    "environment": "sandbox",
    "keys.mode": "list",
    "errors.details": "off",
    "errors.malformed_json_status": 400,
    "errors.codes": {"unauthorized": "unauthorized", "not_found": "route_not_found"},
    "errors.messages": {"unauthorized": "unauthorized", "validation_error": None},
    "errors.extra": {"docs": "https://docs.example.com"},
    "validation.unknown": "reject",
    "validation.lenient_booleans": True,
    "validation.content_type": "ignore",
    "rate_limit.requests": 50,
    "rate_limit.window": "not_observable",
    "rate_limit.count": "not_observable",
    "rate_limit.header_names": {"limit": "ratelimit-limit", "remaining": "ratelimit-remaining"},
    "ids.style": "not_observable",
    "ids.request_header": "",
    "time.precision": "microseconds",
    "subscriptions.upsert": "never",
    "subscriptions.secret_field": "contradicts",
    "subscriptions.echo_secret": False,
    "events.extra": ["reference.lost"],
    "webhooks.allow_http": "not_observable",
    "hello.body": {"hello": "world", "version": "1.3.2"},
}
NODE = {
    "keys.mode": "list",
    "errors.details": "map",
    "errors.malformed_json_status": 422,
    "errors.codes": {
        "unauthorized": "unauthorized",
        "validation_error": "invalid",
        "not_found": "missing",
        "method_not_allowed": "wrong_method",
        "uri_too_long": "too_long",
        "unsupported_media_type": "unsupported",
    },
    "errors.messages": {"unauthorized": "who are you?", "validation_error": None, "not_found": None, "method_not_allowed": None},
    "validation.unknown": "not_observable",
    "validation.lenient_booleans": False,
    "validation.content_type": "require",
    "status.checks": {"queue": {"depth": 0}},
    "rate_limit.requests": 80,
    "rate_limit.algorithm": "fixed",
    "rate_limit.count": "successful",
    "rate_limit.reset": "delta",
    "ids.style": "uuid",
    "ids.request_header": "x-trace-id",
    "time.precision": "seconds",
    "subscriptions.upsert": "url",
    "subscriptions.secret_field": "signing_key",
    "subscriptions.echo_secret": True,
    "events.extra": ["order.paid"],
    "webhooks.allow_http": True,
    "hello.body": {"message": "hi", "version": "1.3.2"},
}


def calibrated(command, pause):
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [BINARY, "calibrate", url, "--pause", pause, "--json"],
                cwd=folder, env={**os.environ, "WRS_API_KEY": KEY}, capture_output=True, text=True, timeout=120,
            )
            assert result.returncode == 0, result.stderr
            assert KEY not in Path(folder, "sandbox.har").read_text()
            check = [BINARY, "check", "--profile", "sandbox.toml"]
            subprocess.run(check, cwd=folder, check=True, capture_output=True)
        return json.loads(result.stdout)
    finally:
        service.terminate()


def compare(name, report, expected, broken=()):
    rows = {row["setting"]: row for row in report["data"]}
    wrong = []
    for setting, value in expected.items():
        row = rows[setting]
        found = row.get("observed", row["result"])
        if found != value:
            wrong.append(f"{setting}: expected {value!r}, found {found!r} ({row.get('detail')})")
    wrong += [f"breaks {one['clause']}: {one['observed']}" for one in report["broken"] if one["clause"] not in broken]
    wrong += [f"not broken: {clause}" for clause in set(broken) - {one["clause"] for one in report["broken"]}]
    assert not wrong, f"{name}\n" + "\n".join(wrong)
    print(f"{name}: {len(expected)} settings in {report['calls']} calls")
    return report


python = compare("Python", calibrated([sys.executable, HERE / "service.py"], "0s"), PYTHON)
assert {"an unknown path without a key: 401", "an unknown path with the key: 404"} <= set(python["notes"]), python["notes"]
checks = next(row for row in python["data"] if row["setting"] == "status.checks")
# Its milliseconds change from call to call.
assert checks["observed"]["db"]["state"] == "up" and "numbers in it change" in json.dumps(checks), checks
# Its times as numbers.
times = {f"{field}, an ISO 8601 UTC timestamp" for field in ("System status: checked_at", "Subscription: created_at")}
numbers = {**PYTHON, "time.precision": "contradicts"}
compare("Python, numbers", calibrated([sys.executable, HERE / "service.py", "numbers"], "0s"), numbers, times)
# The window's kind needs a second between calls.
compare("Node", calibrated(["node", HERE / "service.mjs"], "1s"), NODE)


def asked(answer):
    """Whether the quota may be used up, after this answer at a terminal."""
    service = subprocess.Popen([sys.executable, HERE / "service.py"], stdout=subprocess.PIPE, text=True)
    ours, theirs = pty.openpty()
    try:
        url = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        with tempfile.TemporaryDirectory() as folder:
            command = [BINARY, "calibrate", url, "--pause", "0s", "--max-calls", "1"]
            client = subprocess.Popen(
                command, cwd=folder, env={**os.environ, "WRS_API_KEY": KEY}, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs,
            )
            question = b""
            while b"[y/N]" not in question:
                question += os.read(ours, 1000)
            os.write(ours, answer)
            # One call shows nothing; the agreement is in the file.
            client.wait(timeout=60)
            return json.loads(Path(folder, "sandbox.har").read_text())["log"]["_calibration"]["exhausts"]
    finally:
        service.terminate()


assert asked(b"y\n") is True
assert asked(b"\n") is False
print("asked at a terminal, before the quota is used up")
