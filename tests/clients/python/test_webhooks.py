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
    """A server on a free port, HTTPS by default: keeps what it gets, answers 401 to what does not verify under `secret`."""

    def __init__(self, tls=True):
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
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.environ["WRS_TEST_CERT"], os.environ["WRS_TEST_CERT_KEY"])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}/hooks"
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


def test_a_receiver_without_tls_needs_a_setting(wrs):
    with Receiver(tls=False) as plain:
        body = {"url": plain.url, "events": ["workflow.completed"]}
        refused = requests.post(f"{wrs.url}/v1/events/subscribe", json=body, headers=wrs.headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "validation_error")
        wrs.set(webhooks={"allow_http": True})
        plain.secret = subscribe(wrs, plain.url)["secret"]
        [delivery] = wrs.trigger("workflow.completed")
        assert plain.next()[0]["id"] == delivery["event"] and delivery["status"] == "delivered"


@pytest.mark.parametrize("tamper", ["body", "signature", "secret", "timestamp", "headers"])
def test_a_falsified_delivery_is_refused(wrs, receiver, tamper):
    receiver.secret = subscribe(wrs, receiver.url)["secret"]
    wrs.set(webhooks={"retry": {"preset": "none"}})
    [delivery] = wrs.trigger("workflow.completed", tamper=tamper)
    assert receiver.next()[0] is None
    assert delivery["attempts"][0]["outcome"]["status"] == 401


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


def test_a_receiver_that_fails_first_gets_the_same_event_again(wrs, receiver):
    subscribed = subscribe(wrs, receiver.url)
    receiver.secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    [delivery] = wrs.trigger("workflow.completed")
    assert (delivery["status"], receiver.next()[0]) == ("pending", None)
    receiver.secret = subscribed["secret"]
    wrs.clock.advance("2s")
    event, headers, _ = receiver.next()
    assert event["id"] == headers["webhook-id"] == delivery["event"]
    assert wrs.explain(delivery["id"])


def test_a_story_of_ones_own(wrs, receiver):
    wrs.clock.freeze()
    wrs.set(webhooks={"timestamp": "real"})
    receiver.secret = subscribe(wrs, receiver.url)["secret"]
    wrs.scenario(toml=
        """
        [[emit]]
        event = "workflow.completed"
        on = { after = "1h" }
        data = { workflow_id = "wf_late", status = "completed" }

        [[rule]]
        when = { operation = "system.status" }
        times = 1
        reply = { status = 422, code = "validation_error", message = "not today" }
        """
    )
    url = f"{wrs.url}/v1/system/status"
    statuses = [requests.get(url, headers=wrs.headers).status_code for _ in range(2)]
    assert statuses == [422, 200]
    wrs.clock.advance("1h")
    assert receiver.next()[0]["data"]["workflow_id"] == "wf_late"
