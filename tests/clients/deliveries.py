"""What the emulator signs, for the verifiers of each language. Usage: deliveries.py EMULATOR_BINARY; prints JSON:

`received` has headers and body of a good delivery, by "", and of one with each tampering; `signed` has for each scheme the headers
that `sign` makes of the good body: for now, and for a stale and a future time."""

import json
import os
import pathlib
import queue
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from emulator import Emulator, start_receiver

PUBLIC = "https://app.example.com"
SCHEMES = ["standard", "svix", "stripe", "github", "slack"]
TAMPERS = ["body", "signature", "secret", "timestamp", "future_timestamp", "headers"]


def sign(binary, scheme, secret, timestamp, body):
    command = [binary, "sign", "--scheme", scheme, "--timestamp", str(timestamp), "--json", "-"]
    environment = {**os.environ, "WRS_WEBHOOK_SECRET": secret}
    result = subprocess.run(command, input=body, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["headers"]


def gather(binary):
    """Subscribes, fires a good event and one of each tampering, and signs the good body again."""
    got = queue.Queue()
    receiver = start_receiver(got)
    flags = ["--set", f"webhooks.scheme={json.dumps(SCHEMES)}", "--forward", f"{PUBLIC}=http://127.0.0.1:{receiver.server_port}"]
    received = {}
    with Emulator(binary, *flags) as emulator:
        hook = {"url": f"{PUBLIC}/hooks", "events": ["workflow.completed"]}
        status, subscribed = emulator.call("POST", "/v1/events/subscribe", hook)
        assert status == 200, subscribed
        for tamper in ["", *TAMPERS]:
            wish = {"type": "workflow.completed", **({"tamper": tamper} if tamper else {})}
            status, fired = emulator.call("POST", "/_emulator/events?wait=20s", wish)
            assert status == 200 and json.loads(fired)["deliveries"][0]["status"] == "delivered", fired
            headers, body = got.get(timeout=20)
            received[tamper] = {"headers": {name.lower(): value for name, value in headers.items()}, "body": body.decode()}
    receiver.shutdown()
    secret, now = json.loads(subscribed)["secret"], int(time.time())
    times = {"now": now, "stale": now - 400, "future": now + 400}
    signed = {scheme: {when: sign(binary, scheme, secret, at, received[""]["body"]) for when, at in times.items()} for scheme in SCHEMES}
    return {"secret": secret, "received": received, "signed": signed}


if __name__ == "__main__":
    print(json.dumps(gather(os.path.abspath(sys.argv[1]))))
