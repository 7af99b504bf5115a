"""Installs the npm packages and the wheel of a binary, and tries them. Usage: prove.py EMULATOR_BINARY NODE_MODULES

Started by `run.sh` without a network.
"""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from promises import check, passed

binary, modules = map(pathlib.Path, sys.argv[1:])
root = pathlib.Path(__file__).parents[2]
work = pathlib.Path(tempfile.mkdtemp())
clean = {name: value for name, value in os.environ.items() if not name.startswith(("WRS_", "npm_", "PIP_"))}
clean |= {"HOME": str(work), "npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false"}
PATIENCE = 30


def run(command, folder=work, path=None, must=True):
    environment = clean | {"PATH": f"{path}:{clean['PATH']}" if path else clean["PATH"]}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    if must and result.returncode != 0:
        sys.exit(f"✗ {command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def build():
    """The packages, built twice to see that the bytes are the same."""
    first, second = work / "packages", work / "again"
    for folder in (first, second):
        run([sys.executable, root / "packages/build.py", binary, folder])
    files = sorted(first.iterdir())
    same = all((second / file.name).read_bytes() == file.read_bytes() for file in files)
    check("the same binary gives the same packages, byte for byte", len(files) == 2 and same, files)
    for file in files:
        print(f"  {file.name}: {file.stat().st_size:,} bytes")
    return files


def links(files):
    """Every relative link of the packages' pages leads to a file or folder of the package."""
    dead, count = [], 0
    for file in files:
        if file.suffix == ".whl":
            archive = zipfile.ZipFile(file)
            contents = {name: archive.read(name) for name in archive.namelist()}
        else:
            archive = tarfile.open(file)
            contents = {entry.name: archive.extractfile(entry).read() for entry in archive}
        known = set(contents) | {str(parent) for name in contents for parent in pathlib.PurePath(name).parents}
        for name, content in contents.items():
            if not name.endswith((".md", ".txt", "/METADATA")):
                continue
            for link in re.findall(r"\]\(([^()#\s]+)[^()\s]*\)", content.decode()):
                if "://" not in link:
                    count += 1
                    dead += [(file.name, name, link)] * (os.path.normpath(f"{os.path.dirname(name)}/{link}") not in known)
    check("every link of the packages' pages leads to a file in the package", count > 100 and not dead, dead)


def install_line(registry):
    """How the package's page says to install it."""
    return re.search(r"^(npm|pip) install .*$", (root / "packages" / registry / "README.md").read_text(), re.M)[0]


def install_npm(*files):
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    (folder / "package.json").write_text('{"private": true}')
    for file in files:
        shutil.copy(file, folder)
    begun = time.monotonic()
    run(["bash", "-c", install_line("npm")], folder)
    return folder, time.monotonic() - begun


def install_wheel(wheel):
    folder = pathlib.Path(tempfile.mkdtemp(dir=work))
    shutil.copy(wheel, folder)
    begun = time.monotonic()
    pip = f'pip() {{ "{sys.executable}" -m pip "$@" --quiet --no-index --prefix .; }}; '
    run(["bash", "-c", pip + install_line("pypi")], folder)
    return folder, time.monotonic() - begun


WEBHOOK = """
curl -fsS -o /dev/null -H "Authorization: Bearer $WRS_API_KEY" -H 'Content-Type: application/json' \
  -d '{"url":"https://first.sink.localhost/","events":["workflow.completed"]}' "$WRS_BASE_URL/v1/events/subscribe"
wrs-emulator trigger workflow.completed --wait > /dev/null
curl -fsS "$WRS_EMULATOR_URL/_emulator/sink/first"
"""


def first_webhook(kind, path, seconds):
    """From the packages on disk to a webhook whose signature was verified."""
    begun = time.monotonic()
    result = run(["wrs-emulator", "exec", "--", "bash", "-e", "-c", WEBHOOK], path=path)
    took = time.monotonic() - begun
    (receipt,) = json.loads(result.stdout.splitlines()[0])["data"]
    check(f"{kind}: installed in {seconds:.1f} s, then {took:.2f} s to the first verified webhook", receipt["verified"] is True, result)


def page_file(name):
    """A file that docs/testing.md shows."""
    page = (root / "docs/testing.md").read_text()
    return re.search(rf"^(?:#|//) {re.escape(name)}\n(.*?)^```$", page, re.M | re.S)[1]


REASON = "422 Unprocessable Entity because `include_checks` must be true or false"


def python_tests(path, folder):
    """The example of docs/testing.md with the installed plugin; a failed test shows the reason and keeps the report, with workers too."""
    (site,) = folder.glob("lib/python*/site-packages")
    plugin = f"PYTHONPATH={site}"
    tests = pathlib.Path(tempfile.mkdtemp(dir=work))
    (tests / "test_status.py").write_text(page_file("test_status.py"))
    pytest = ["env", plugin, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for command in (pytest, ["wrs-emulator", "exec", "--fail-on", "unmatched,undelivered", "--", *pytest]):
        result = run(command, tests, path)
        check(f"PyPI: {'pytest under exec' if command != pytest else 'pytest'}, 3 passed", "3 passed" in result.stdout, result)
    (tests / "test_wrong.py").write_text(
        "import urllib.request\n\ndef test_a_wrong_value(wrs):\n"
        '    urllib.request.urlopen(urllib.request.Request(wrs.url + "/v1/system/status?include_checks=True", headers=wrs.headers))\n'
    )
    result = run([*pytest, "-n", "2"], tests, path, must=False)
    report = tests / "wrs-emulator-report.html"
    kept = "1 failed, 3 passed" in result.stdout and report.name in result.stdout and "sk_test_test_a_wrong_value" in report.read_text()
    check("PyPI: two workers, one emulator: a failed test has the reason, the report is kept", kept and REASON in result.stdout, result)
    (tests / "test_wrong.py").unlink()
    result = run(pytest, tests, path)
    check("PyPI: the next run, in which nothing fails, leaves no old report", not report.exists(), result)
    # Ends as pytest-timeout ends a session.
    (tests / "test_end.py").write_text("import os\nimport pathlib\n\ndef test_end(wrs):\n    pathlib.Path('url').write_text(wrs.url)\n    os._exit(3)\n")
    run([*pytest, "test_end.py"], tests, path, must=False)
    check("PyPI: the emulator ends with pytest, however that ends", ends((tests / "url").read_text()), tests)
    (tests / "test_end.py").unlink()
    # A recorder replaces the connections of `http.client`.
    (tests / "test_recorded.py").write_text("import http.client\n\nclass Recorder(http.client.HTTPConnection):\n    def connect(self):\n        raise AssertionError('recorded')\n\ndef test_recorded(wrs, monkeypatch):\n    monkeypatch.setattr(http.client, 'HTTPConnection', Recorder)\n    wrs.set(rate_limit={'requests': 5})\n")
    result = run([*pytest, "test_recorded.py"], tests, path)
    check("PyPI: a recorder does not see the calls of the plugin", "1 passed" in result.stdout, result)
    (tests / "test_recorded.py").write_text("def test_refused(wrs):\n    wrs.set(rate_limit={'requests': 'x'})\n")
    result = run([*pytest, "test_recorded.py"], tests, path, must=False)
    check("PyPI: a refused call shows the reason, not the plugin's source", "expected an integer" in result.stdout and "raise " not in result.stdout, result)
    (tests / "test_recorded.py").unlink()
    # Two packages of a repository, with tests of one name, against one emulator.
    keys = set()
    for package in ("one", "two", "one"):
        (tests / package).mkdir(exist_ok=True)
        (tests / package / "pytest.ini").write_text("[pytest]\n")
        (tests / package / "test_key.py").write_text("def test_key(wrs):\n    print('key', wrs.key)\n")
        keys.add(re.search(r"key (sk_test_\w+)", run([*pytest, "-s", "test_key.py"], tests / package, path).stdout)[1])
    check("PyPI: two packages have keys of their own, the same in every run", len(keys) == 2, keys)
    report.unlink()
    shutil.copy(root / "tests/packages/test_red.py", tests)
    red_job("PyPI", [*pytest, "test_red.py"], tests, path)
    shutil.copy(root / "tests/packages/test_phases.py", tests)
    report.unlink()
    result = run([*pytest, "test_phases.py"], tests, path, must=False)
    ended = endings(run_document(report))
    failed = {one["test"].rpartition("::")[2]: one["message"] for one in ended["failed"] if one["output"]}
    expected = {
        "test_set_up_before_wrs": "OSError: no database", "test_set_up_after_wrs": "ValueError: no client",
        "test_call_and_tear_down": "KeyError: 'of the call'", "test_tear_down": "RuntimeError: left open",
        "test_that_should_fail": "[XPASS(strict)]", "test_long_output": "RuntimeError: half of a pair: ?",
    }
    good = failed == expected and len(ended["failed"]) == 6 and len(ended["passed"]) == 2
    check("PyPI: a failure of any phase is a failed test, an expected one is a pass, a skipped test is neither", good, (ended, result))


def run_document(report):
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', report.read_text(), re.S)[1])


def endings(document):
    """The tests whose outcome was reported, by how they ended."""
    tests = [key["test"] for key in document["keys"] if "test" in key]
    return {outcome: [one for one in tests if one["outcome"] == outcome] for outcome in ("passed", "failed")}


def red_job(runner, command, folder, path, passing=1):
    """A job with four failing tests: the command prints each reason, and the report has the tests, refusals and the output."""
    result = run(["wrs-emulator", "exec", "--report", "red.html", "--", *command], folder, path, must=False)
    report = run_document(folder / "red.html")
    silent = [one["key"] for one in report["keys"] if one["requests"] == 0]
    reasons = (REASON, "GET /v1/system/status?include_checks=True  req_", "429 Too Many Requests because the quota is used up", "to send it from now on: `wrs.set(", "accepted, although it is forged", "no request carried the key", "cause: GET /v1/system/status was refused with 422 Unprocessable Entity: `include_checks` must be")
    told = all(reason in printed for reason in reasons for printed in (result.stdout, report["exec"]["output"]))
    good = result.returncode == 1 and told and any("never_calls" in key for key in silent) and report["verification"]["counts"]["forged"] == 1
    check(f"{runner}: a red job names its four causes", good, result)
    ended = endings(report)
    told = [one for one in ended["failed"] if one["message"] and one["output"]]
    check(f"{runner}: four tests failed, and one that expects a refusal passed", (len(told), len(ended["passed"])) == (4, passing), ended)
    alone = run([*command], folder, path, must=False)
    await_emulators(folder)
    kept = max(folder.glob("wrs-emulator-report*.html"), key=lambda file: file.stat().st_mtime)
    ended = endings(run_document(kept))
    check(f"{runner}: the report that is kept without exec has them, too", (len(ended["failed"]), len(ended["passed"])) == (4, passing), (ended, alone))


def ends(url):
    """Whether the emulator at this address ends by itself."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/_emulator/health").close()
        except OSError:
            return True
        time.sleep(0.1)
    return False


def await_emulators(folder):
    """Waits until those that tests started have ended, and saved their reports; gives the rest."""
    deadline = time.monotonic() + PATIENCE
    emulators = ["pgrep", "--full", f"{folder}.*wrs-emulator exec"]
    while (left := subprocess.run(emulators, capture_output=True, text=True).stdout) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


RECORDED = """
import http from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { test } from "node:test";
http.request = http.get = () => { throw new Error("RECORDED"); };
syncBuiltinESMExports();
const { withEmulator } = await import("wrs-emulator");
test("of NAME", withEmulator(async (wrs) => {
  await fetch(wrs.url + "/v1/only_NAME", { headers: wrs.headers });
  throw new Error("it fails");
}));
"""


def node_tests(path, folder):
    """node:test, vitest and jest with the installed package, each with its own emulator."""
    (work / "node_modules").exists() or (work / "node_modules").symlink_to(modules)
    bin = work / "node_modules/.bin"
    shutil.copy(root / "docs/examples/status.test.mjs", folder)
    old = folder / "wrs-emulator-report-status.test.mjs.html"
    old.touch()
    result = run(["node", "--test", "--test-reporter=tap", "status.test.mjs"], folder, path)
    check("npm: node:test, 1 passed, and the old report is gone", "# pass 1\n" in result.stdout and not old.exists(), result)
    shutil.copy(root / "tests/packages/red.test.mjs", folder)
    red_job("npm", ["node", "--test", "--test-reporter=tap", "red.test.mjs"], folder, path, passing=4)
    for runner, file, passing in (([bin / "vitest", "run"], "vitest.test.ts", 3), ([bin / "jest"], "jest.test.js", 2)):
        shutil.copy(root / "tests/packages" / file, folder)
        result = run([*runner, file], folder, path, must=False)
        await_emulators(folder)
        printed = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
        report = folder / f"wrs-emulator-report-{file}.html"
        ended = endings(run_document(report)) if report.exists() else {"failed": [], "passed": []}
        told = "1 failed" in printed and "2 passed" in printed and REASON in printed
        check(f"npm: {file}: a failed test has the reason", told, result)
        good = (len(ended["failed"]), len(ended["passed"])) == (1, passing)
        check(f"npm: {file}: the report is kept and counts all tests", good, (ended, result))
    for name in ("aa", "bb"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "index.test.mjs").write_text(RECORDED.replace("NAME", name))
    result = run(["node", "--test", "--test-concurrency=1", "aa/index.test.mjs", "bb/index.test.mjs"], folder, path, must=False)
    await_emulators(folder)
    kept = [file.read_text() for file in folder.glob("wrs-emulator-report-*index*.html")]
    both = len(kept) == 2 and all(any(f"only_{name}" in text for text in kept) for name in ("aa", "bb"))
    check("npm: two files of one name have a report each", both, result)
    check("npm: a recorder that came first does not see the calls", "RECORDED" not in result.stdout, result)
    check("npm: no emulator outlives its tests", not await_emulators(folder), folder)


def words(kind, path):
    version = run(["wrs-emulator", "--version"], path=path)
    check(f"{kind}: --version", version.stdout == run([binary, "--version"]).stdout, version)
    result = run(["wrs-emulator", "exec", "--", "sh", "-c", "cat; exit 7"], path=path, must=False)
    check(f"{kind}: exec passes the exit code of its command", result.returncode == 7, result)
    command = ["wrs-emulator", "sign", "--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "-"]
    environment = clean | {"PATH": f"{path}:{clean['PATH']}"}
    signed = subprocess.run(command, env=environment, input=b"\xff{}\n", capture_output=True, timeout=PATIENCE)
    check(f"{kind}: standard input is passed", signed.returncode == 0 and b"webhook-signature" in signed.stdout, signed)


def family(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def start(path):
    """Serves on a free port; gives the process and the line that it prints when ready."""
    command = ["wrs-emulator", "--listen", "127.0.0.1:0", "--quiet"]
    environment = clean | {"PATH": f"{path}:{clean['PATH']}"}
    # A separate group, as a shell makes one: a signal to the process does not reach its children by itself.
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    line = process.stdout.readline()
    assert " ready on " in line, line
    return process


def ended(process):
    """The exit code, and how many processes are left, which are killed."""
    code = process.wait(timeout=PATIENCE)
    left = int(subprocess.run(["pgrep", "--count", "--session", str(process.pid)], capture_output=True, text=True).stdout)
    if left:
        os.killpg(process.pid, signal.SIGKILL)
    return code, left


def signals(kind, path, processes):
    for name in ("SIGINT", "SIGTERM"):
        process = start(path)
        count = len(family(process.pid))
        process.send_signal(getattr(signal, name))
        code = ended(process)
        check(f"{kind}: {name} to the command ends the emulator with exit code 0; processes: {count}", code == (0, 0) and count == processes, [code, count])
    process = start(path)
    os.kill(family(process.pid)[-1], signal.SIGKILL)
    code = ended(process)
    check(f"{kind}: a killed emulator is a killed command", code == (-signal.SIGKILL, 0), code)


def ctrl_c(kind, path):
    """Ctrl-C in a terminal, which sends it to every process of the foreground."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(clean | {"PATH": f"{path}:{clean['PATH']}"})
        os.execvp("wrs-emulator", ["wrs-emulator", "--listen", "127.0.0.1:0"])
    seen = b""
    while b"ready on" not in seen:
        seen += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    try:
        while piece := os.read(terminal, 4096):
            seen += piece
    except OSError:
        pass  # Linux: the last process has closed the terminal.
    _, status = os.waitpid(pid, 0)
    check(f"{kind}: Ctrl-C in a terminal ends it with exit code 0", os.waitstatus_to_exitcode(status) == 0, seen)


def missing():
    """The published package without those of platforms."""
    run([sys.executable, root / "packages/build.py", "--publish", binary, work / "published"])
    (packages,) = (work / "published").iterdir()
    with tarfile.open(packages) as archive:
        (name,) = re.findall(r"^wrs-emulator-[0-9].*", "\n".join(archive.getnames()), re.M)
        archive.extract(name, work, filter="data")
    folder, _ = install_npm(work / name)
    result = run(["wrs-emulator", "--version"], path=folder / "node_modules/.bin", must=False)
    named = "`wrs-emulator-linux-" in result.stderr and "install without `--omit=optional`" in result.stderr
    check("npm: without the platform's package, it says how to install it", result.returncode == 1 and named, result)
    foreign = "Object.defineProperty(process, 'platform', { value: 'sunos' })"
    (folder / "foreign.cjs").write_text(foreign)
    result = run(["node", "--require", "./foreign.cjs", "node_modules/.bin/wrs-emulator"], folder, must=False)
    named = "there are packages for linux-x64, linux-arm64, darwin-x64, darwin-arm64" in result.stderr
    check("npm: on a platform that has none, it says which have", result.returncode == 1 and named, result)


def main():
    files = build()
    links(files)
    (package,) = (file for file in files if file.suffix == ".tgz")
    (wheel,) = (file for file in files if file.suffix == ".whl")
    (newer,) = modules.glob("node-linux-*/bin")

    folder, seconds = install_wheel(wheel)
    path = folder / "bin"
    first_webhook("PyPI", path, seconds)
    words("PyPI", path)
    signals("PyPI", path, 1)
    ctrl_c("PyPI", path)
    python_tests(path, folder)

    folder, seconds = install_npm(package)
    path = folder / "node_modules/.bin"
    first_webhook("npm", path, seconds)
    for kind, path in ((f"npm, Node {node_version()}", path), (f"npm, Node {node_version(newer)}", f"{path}:{newer}")):
        words(kind, path)
        signals(kind, path, 1 if str(newer) in str(path) else 2)
        ctrl_c(kind, path)
        node_tests(path, folder)
    missing()
    print(f"{len(passed)} passed, 0 failed")


def node_version(path=None):
    return run(["node", "-p", "process.versions.node"], path=path).stdout.strip()


try:
    main()
finally:
    shutil.rmtree(work)
