"""Time that is moved and not slept through: back-off, retries over days, workflows; a key that is reset or loaded. Each test moves its own key's clock."""

import json
from datetime import datetime, timedelta

import httpx
import requests


class StatusClient:
    """A client as a user might have: it backs off after a 429, twice as long each time. `sleep` is where a test comes in."""

    def __init__(self, url, headers, sleep):
        self.url, self.headers, self.sleep = url, headers, sleep

    def status(self):
        for attempt in range(8):
            answer = requests.get(f"{self.url}/v1/system/status", headers=self.headers)
            if answer.status_code != 429:
                return answer
            self.sleep(2**attempt)
        raise TimeoutError("the quota did not come back")


def test_a_client_backs_off_until_the_window_is_over(emulator):
    emulator.freeze()
    emulator.set(rate_limit={"requests": 2, "window": "60s"})
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        emulator.advance(f"{seconds}s")

    client = StatusClient(emulator.url, emulator.headers, sleep)
    assert [client.status().status_code for _ in range(3)] == [200, 200, 200]
    assert pauses == [1, 2, 4, 8, 16, 32], "the third call waited until a minute was over"
    assert len(emulator.get("requests", status=429)["data"]) == 6


def seconds_of(attempts):
    times = [datetime.fromisoformat(attempt["at"].replace("Z", "+00:00")) for attempt in attempts]
    return [round((time - times[0]) / timedelta(seconds=1)) for time in times]


def test_a_retry_schedule_of_three_days_in_one_step(emulator):
    emulator.freeze()
    emulator.set(webhooks={"retry": {"preset": "custom", "schedule": ["1h", "23h", "24h", "23h"]}})
    emulator.script_sink(500, 500, 500, 500, 200)
    hook = {"url": emulator.sink_url, "events": ["workflow.completed"]}
    assert requests.post(f"{emulator.url}/v1/events/subscribe", json=hook, headers=emulator.headers).ok
    [delivery] = emulator.trigger("workflow.completed")
    assert (delivery["status"], delivery["next_attempt_in_ms"]) == ("pending", 3_600_000)
    emulator.advance("72h")
    # Nothing is waited for: what was due is done when the call returns.
    done = emulator.control("GET", f"deliveries/{delivery['id']}")
    assert (done["status"], [attempt["outcome"]["status"] for attempt in done["attempts"]]) == (
        "delivered",
        [500, 500, 500, 500, 200],
    )
    assert seconds_of(done["attempts"]) == [0, 3_600, 86_400, 172_800, 255_600]
    received = emulator.received()
    assert all(receipt["verified"] for receipt in received)
    assert len({dict(receipt["headers"])["webhook-id"] for receipt in received}) == 1, "one event, five attempts"


def test_a_workflow_completes_by_the_clock(emulator):
    emulator.freeze()
    with httpx.Client(base_url=emulator.url, headers=emulator.headers) as client:
        client.post("/v1/events/subscribe", json={"url": emulator.sink_url, "events": ["workflow.completed"]})
        made = client.post("/v1/workflows", json={"name": "invoices"}).json()
        path = f"/v1/workflows/{made['id']}"
        emulator.advance("4s")
        assert client.get(path).json()["status"] == "running"
        assert emulator.received() == []
        emulator.advance("1s")
        assert client.get(path).json()["status"] == "completed"
    [delivery] = emulator.wait_for_deliveries(status="delivered", type="workflow.completed")
    event = json.loads(emulator.received()[0]["body"])
    assert event["data"] == {"workflow_id": made["id"], "status": "completed"} and event["id"] == delivery["event"]


def test_a_frozen_clock_shows_one_time(emulator):
    emulator.freeze("2026-01-31T09:30:00Z")
    url = f"{emulator.url}/v1/system/status"
    times = [requests.get(url, headers=emulator.headers).json()["checked_at"] for _ in range(3)]
    assert times == ["2026-01-31T09:30:00.000Z"] * 3
    assert emulator.advance("36h") == "2026-02-01T21:30:00.000Z"


def play_through(emulator):
    """Something of everything: ids, a secret, a time, quota, an event; as a client sees it."""
    hook = {"url": emulator.sink_url, "events": ["workflow.completed"]}
    subscribed = requests.post(f"{emulator.url}/v1/events/subscribe", json=hook, headers=emulator.headers)
    status = requests.get(f"{emulator.url}/v1/system/status", headers=emulator.headers)
    [delivery] = emulator.trigger("workflow.completed")
    seen = [(answer.json(), answer.headers["x-emulator-request-id"]) for answer in (subscribed, status)]
    return seen, delivery["id"], delivery["attempts"][0]["request"]


def test_a_key_that_is_reset_or_loaded_does_the_same_again(emulator):
    def from_the_start():
        emulator.reset()
        emulator.freeze("2026-01-31T09:30:00Z")
        return play_through(emulator)

    assert from_the_start() == from_the_start()
    saved = emulator.save()
    first = play_through(emulator)
    emulator.advance("1h")
    emulator.load(saved)
    assert play_through(emulator) == first
