"""Waiting for the expected instead of sleeping, and the message of a wait that times out."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from wrs_emulator import ControlError


def test_a_wait_returns_as_soon_as_the_request_is_there(wrs):
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(wrs.wait_for_requests, operation="system.status", status=200, count=3, timeout="60s")
        # The program under test, in the background.
        for _ in range(3):
            requests.get(f"{wrs.url}/v1/system/status", headers=wrs.headers)
        rows = waiting.result()
    assert len(rows) == 3


def test_a_wait_for_a_delivery_follows_its_retries(wrs):
    wrs.clock.freeze()
    wrs.script_sink(503)
    hook = {"url": wrs.sink_url, "events": ["reference.matched"]}
    requests.post(f"{wrs.url}/v1/events/subscribe", json=hook, headers=wrs.headers)
    wrs.trigger("reference.matched")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(wrs.wait_for_deliveries, status="delivered", timeout="60s")
        wrs.clock.advance("1s")
        [delivery] = waiting.result()
    assert delivery["attempts"] == 2


def test_a_wait_in_vain_says_what_came_nearest(wrs):
    requests.get(f"{wrs.url}/v1/system/status?include_checks=x", headers=wrs.headers)
    with pytest.raises(ControlError) as late:
        wrs.wait_for_requests(operation="system.status", status=200, timeout="50ms")
    assert (late.value.status, late.value.code) == (408, "request_timeout")
    nearest = late.value.body["nearest"]
    assert nearest[0]["differs"] == ["status: expected 200, found 422"]
    assert "include_checks" in wrs.explain(nearest[0]["request"]["id"])


FAILING = """
import urllib.request

def test_that_fails(wrs):
    urllib.request.urlopen(urllib.request.Request(wrs.url + "/v1/hello", headers=wrs.headers))
    wrs.scenario("always-401")
    try:
        urllib.request.urlopen(urllib.request.Request(wrs.url + "/v1/system/status", headers=wrs.headers))
    except OSError:
        pass
    assert False
"""


def test_a_failed_test_says_why_the_emulator_answered_so(wrs, tmp_path):
    (tmp_path / "test_failing.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "wrs_emulator.pytest_plugin", "test_failing.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout
    assert " wrs-emulator " in run.stdout
    assert "GET /v1/system/status" in run.stdout and "401 Unauthorized because" in run.stdout, run.stdout
