"""The emulator with a quarter of a processor and 64 MiB: it answers and is not killed. Usage: small.py EMULATOR_BINARY

Makes a separate control group (version 2 or 1), which needs root and a writable /sys/fs/cgroup; without one it ends with exit code 3.
The load comes from outside of the group: connections that send as fast as they are answered, webhooks, and large bodies.
"""

import http.client
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed

binary = sys.argv[1]
SECONDS, CONNECTIONS, MIB = 6, 16, 1024 * 1024
MEMORY, QUOTA, PERIOD = 64 * MIB, 25_000, 100_000
base = pathlib.Path("/sys/fs/cgroup")
NAME = f"wrs-emulator-small-{os.getpid()}"


class Group:
    """A control group of either version."""

    def __init__(self):
        if (base / "cgroup.controllers").exists():
            self.folders = [base / NAME]
            limits = [("memory.max", MEMORY), ("memory.swap.max", 0), ("cpu.max", f"{QUOTA} {PERIOD}")]
        else:
            self.folders = [base / "memory" / NAME, base / "cpu" / NAME]
            limits = [("memory.limit_in_bytes", MEMORY), ("cpu.cfs_period_us", PERIOD), ("cpu.cfs_quota_us", QUOTA)]
        try:
            for folder in self.folders:
                folder.mkdir()
            if not (self.folders[0] / limits[0][0]).exists():
                (base / "cgroup.subtree_control").write_text("+cpu +memory")
            for name, value in limits:
                if name != "memory.swap.max" or (self.folders[0] / name).exists():
                    self.file(name).write_text(str(value))
        except OSError as error:
            self.remove()
            print(f"NOT run: no control group can be made here: {error}")
            sys.exit(3)

    def file(self, name):
        return next((folder / name for folder in self.folders if (folder / name).exists()), self.folders[0] / name)

    def enter(self):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text("0")

    def peak(self):
        names = ("memory.peak", "memory.max_usage_in_bytes")
        return next((int((folder / name).read_text()) for folder in self.folders for name in names if (folder / name).exists()), None)

    def events(self, *names):
        """A counter of any file of the group."""
        for folder in self.folders:
            for file in ("memory.events", "memory.oom_control", "cpu.stat"):
                if (folder / file).exists():
                    for line in (folder / file).read_text().splitlines():
                        if line.split()[0] in names:
                            return int(line.split()[1])
        return 0

    def remove(self):
        for folder in self.folders:
            if folder.exists():
                folder.rmdir()


def call(connection, method, path, body=None, key="sk_test_small"):
    headers = {"authorization": f"Bearer {key}"}
    if body is not None:
        headers["content-type"] = "application/json"
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def under_load(port, name, requests):
    """Calls `requests(number)` for each request of each connection for some seconds: statuses and the longest wait."""
    statuses, slowest, end = {}, [0.0], time.monotonic() + SECONDS

    def send(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        while time.monotonic() < end:
            begun = time.monotonic()
            number += CONNECTIONS
            try:
                status = call(connection, *requests(number))[0]
            except OSError as error:
                status = type(error).__name__
            statuses[status] = statuses.get(status, 0) + 1
            slowest[0] = max(slowest[0], time.monotonic() - begun)
            if isinstance(status, str):
                return

    threads = [threading.Thread(target=send, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(statuses.values())
    check(f"{name}: {total / SECONDS:,.0f} answers a second, the slowest after {slowest[0] * 1000:,.0f} ms",
          total > 1000 and set(statuses) <= {200, 422, 429} and slowest[0] < 5, (statuses, slowest))


def ordinary(number):
    """Status checks of a thousand keys, wrong requests, and webhooks."""
    key = f"sk_test_small_{number % 1000}"
    if number % 20 == 0:
        subscription = {"url": f"https://s{number % 500}.sink.localhost/", "events": ["workflow.completed"]}
        return "POST", "/v1/events/subscribe", json.dumps(subscription), key
    if number % 20 == 1:
        return "GET", "/v1/system/status?include_checks=x", None, key
    return "GET", "/v1/system/status", None, key


LARGE = json.dumps({"url": "https://large.sink.localhost/", "events": ["workflow.completed"], "note": "x" * 200_000})


def large(number):
    return "POST", "/v1/events/subscribe", LARGE, f"sk_test_large_{number % 1000}"


def serve(group, *flags):
    command = [binary, "--listen", "127.0.0.1:0", "--quiet", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
    return process, int(process.stdout.readline().rsplit(":", 1)[1])


def fire(port):
    """Webhooks to all subscriptions; gives how many arrived."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    arrived = 0
    for number in range(0, 1000, 20):
        status, body = call(connection, "POST", f"/_emulator/events?key=sk_test_small_{number}&wait=10s", '{"type":"workflow.completed"}')
        arrived += status == 200 and body.count(b'"delivered"')
    return arrived


def main():
    group = Group()
    try:
        process, port = serve(group)
        under_load(port, "ordinary traffic", ordinary)
        arrived = fire(port)
        check(f"webhooks of {arrived} subscriptions arrive", arrived >= 50, arrived)
        process.terminate()
        check("it stops with exit code 0", process.wait(timeout=20) == 0)
        # The budget is for a machine of ordinary size.
        process, port = serve(group, "--max-memory-bytes", "16777216")
        under_load(port, "bodies of 200 KB, with --max-memory-bytes 16777216", large)
        check("and it still answers", call(http.client.HTTPConnection("127.0.0.1", port, timeout=20), "GET", "/v1/system/status")[0] == 200)
        process.terminate()
        check("it stops with exit code 0 again", process.wait(timeout=20) == 0)
        kills, throttled, peak = group.events("oom_kill"), group.events("nr_throttled"), group.peak()
        check(f"it was never killed; the limit of its processor was reached {throttled} times, its memory was {peak / MIB:.0f} MiB at most",
              kills == 0 and throttled > 10 and peak <= MEMORY, (kills, throttled, peak))
        print(f"{len(passed)} passed, 0 failed")
    finally:
        if "process" in locals() and process.poll() is None:
            process.kill()
            process.wait()
        group.remove()


main()
