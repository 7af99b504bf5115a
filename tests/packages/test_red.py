"""A red job: each test but the last fails for another reason, which the report has to name. `plugins.py` runs each of them alone, too."""

import http.server
import threading
import urllib.error
import urllib.request

import pytest


def status(wrs, query=""):
    return urllib.request.urlopen(urllib.request.Request(f"{wrs.url}/v1/system/status{query}", headers=wrs.headers)).status


def answers(wrs):
    try:
        return status(wrs) == 200
    except urllib.error.HTTPError:
        return False


class Careless(http.server.BaseHTTPRequestHandler):
    """A receiver that verifies nothing."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_wrong_value(wrs):
    assert status(wrs, "?include_checks=True") == 200


def test_too_many(wrs):
    wrs.set(rate_limit={"requests": 5, "window": "60s"})
    for _ in range(6):
        # It tries again at once.
        if not any(answers(wrs) for _ in range(10)):
            pytest.fail("no status within 10 tries")


def test_forgeries_are_refused(wrs):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrs.forward("https://app.example.com", f"http://127.0.0.1:{server.server_port}")
    wrs.post("subscriptions", url="https://app.example.com/hooks")
    assert [one["status"] for one in wrs.trigger("workflow.completed", tamper="secret")] == ["exhausted"]


def test_that_never_calls(wrs):
    orders = []
    assert orders == ["reported"]


def test_a_refusal_is_expected(wrs):
    with pytest.raises(urllib.error.HTTPError, match="422"):
        status(wrs, "?include_checks=maybe")
