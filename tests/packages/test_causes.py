"""A red run for each cause: CAUSE names the one test that is run, and the report has to say why it failed."""

import http.server
import os
import threading
import urllib.error
import urllib.request

import pytest


def test_cause(wrs):
    globals()[os.environ["CAUSE"]](wrs)


def status(wrs, query=""):
    request = urllib.request.Request(f"{wrs.url}/v1/system/status{query}", headers=wrs.headers)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


class Careless(http.server.BaseHTTPRequestHandler):
    """A receiver that verifies nothing."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def invalid(wrs):
    assert status(wrs, "?include_checks=True") == 200


def hammering(wrs):
    wrs.set(rate_limit={"requests": 5, "window": "60s"})
    for _ in range(6):
        # It tries again at once.
        if not any(status(wrs) == 200 for _ in range(10)):
            pytest.fail("no status within 10 tries")


def forged(wrs):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrs.forward("https://app.example.com", f"http://127.0.0.1:{server.server_port}")
    wrs.post("subscriptions", url="https://app.example.com/hooks")
    assert [one["status"] for one in wrs.trigger("workflow.completed", tamper="secret")] == ["exhausted"]


def silent(_wrs):
    orders = []
    assert orders == ["reported"]
