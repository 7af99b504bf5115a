#!/usr/bin/env python3
"""Compares the emulator with other mock servers and with a bare hyper server, in one run, on the same answer:
`GET /v1/system/status` as JSON, the same load generator (`wrk`, a thread for each processor, 64 keep-alive connections), each server alone
on the machine, in turn, with its defaults.

    cargo build --profile dist && cargo bench --profile dist --bench bare_hyper --bench instructions --no-run
    npm install --prefix target/compare $(cat benches/compare/packages.txt)
    cargo install httpmock --version 0.9.0 --features standalone --locked --root target/compare
    cargo install oha --version 1.16.0 --locked --root target/compare
    python3 benches/compare/compare.py            # --quick for a short form, --write to renew the table and the plot

Needs Debian's `wrk`; `node` and `java` for those that run on them. What is not installed is named in the table, never
guessed at. Measured of each: process start to first answer, memory idle and after the load (resident, with child
processes), throughput, 99th percentile, the throughput with 1,000 further rules that do not match in front of the one
that does, and latency at fixed rates, by `oha`, which counts from when a request was due. `servers.py` says how each is set up, `plot.py` draws.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import plot
import servers

ROOT = Path(__file__).resolve().parents[2]
PAGE, PLOT = ROOT / "docs/internals/performance.md", ROOT / "docs/internals/performance.svg"
BEGIN, END = "<!-- compare.py writes from here … -->", "<!-- … to here -->"
RULES, KEYS = 1_000, 10_000
CONNECTIONS = 64
# As many as keep a fast server busy: with fewer, it would wait for the load, and its cost would not show.
THREADS = os.cpu_count()
# Webhooks are set off with so many keys: of one subscription, the emulator makes one attempt after the other.
SENDERS = 64
PATIENCE = 60.0
# Requests a second at which latency is measured, and the steps by which the highest one with a good 99th percentile is sought.
RATES = [1_000, 10_000, 30_000]
STEPS = [1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000]
GOOD_MS = 5.0


def ask(url):
    """One answer, or None while nobody listens."""
    request = urllib.request.Request(url, headers=servers.HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def family(pid):
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def resident(pid):
    """MiB in memory."""
    total = 0
    for member in family(pid):
        status = Path(f"/proc/{member}/status").read_text()
        total += int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))
    return total / 1024


class Running:
    """A server that has given its first answer."""

    def __init__(self, server, rules=0, receiver=None):
        self.folder = tempfile.TemporaryDirectory()
        port, folder = servers.free_port(), Path(self.folder.name)
        command = server.webhooks(folder, port, receiver) if receiver else server.command(folder, port, rules)
        self.url = f"http://127.0.0.1:{port}/v1/system/status" + server.query(rules)
        self.log = open(Path(self.folder.name) / "log", "w+")
        begun = time.monotonic()
        self.process = subprocess.Popen(
            command, cwd=self.folder.name, stdout=self.log, stderr=self.log, start_new_session=True
        )
        while (answer := ask(self.url)) is None:
            if time.monotonic() - begun > PATIENCE or self.process.poll() is not None:
                self.log.seek(0)
                text = self.log.read()[-2000:]
                self.stop()
                raise RuntimeError(f"{server.name} did not answer:\n{text}")
            time.sleep(0.001)
        self.start_ms = (time.monotonic() - begun) * 1000
        status, body = answer
        if status != 200 or body.get("environment") != "sandbox" or body.get("version") != "v1.0":
            self.stop()
            raise RuntimeError(f"{server.name} gives another answer: {status} {body}")

    def stop(self):
        """Ends the process and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def load(url, seconds, keys=None):
    """Requests a second and the 99th percentile in milliseconds; an answer other than 2xx is an error."""
    headers = [part for name, value in servers.HEADERS.items() for part in ("-H", f"{name}: {value}")]
    command = ["wrk", f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "10s", "--latency", *headers]
    command += ["-s", Path(__file__).with_name("keys.lua"), url, "--", str(keys)] if keys else [url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # A request that takes longer than the run counts as a time-out; the figures show that by themselves.
    if "Non-2xx" in text or re.search(r"Socket errors: connect [1-9]|read [1-9]|write [1-9]", text):
        raise RuntimeError(f"not every request was answered with 200:\n{text}")
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()
    return rate, float(value) * UNITS[unit]


def latency(oha, url, rate, seconds):
    """The 50th, 95th and 99th percentile in milliseconds at a rate; None if the server does not keep up with it."""
    headers = [part for name, value in servers.HEADERS.items() for part in ("-H", f"{name}: {value}")]
    command = [oha, "--no-tui", "--output-format", "json", "--latency-correction", "--disable-compression", "-w",
               "-c", str(CONNECTIONS), "-q", str(rate), "-z", f"{seconds}s", *headers, url]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if set(found["statusCodeDistribution"]) != {"200"} or found["errorDistribution"]:
        return None
    kept_up = found["statusCodeDistribution"]["200"] / found["summary"]["total"] >= 0.97 * rate
    return tuple(found["latencyPercentiles"][name] * 1000 for name in ("p50", "p95", "p99")) if kept_up else None


def latencies(oha, server, plan, note):
    """Percentiles at each rate, and the highest rate with a good 99th percentile."""
    best, good = 0, True
    with Running(server) as running:
        load(running.url, plan.warm_up)
        for rate in sorted({*RATES, *STEPS}):
            found = latency(oha, running.url, rate, plan.seconds)
            if rate in RATES and found is not None:
                note(server, f"at {rate}", found)
            # One rate that is not good ends the search: a better figure above it would be luck.
            good = good and found is not None and found[2] < GOOD_MS
            if good:
                best = rate
            elif rate > max(RATES) or found is None:
                break
    note(server, "good", best)


def webhooks(server, seconds):
    """Webhooks a second, from the first request until the last one has arrived; None if the server sends none."""
    with tempfile.TemporaryDirectory() as folder:
        receiver = servers.Receiver(ROOT, Path(folder))
        try:
            if server.webhooks(Path(folder), 0, receiver.url) is None:
                return None
            with Running(server, receiver=receiver.url) as running:
                load(running.url, 1, SENDERS)
                settle(receiver)
                before, begun = receiver.posts(), time.monotonic()
                load(running.url, seconds, SENDERS)
                arrived, ended = settle(receiver)
            return (arrived - before) / (ended - begun)
        finally:
            receiver.stop()


def settle(receiver):
    """Waits until nothing has arrived for half a second; gives how many posts there were and when the last was seen."""
    posts, seen = receiver.posts(), time.monotonic()
    while time.monotonic() - seen < 0.5:
        time.sleep(0.01)
        now = receiver.posts()
        if now != posts:
            posts, seen = now, time.monotonic()
    return posts, seen


def measure(found, plan):
    """All figures of all servers, as lists of what each round gave."""
    figures = {server.name: {} for server in found}

    def note(server, name, value):
        figures[server.name].setdefault(name, []).append(value)

    # In turn, so that whatever else the machine does hits all of them.
    for turn in range(plan.rounds):
        for server in found if turn % 2 == 0 else reversed(found):
            print(f"round {turn + 1}: {server.name}", file=sys.stderr)
            for _ in range(plan.starts):
                with Running(server) as running:
                    note(server, "start", running.start_ms)
            with Running(server) as running:
                note(server, "idle", resident(running.process.pid))
                load(running.url, plan.warm_up)
                rate, p99 = load(running.url, plan.seconds)
                note(server, "rate", rate)
                note(server, "p99", p99)
                note(server, "loaded", resident(running.process.pid))
            if server.takes_rules:
                with Running(server, RULES) as running:
                    load(running.url, plan.warm_up)
                    note(server, "rules", load(running.url, plan.seconds)[0])
            with Running(server) as running:
                load(running.url, plan.warm_up, KEYS)
                one, many = (load(running.url, plan.seconds, keys)[0] for keys in (1, KEYS))
                note(server, "keys", many / one)
            if (sent := webhooks(server, plan.warm_up)) is not None:
                note(server, "webhooks", sent)
            if plan.oha is not None:
                latencies(plan.oha, server, plan, note)
    return figures


def cell(values, form):
    """The median, and how far the rounds were apart."""
    if not values:
        return "–"
    low, middle, high = min(values), statistics.median(values), max(values)
    spread = (high - low) / middle * 50 if middle else 0
    return form.format(middle) + (f" ±{spread:.0f} %" if len(values) > 1 else "")


def rules_over_none(row):
    """The throughput with further rules over that without."""
    return f"{statistics.median(row['rules']) / statistics.median(row['rate']):.2f} ×" if "rules" in row else "–"


# The heading of each column, and its cell for a server.
COLUMNS = [
    ("start", lambda row: cell(row["start"], "{:,.0f} ms")),
    ("memory, idle", lambda row: cell(row["idle"], "{:,.1f} MiB")),
    ("memory, after", lambda row: cell(row["loaded"], "{:,.0f} MiB")),
    ("requests a second", lambda row: cell(row["rate"], "{:,.0f}")),
    ("99th percentile", lambda row: cell(row["p99"], "{:,.2f} ms")),
    ("1,000 rules", rules_over_none),
    ("10,000 keys", lambda row: cell(row["keys"], "{:.2f} ×")),
    ("webhooks a second", lambda row: cell(row.get("webhooks", []), "{:,.0f}")),
]


def percentiles(row, rate):
    """The medians over the rounds."""
    rounds = row.get(f"at {rate}")
    return " / ".join(f"{statistics.median(one):,.2f}" for one in zip(*rounds)) if rounds else "not kept up with"


LATENCY_COLUMNS = [
    *((f"{rate:,} a second", lambda row, rate=rate: percentiles(row, rate)) for rate in RATES),
    (f"highest rate, 99th below {GOOD_MS:.0f} ms", lambda row: cell(row.get("good", []), "{:,.0f}")),
]


def table(found, missing, figures, columns):
    """The figures as Markdown."""
    lines = [
        "| server | " + " | ".join(heading for heading, _ in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for server in found:
        cells = [f"{server.name} {server.version()}".strip(), *(show(figures[server.name]) for _, show in columns)]
        lines.append("| " + " | ".join(cells) + " |")
    for server, reason in missing:
        lines.append(f"| {server.name} | not measured: {reason} |" + " |" * (len(columns) - 1))
    return "\n".join(lines)


def conditions(plan):
    """How it was measured."""
    rounds = "one round" if plan.rounds == 1 else f"medians over {plan.rounds} rounds"
    return (
        f"{os.cpu_count()} processors; `wrk` with {THREADS} threads and {CONNECTIONS} keep-alive connections; {rounds},\n"
        f"each server in turn, {plan.rounds * plan.seconds} s of load on each after {plan.warm_up} s to warm up, ± half the distance "
        'between the least and the greatest.\n"1,000 rules": the throughput with that many further rules or routes that do not match, '
        'divided by that without (0.00: no request\nwas answered within the time). "10,000 keys": the throughput with as many API keys in '
        'turn, over that with one. "Webhooks a\nsecond": posts that reached a receiver, each set off by a request; requests were '
        f"made for {plan.warm_up} s with {SENDERS} keys in turn. The\nemulator signs them, keeps each delivery and counts quota "
        "meanwhile; a dash: the tool sends none."
    )


def renew(page, text):
    """Puts the text between the marks of a page."""
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def main():
    parser = argparse.ArgumentParser(description="compares the emulator with other mock servers")
    parser.add_argument("--quick", action="store_true", help="one round of two seconds")
    parser.add_argument("--rounds", type=int, help="rounds, each with all servers")
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.name} and {PLOT.name}")
    parser.add_argument("--packages", type=Path, default=ROOT / "target/compare", help="where npm installed the others")
    parser.add_argument("--only", action="append", help="only this server; repeatable")
    plan = parser.parse_args()
    plan.rounds, plan.starts, plan.warm_up, plan.seconds = (plan.rounds or 1, 1, 1, 2) if plan.quick else (
        plan.rounds or 3, 2, 2, 4)
    if shutil.which("wrk") is None:
        sys.exit("compare.py: `wrk` is not installed; on Debian: apt-get install wrk")
    own = plan.packages / "bin/oha"
    plan.oha = str(own) if own.exists() else shutil.which("oha")
    found, missing = [], []
    for server in servers.all_of(ROOT, plan.packages):
        if plan.only and server.name not in plan.only:
            continue
        reason = server.missing()
        if reason is None:
            found.append(server)
        else:
            missing.append((server, reason))
    figures = measure(found, plan)
    text = f"{table(found, missing, figures, COLUMNS)}\n\n{conditions(plan)}"
    if plan.oha is None:
        print("compare.py: `oha` is not installed; latency at fixed rates is not measured", file=sys.stderr)
    else:
        text += (
            f"\n\nLatency at fixed rates, in milliseconds: 50th / 95th / 99th percentile, counted from when each request was due, "
            f"so that\na server that stalls does not hide it (`oha`, {CONNECTIONS} connections, {plan.seconds} s for each rate).\n\n"
            + table(found, missing, figures, LATENCY_COLUMNS)
        )
    print(text)
    if plan.write:
        renew(PAGE, text)
        PLOT.write_text(plot.draw([server.name for server in found], figures))


if __name__ == "__main__":
    main()
