"""Webhooks at a receiver of the test's own, which speaks TLS and verifies with PyPI standardwebhooks as a user's would.

The emulator trusts the receiver's certificate by `--webhook-ca`; `WRS_TEST_CERT` and `WRS_TEST_CERT_KEY` name the files.
"""

import os
import queue
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from standardwebhooks import Webhook, WebhookVerificationError


class Receiver:
    """A server on a free port, with TLS: keeps its requests, answers 401 to those that do not verify under `secret`."""

    def __init__(self):
        self.secret, self.seen = None, queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    event = Webhook(receiver.secret).verify(body, headers)
                    self.send_response(204)
                except WebhookVerificationError:
                    event = None
                    self.send_response(401)
                receiver.seen.put((event, headers, body))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                """Nothing: the test says what went wrong."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["WRS_TEST_CERT"], os.environ["WRS_TEST_CERT_KEY"])
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}/hooks"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        """The next delivery: the verified event or None, headers, body."""
        return self.seen.get(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def subscribe(wrs, url, **more):
    body = {"url": url, "events": ["workflow.completed", "reference.matched"], **more}
    answer = requests.post(f"{wrs.url}/v1/events/subscribe", json=body, headers=wrs.headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_delivery_verifies_at_a_receiver_of_ones_own(wrs, receiver):
    receiver.secret = subscribe(wrs, receiver.url)["secret"]
    [delivery] = wrs.trigger("workflow.completed", set={"workflow_id": "wf_42"})
    assert delivery["status"] == "delivered"
    event, headers, _ = receiver.next()
    assert event["data"] == {"workflow_id": "wf_42", "status": "completed"}
    assert headers["webhook-id"] == event["id"] == delivery["event"]


def test_both_secrets_sign_until_the_grace_is_over(wrs, receiver):
    subscribed = subscribe(wrs, receiver.url)
    old = receiver.secret = subscribed["secret"]
    new = wrs.control("POST", f"subscriptions/{subscribed['id']}/rotate", {})["secret"]

    def verifies(secret, headers, body):
        try:
            return bool(Webhook(secret).verify(body, headers))
        except WebhookVerificationError:
            return False

    wrs.trigger("workflow.completed")
    _, headers, body = receiver.next()
    assert (verifies(old, headers, body), verifies(new, headers, body)) == (True, True)
    # The receiver has changed over. The grace of the old secret is a day.
    receiver.secret = new
    wrs.clock.advance("24h")
    [delivery] = wrs.trigger("workflow.completed")
    _, headers, body = receiver.next()
    assert (verifies(old, headers, body), verifies(new, headers, body)) == (False, True)
    assert delivery["status"] == "delivered"
