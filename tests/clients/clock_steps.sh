#!/usr/bin/env bash
# Steps the wall clock of a running emulator with libfaketime (the Debian package faketime): an hour on, two hours back. A quota
# window must neither open early nor stay shut, and a retry must neither come early nor fail to come.
# Usage: clock_steps.sh [EMULATOR_BINARY]     (target/release/wrs-emulator; it must be linked dynamically)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
emulator=$(realpath "${1:-$here/../../target/release/wrs-emulator}")
library=$(find /usr/lib -name libfaketimeMT.so.1 | head -1)
[ -n "$library" ] || { echo "clock_steps.sh: libfaketime is missing; install the Debian package faketime" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PYTHONPATH=$here/.. python3 - "$emulator" "$library" "$folder" <<'PYTHON'
import datetime, json, os, sys, time

from emulator import Emulator

binary, library, folder = sys.argv[1:]
steps = os.path.join(folder, "step")


def step(text):
    with open(steps + ".new", "w", encoding="ascii") as file:
        file.write(text + "\n")
    os.replace(steps + ".new", steps)


step("+0")
# Only the wall clock is stepped, as an administrator or NTP does it: the monotonic clock of a machine never jumps.
environment = {**os.environ, "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": steps, "FAKETIME_NO_CACHE": "1",
               "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
flags = ["--set", "rate_limit.requests=2", "--set", "rate_limit.window=6s",
         "--set", "webhooks.retry.preset=custom", "--set", 'webhooks.retry.schedule=["2s", "2s"]']
with Emulator(binary, *flags, cwd=folder, env=environment) as emulator:
    def ask(method, path, body=None, key="sk_test_steps"):
        status, text = emulator.call(method, path, body, key)
        return status, json.loads(text)

    def shown():
        """The emulator's time in seconds, as any key may see it."""
        status, body = ask("GET", "/v1/system/status", key=f"sk_test_look_{time.monotonic_ns()}")
        assert status == 200, body
        return datetime.datetime.fromisoformat(body["checked_at"].replace("Z", "+00:00")).timestamp()

    def takes(text, seconds):
        """Steps the clock, and waits until the emulator shows it: the step really happened."""
        step(text)
        limit = time.monotonic() + 10
        while abs(shown() - time.time() - seconds) > 5:
            assert time.monotonic() < limit, f"the step {text} is not seen: {shown()} and {time.time()}"
            time.sleep(0.05)

    def opens(text, seconds):
        """Uses the quota up, steps the clock, and gives how long the window stays shut."""
        key = f"sk_test_quota_{seconds}"
        began = time.monotonic()
        assert [ask("GET", "/v1/system/status", key=key)[0] for _ in range(3)] == [200, 200, 429]
        takes(text, seconds)
        while ask("GET", "/v1/system/status", key=key)[0] == 429:
            assert time.monotonic() < began + 20, f"{text}: the window stays shut"
            time.sleep(0.05)
        lasted = time.monotonic() - began
        assert 5.5 <= lasted <= 8, f"{text}: the window of 6 s opened after {lasted:.1f} s"
        print(f"{text:>6}: the window of 6 s opened after {lasted:.1f} s")

    opens("+1h", 3600)
    opens("-2h", -7200)
    step("+0")

    # The first two attempts fail; the clock is stepped between them.
    hook = {"url": "https://steps.sink.localhost/", "events": ["workflow.completed"]}
    for text, seconds in [("+1h", 3600), ("-2h", -7200)]:
        key = f"sk_test_retry_{seconds}"
        assert ask("POST", "/v1/events/subscribe", hook, key)[0] == 200
        ask("POST", "/_emulator/sink/steps", {"respond": [500, 500]})
        began = time.monotonic()
        _, fired = ask("POST", "/_emulator/events", {"type": "workflow.completed", "key": key})
        delivery = fired["events"][0]["deliveries"][0]["id"]
        takes(text, seconds)
        status, found = ask("POST", "/_emulator/deliveries/wait", {"status": "delivered", "key": key, "timeout": "15s"})
        lasted = time.monotonic() - began
        assert status == 200, f"{text}: the retry did not come: {found}"
        _, whole = ask("GET", f"/_emulator/deliveries/{delivery}")
        assert len(whole["attempts"]) == 3, whole
        assert 3.8 <= lasted <= 6, f"{text}: three attempts two seconds apart were over after {lasted:.1f} s"
        print(f"{text:>6}: three attempts two seconds apart, delivered after {lasted:.1f} s")
print("clock_steps.sh: passed")
PYTHON
