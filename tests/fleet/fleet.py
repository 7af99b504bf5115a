"""Tries docs/examples/nginx.conf: three processes behind nginx, under load, one of them killed. Usage: fleet.py EMULATOR_BINARY"""

import collections
import concurrent.futures
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed, until

binary = sys.argv[1]
root = pathlib.Path(__file__).parents[2]
work = pathlib.Path(tempfile.mkdtemp())
KEYS = [f"sk_test_fleet_{number}" for number in range(60)]
EACH, QUOTA, CONNECTIONS = 130, 100, 16
FRONT, PORTS = 9770, [9771, 9772, 9773]
STORY = '[[rule]]\nwhen = { operation = "hello" }\nreply = { status = 503, code = "scripted", message = "all have it" }\n'


class Client:
    """One kept connection."""

    def __init__(self, port=FRONT):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def call(self, method, path, body=None, key=None):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            headers["content-type"] = "application/json"
        self.connection.request(method, path, body and json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()


def once(*arguments, port=FRONT, **named):
    try:
        return Client(port).call(*arguments, **named)
    except OSError:
        return 0, ""


def start(port):
    """One process as the page starts it, with a small quota and a clock on which it does not refill."""
    command = [binary, "--listen", f"127.0.0.1:{port}", "--scenarios", work / "scenarios", "--state", work / f"{port}.json", "--quiet",
               "--set", f"rate_limit.requests={QUOTA}", "--clock", "frozen"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until(f"{port} is ready", lambda: once("GET", "/_emulator/health", port=port)[0] == 200)
    return process


def in_parallel(work_of, items):
    """`work_of(client, item)` for all items, over 16 kept connections, in the order of the items."""
    shares = [items[number::CONNECTIONS] for number in range(CONNECTIONS)]

    def run(share):
        client = Client()
        return [(item, work_of(client, item)) for item in share]

    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        return [pair for share in pool.map(run, shares) for pair in share]


def quotas():
    # Neighbours in the list go over different connections: each key is busy on several at once.
    requests = [key for _ in range(EACH) for key in KEYS]
    begun = time.monotonic()
    answers = in_parallel(lambda client, key: client.call("GET", "/v1/system/status", key=key)[0], requests)
    seconds = time.monotonic() - begun
    counts = collections.Counter(answers)
    wrong = {key: (counts[key, 200], counts[key, 429]) for key in KEYS if (counts[key, 200], counts[key, 429]) != (QUOTA, EACH - QUOTA)}
    check(f"{len(requests):,} requests of {len(KEYS)} keys in {seconds:.1f} s: each key is allowed exactly its {QUOTA}", not wrong, wrong)


def owners():
    """Which process has each key, as their journals show when asked directly."""
    found = collections.defaultdict(list)
    for port in PORTS:
        for key in KEYS:
            listed = once("GET", f"/_emulator/requests?key={key}&operation=system.status&limit=1000", port=port)[1]
            if count := len(listed.get("data", [])):
                found[key].append((port, count))
    return found


def no_cross_talk():
    found = owners()
    check(f"all {EACH} requests of each key are in the journal of one process", all(found[key] == [(found[key][0][0], EACH)] for key in KEYS), found)
    shares = collections.Counter(found[key][0][0] for key in KEYS)
    check(f"every process has keys: {', '.join(f'{port} {count}' for port, count in sorted(shares.items()))}", len(shares) == 3 and min(shares.values()) > 5)

    def webhook(client, key):
        sink = key.replace("_", "-")
        client.call("POST", f"/_emulator/subscriptions?key={key}", {"url": f"https://{sink}.sink.localhost/", "events": ["workflow.completed"]})
        fired = client.call("POST", f"/_emulator/events?key={key}&wait=10s", {"type": "workflow.completed"})[1]
        receipts = client.call("GET", f"/_emulator/sink/{sink}?key={key}")[1]["data"]
        deliveries = client.call("GET", f"/_emulator/deliveries?key={key}")[1]["data"]
        return [fired["deliveries"][0]["status"], len(receipts), receipts[0]["verified"], len(deliveries)]

    results = in_parallel(webhook, KEYS)
    check("control calls reach the key's process: each key gets its own webhook, once", all(seen == ["delivered", 1, True, 1] for _, seen in results), results)
    refused = [once("GET", path)[0] for path in ("/_emulator/requests", "/_emulator/verdict?key=*", "/_emulator/health")]
    check("a control call without a key, or for all, is refused", refused == [400, 400, 400], refused)
    return {key: found[key][0][0] for key in KEYS}


def scenarios(owner):
    (work / "scenarios/story.toml").write_text(STORY)
    for port in PORTS:
        until(f"{port} has the scenario", lambda: "story" in json.dumps(once("GET", "/_emulator/scenarios", port=port)[1]))
    some = [next(key for key in KEYS if owner[key] == port) for port in PORTS]
    for key in some:
        command = [binary, "scenarios", "use", "story", "--key", key, "--url", f"http://127.0.0.1:{FRONT}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    statuses = [once("GET", "/v1/hello", key=key)[0] for key in some]
    off = once("GET", "/v1/hello", key=next(key for key in KEYS if key not in some))[0]
    check("a file that is saved in the folder is loaded by all, and played for the keys that use it", (statuses, off) == ([503] * 3, 200), (statuses, off))


def lost(processes, owner):
    port = PORTS[1]
    gone = [key for key in KEYS if owner[key] == port]
    stays = [key for key in KEYS if owner[key] != port]
    state = work / f"{port}.json"
    until("its state is saved", lambda: state.exists() and all(key.replace("_", "-") in state.read_text() for key in gone))
    processes[port].kill()
    processes[port].wait()
    statuses = in_parallel(lambda client, key: client.call("GET", "/v1/hello", key=key)[0], KEYS)
    good = all((status == 502) == (key in gone) for key, status in statuses)
    check(f"a process is killed: its {len(gone)} keys get 502, the other {len(stays)} do not notice", good, statuses)
    processes[port] = start(port)
    statuses = in_parallel(lambda client, key: client.call("GET", "/v1/hello", key=key)[0], gone)
    check("once it is replaced, its keys are answered again", all(status in (200, 503) for _, status in statuses), statuses)

    def kept(client, key):
        subscriptions = client.call("GET", f"/_emulator/subscriptions?key={key}")[1]["data"]
        journal = client.call("GET", f"/_emulator/requests?key={key}&operation=system.status")[1]["data"]
        quota = client.call("GET", "/v1/system/status", key=key)[0]
        return len(subscriptions), len(journal), len(client.call("GET", f"/_emulator/deliveries?key={key}")[1]["data"]), quota

    seen = in_parallel(kept, gone)
    check("its subscriptions and quota are as they were saved; journal and deliveries are lost", all(result == (1, 0, 0, 429) for _, result in seen), seen)
    seen = in_parallel(lambda client, key: len(client.call("GET", f"/_emulator/requests?key={key}&operation=system.status&limit=1000")[1]["data"]), stays)
    check("the others lost nothing", all(count == EACH for _, count in seen), seen)


def main():
    configuration = (root / "docs/examples/nginx.conf").read_text()
    (work / "nginx.conf").write_text(f"pid {work}/nginx.pid;\nerror_log {work}/error.log;\ndaemon off;\n{configuration}".replace("http {", "http {\n    access_log off;"))
    (work / "scenarios").mkdir()
    processes = {port: start(port) for port in PORTS}
    nginx = subprocess.Popen(["nginx", "-c", work / "nginx.conf", "-e", work / "error.log"])
    until("nginx is ready", lambda: once("GET", "/v1/hello")[0] == 200)
    quotas()
    owner = no_cross_talk()
    scenarios(owner)
    lost(processes, owner)
    for process in [nginx, *processes.values()]:
        process.terminate()
        process.wait(timeout=20)
    print(f"{len(passed)} passed, 0 failed")


try:
    main()
finally:
    shutil.rmtree(work)
