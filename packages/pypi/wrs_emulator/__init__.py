"""Talk to wrs-emulator from Python tests.

`Emulator` is one API key of a running emulator: its base URL, its headers, and the control API for that key. The pytest plugin
(`wrs_emulator.pytest_plugin`, loaded by itself) gives each test one as the fixture `wrs`. `serve` starts an emulator without pytest.
`wrs_emulator.types` has the bodies and events of the emulated API, such as `WebhookEvent`, and `wrs_emulator.control` the records of the control API.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import html
import importlib.metadata
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Union, overload

if TYPE_CHECKING:
    # Made when the package is built.
    from typing import Literal

    from wrs_emulator import control as records

    Tamper = Literal["body", "signature", "secret", "old_secret", "timestamp", "future_timestamp", "headers"]

__all__ = ["Case", "Clock", "ControlError", "Emulator", "Signed", "binary", "serve"]

# pytest shows why a call was refused, not the source of this module.
__tracebackhide__ = True

# Maximum bytes of an answer: another program may answer at the address.
MAX_ANSWER = 64 * 1024 * 1024


def in_test(text: str, advice: Optional[Dict[str, Any]]) -> Optional[str]:
    """A hint with the call of `wrs` that follows its advice in the next run of the test; nothing if there is no such call."""
    kind = advice and advice["do"]
    if kind == "set":
        section, *inner = advice["setting"].split(".")
        value = advice["value"]
        literal = {"true": "True", "false": "False"}.get(value) or (value if value.isdigit() else json.dumps(value))
        for name in reversed(inner):
            literal = f'{{"{name}": {literal}}}'
        call = f"set({section}={literal})"
    elif kind == "forward":
        call = f"forward({json.dumps(advice['url'])}, {json.dumps(advice['to'])})"
    elif kind == "use_scenarios" and advice["active"]:
        call = f"scenario({', '.join(map(json.dumps, advice['active']))})"
    else:
        return None
    return f"{text} `wrs.{call}`"


def visible(text: str) -> str:
    """The text with escapes for control characters and for commands of GitHub: `##[`, and `::name` at the beginning of a line. Line ends are kept."""
    text = "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return re.sub(r"(?m)^([^\S\n]*):(?=:[A-Za-z])", r"\1\\x3a", text.replace("##[", r"#\x23["))


def one_line(text: str) -> str:
    """The same, with line ends as escapes."""
    return visible(text).replace("\n", r"\n")


def first_line(text: str) -> str:
    """The first line that a person reads of an answer: of a page its title, if it has one."""
    text = text[:16384]
    if re.match(r"\ufeff?\s*<(!doctype html|html)", text, re.IGNORECASE):
        text = re.sub(r"(?is)<(script|style|template|svg)\b.*?</\1[^>]*>|<!--.*?-->|<[^>]*>", "\n", text)
        text = html.unescape(text)
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")


def nearest(body: Dict[str, Any]) -> List[str]:
    """The entries that a wait names, one a line; after a timeout the nearest ones."""
    lines = []
    for entry in body.get("nearest") or ():
        one = entry.get("request") or entry["delivery"]
        what = f"{one['method']} {one['path']}" if "method" in one else f"{one['type']} to {one['url']}"
        lines.append(": ".join(filter(None, (f"{what}  {one['id']}", "; ".join(entry["differs"])))))
    return lines


class ControlError(Exception):
    """A refused control call: `status`, `code`, the `reason`, and the whole answer in `body`."""

    def __init__(self, call: str, status: int, body: Dict[str, Any]) -> None:
        self.call, self.status, self.body, self.code = call, status, body, body["error"]["code"]
        self.reason = body["error"]["message"]
        entries = nearest(body)
        if status == 408 and not entries:
            entries = [NO_DELIVERY if call.startswith("POST deliveries") else NO_REQUEST]
        entries += filter(None, (in_test("try", one) for one in body.get("advice") or ()))
        # The reason, and what is nearest to it.
        self.told = "; ".join([self.reason, *entries[:1]])
        super().__init__("\n  ".join(map(one_line, [f"{self.reason} [{call}: {status} {self.code}]", *entries])))


NO_DELIVERY = "no event was sent for this key"
NO_REQUEST = "no request carried this key; does your code read WRS_BASE_URL, and send `wrs.key`?"


def refused(call: str, reason: str) -> ControlError:
    """The error of an invalid argument."""
    return ControlError(call, 422, {"error": {"code": "validation_error", "message": reason}})


def check_durations(call: str, **durations: Any) -> None:
    """Durations are texts with their unit, because a number could mean seconds or milliseconds."""
    for name, value in durations.items():
        if not isinstance(value, str):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            seconds = value if is_number else value.total_seconds() if isinstance(value, datetime.timedelta) else 60
            example = f'"{seconds:g}s"'
            raise refused(call, f"{name}: write the duration with its unit, such as {example}; found {value!r}")


class Plain(urllib.request.HTTPHandler):
    """Uses the connections of this moment: a recorder such as vcrpy replaces them while it records a test's own calls."""

    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(HTTPConnection, request)


class Secure(urllib.request.HTTPSHandler):
    """The same with TLS."""

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(HTTPSConnection, request, context=ssl.create_default_context())


# The proxy of `http_proxy` is for addresses beyond this machine.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), Plain, Secure)


class Emulator:
    """One key of a running emulator: address and headers for the client under test, and the control API for that key."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url.rstrip("/"), key
        self.headers = {"Authorization": f"Bearer {key}"}
        # Built-in receivers are shared by name, so each key uses its own name.
        self.sink = "t" + hashlib.sha256(key.encode()).hexdigest()[:20]
        self.sink_url = f"https://{self.sink}.sink.localhost/hooks"
        self.clock = Clock(self)
        self.forks = 0

    def __repr__(self) -> str:
        return f"<Emulator {self.url} {self.key}>"

    def control(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Any call of the control API, `path` below `/_emulator/`."""
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        except (TypeError, ValueError) as error:
            raise refused(f"{method} {path}", f"an argument cannot be sent as JSON: {error}") from None
        request = urllib.request.Request(f"{self.url}/_emulator/{path}", data, method=method)
        request.add_header("Content-Type", content_type)
        token = os.environ.get("WRS_EMULATOR_CONTROL_TOKEN", "").strip()
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            answer = DIRECT.open(request)
        except urllib.error.HTTPError as error:
            answer = error
        except OSError as error:
            raise ConnectionError(one_line(f"{method} {request.full_url}: {getattr(error, 'reason', error)}")) from None
        with answer:
            status, data = answer.getcode(), answer.read(MAX_ANSWER + 1)
        if len(data) > MAX_ANSWER:
            raise ConnectionError(f"{method} {request.full_url}: the answer has more than {MAX_ANSWER >> 20} MiB; is that a wrs-emulator?")
        text = data.decode(errors="replace")
        try:
            parsed = json.loads(text)
            if not isinstance(parsed, dict):
                raise ValueError
            refusal = None if 200 <= status < 300 else ControlError(f"{method} {path}", status, parsed)
        except (ValueError, LookupError, TypeError, RecursionError):
            first = first_line(text)[:200]
            problem = f"{method} {request.full_url}: status {status} with an answer that is not the emulator's: {first}"
            raise ConnectionError(one_line(problem)) from None
        if refusal:
            raise refusal
        return parsed

    def post(self, path: str, /, **fields: Any) -> Any:
        """A POST about this key."""
        return self.control("POST", path, {"key": self.key, **fields})

    def get(self, path: str, /, **query: Any) -> Any:
        """A GET about this key, of the control API."""
        if path.startswith(("/", "v1/")):
            raise refused(f"GET {path}", "`wrs.get` calls the control API, such as `wrs.get(\"requests\")`; for the API itself, send `wrs.headers` to `wrs.url` and the path")
        return self.control("GET", f"{path}?{urllib.parse.urlencode({'key': self.key, **query})}")

    # Waiting ends when enough entries match, or on timeout with a ControlError 408 that lists the nearest entries and how they differ.
    def wait_for_requests(self, **filters: Any) -> List[records.Request]:
        """Waits for requests: `operation`, `status`, `method`, `path`, `count`, `since`, `timeout`."""
        return self.wait("requests/wait", **filters)["data"]

    def wait_for_deliveries(self, **filters: Any) -> List[records.Delivery]:
        """Waits for deliveries: `status`, `type`, `event`, `subscription`, `attempts`, `count`, `timeout`."""
        return self.wait("deliveries/wait", **filters)["data"]

    def no_delivery(self, timeout: str = "10s", **filters: Any) -> None:
        """Proves that no delivery matches (`status`, `type`, `event`, `subscription`), and that no matching one is due. Returns at once, or raises a
        ControlError 409 that names the deliveries found, or the next one due. Waits, at most `timeout`, only for requests and attempts under way."""
        self.wait("deliveries/wait", none=True, timeout=timeout, **filters)

    def no_request(self, timeout: str = "10s", **filters: Any) -> None:
        """The same of requests: `operation`, `status`, `method`, `path`, `since`."""
        self.wait("requests/wait", none=True, timeout=timeout, **filters)

    def wait(self, path: str, /, timeout: str = "10s", **filters: Any) -> Any:
        check_durations(f"POST {path}", timeout=timeout)
        return self.post(path, timeout=timeout, **filters)

    # Behaviour of this key only.
    def scenario(self, *names: str, toml: Optional[str] = None) -> records.PostScenariosActiveAnswer:
        """Starts these scenarios, by name; `toml` is the text of a scenario only for this key. Without arguments, no scenario is active."""
        if not all(isinstance(name, str) for name in names):
            raise refused("POST scenarios/active", f"write the names one by one: `scenario(\"rate-limit-burst\")`; found {names[0]!r}")
        if toml is not None:
            self.control("PUT", f"scenarios/{self.sink}", toml.encode(), "application/toml")
            names += (self.sink,)
        return self.post("scenarios/active", active=list(names))

    def set(self, *unnamed: Any, **settings: Any) -> records.PatchProfileAnswer:
        """Changes settings: `set(rate_limit={"requests": 5})`."""
        if unnamed:
            raise refused("PATCH profile", "write settings by name: `set(rate_limit={\"requests\": 5})`")
        return self.control("PATCH", f"profile?key={self.key}", settings)

    # Webhooks.
    @overload
    def trigger(
        self, event_type: str, data: Optional[Dict[str, Any]] = None, *, set: Optional[Dict[str, Any]] = None, tamper: Optional[Tamper] = None,
        duplicate: Optional[int] = None, count: None = None, delay: Optional[str] = None, subscription: Optional[str] = None,
        shuffle: bool = False, drop: bool = False,
    ) -> List[records.DeliveryWhole]: ...

    @overload
    def trigger(
        self, event_type: str, data: Optional[Dict[str, Any]] = None, *, set: Optional[Dict[str, Any]] = None, tamper: Optional[Tamper] = None,
        duplicate: Optional[int] = None, count: int, delay: Optional[str] = None, subscription: Optional[str] = None,
        shuffle: bool = False, drop: bool = False,
    ) -> List[Union[records.DeliveryWhole, records.Delivery]]: ...

    def trigger(
        self, event_type: str, data: Optional[Dict[str, Any]] = None, *, set: Optional[Dict[str, Any]] = None, tamper: Optional[Tamper] = None,
        duplicate: Optional[int] = None, count: Optional[int] = None, delay: Optional[str] = None, subscription: Optional[str] = None,
        shuffle: bool = False, drop: bool = False,
    ) -> Any:
        """Fires an event, waits for the first attempts and returns the deliveries; if there are more than 100, each has only the number of its attempts.

        `data` is the whole data, and `set` changes single fields of it, by dotted path. `tamper` falsifies a part, which a receiver must refuse.
        `duplicate` is the number of copies of each delivery, `count` that of events, which `shuffle` sends in another order. `delay` is a time of
        the key's clock, such as "5s". Only `subscription` gets it, if that is given. With `drop`, nothing is sent, as if it were lost.
        """
        if delay is not None:
            check_durations("POST events", delay=delay)
        if data is not None and not isinstance(data, dict):
            raise refused("POST events", f'data: expected a dict, such as {{"workflow_id": "wf_42"}}; found {data!r}')
        fields = dict(
            data=data, set=set, tamper=tamper, duplicate=duplicate, count=count, delay=delay, subscription=subscription, shuffle=shuffle, drop=drop
        )
        given = {name: value for name, value in fields.items() if value not in (None, False)}
        try:
            return self.control("POST", "events?wait=20s", {"key": self.key, "type": event_type, **given})["deliveries"]
        except ControlError as error:
            # A key with subscriptions, for other events say, is told which.
            if any(one.get("advice", {}).get("do") == "subscribe" for one in error.body.get("advice") or ()):
                error.told = error.reason = (
                    f"no subscription of this test's key is for {event_type}: let the client under test subscribe first, "
                    'or subscribe for it with `wrs.post("subscriptions", url=wrs.sink_url)`'
                )
                error.args = (error.reason,)
            raise

    def signed(self, event_type: str, data: Optional[Dict[str, Any]] = None, **fields: Any) -> Signed:
        """An event as a receiver would get it, for a handler that the test calls itself: `secret` (that of the key's subscription if
        absent), `tamper` (body, signature, secret, old_secret, timestamp, future_timestamp, headers), `set`, `scheme`, `url`. Nothing is sent."""
        answer = self.post("events/sign", type=event_type, data=data, **fields)
        return Signed(answer["id"], answer["headers"], answer["body"].encode())

    def cases(self, secret: Optional[str] = None, **fields: Any) -> List[Case]:
        """Every case of the probe, genuine and forged, for a handler that the test calls itself."""
        return [Case(case) for case in self.post("events/cases", secret=secret, **fields)["data"]]

    def forward(self, origin: str, to: str) -> records.PatchProfileAnswer:
        """Sends the deliveries for `origin`, such as `https://app.example.com`, to your own receiver, such as `http://127.0.0.1:3000`."""
        return self.set(webhooks={"forwards": {origin: to}})

    def script_sink(self, *statuses: int) -> records.PostSinkByNameAnswer:
        """The statuses of the next answers of this key's built-in receiver; 200 after that."""
        if not all(isinstance(status, int) for status in statuses):
            raise refused(f"POST sink/{self.sink}", f"write the statuses one by one, as numbers: `script_sink(500, 200)`; found {statuses[0]!r}")
        return self.control("POST", f"sink/{self.sink}", {"respond": list(statuses)})

    def received(self) -> List[records.Receipt]:
        """The deliveries to this key's built-in receiver, oldest first."""
        received: List[records.Receipt] = []
        cursor = ""
        while True:
            page = self.control("GET", f"sink/{self.sink}?limit=1000{cursor}")
            received += page["data"]
            if not page["has_more"]:
                return received
            cursor = f"&cursor={page['next_cursor']}"

    # State.
    def reset(self) -> records.PostResetAnswer:
        """Returns this key to its state before its first request."""
        return self.post("reset")

    def save(self) -> records.GetSnapshotAnswer:
        """The state of this key as a document."""
        return self.get("snapshot")

    def load(self, snapshot: records.GetSnapshotAnswer) -> records.PutSnapshotAnswer:
        """Restores a saved state."""
        return self.control("PUT", "snapshot", snapshot)

    def fork(self, key: Optional[str] = None) -> Emulator:
        """The emulator of a new key with the state of this one: subscriptions, secrets, settings, quota, clock, scenarios."""
        self.forks += 1
        copy = Emulator(self.url, key or f"{self.key}_{self.forks}")
        # An earlier run may have left something there.
        copy.reset()
        self.control("POST", "snapshot/fork", {"from": self.key, "key": copy.key})
        return copy

    def explain(self, identifier: str) -> str:
        """Explains a request (`req_…`), an event or a delivery in one sentence."""
        return self.control("GET", f"explain/{identifier}")["summary"]

    def ended(
        self, test: str, failure: Optional[str] = None, output: Optional[str] = None, refused: Optional[BaseException] = None
    ) -> records.TestOutcome:
        """Reports how the test with this key ended, so that the report of the run puts it first if it failed. `refused` is the error
        that failed the test: if it is a refused control call, that is the cause."""
        # More than is kept, so that credentials are masked before the rest is cut. Lone surrogates become question marks.
        valid = (text and text.encode(errors="replace").decode() for text in (test, failure and failure[:2000], output and output[-32768:]))
        test, failure, output = valid
        outcome: Dict[str, Any] = {"test": test, "outcome": "failed" if failure else "passed", "message": failure, "output": output}
        if isinstance(refused, ControlError):
            call = refused.call.partition("?")[0]
            outcome["refused"] = {"call": call, "status": refused.status, "code": refused.code, "message": refused.told}
        return self.post("outcome", **outcome)

    def story(self) -> str:
        """Why the test with this key failed, if that was reported; its last requests, each with the reason for its answer, those
        alike in one line; and the deliveries that went wrong or took more than one attempt."""
        sent = self.get("deliveries", limit=10)["data"]
        requests = (
            (f"{row['method']} {row['path']}" + (f"?{row['query']}" if row["query"] else ""), row["id"])
            for row in reversed(self.get("requests", limit=10)["data"])
        )
        deliveries = (
            (f"{row['type']} to {row['url']}", row["id"])
            for row in reversed(sent)
            if (row["forgery"] or row["status"]) not in ("delivered", "refused") or row["attempts"] > 1
        )

        def explained(identifier: str) -> str:
            found = self.control("GET", f"explain/{identifier}")
            hints = [in_test(hint["text"], hint.get("advice")) for hint in found.get("advice") or ()]
            return "; ".join(filter(None, (found["summary"], *hints)))

        def remedy(cause: Dict[str, Any]) -> Optional[str]:
            return in_test(cause["remedy"], cause.get("advice")) or cause["remedy"]

        entries = [(what, explained(identifier), identifier) for what, identifier in (*requests, *deliveries)]
        groups = [(*alike, [entry[2] for entry in group]) for alike, group in itertools.groupby(entries, lambda entry: entry[:2])]
        lines = [f"{what}  {ids[0]}{f' and {len(ids) - 1} more' if ids[1:] else ''}: {text}" for what, text, ids in groups]
        causes = [cause for cause in self.get("verdict")["causes"] if cause["tests"]][:1]
        first = ["\n  ".join(filter(None, ("cause: " + cause["sentence"], remedy(cause), *cause["records"][:1]))) for cause in causes]
        # A receiver's test sends none.
        silent = [] if sent or first else [f"no request carried the key {self.key}"]
        return visible("\n".join([*first, *(lines or silent)]))


class Signed(NamedTuple):
    """A signed event: the headers, and the raw body that they sign."""

    id: str
    headers: Dict[str, str]
    body: bytes


class Case:
    """A case of the probe: its requests, and the correct answer of a handler."""

    def __init__(self, case: records.DeliveryCase) -> None:
        self.name, self.sends, self.expects, self.clause, self.remedy = (
            case["name"], case["sends"], case["expects"], case["clause"], case["remedy"],
        )
        self.accepted = case["accepted"]
        self.requests = [(request["method"], Signed("", request["headers"], request["body"].encode())) for request in case["requests"]]

    def problem(self, status: int) -> Optional[str]:
        """What is wrong with this answer; None if it is right."""
        if str(status) in self.accepted or f"{status // 100}xx" in self.accepted:
            return None
        return f"{self.name}: {self.sends}: expected {self.expects}, found {status}; {self.remedy}"

    def __repr__(self) -> str:
        return f"<case {self.name}>"


class Clock:
    """The clock of one key, and once they follow it, the date and the sleeps of the client under test."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.followers = contextlib.ExitStack()
        self.client: Any = None
        self.moving = threading.Lock()

    def freeze(self, at: Optional[str] = None) -> None:
        """Stops the clock; with `at`, a timestamp, at that time."""
        if at is not None and not isinstance(at, str):
            raise refused("POST clock", f'write the time as a timestamp, such as "2026-01-31T12:00:00Z"; found {at!r}')
        self.emulator.post("clock", mode="frozen")
        if at:
            self.set(at)

    def auto(self) -> records.PostClockAnswer:
        """Time passes by itself: while a call of this key waits, the clock moves to the next retry or emission."""
        self.release()
        return self.emulator.post("clock", mode="auto")

    def advance(self, duration: str) -> str:
        """Moves the clock and returns once everything that became due is done: retries, completions, emissions."""
        check_durations("POST clock", advance=duration)
        return self.move(advance=duration)

    def set(self, at: str) -> str:
        """Sets the time: a step forward is time that passes, a step back changes the time shown alone."""
        return self.move(set=at)

    def follow(self, date: Any = None) -> records.PostClockAnswer:
        """The date of the client follows this clock, which stands still: the traveller or the fixture of time-machine, or the frozen time of
        freezegun. `time.sleep` then advances both, and so does `asyncio.sleep` in this thread, until the test ends. Without a date, this
        clock follows the emulator's again."""
        self.release()
        if date is None:
            return self.emulator.post("clock", mode="follow")
        if not hasattr(date, "move_to"):
            raise TypeError("clock.follow: expected the traveller of time_machine.travel(...), the fixture time_machine, or what freezegun.freeze_time(...) gives")
        clock = self.emulator.post("clock", mode="frozen")
        date.move_to(moment(clock["now"]))
        self.client = date
        self.replace_sleeps()
        return clock

    def release(self) -> None:
        """The client sleeps again, and keeps its date itself."""
        self.client = None
        self.followers.close()

    def replace_sleeps(self) -> None:
        sleep, sleep_async, thread = time.sleep, asyncio.sleep, threading.get_ident()

        def advance(seconds: float) -> None:
            # Somebody who sleeps while the clock moves, such as a receiver, is waited for.
            if self.moving.locked():
                sleep(seconds)
            elif seconds > 0:
                self.advance(f"{seconds:.6f}s")

        async def advance_async(delay: float, result: Any = None) -> Any:
            # The event loop of a server in another thread sleeps between two looks at its sockets.
            if delay <= 0 or threading.get_ident() != thread:
                return await sleep_async(delay, result)
            await asyncio.get_running_loop().run_in_executor(None, advance, delay)
            return result

        for module, own, replacement in ((time, sleep, advance), (asyncio, sleep_async, advance_async)):
            setattr(module, "sleep", replacement)
            self.followers.callback(setattr, module, "sleep", own)

    def move(self, **change: str) -> str:
        """In steps, one for each instant at which the emulator has something due; the client has the date of a step before its deliveries."""
        client = self.client
        if client is None:
            return self.emulator.post("clock", **change)["now"]
        with self.moving:
            clock = self.emulator.post("clock", **change, step="0")
            while clock["left_ms"]:
                step = min(clock.get("due_in_ms", math.inf), math.ceil(clock["left_ms"]))
                client.move_to(moment(clock["now"]) + datetime.timedelta(milliseconds=step))
                if "advance" in change:
                    change = {"advance": f"{clock['left_ms']:.6f}ms"}
                clock = self.emulator.post("clock", **change, step=f"{step}ms")
            client.move_to(moment(clock["now"]))
        return clock["now"]


def moment(timestamp: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00"))


def binary() -> str:
    """The program: `WRS_EMULATOR`, the script that the wheel installed, or `wrs-emulator` on the path."""
    found = os.environ.get("WRS_EMULATOR") or installed() or shutil.which("wrs-emulator")
    if not found:
        raise FileNotFoundError("`wrs-emulator` is not on the path; install the wheel, or set WRS_EMULATOR to the program")
    return found


def installed() -> Optional[str]:
    """The script of the wheel, wherever it was installed."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        files = importlib.metadata.files("wrs-emulator") or []
        # `pip install --target` moves scripts without a note of it.
        moved = pathlib.Path(__file__).parents[1] / "bin/wrs-emulator"
        scripts = [pathlib.Path(file.locate()) for file in files if file.name == "wrs-emulator"]
        return next((str(script) for script in (*scripts, moved) if script.is_file()), None)
    return None


# Serves until standard input is closed, which it is when the process that started this ends, however that ends.
LIFELINE = '"$0" "$@" & exec >/dev/null; cat; kill $! 2>/dev/null; wait $!'


@contextlib.contextmanager
def serve(*arguments: str) -> Iterator[str]:
    """Serves on a free port until the block ends; gives the base URL. `arguments` are those of `wrs-emulator serve`."""
    command = [binary(), "serve", "--quiet", "--listen", "127.0.0.1:0", *arguments]
    server = subprocess.Popen(["sh", "-c", LIFELINE, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        ready = server.stdout.readline().strip()
        if " ready on " not in ready:
            server.stdin.close()
            raise RuntimeError(f"`{' '.join(command)}` did not start: exit code {server.wait(timeout=10)}")
        yield ready.rpartition(" ready on ")[2]
    finally:
        server.stdin.close()
        server.wait(timeout=20)
        server.stdout.close()
