"""Deliveries signed by the emulator, verified by PyPI packages: standardwebhooks, svix, slack_sdk.

A good delivery must be accepted, each tampered copy and each delivery that the emulator falsifies itself rejected, as
far as the library promises to.
Usage: verifiers.py EMULATOR_BINARY
"""

import http.server
import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.request

import standardwebhooks
import svix.webhooks
from slack_sdk.signature import SignatureVerifier

KEY = "sk_test_verifiers"
OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PUBLIC = "https://app.example.com"
TAMPERS = ["body", "signature", "secret", "timestamp", "future_timestamp", "headers"]


def start_receiver(got: queue.Queue) -> http.server.ThreadingHTTPServer:
    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def deliver(emulator: str) -> tuple[str, dict]:
    """Subscribes, fires a good event and one of each tampering; gives the secret and what the receiver got for each."""
    got: queue.Queue = queue.Queue()
    receiver = start_receiver(got)
    command = [emulator, "serve", "--quiet", "--listen", "127.0.0.1:0",
               "--set", 'webhooks.scheme=["standard", "svix", "stripe", "github", "slack"]',
               "--forward", f"{PUBLIC}=http://127.0.0.1:{receiver.server_port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def call(path: str, body: dict) -> dict:
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    try:
        url = process.stdout.readline().split()[-1]
        hook = {"url": f"{PUBLIC}/hooks", "events": ["workflow.completed"]}
        secret = call("/v1/events/subscribe", hook)["secret"]
        received = {}
        for tamper in [None, *TAMPERS]:
            wish = {"type": "workflow.completed", "key": KEY, **({"tamper": tamper} if tamper else {})}
            fired = call("/_emulator/events?wait=20s", wish)
            assert fired["deliveries"][0]["status"] == "delivered", fired
            received[tamper] = got.get(timeout=20)
        return secret, received
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0
        receiver.shutdown()


def signed(emulator: str, scheme: str, secret: str, timestamp: int, body: bytes) -> dict:
    """The headers that `sign` makes: a signature that holds, at any time."""
    command = [emulator, "sign", "--scheme", scheme, "--timestamp", str(timestamp), "--json", "-"]
    environment = {**os.environ, "WRS_WEBHOOK_SECRET": secret}
    result = subprocess.run(command, input=body, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            check=True)
    return json.loads(result.stdout)["headers"]


def by_standardwebhooks(secret: str, headers: dict, body: bytes) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


def by_svix(secret: str, headers: dict, body: bytes) -> bool:
    # The delivery carries `webhook-` headers as well, which the library would fall back to.
    own = {name: value for name, value in headers.items() if name.startswith("svix-")}
    try:
        svix.webhooks.Webhook(secret).verify(body, own)
    except svix.webhooks.WebhookVerificationError:
        return False
    return True


def by_slack(secret: str, headers: dict, body: bytes) -> bool:
    return SignatureVerifier(secret).is_valid_request(body, headers)


# Library, scheme, verification, the headers it needs with the signature last and the timestamp before it.
LIBRARIES = [
    ("standardwebhooks", "standard", by_standardwebhooks, ["webhook-id", "webhook-timestamp", "webhook-signature"]),
    ("svix", "svix", by_svix, ["svix-id", "svix-timestamp", "svix-signature"]),
    ("slack_sdk", "slack", by_slack, ["x-slack-request-timestamp", "x-slack-signature"]),
]


def main() -> None:
    emulator = os.path.abspath(sys.argv[1])
    secret, received = deliver(emulator)
    headers, body = received[None]
    now = int(time.time())
    passed, failed = 0, 0

    for library, scheme, verify, names in LIBRARIES:
        def check(what: str, accepted: bool, secret: str, headers: dict, body: bytes) -> None:
            nonlocal passed, failed
            if verify(secret, headers, body) == accepted:
                passed += 1
            else:
                failed += 1
                print(f"{library}: {what} was {'rejected' if accepted else 'accepted'}")

        signature, timestamp = names[-1], names[-2]
        # Another digit in the middle: still well-formed.
        middle = len(headers[signature]) // 2
        digit = "A" if headers[signature][middle] != "A" else "B"
        if scheme == "slack":
            digit = "0" if headers[signature][middle] != "0" else "1"
        forged = headers[signature][:middle] + digit + headers[signature][middle + 1:]
        check("a good delivery", True, secret, headers, body)
        check("a body signed by the command line", True, secret, signed(emulator, scheme, secret, now, body), body)
        check("a changed body", False, secret, headers, body.replace(b"completed", b"cancelled"))
        check("a body with a newline", False, secret, headers, body + b"\n")
        check("a changed signature", False, secret, {**headers, signature: forged}, body)
        check("another secret", False, OTHER, headers, body)
        check("a changed timestamp", False, secret, {**headers, timestamp: str(int(headers[timestamp]) - 1)}, body)
        check("a stale timestamp", False, secret, signed(emulator, scheme, secret, now - 400, body), body)
        check("a future timestamp", False, secret, signed(emulator, scheme, secret, now + 400, body), body)
        for name in names:
            left = {key: value for key, value in headers.items() if key != name}
            check(f"a delivery without {name}", False, secret, left, body)
        for tamper in TAMPERS:
            check(f"a delivery with `tamper: {tamper}`", False, secret, *received[tamper])

    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
