"""The fixture `wrs`: an emulator with a fresh API key for each test.

A key has its own workspace, quota, clock and scenarios. So tests run in parallel against one emulator (`pytest -n 4`), and
none has to sleep: it moves its clock, or waits for a request or a delivery. A failed test shows why the emulator answered as it did.

The emulator is the one at `WRS_EMULATOR_URL` (which `wrs-emulator exec` sets), or the plugin starts one for all workers of the session;
if a test fails, it then keeps the report of the run.
"""

import contextlib
import functools
import hashlib
import os
import re
import subprocess

import pytest

from wrs_emulator import ControlError, Emulator, binary, serve

# Tools that run one suite several times, often at once and in one folder, each name the run.
RUN = next((os.environ[name] for name in ("TOX_ENV_NAME", "NOX_CURRENT_SESSION", "HATCH_ENV_ACTIVE") if os.environ.get(name)), "")
REPORT = f"wrs-emulator-report{RUN and '-' + re.sub(r'[^A-Za-z0-9._-]+', '_', RUN)}.html"


def pytest_addoption(parser):
    group = parser.getgroup("wrs-emulator")
    group.addoption(
        "--wrs-report", metavar="FILE", default=REPORT,
        help="where to save the emulator's report if a test fails (default: %(default)s); .html, .har or .json",
    )
    parser.addini("wrs_clock", "the initial mode of each test's clock: `auto` or `frozen`", default="")
    parser.addini("wrs_emulator_args", "arguments of `wrs-emulator serve`, such as --seed 7", type="args", default=[])


def pytest_configure(config):
    config.pluginmanager.register(Session(config), "wrs-emulator-session")


class Session:
    """The emulator of this session, started when it is first needed."""

    def __init__(self, config):
        self.config = config
        self.stack = contextlib.ExitStack()
        # A worker of pytest-xdist has the address from the process that started it.
        given = getattr(config, "workerinput", {}).get("wrs_emulator_url")
        self.url = given or os.environ.get("WRS_EMULATOR_URL")
        self.worker = getattr(config, "workerinput", {}).get("wrs_emulator_worker", "")
        self.started = self.kept = None
        # Two runs against one emulator, of packages of one repository say, have tests of the same name.
        self.run = f"{config.rootpath} {RUN} "
        self.owners = {}

    def identity(self, item):
        """A name that no other test has, in this session or in another one that may run now; a repeated test keeps it."""
        own = f"{self.run}{self.worker}{item.nodeid}"
        name, number = own, 1
        while self.owners.setdefault(name, item) is not item:
            number += 1
            name = f"{own} {number}"
        return name

    def address(self):
        if not self.url:
            self.url = self.started = self.stack.enter_context(serve(*self.config.getini("wrs_emulator_args")))
        return self.url

    def pytest_sessionstart(self):
        """Removes the report of an earlier run; tests do not fail because it cannot be removed."""
        file = self.config.getoption("wrs_report")
        if not hasattr(self.config, "workerinput") and os.path.lexists(file):
            try:
                os.remove(file)
            except OSError as error:
                self.kept = f"{file} is from an earlier run and cannot be removed: {error.strerror}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Before pytest-xdist starts a worker."""
        node.workerinput["wrs_emulator_url"] = self.address()
        # With `--dist each` all workers run the same tests.
        if node.config.getoption("dist") == "each":
            node.workerinput["wrs_emulator_worker"] = f"{node.gateway.id} "

    def pytest_sessionfinish(self, exitstatus):
        if self.started and exitstatus == pytest.ExitCode.TESTS_FAILED:
            file = self.config.getoption("wrs_report")
            saved = subprocess.run([binary(), "run", "save", file, "--url", self.started], capture_output=True, text=True)
            self.kept = file if saved.returncode == 0 else f"not saved: {saved.stderr.strip()}"
        # `exec` saves its own.
        elif self.owners and exitstatus == pytest.ExitCode.TESTS_FAILED and "WRS_BASE_URL" not in os.environ:
            self.kept = f"`wrs-emulator run save report.html` saves it from {self.url}, the emulator of WRS_EMULATOR_URL"
        self.stack.close()

    def pytest_terminal_summary(self, terminalreporter):
        if self.kept:
            terminalreporter.write_line(f"the emulator's report of this run: {self.kept}")

    def pytest_unconfigure(self):
        self.stack.close()


@pytest.fixture(scope="session")
def wrs_url(pytestconfig):
    """The base URL of the emulator."""
    return pytestconfig.pluginmanager.get_plugin("wrs-emulator-session").address()


# The emulator of a test, from when its fixture is made until a failure of the test is reported.
EMULATOR = pytest.StashKey()
# What reports the failure of a test, with the text that was captured meanwhile.
FAILURE = pytest.StashKey()


def prepare(item):
    """The emulator with this test's own key."""
    session = item.config.pluginmanager.get_plugin("wrs-emulator-session")
    readable = re.sub(r"[^A-Za-z0-9]+", "_", item.nodeid.rpartition("::")[2])[:80]
    hashed = hashlib.sha256(session.identity(item).encode(errors="replace")).hexdigest()[:8]
    emulator = Emulator(session.address(), f"sk_test_{readable}_{hashed}")
    # An earlier run may have left something at an emulator that keeps running.
    emulator.reset()
    if clock := item.config.getini("wrs_clock"):
        emulator.post("clock", mode=clock)
    item.stash[EMULATOR] = emulator
    return emulator


@pytest.fixture
def wrs(wrs_url, request):
    """The emulator with this test's own key, made from its name: the same test always has the same key."""
    try:
        emulator, problem = prepare(request.node), None
    except (ControlError, ConnectionError) as error:
        problem = f"wrs-emulator: {error}"
    if problem:
        # Without the source of this plugin.
        pytest.fail(problem, pytrace=False)
    yield emulator
    emulator.clock.release()


def failed(emulator, item, message, trace, error, report):
    """Reports to the emulator that a test failed, with the ends of its trace and of what was captured until this report."""
    captured = "".join(f"\n{name}\n{text[-65536:]}" for name, text in report.sections if name.startswith("Captured"))
    _, found, logged = captured.rpartition("Traceback (most recent call last):\n")
    # The frames are indented, the exception is not.
    thrown = next((line for line in logged.splitlines() if line.strip() and not line.startswith(" ")), "")
    if found and thrown:
        message = f"{message}; logged: {thrown}"
    emulator.ended(item.nodeid, message, f"{trace[-2000:]}\n…{captured[-2000:]}" if captured else trace, error)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Reports how a test ended to the emulator, and adds the emulator's reasons to the report of a failed one.

    A failure in any phase is the test's, the first one counts. A failure that was expected (xfail) is a pass, unless the test never ran.
    """
    report = (yield).get_result()
    expected = getattr(report, "wasxfail", None)
    is_expected = expected is not None and not expected.startswith("[NOTRUN]")
    passed = is_expected if report.skipped else report.passed and call.when == "call"
    try:
        if call.when == "teardown" and (failure := item.stash.get(FAILURE, None)) and any("teardown" in name for name, _ in report.sections):
            # A server in this process often logs its exception after it has answered.
            failure(report)
        if not (report.failed or passed):
            return
        emulator = item.stash.get(EMULATOR, None)
        if emulator is None:
            if call.when != "setup" or not {"wrs", "wrs_url"} <= set(getattr(item, "fixturenames", ())):
                return
            # Another fixture failed before `wrs` was made.
            emulator = prepare(item)
        if passed:
            emulator.ended(item.nodeid)
            return
        del item.stash[EMULATOR]
        # A test that should have failed (strict xfail) raised nothing.
        lines = (call.excinfo.exconly() if call.excinfo else report.longreprtext).splitlines()
        # Of a syntax error, the first lines are the place.
        message = next((line for line in lines if line.strip() and not line.startswith(" ")), "failed without a message")
        item.stash[FAILURE] = failure = functools.partial(failed, emulator, item, message, report.longreprtext, call.excinfo and call.excinfo.value)
        failure(report)
        report.sections.append(("wrs-emulator", emulator.story()))
    except ControlError as error:
        report.sections.append(("wrs-emulator", f"refused: {error}"))
    # Whatever it is: an error here would end the whole session.
    except Exception as error:
        report.sections.append(("wrs-emulator", f"not reachable: {error}"))
