"""The traffic and the figures of soak.sh: every kind of work at once, for MINUTES, against the binary it is given.

Requests on hundreds of keys, subscriptions, scenarios by file and by call, deliveries to a receiver that fails three in ten,
streams, waits, snapshots, resets and settings changed while running; and everything hostile at once: receivers that hang,
reset, drip and never end, events of a quarter of a megabyte, keys that are made up. One key's deliveries
are counted: each event must arrive. Samples are taken all along; the first third of the time is warm-up, in which journal and
tables fill up to their bounds. Uses nothing but the standard library.
"""

import http.client
import http.server
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

# What a rising line may add over the measured time, extrapolated by least squares; noise stays far below.
MAX_BYTES = 8 * 1024 * 1024
MAX_DESCRIPTORS = 8
MAX_RESIDENT = 256 * 1024 * 1024
# From this many seconds on a rising line is a failure.
LONG = 15 * 60
SEED = 20260131
STORY = """title = "Soak {number}"
[[rule]]
when = {{ operation = "hello" }}
times = 3
reply = {{ status = 422, code = "soak", message = "{number}" }}
"""


class Traffic:
    """Shared by all workers: the address, the end, and the counts."""

    def __init__(self, port, folder):
        self.port, self.folder = port, folder
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.counts, self.failures = {}, []
        self.silence = 0.0
        # Held while everything is reset or loaded, and while deliveries are counted.
        self.everything = threading.Lock()
        self.arrived = set()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fail(self, what):
        with self.lock:
            self.failures.append(what)


class Client:
    """One keep-alive connection, made anew from time to time as clients do."""

    def __init__(self, traffic):
        self.traffic, self.connection, self.left = traffic, None, 0

    def ask(self, method, path, body=None, key=None, kind="application/json", expect=None):
        if self.left == 0:
            self.close()
            self.connection = http.client.HTTPConnection("127.0.0.1", self.traffic.port, timeout=20)
            self.left = 100
        self.left -= 1
        headers = {"Content-Type": kind} if body is not None else {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        try:
            self.connection.request(method, path, data and data.encode(), headers)
            answer = self.connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.left = 0
            self.traffic.fail(f"{method} {path}: {error!r}")
            return 0, {}
        if answer.getheader("Connection") == "close":
            self.left = 0
        self.traffic.count(f"{answer.status}")
        if answer.status >= 500 or expect and answer.status not in expect:
            self.traffic.fail(f"{method} {path}: {answer.status} {text[:300]!r}")
        return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else {}

    def close(self):
        if self.connection:
            self.connection.close()


def requests(traffic, client, chance):
    key = f"sk_test_soak_{chance.randrange(400)}"
    path, expect = chance.choice([
        ("/v1/system/status", {200, 429}),
        ("/v1/system/status?include_checks=true", {200, 429}),
        ("/v1/system/status?include_checks=maybe", {422, 429}),
        ("/v1/hello", {200, 422}),
        ("/v1/workflows", {404}),
        (f"/nowhere/{chance.randrange(10**9)}", {404}),
    ])
    client.ask("GET", path, key=key, expect=expect)
    time.sleep(0.002)


def subscriptions(traffic, client, chance):
    key = f"sk_test_hook_{chance.randrange(20)}"
    url = f"https://{chance.choice(['app.example.com', 'soak.sink.localhost'])}/{chance.randrange(5)}"
    hook = {"url": url, "events": ["workflow.completed"]}
    client.ask("POST", "/v1/events/subscribe", hook, key, expect={200, 429})
    client.ask("POST", "/v1/events/subscribe", "{" * chance.randrange(5_000), key, expect={422, 429})
    client.ask("POST", "/_emulator/events", {"type": "workflow.completed", "key": key, "count": 3}, expect={200, 404})
    _, page = client.ask("GET", "/_emulator/deliveries?key=*&limit=5", expect={200})
    for row in page.get("data", [])[:1]:
        client.ask("POST", f"/_emulator/deliveries/{row['id']}/redeliver", {}, expect={200, 404, 409, 422})
    time.sleep(0.05)


def scenarios(traffic, client, chance):
    number = chance.randrange(10**6)
    key = f"sk_test_soak_{chance.randrange(400)}"
    name = f"call-{chance.randrange(10)}"
    client.ask("PUT", f"/_emulator/scenarios/{name}", STORY.format(number=number), kind="application/toml", expect={200, 201})
    client.ask("POST", "/_emulator/scenarios/active", {"active": [name], "key": key}, expect={200, 404, 422})
    client.ask("GET", "/v1/hello", key=key, expect={200, 422})
    client.ask("POST", "/_emulator/scenarios/active", {"active": [], "key": key}, expect={200})
    client.ask("DELETE", f"/_emulator/scenarios/{name}", {}, expect={200, 204, 404, 409, 422})
    text = STORY.format(number=number) if chance.random() < 0.8 else "title = [broken"
    new = os.path.join(traffic.folder, ".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, os.path.join(traffic.folder, f"file-{chance.randrange(5)}.toml"))
    # Refused with the problem where a file is broken; the last good version stays.
    client.ask("POST", "/_emulator/scenarios/reload", {}, expect={200, 422})
    time.sleep(0.05)


def viewers(traffic, client, chance):
    with socket.create_connection(("127.0.0.1", traffic.port), timeout=20) as viewer:
        viewer.sendall(b"GET /_emulator/stream?key=* HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(chance.randrange(1, 20)):
            begun = time.monotonic()
            if not viewer.recv(4096):
                traffic.fail("a stream ended")
                break
            # Once the others have stopped there is nothing to tell, and the emulator is about to end.
            if traffic.over.is_set():
                break
            # Something happens all the time: silence is the emulator's delay in reporting it.
            traffic.silence = max(traffic.silence, time.monotonic() - begun)
    traffic.count("streams")
    client.ask("GET", "/_emulator/run?limit=0", expect={200})
    time.sleep(0.05)


def waits(traffic, client, chance):
    wish = {"path": "/v1/hello", "count": chance.randrange(1, 4), "since": "now", "key": "*", "timeout": "500ms"}
    client.ask("POST", "/_emulator/requests/wait", wish, expect={200, 408})
    wish = {"status": "delivered", "count": 1, "key": "*", "timeout": "300ms"}
    client.ask("POST", "/_emulator/deliveries/wait", wish, expect={200, 408})
    client.ask("GET", "/_emulator/verdict?key=*", expect={200})
    _, page = client.ask("GET", "/_emulator/requests?key=*&limit=1", expect={200})
    for row in page.get("data", []):
        # It may have left the journal by now.
        client.ask("GET", f"/_emulator/explain/{row['id']}", expect={200, 404})


def states(traffic, client, chance):
    key = f"sk_test_hook_{chance.randrange(20)}"
    for which in [key, "*"]:
        with traffic.everything:
            _, document = client.ask("GET", f"/_emulator/snapshot?key={which}", expect={200})
            # A scenario in it may be gone since, or the document be larger than is taken.
            client.ask("PUT", "/_emulator/snapshot", document, expect={200, 409, 413, 422})
        time.sleep(0.5)
    client.ask("PATCH", f"/_emulator/profile?key={key}", {"rate_limit": {"requests": chance.randrange(1, 200)}}, expect={200})
    client.ask("PATCH", f"/_emulator/profile?key={key}", {"rate_limit": None}, expect={200})
    client.ask("POST", "/_emulator/clock", {"advance": "1s", "timeout": "10s"}, expect={200, 408})
    client.ask("POST", "/_emulator/reset", {"key": key}, expect={200, 204})
    if chance.random() < 0.1:
        with traffic.everything:
            client.ask("POST", "/_emulator/reset", {"key": "*"}, expect={200, 204})
    time.sleep(1)


def large(traffic, client, chance):
    key = f"sk_test_large_{chance.randrange(3)}"
    for name in ["hostile.example.com", "large.sink.localhost"]:
        hook = {"url": f"https://{name}/{chance.randrange(3)}", "events": ["workflow.completed"]}
        client.ask("POST", "/v1/events/subscribe", hook, key, expect={200, 429})
    event = {"type": "workflow.completed", "key": key, "data": {"x": "x" * chance.randrange(240_000)}, "count": 20}
    status, answer = client.ask("POST", "/_emulator/events", event, expect={200, 404, 422})
    if status == 422 and answer["error"]["code"] != "too_many_pending":
        traffic.fail(f"large events: {answer}")
    client.ask("POST", "/_emulator/reset", {"key": key}, expect={200})
    time.sleep(0.2)


def made_up(traffic, client, chance):
    key = f"sk_test_made_up_{chance.randrange(10**9)}"
    for number in range(50):
        hook = {"url": f"https://made-up.example.com/{number}", "events": ["workflow.completed"], "description": "x" * 2_000}
        status, answer = client.ask("POST", "/v1/events/subscribe", hook, key, expect={200, 422})
        if status == 422 and "all keys together" not in answer["error"]["message"]:
            traffic.fail(f"subscription: {answer}")
    client.ask("POST", "/_emulator/reset", {"key": key}, expect={200})
    time.sleep(0.1)


def counted(traffic, client, chance):
    key = "sk_test_counted"
    with traffic.everything:
        hook = {"url": "https://counted.example.com/", "events": ["workflow.completed"]}
        client.ask("POST", "/v1/events/subscribe", hook, key, expect={200, 429})
        event = {"type": "workflow.completed", "key": key, "count": 20}
        # Refused whole where hostile events have taken all room.
        status, answer = client.ask("POST", "/_emulator/events?wait=20s", event, expect={200, 404, 422})
        fired = {event["id"] for event in answer.get("events", [])} if status == 200 else set()
        # A connection kept for later may be closed at the very moment; then the next attempt brings the event.
        for _ in range(200):
            if fired <= traffic.arrived:
                break
            time.sleep(0.1)
        for lost in fired - traffic.arrived:
            traffic.fail(f"lost: {lost}")
        traffic.arrived.clear()
        traffic.count("counted deliveries")
    client.ask("POST", "/_emulator/reset", {"key": key}, expect={200})
    time.sleep(0.2)


WORKERS = [requests, requests, requests, subscriptions, scenarios, viewers, waits, states, large, made_up, counted]


def work(traffic, worker, seed):
    client, chance = Client(traffic), random.Random(seed)
    while not traffic.over.is_set():
        try:
            worker(traffic, client, chance)
            traffic.count(worker.__name__)
        except Exception as error:  # whatever it is, it is a finding
            traffic.fail(f"{worker.__name__}: {error!r}")
            time.sleep(0.1)
    client.close()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes deliveries and fails three in ten."""

    protocol_version = "HTTP/1.1"
    # So that no thread here outlives the traffic for long.
    timeout = 2
    chance = random.Random(SEED)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500 if self.chance.random() < 0.3 else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Counter(Receiver):
    """Takes deliveries and remembers them."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.traffic.arrived.add(self.headers["webhook-id"])
        self.send_response(204)
        self.end_headers()


def hostile_receiver(listener, over):
    """Takes connections and mistreats each in another way."""
    chance, held = random.Random(SEED), []
    while not over.is_set():
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            continue
        kind = chance.choice(["hang", "reset", "close", "garbage", "drip", "endless", "redirect"])
        try:
            peer.setblocking(False)
            if kind == "hang":
                held = held[-20:] + [peer]
                continue
            if kind == "reset":
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            elif kind == "garbage":
                peer.send(bytes(chance.randrange(256) for _ in range(200)))
            elif kind == "drip":
                peer.send(b"HTTP/1.1 200 OK\r\nx-drip: ")
                held = held[-20:] + [peer]
                continue
            elif kind == "endless":
                peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n" + b"x" * 100_000)
            elif kind == "redirect":
                peer.send(b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
            peer.close()
        except OSError:
            pass


def sample(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split(" ")
    return resident, len(os.listdir(f"/proc/{pid}/fd")), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rise(samples, column):
    """What the line of least squares adds from the first of these samples to the last."""
    times = [row[0] for row in samples]
    values = [row[column] for row in samples]
    middle, level = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - middle) ** 2 for time in times)
    slope = sum((time - middle) * (value - level) for time, value in zip(times, values)) / spread
    return slope * (times[-1] - times[0])


def soak(seconds, binary):
    folder = tempfile.mkdtemp()
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    receiver.daemon_threads = True
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    counter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counter)
    counter.daemon_threads = True
    threading.Thread(target=counter.serve_forever, daemon=True).start()
    hostile = socket.create_server(("127.0.0.1", 0))
    hostile.settimeout(0.5)
    command = [binary, "serve", "--quiet", "--listen", "127.0.0.1:0", "--scenarios", folder, "--seed", "7",
               # Small, so that everything is full after the warm-up: what fills up is not what leaks.
               "--max-memory-bytes", str(64 * 2**20),
               "--set", "webhooks.retry.preset=ci", "--set", "webhooks.timeout=3s", "--state", os.path.join(folder, "state.json"),
               "--forward", f"https://app.example.com=http://127.0.0.1:{receiver.server_port}",
               "--forward", f"https://counted.example.com=http://127.0.0.1:{counter.server_port}",
               "--forward", f"https://hostile.example.com=http://127.0.0.1:{hostile.getsockname()[1]}"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        traffic = Traffic(port, folder)
        counter.traffic = traffic
        threading.Thread(target=hostile_receiver, args=(hostile, traffic.over), daemon=True).start()
        idle = sample(server.pid)
        print(f"idle: {idle[0] / 2**20:.1f} MiB, {idle[1]} descriptors", flush=True)
        workers = [threading.Thread(target=work, args=(traffic, worker, SEED + number)) for number, worker in enumerate(WORKERS)]
        for thread in workers:
            thread.start()
        begin, samples, shown = time.monotonic(), [], 0
        while (passed := time.monotonic() - begin) < seconds:
            samples.append((passed, *sample(server.pid)))
            if passed >= shown:
                print(f"{passed:6.0f} s  {samples[-1][1] / 2**20:6.1f} MiB  {samples[-1][2]:4} descriptors  {samples[-1][3]:6.1f} s of processor", flush=True)
                shown += seconds / 15
            time.sleep(min(1, seconds / 60))
        traffic.over.set()
        for thread in workers:
            thread.join(60)
        asked = time.monotonic()
        Client(traffic).ask("GET", "/v1/hello", key="sk_test_afterwards", expect={200, 422})
        answered = time.monotonic() - asked
        # The emulator keeps an idle connection to a receiver for at most 30 s, which is the longest that one may stay.
        for _ in range(400):
            left = sample(server.pid)
            if left[1] <= idle[1] + MAX_DESCRIPTORS:
                break
            time.sleep(0.1)
        server.terminate()
        code = server.wait(20)
        said = server.stderr.read()
    finally:
        server.kill()
        receiver.shutdown()
    measured = [row for row in samples if row[0] >= seconds / 3]
    memory, descriptors = rise(measured, 1), rise(measured, 2)
    peak = max(row[1] for row in samples)
    print("counts:", json.dumps(traffic.counts, sort_keys=True))
    print(f"measured over {measured[-1][0] - measured[0][0]:.0f} s after the warm-up, {len(measured)} samples")
    print(f"memory: rises by {memory / 2**20:.2f} MiB (at most {MAX_BYTES / 2**20:.0f}), highest {peak / 2**20:.1f} MiB (at most {MAX_RESIDENT / 2**20:.0f})")
    print(f"descriptors: rise by {descriptors:.2f} (at most {MAX_DESCRIPTORS}), {left[1]} in the end, {idle[1]} when idle")
    print(f"longest silence of a stream: {traffic.silence * 1000:.0f} ms")
    print(f"first answer after the traffic: {answered * 1000:.0f} ms; exit code {code}")
    for failure in traffic.failures[:20]:
        print("failed:", failure)
    return [what for what, wrong in [
        ("unexpected answers", bool(traffic.failures)),
        # In the first minutes the allocator's arenas still fill; only a longer run tells a leak from that.
        ("memory grows", seconds >= LONG and memory > MAX_BYTES or peak > MAX_RESIDENT),
        ("descriptors grow", descriptors > MAX_DESCRIPTORS or left[1] > idle[1] + MAX_DESCRIPTORS),
        ("slow afterwards", answered > 1),
        ("exit code or panic", code != 0 or "panic" in said),
        ("one kind of work was not done", any(worker.__name__ not in traffic.counts for worker in WORKERS)),
    ] if wrong]


if __name__ == "__main__":
    wrong = soak(float(sys.argv[1]) * 60, os.path.realpath(sys.argv[2]))
    print("soak:", "; ".join(wrong) or "passed")
    sys.exit(bool(wrong))
