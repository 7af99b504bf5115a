"""Runs a laid out image as an engine would, and checks what the container promises. Usage: prove.py FOLDER

Started by `run.sh` in its own network namespace, where 10.97.70.1 is an address of the loopback device: a receiver
beside the container.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import queue
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from emulator import start_receiver
from promises import check, passed

MIB = 1024 * 1024
MOST_MEMORY = 8 * MIB
PATIENCE = 20
OUTSIDE = "10.97.70.1"
# `env -i` leaves no path to look along.
CHROOT = shutil.which("chroot")
URL = f"http://{OUTSIDE}:9770"
KEY = {"authorization": "Bearer sk_test_container"}

folder = pathlib.Path(sys.argv[1])
image = json.loads((folder / "image.json").read_text())
# Beside the image: what a killed run leaves goes with the next one.
work = folder / "work"
work.mkdir()
running = []


class Container:
    """A running image: a copy of the root, with files put there as mounts are."""

    def __init__(self, environment=None, files=None):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=work)) / "root"
        shutil.copytree(folder / "root", self.root)
        for path, owner in image["owners"].items():
            subprocess.run(["chown", "--recursive", owner, self.root / path.lstrip("/")], check=True)
        for path, content in (files or {}).items():
            target = self.root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        self.environment = {**image["environment"], **(environment or {})}
        user = f"{image['user']}:{image['group']}"
        namespace = ["unshare", "--pid", "--mount", "--fork", "--kill-child"]
        self.outer = subprocess.Popen(
            [*namespace, *self.with_environment(), CHROOT, f"--userspec={user}", "--groups=", self.root, *image["entrypoint"]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        running.append(self.outer)
        self.errors = queue.Queue()
        threading.Thread(target=self.read_errors, daemon=True).start()
        readable, _, _ = select.select([self.outer.stdout], [], [], PATIENCE)
        self.ready = self.outer.stdout.readline().strip() if readable else "nothing within 20 s"
        self.pid = child_of(self.outer.pid)
        if self.pid is None:
            self.outer.wait(timeout=PATIENCE)
            sys.exit(f"the container ended with {self.outer.returncode}: {self.ready} {[*self.errors.queue]}")

    def with_environment(self):
        return ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items())]

    def read_errors(self):
        for line in self.outer.stderr:
            self.errors.put(line.strip())

    def execute(self, command):
        """As `docker exec`: in the same root and namespaces, as the same user, with the same environment."""
        user = ["--setuid", str(image["user"]), "--setgid", str(image["group"])]
        enter = ["nsenter", "--target", str(self.pid), "--pid", "--mount", "--root", "--wd=/", *user]
        # The names are set from outside, as there is no `env` inside.
        return subprocess.run([*enter, *command], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)

    def status(self, name):
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.split(":")[1].split() for line in lines if line.startswith(f"{name}:"))

    def stop(self, *signals):
        """Sends the signals and gives exit code and seconds."""
        begun = time.monotonic()
        first, *more = signals
        os.kill(self.pid, first)
        for number in more:
            # Two at once would be one: the next is sent when the last was taken, and nothing listens any more.
            while is_open():
                time.sleep(0.005)
            os.kill(self.pid, number)
        code = self.outer.wait(timeout=PATIENCE)
        return code, time.monotonic() - begun


def is_open():
    with socket.socket() as client:
        return client.connect_ex((OUTSIDE, 9770)) == 0


def child_of(parent):
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                    return int(entry.name)
            except (OSError, ValueError):
                continue
    return None


def call(path, body=None, headers=KEY):
    """Status and JSON body of a request from outside."""
    content = body if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, content, {**headers, "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def make_certificates(name, hosts):
    """An authority of this name, and a certificate of it for these hosts."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=work, check=True, capture_output=True)

    (work / f"{name}.names").write_text("subjectAltName=" + ",".join(f"DNS:{host}" for host in hosts) + "\n")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem", "-days", "2", "-subj", f"/CN=authority {name}")
    openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={hosts[0]}")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.names")


def start_tls_receiver(name, port, got):
    """A webhook receiver with TLS next to the container."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(work / f"{name}.pem", work / f"{name}.key")
    start_receiver(got, (OUTSIDE, port), context)


def start_name_server(names, asked):
    """Answers A questions from `names`; no other name exists."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def answer():
        while True:
            question, client = server.recvfrom(512)
            labels, at = [], 12
            while question[at]:
                labels.append(question[at + 1 : at + 1 + question[at]].decode())
                at += 1 + question[at]
            name, wanted = ".".join(labels).lower(), int.from_bytes(question[at + 1 : at + 3])
            asked.add(name)
            found = [socket.inet_aton(names[name])] if name in names and wanted == 1 else []
            code = b"\x81\x80" if name in names else b"\x81\x83"
            head = question[:2] + code + b"\0\1" + len(found).to_bytes(2) + b"\0\0\0\0"
            records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + address for address in found)
            server.sendto(head + question[12 : at + 5] + records, client)

    threading.Thread(target=answer, daemon=True).start()


def is_signed(headers, body, secret):
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{expected}"


def deliver(url, token):
    """Subscribes `url`, fires an event, and gives the secret and the delivery as the control API tells it."""
    status, subscription = call("/v1/events/subscribe", {"url": url, "events": ["workflow.completed"]})
    assert status == 200, subscription
    fire = {"type": "workflow.completed", "key": "sk_test_container", "subscription": subscription["id"]}
    status, fired = call("/_emulator/events?wait=15s", fire, token)
    assert status == 200, fired
    return subscription["secret"], json.dumps(fired)


def prove_layout():
    files = [path for path in (folder / "root").rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(folder / "root")) for path in files)
    check("the image holds the binary and the authorities, nothing else",
          names == ["etc/ssl/certs/ca-certificates.crt", "wrs-emulator"], names)
    binary, whole = (folder / "root/wrs-emulator").stat().st_size, sum(path.stat().st_size for path in files)
    print(f"  the binary has {binary / MIB:.1f} MiB, the image {whole / MIB:.1f} MiB")
    check("the user is a number and not root", image["user"] > 0 and image["group"] > 0)


def prove_bare():
    """No argument, no extra environment, nothing mounted."""
    container = Container()
    check("it says that it is ready", container.ready == "wrs-emulator ready on http://0.0.0.0:9770",
          [container.ready, list(container.errors.queue)])
    check("it is process 1", container.status("NSpid")[-1] == "1", container.status("NSpid"))
    check("it is not root", set(container.status("Uid")) == {str(image["user"])}, container.status("Uid"))
    maps = pathlib.Path(f"/proc/{container.pid}/maps").read_text()
    mapped = {line.split()[5] for line in maps.splitlines() if len(line.split()) > 5 and "/" in line.split()[5]}
    check("it is static: nothing but itself is mapped", {os.path.basename(name) for name in mapped} == {"wrs-emulator"}, mapped)
    health = container.execute(image["health"])
    check("the health check passes, without a token", health.returncode == 0 and health.stdout.startswith("ready "), health)
    # Without the pages of its file, whose number depends on the kernel.
    idle = int(container.status("RssAnon")[0]) * 1024
    hello = subprocess.run(["curl", "-sS", "-w", " %{http_code}", URL + "/v1/hello"], capture_output=True, text=True)
    check("curl from outside reaches it", hello.stdout == '{"message":"Hello, world!","version":"1.3.2"} 200', hello)
    status, answer = call("/v1/system/status")
    check("any test key works", status == 200 and answer["ok"] is True, answer)

    refused, _ = call("/_emulator/requests", headers={})
    line = container.errors.get(timeout=PATIENCE)
    token = line.removeprefix("control token: ").split(" ")[0]
    allowed, _ = call("/_emulator/requests", headers={"authorization": f"Bearer {token}"})
    check("the control API wants the token that was printed", (refused, allowed) == (401, 200), [refused, allowed, line])
    sink = {"url": "https://app.sink.localhost/hooks", "events": ["workflow.completed"]}
    status, answer = call("/v1/events/subscribe", sink)
    assert status == 200, answer
    trigger = ["/wrs-emulator", "trigger", "workflow.completed", "--key", "sk_test_container", "--wait"]
    fired = container.execute([*trigger, "--control-token", token])
    check("a webhook reaches the built-in receiver, triggered from inside",
          fired.returncode == 0 and "delivered https://app.sink.localhost/hooks: answered 200" in fired.stdout, fired)

    grown = int(container.status("RssAnon")[0]) * 1024
    check(f"it allocates {idle / MIB:.1f} MiB idle and {grown / MIB:.1f} MiB after traffic, less than {MOST_MEMORY // MIB}", grown <= MOST_MEMORY)
    code, seconds = container.stop(signal.SIGTERM)
    check(f"SIGTERM ends process 1 with exit code 0, after {seconds:.2f} s", code == 0 and seconds < 2, code)


def prove_health_of_nothing():
    environment = [f"{name}={value}" for name, value in image["environment"].items()]
    user = f"--userspec={image['user']}:{image['group']}"
    health = subprocess.run(["env", "-i", *environment, CHROOT, user, folder / "root", *image["health"]], capture_output=True, text=True)
    check("the health check fails where nothing runs", health.returncode == 3, health)


def prove_elsewhere():
    """With TLS on another port: the health check is told where, and an open control API needs no token."""
    container = Container(environment={
        "WRS_EMULATOR_LISTEN": "0.0.0.0:9443", "WRS_EMULATOR_TLS": "self-signed", "WRS_EMULATOR_CONTROL_OPEN": "1",
        "WRS_EMULATOR_URL": "https://127.0.0.1:9443", "WRS_EMULATOR_INSECURE": "1",
    })
    health = container.execute(image["health"])
    check("the health check follows to another port and TLS", health.returncode == 0, [container.ready, health])
    listed = container.execute(["/wrs-emulator", "requests", "list", "--json"])
    check("an open control API wants no token", listed.returncode == 0 and container.errors.empty(), listed)
    assert container.stop(signal.SIGTERM)[0] == 0


def prove_webhooks(got, asked):
    """HTTPS to a receiver next to it: names from the hosts file and from DNS, authorities given and built in."""
    bundle = (folder / "root/etc/ssl/certs/ca-certificates.crt").read_text()
    token = {"authorization": "Bearer from-the-environment"}
    container = Container(
        environment={"WRS_EMULATOR_CONTROL_TOKEN": "from-the-environment", "WRS_EMULATOR_WEBHOOK_CA": "/certs/ca.pem"},
        files={
            "/certs/ca.pem": (work / "given-ca.pem").read_text(),
            "/etc/ssl/certs/ca-certificates.crt": bundle + (work / "built-in-ca.pem").read_text(),
            "/etc/hosts": f"127.0.0.1 localhost\n{OUTSIDE} hosts-file.test\n",
            "/etc/resolv.conf": "nameserver 127.0.0.1\n",
        },
    )
    for url, promise in [
        ("https://hosts-file.test/hooks", "HTTPS to a name of the hosts file, its authority given as a file"),
        ("https://name-server.test/hooks", "HTTPS to a name that the name server knows"),
        ("https://built-in.test:8443/hooks", "HTTPS under an authority of the image's own list"),
    ]:
        secret, fired = deliver(url, token)
        check(f"{promise}: delivered", '"delivered"' in fired, fired)
        headers, body = got.get(timeout=PATIENCE)
        check(f"{promise}: received, and the signature holds",
              headers["host"] == url.split("/")[2] and is_signed(headers, body, secret), headers.items())
    check("the hosts file came first", "hosts-file.test" not in asked and "name-server.test" in asked, asked)
    _, fired = deliver("https://nowhere.test/hooks", token)
    check("an unknown name is reported as such", "name_not_found" in fired or "has no address" in fired, fired)
    check("no token is printed when one is given", container.errors.empty() or "token" not in "".join(container.errors.queue))
    # Deliveries that are still to be tried again do not hold it up.
    code, seconds = container.stop(signal.SIGTERM)
    check(f"SIGTERM ends it with retries left, after {seconds:.2f} s", code == 0 and seconds < 6, code)


HELLO = '[[rule]]\nwhen = {{ operation = "hello" }}\nreply = {{ status = {status}, code = "scripted", message = "{name}" }}\n'


def prove_scenarios():
    """By environment, and by mount."""
    container = Container(environment={"WRS_EMULATOR_CONTROL_TOKEN": "t", "WRS_EMULATOR_SCENARIO_TEXT": HELLO.format(status=503, name="by environment")},
                          files={"/scenarios/story.toml": HELLO.format(status=418, name="by mount")})
    status, answer = call("/v1/hello")
    check("a scenario from the environment plays from the start", (status, answer["error"]["message"]) == (503, "by environment"), answer)
    status, answer = call("/_emulator/scenarios/active", {"active": ["story"]}, {"authorization": "Bearer t"})
    assert status == 200, answer
    status, answer = call("/v1/hello")
    check("a mounted scenario plays", (status, answer["error"]["message"]) == (418, "by mount"), answer)
    assert container.stop(signal.SIGTERM)[0] == 0


def prove_stopping():
    """As process 1 a signal has no default action: a second one ends it at once all the same."""
    slow = '[[rule]]\nwhen = { operation = "hello" }\ndelay = "60s"\n'
    container = Container(environment={"WRS_EMULATOR_SCENARIO_TEXT": slow, "WRS_EMULATOR_GRACE": "20s"})
    client = socket.create_connection((OUTSIDE, 9770))
    client.sendall(b"GET /v1/hello HTTP/1.1\r\nhost: localhost\r\n\r\n")
    # An answer to a later request: the first one has been taken in.
    assert call("/v1/system/status")[0] == 200
    code, seconds = container.stop(signal.SIGTERM, signal.SIGTERM)
    check("a second signal ends it at once with 128 + 15", code == 143 and seconds < 1.5, [code, seconds])
    client.close()


def main():
    make_certificates("given", ["hosts-file.test", "name-server.test"])
    make_certificates("built-in", ["built-in.test"])
    got, asked = queue.Queue(), set()
    start_tls_receiver("given", 443, got)
    start_tls_receiver("built-in", 8443, got)
    start_name_server({"name-server.test": OUTSIDE, "built-in.test": OUTSIDE}, asked)
    prove_layout()
    prove_bare()
    prove_health_of_nothing()
    prove_elsewhere()
    prove_webhooks(got, asked)
    prove_scenarios()
    prove_stopping()
    print(f"{len(passed)} passed, 0 failed")


try:
    main()
finally:
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()
    shutil.rmtree(work)
