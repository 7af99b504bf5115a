"""For type checkers: types of events and records. `plugins.py` also checks it with a wrong field."""

import json
from typing import List

from wrs_emulator import Emulator
from wrs_emulator.control import Request
from wrs_emulator.types import WebhookEvent


def subject(event: WebhookEvent) -> str:
    if event["type"] == "workflow.completed":
        return event["data"]["workflow_id"] + event["data"]["status"]
    return event["data"]["reference_id"]


def test_records(wrs: Emulator) -> None:
    requests: List[Request] = wrs.wait_for_requests(status=200)
    assert [request["path"] for request in requests] == [delivery["url"] for delivery in wrs.trigger("workflow.completed")]


def test_webhooks(wrs: Emulator) -> None:
    [delivery] = wrs.trigger("workflow.completed", data={"workflow_id": "wf_1"})
    assert all(attempt["url"] == wrs.sink_url for attempt in delivery["attempts"])
    body = wrs.received()[0]["body"]
    event: WebhookEvent = json.loads(body)
    assert subject(event) in body and dict(wrs.received()[0]["headers"])["content-type"] == "application/json"
    assert all(delivery["status"] == "delivered" for delivery in wrs.trigger("workflow.completed", count=200))
