"""What the contract promises, asked with requests and httpx: answers, credentials, validation, the error envelope, the quota."""

import re

import httpx
import pytest
import requests

HOOK = {"url": "https://app.example.com/hooks", "events": ["workflow.completed"]}


@pytest.fixture(params=["requests", "httpx"])
def call(request, emulator):
    """Both libraries behind one function: method, path, headers and JSON in, an answer out."""
    session = requests.Session() if request.param == "requests" else httpx.Client()
    with session:
        yield lambda method, path, headers=None, **more: session.request(
            method, emulator.url + path, headers=emulator.headers if headers is None else headers, **more
        )


def test_the_status_check(call):
    answer = call("GET", "/v1/system/status")
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"ok", "environment", "version", "checked_at"}
    assert (body["ok"], body["environment"], body["version"]) == (True, "sandbox", "v1.0")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", body["checked_at"])
    assert "checks" in call("GET", "/v1/system/status?include_checks=true").json()


def test_hello_needs_no_key(call):
    answer = call("GET", "/v1/hello", headers={})
    assert (answer.status_code, answer.json()["version"]) == (200, "1.3.2")


def test_subscribing_twice_updates(call):
    first = call("POST", "/v1/events/subscribe", json=HOOK)
    assert first.status_code == 200
    body = first.json()
    assert re.fullmatch(r"sub_\w+", body["id"]) and body["status"] == "active" and body["secret"].startswith("whsec_")
    again = call("POST", "/v1/events/subscribe", json={**HOOK, "events": ["reference.matched"]}).json()
    assert (again["id"], again["events"]) == (body["id"], ["reference.matched"])
    assert "secret" not in again, "a secret is shown once"


@pytest.mark.parametrize("authorization", [None, "Bearer", "Bearer wrong", "Basic c2tfdGVzdA==", "Bearer sk_live_1"])
def test_a_missing_or_wrong_key_is_unauthorized(call, authorization):
    answer = call("GET", "/v1/system/status", headers={"Authorization": authorization} if authorization else {})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (401, "unauthorized")
    assert re.fullmatch(r"req_\w+", error["request_id"]) and error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {**HOOK, "url": "http://app.example.com/hooks"},
        {**HOOK, "url": "no url"},
        {**HOOK, "events": []},
        {**HOOK, "events": ["workflow.exploded"]},
        {"url": HOOK["url"]},
    ],
)
def test_what_is_invalid_is_told_by_its_field(call, body):
    answer = call("POST", "/v1/events/subscribe", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "validation_error")
    assert error["message"].startswith("url: " if body["url"] != HOOK["url"] else "events")


def test_a_wrong_query_is_invalid(call):
    assert call("GET", "/v1/system/status?include_checks=perhaps").status_code == 422


def test_the_quota_is_counted_down_and_then_429(call, emulator):
    emulator.set(rate_limit={"requests": 3})
    answers = [call("GET", "/v1/system/status") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"3"}
    refused = answers[-1].json()["error"]
    assert refused["code"] == "rate_limit_exceeded"
    assert "the quota is used up" in emulator.explain(refused["request_id"])
