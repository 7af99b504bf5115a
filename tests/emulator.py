"""An emulator that a check starts, calls and stops."""

import json
import subprocess
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
