"""What the suites have in common: tests, requests, and a receiver of webhooks. Standard library only."""

import contextlib
import json
import os
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASE, CONTROL = os.environ["WRS_BASE_URL"], os.environ["WRS_EMULATOR_URL"]
KEYS = []


@contextlib.contextmanager
def test(name):
    """A test with a key of its own, whose end is reported as plug-ins of test runners do."""
    KEYS.append(f"sk_test_{name}")
    outcome = {"key": KEYS[-1], "test": f"test_{name}", "outcome": "passed"}
    try:
        yield
    except AssertionError as error:
        outcome.update(outcome="failed", message=str(error) or "an assertion failed")
        raise
    finally:
        control("outcome", outcome)


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text

    @property
    def json(self):
        return json.loads(self.text)


def send(url, method, body, headers):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = {**headers, **({} if data is None else {"Content-Type": "application/json"})}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return Answer(answer.status, answer.headers, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read().decode())


def call(method, path, body=None, key="", **headers):
    return send(BASE + path, method, body, {"Authorization": f"Bearer {key or KEYS[-1]}", **headers})


def control(path, body):
    answer = send(f"{CONTROL}/_emulator/{path}", "POST", body, {})
    assert answer.status < 300, answer.text
    return answer.json


def subscribe(url, *events):
    return call("POST", "/v1/events/subscribe", {"url": url, "events": list(events or ["workflow.completed"])})


def fire(event="workflow.completed", count=1):
    control("events", {"type": event, "key": KEYS[-1], "count": count})


class Receiver:
    """Takes webhooks, and keeps their bodies."""

    def __init__(self):
        received = self.received = []
        self.arrived = threading.Condition()
        arrived = self.arrived

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.body()
                with arrived:
                    received.append(json.loads(body))
                    arrived.notify_all()
                self.send_response(204)
                self.end_headers()

            def body(self):
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers["Content-Length"]))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/hooks"

    def distinct(self, count):
        """The events, each once."""
        with self.arrived:
            def events():
                return {event["id"]: event for event in self.received}

            assert self.arrived.wait_for(lambda: len(events()) >= count, 10), self.received
            return list(events().values())

    def all(self, seconds=0.5):
        """What has come once nothing more is to be expected."""
        self.distinct(1)
        time.sleep(seconds)
        return self.received
