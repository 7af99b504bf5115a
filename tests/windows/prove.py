"""The program for Windows under Wine, with clients and a receiver on this machine. Usage: prove.py WRS_EMULATOR_EXE

Wine translates the calls of Windows to those of Linux, and SIGINT to Ctrl-C. What depends on the kernel, the file system or the
console of Windows itself is not proven by it.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import queue
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

tests = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(tests))
from emulator import start_receiver
from promises import check, passed

program = ["wine", str(pathlib.Path(sys.argv[1]).resolve())]
folder = pathlib.Path(tempfile.mkdtemp())
KEY = "sk_test_windows"
SCENARIO = '[[rule]]\nname = "refused"\nwhen = { operation = "hello" }\nreply = { status = STATUS, body = { } }\n'


def run(*arguments, **options):
    return subprocess.run([*program, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, **options)


class Emulator:
    """`serve` on a free port, until it is interrupted."""

    def __init__(self, *arguments):
        command = [*program, "serve", "--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.url = words[-1] if words else sys.exit(f"✗ it starts\n  {self.process.communicate()}")

    def call(self, path, body=None, method=None):
        """Status and body of an answer."""
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        context = ssl._create_unverified_context() if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or "null")

    def interrupt(self):
        """Sends Ctrl-C; the exit code and the log."""
        self.process.send_signal(signal.SIGINT)
        log = self.process.communicate(timeout=20)[1]
        return self.process.returncode, log


def until(holds, seconds=10):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def watched():
    """How many descriptors Wine has open for the folder of scenarios, in all its processes of this user."""
    count = 0
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            count += os.readlink(link) == str(folder / "scenarios")
        except OSError:
            pass
    return count


def commands():
    version = run("--version")
    check("--version", version.returncode == 0 and version.stdout.startswith("wrs-emulator "), version)
    shutil.copytree(tests.parent / "scenarios", folder / "shipped")
    good = run("check", "shipped")
    check("`check` passes the shipped scenarios", good.returncode == 0 and " 0 errors" in good.stdout + good.stderr, good)
    (folder / "broken.toml").write_text('[[rule]]\nwhen = { operation = "helo" }\n')
    bad = run("check", "broken.toml")
    check("`check` refuses a broken one, with the place", bad.returncode == 1 and "broken.toml:2" in bad.stdout + bad.stderr, bad)
    missing = run("check", "nothing.toml")
    check("`check` of a file that is not there", missing.returncode == 2 and "nothing.toml" in missing.stdout + missing.stderr, missing)
    written = run("profile", "schema")
    check("a schema is printed as JSON", json.loads(written.stdout)["type"] == "object", written.stderr)


def serving():
    scenarios = folder / "scenarios"
    scenarios.mkdir()
    active = scenarios / "refused.toml"
    active.write_text(SCENARIO.replace("STATUS", "503"))
    got = queue.Queue()
    port = start_receiver(got).server_port
    arguments = ["--scenarios", "scenarios", "--scenario", "refused", "--state", "state.json", "--forward",
                 f"https://public.example=http://127.0.0.1:{port}"]
    emulator = Emulator(*arguments)
    answers = lambda status: until(lambda: emulator.call("/v1/hello")[0] == status)
    check("serve answers by a scenario", answers(503), emulator.call("/v1/hello"))
    active.write_text(SCENARIO.replace("STATUS", "502"))
    check("a scenario that is saved in place is served", answers(502), emulator.call("/v1/hello"))
    (scenarios / ".saving").write_text(SCENARIO.replace("STATUS", "500"))
    (scenarios / ".saving").replace(active)
    check("a scenario that is saved by renaming is served", answers(500), emulator.call("/v1/hello"))
    active.write_text("[[rule]]\nwhen = 1\n")
    check("a broken edit leaves the last good one", until(lambda: emulator.call("/_emulator/health")[1]["scenarios"] != "as saved")
          and answers(500), emulator.call("/_emulator/health"))
    active.unlink()
    check("a scenario is deselected", emulator.call("/_emulator/scenarios/active", {"active": []})[0] == 200 and answers(200),
          emulator.call("/v1/hello"))
    before = watched()
    time.sleep(3.5)
    check("the watcher holds as many handles after three seconds", 0 < watched() <= before, (before, watched()))

    status, created = emulator.call("/v1/events/subscribe", {"url": "https://public.example/hook", "events": ["workflow.completed"]})
    check("a webhook is subscribed", status in (200, 201), created)
    fired = emulator.call("/_emulator/events?wait=20s", {"type": "workflow.completed", "key": KEY})
    check("it is delivered", fired[0] in (200, 201) and fired[1]["deliveries"][0]["status"] == "delivered", fired)
    headers, body = got.get(timeout=10)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    secret = base64.b64decode(created["secret"].removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    check("its signature is good", headers["webhook-signature"] == expected, headers)

    second = run("serve", "--listen", "127.0.0.1:0", "--state", "state.json")
    check("a state file in use is refused", second.returncode == 2 and "another process" in second.stderr, second)
    code, log = emulator.interrupt()
    check("Ctrl-C ends it with exit code 0", code == 0, (code, log))
    check("the reloads are in the log", "scenarios reloaded" in log, log)
    left = sorted(path.name for path in folder.glob("*state.json*"))
    check("the state is saved, and no lock left", left == ["state.json"], left)
    again = Emulator(*arguments[-4:])
    listed = again.call("/_emulator/subscriptions?key=*")
    check("the next start has the subscription", created["id"] in json.dumps(listed), listed)
    again.process.kill()
    again.process.wait()
    check("a killed process leaves no claim", until(lambda: ended_well(*arguments[-4:])), left)

    secure = Emulator("--tls", "self-signed")
    check("HTTPS", secure.call("/v1/hello")[0] == 200)
    check("… ends as well", secure.interrupt()[0] == 0)


def ended_well(*arguments):
    command = [*program, "serve", "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    is_ready = "ready" in process.stdout.readline()
    if is_ready:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    return is_ready and process.returncode == 0


def executing():
    shown = run("exec", "--", "cmd", "/c", "echo %WRS_BASE_URL% %WRS_API_KEY%")
    check("exec gives the command its environment", shown.returncode == 0 and shown.stdout.startswith("http://127.0.0.1:")
          and "sk_test_local" in shown.stdout, shown)
    check("exec ends with the command's exit code", (seen := run("exec", "--", "cmd", "/c", "exit 3")).returncode == 3, seen)
    check("… with 127 if there is none", (seen := run("exec", "--", "nosuchprogram")).returncode == 127 and "cmd /c" in seen.stderr, seen)
    judged = run("exec", "--fail-on", "unmatched", "--report", "report.html", "--", program[1], "health")
    check("a command reaches the emulator, and the report is written",
          judged.returncode == 0 and (folder / "report.html").stat().st_size > 10_000, judged)
    # A console interrupts all of its programs, as it does with a process group here.
    command = [*program, "exec", "--", program[1], "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    seen = process.communicate(timeout=20)
    check("Ctrl-C ends the command, whose exit code is kept", process.returncode == 0, (process.returncode, seen))
    refused = run("review", "differential", "--", "cmd", "/c", "exit 0")
    check("`review differential` is refused in words", refused.returncode == 2 and "Windows has no process groups" in refused.stderr, refused)


try:
    commands()
    serving()
    executing()
finally:
    shutil.rmtree(folder, ignore_errors=True)
print(f"{len(passed)} promises hold")
