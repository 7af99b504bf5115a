"""An emulator that a check starts, calls and stops, and a receiver for its webhooks."""

import http.server
import json
import subprocess
import threading
import urllib.error
import urllib.request


class Emulator:
    """Serves on a free port until the block ends, and must end well then."""

    def __init__(self, binary, *flags, **options):
        command = [binary, "serve", "--quiet", "--listen", "127.0.0.1:0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.url = self.process.stdout.readline().split()[-1]

    def call(self, method, path, body=None, key="sk_test_local"):
        """Status and text of an answer; without a key none is sent."""
        headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body else None, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0


def start_receiver(got, address=("127.0.0.1", 0), context=None):
    """Puts headers and body of each delivery into the queue; speaks TLS if there is a context. Gives the server."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.put((self.headers, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(address, Receiver)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
