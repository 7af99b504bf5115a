"""A webhook over real HTTPS, verified by the PyPI package standardwebhooks; tampered copies must be refused.

Usage: standard_webhooks.py EMULATOR_BINARY
"""

import http.server
import json
import pathlib
import queue
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

KEY = "sk_test_python"


def make_certificates(folder: pathlib.Path) -> None:
    """An authority and a certificate for localhost, made offline."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names.txt").write_text("subjectAltName=DNS:localhost\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "server.pem", "-days", "2", "-extfile", "names.txt")


def start_receiver(folder: pathlib.Path, got: queue.Queue) -> http.server.ThreadingHTTPServer:
    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.put((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def call(url: str, body: dict) -> dict:
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def refused(secret: str, body: bytes, headers: dict) -> bool:
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return True
    return False


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_certificates(folder)
        got: queue.Queue = queue.Queue()
        receiver = start_receiver(folder, got)
        emulator = subprocess.Popen(
            [sys.argv[1], "serve", "--quiet", "--listen", "127.0.0.1:0", "--webhook-ca", str(folder / "ca.pem")],
            stdout=subprocess.PIPE, text=True)
        try:
            url = emulator.stdout.readline().split()[-1]
            hook = {"url": f"https://localhost:{receiver.server_port}/hooks", "events": ["workflow.completed"]}
            secret = call(f"{url}/v1/events/subscribe", hook)["secret"]
            fired = call(f"{url}/_emulator/events?wait=20s", {"type": "workflow.completed", "key": KEY})
            assert fired["deliveries"][0]["status"] == "delivered", fired
            headers, body = got.get(timeout=20)
            Webhook(secret).verify(body, headers)
            event = json.loads(body)
            assert event["type"] == "workflow.completed" and event["data"]["status"] == "completed", event
            other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
            lower = {key.lower(): value for key, value in headers.items()}
            assert refused(other, body, headers), "another secret was accepted"
            assert refused(secret, body + b" ", headers), "another body was accepted"
            assert refused(secret, body, {**lower, "webhook-id": "evt_other"}), "another id was accepted"
            assert refused(secret, body, {**lower, "webhook-timestamp": "1600000000"}), "a stale time was accepted"
            print("5 passed, 0 failed")
        finally:
            emulator.terminate()
            assert emulator.wait(timeout=10) == 0
            receiver.shutdown()


if __name__ == "__main__":
    main()
