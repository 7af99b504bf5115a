"""Meets everything that is ever changed, and relies on nothing but what the contract says."""

import re

from client import Receiver, call, fire, subscribe, test

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

with test("status"):
    assert call("GET", "/v1/hello").status == 200
    status = call("GET", "/v1/system/status?include_checks=true")
    assert status.status == 200 and "environment" in status.json

with test("refusals"):
    refused = call("GET", "/v1/system/status", key="wrong")
    assert (refused.status, refused.json["error"]["code"]) == (401, "unauthorized")
    assert call("GET", "/v1/system/status?include_checks=perhaps").status == 422
    limited = call("GET", "/v1/system/status", **{"X-Emulator-Scenario": "always-429"})
    assert limited.status == 429 and limited.json["error"]["request_id"].startswith("req_")
    assert 400 <= call("POST", "/v1/events/subscribe", b"{").status < 500

with test("events"):
    receiver = Receiver()
    made = subscribe(receiver.url, "workflow.completed", "reference.matched").json
    assert made["id"].startswith("sub_") and TIME.fullmatch(made["created_at"])
    fire("workflow.completed", count=2)
    fire("reference.matched")
    events = [event["type"] for event in receiver.distinct(3)]
    assert sorted(events) == ["reference.matched", "workflow.completed", "workflow.completed"], events
