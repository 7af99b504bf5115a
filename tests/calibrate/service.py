"""The API written by hand, with its own quirks: ids in hexadecimal, microseconds, snake codes, its own code for each 422, a bucket
of 50 in a minute under other header names, no secret in answers, timestamps with +00:00, or numbers if that is its argument. Prints its
port."""
import json
import secrets
import sys
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "wrs_sandbox_4f1d9a"
STATE = {"used": 0, "subscriptions": {}}


def now():
    if sys.argv[1:] == ["numbers"]:
        return time.time()
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, status, body, counted=False):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if counted:
            STATE["used"] += 1
            self.send_header("RateLimit-Limit", "50")
            self.send_header("RateLimit-Remaining", str(50 - STATE["used"]))
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, code, message, counted=False):
        request = {"code": code, "message": message, "request_id": "req_" + secrets.token_hex(8), "docs": "https://docs.example.com"}
        self.send(status, {"error": request}, counted)

    def authorized(self):
        if self.headers.get("Authorization") == "Bearer " + KEY:
            return True
        self.error(401, "unauthorized", "unauthorized")
        return False

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/v1/hello":
            return self.send(200, {"hello": "world", "version": "1.3.2"})
        # Unlike the emulator, it asks for the key first.
        if not self.authorized():
            return None
        if path != "/v1/system/status":
            return self.error(404, "route_not_found", "not found")
        parameters = dict(part.partition("=")[::2] for part in query.split("&") if part)
        if set(parameters) - {"include_checks"}:
            return self.error(422, "unknown_parameter", "unknown parameter", True)
        checks = parameters.get("include_checks", "false").lower()
        if checks not in ("true", "false", "1", "0"):
            return self.error(422, "invalid_boolean", "not a boolean", True)
        status = {"ok": True, "environment": "sandbox", "version": "v1.0", "checked_at": now()}
        if checks in ("true", "1"):
            status["checks"] = {"db": {"state": "up", "ms": time.monotonic_ns() % 97}}
        return self.send(200, status, True)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.authorized():
            return None
        if self.path != "/v1/events/subscribe":
            return self.error(404, "route_not_found", "not found")
        try:
            wanted = json.loads(body)
        except ValueError:
            return self.error(400, "bad_json", "bad json", True)
        if not wanted.get("events"):
            return self.error(422, "no_events", "no events", True)
        if any(event not in ("workflow.completed", "reference.matched", "reference.lost") for event in wanted["events"]):
            return self.error(422, "bad_event", "one of workflow.completed, reference.matched, reference.lost", True)
        subscription = {"id": "sub_" + secrets.token_hex(8), "url": wanted["url"], "events": wanted["events"], "status": "active"}
        return self.send(200, {**subscription, "created_at": now()}, True)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
print(server.server_port, flush=True)
server.serve_forever()
