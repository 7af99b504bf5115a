"""What the planted clients have in common: requests, and a receiver of webhooks. Standard library only."""

import json
import os
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BASE, CONTROL, KEY = (os.environ[name] for name in ("WRS_BASE_URL", "WRS_EMULATOR_URL", "WRS_API_KEY"))


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


def call(method, path, body=None, key=KEY, **headers):
    return send(BASE + path, method, body, {**({"Authorization": f"Bearer {key}"} if key else {}), **headers})


def subscribe(url, *events):
    return call("POST", "/v1/events/subscribe", {"url": url, "events": list(events or ["workflow.completed"])})


def fire(event="workflow.completed", count=1):
    """The ids of the events, in their order."""
    answer = send(f"{CONTROL}/_emulator/events", "POST", {"type": event, "key": KEY, "count": count}, {})
    assert answer.status < 300, answer.text
    return [event["id"] for event in answer.json["events"]]


class Receiver:
    """Takes webhooks, and keeps their bodies."""

    def __init__(self):
        received = self.received = []
        self.arrived = threading.Condition()
        arrived = self.arrived

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with arrived:
                    received.append(body.decode())
                    arrived.notify_all()
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/hooks"

    def wait(self, count):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.received) >= count, 10), self.received
            return [json.loads(body) for body in self.received]

    def distinct(self, count):
        """The events, each once, in the order in which they came first."""
        with self.arrived:
            def events():
                return list({json.loads(body)["id"]: json.loads(body) for body in self.received}.values())

            assert self.arrived.wait_for(lambda: len(events()) >= count, 10), self.received
            return events()

    def quiet(self, seconds=1):
        """What has come once nothing more is to be expected."""
        time.sleep(seconds)
        return [json.loads(body) for body in self.received]
