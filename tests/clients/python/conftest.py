"""Fixtures for tests against wrs-emulator. Copy this file beside your tests: it needs pytest and nothing else.

Each test gets an API key of its own, made from its name, and with it a workspace, a quota, a clock and scenarios of its own. So
tests run in parallel against one emulator (`pytest -n 4`), and none has to sleep: it moves its own clock or waits for what it
expects. If a test fails, its report says why the emulator answered as it did.

The emulator is the one that runs already (`WRS_EMULATOR_URL`, which `wrs-emulator exec` sets), or one is started for the session.
"""

import hashlib
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest


class ControlError(Exception):
    """A control call was refused: `status`, `code`, and the whole answer in `body`."""

    def __init__(self, call, status, body):
        self.status, self.body, self.code = status, body, body["error"]["code"]
        super().__init__(f"{call}: {status} {self.code}: {body['error']['message']}")


class Emulator:
    """One key of a running emulator: what to give to the client under test, and the control API for that key."""

    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/"), key
        self.headers = {"Authorization": f"Bearer {key}"}
        # Built-in receivers are shared by name, so each key uses a name of its own.
        self.sink = "t" + hashlib.sha256(key.encode()).hexdigest()[:20]
        self.sink_url = f"https://{self.sink}.sink.localhost/hooks"

    def control(self, method, path, body=None, content_type="application/json"):
        """Any call of the control API, `path` below `/_emulator/`."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_emulator/{path}", data, method=method)
        request.add_header("Content-Type", content_type)
        if token := os.environ.get("WRS_EMULATOR_CONTROL_TOKEN"):
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ControlError(f"{method} {path}", error.code, json.load(error)) from None

    def post(self, path, **fields):
        """A POST about this key."""
        return self.control("POST", path, {"key": self.key, **fields})

    def get(self, path, **query):
        """A GET about this key."""
        return self.control("GET", f"{path}?{urllib.parse.urlencode({'key': self.key, **query})}")

    # Time: of this key only.
    def freeze(self, at=None):
        """Stops the clock; with `at`, a timestamp, at that time."""
        self.post("clock", mode="frozen")
        return self.post("clock", set=at) if at else None

    def advance(self, duration):
        """Moves the clock, and returns once everything that was due meanwhile is done: retries, completions, emissions."""
        return self.post("clock", advance=duration)["now"]

    # Waiting: until it is so, or a ControlError with status 408 that says what came nearest.
    def wait_for_requests(self, **wish):
        """Waits for requests: `operation`, `status`, `method`, `path`, `count`, `since`, `timeout`."""
        return self.post("requests/wait", **wish)["data"]

    def wait_for_deliveries(self, **wish):
        """Waits for deliveries: `status`, `type`, `event`, `subscription`, `count`, `timeout`."""
        return self.post("deliveries/wait", **wish)["data"]

    # Behaviour: scenarios and settings of this key only.
    def play(self, *names):
        """Makes these scenarios active, from their beginning."""
        return self.post("scenarios/active", active=list(names))

    def add_scenario(self, toml):
        """Adds a scenario from its text and makes it active."""
        self.control("PUT", f"scenarios/{self.sink}", toml.encode(), "application/toml")
        return self.play(self.sink)

    def set(self, **settings):
        """Changes settings: `set(rate_limit={"requests": 5})`."""
        return self.control("PATCH", f"profile?key={self.key}", settings)

    # Webhooks.
    def trigger(self, event_type, **fields):
        """Fires an event, waits for the first attempts and gives the deliveries."""
        return self.control("POST", "events?wait=20s", {"key": self.key, "type": event_type, **fields})["deliveries"]

    def script_sink(self, *statuses):
        """What this key's built-in receiver answers next; 200 after that."""
        return self.control("POST", f"sink/{self.sink}", {"respond": list(statuses)})

    def received(self):
        """What this key's built-in receiver got, oldest first."""
        return self.control("GET", f"sink/{self.sink}")["data"]

    # State.
    def reset(self):
        """This key as before its first request."""
        return self.post("reset")

    def save(self):
        """The state of this key as a document."""
        return self.get("snapshot")

    def load(self, snapshot):
        """Puts a saved state back."""
        return self.control("PUT", "snapshot", snapshot)

    def explain(self, identifier):
        """Why a request (`req_…`) was answered so, or how an event or delivery came about: one sentence."""
        return self.control("GET", f"explain/{identifier}")["summary"]

    def story(self):
        """The last requests of this key, each with the reason for its answer."""
        rows = self.get("requests", limit=10)["data"]
        lines = (f"{row['method']} {row['path']}  {row['id']}: {self.explain(row['id'])}" for row in reversed(rows))
        return "\n".join(lines) or f"no request carried the key {self.key}"


@pytest.fixture(scope="session")
def emulator_url():
    """The emulator that runs already, or one for this session."""
    if url := os.environ.get("WRS_EMULATOR_URL"):
        yield url
        return
    binary = os.environ.get("WRS_EMULATOR", "wrs-emulator")
    command = [binary, "serve", "--quiet", "--preview", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip().removeprefix("wrs-emulator ready on ")
    finally:
        server.terminate()
        server.wait(timeout=10)


@pytest.fixture
def emulator(emulator_url, request):
    """The emulator with a fresh key for this test, made from its name: the same test always has the same key."""
    name = request.node.nodeid
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name.rpartition("::")[2])[:80]
    emulator = Emulator(emulator_url, f"sk_test_{readable}_{hashlib.sha256(name.encode()).hexdigest()[:8]}")
    # A run before may have left something at an emulator that keeps running.
    emulator.reset()
    return emulator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the emulator's reasons to the report of a test that failed."""
    report = yield
    emulator = getattr(item, "funcargs", {}).get("emulator")
    if call.when == "call" and report.failed and isinstance(emulator, Emulator):
        try:
            report.sections.append(("what the emulator says", emulator.story()))
        except (OSError, ControlError) as error:
            report.sections.append(("what the emulator says", f"it could not be asked: {error}"))
    return report
