"""Time that is moved and not slept through: back-off, workflows; a key that is reset or loaded. Each test moves its own key's clock."""

import json

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


def test_a_client_backs_off_until_the_window_is_over(wrs):
    wrs.clock.freeze()
    wrs.set(rate_limit={"requests": 2, "window": "60s"})
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        wrs.clock.advance(f"{seconds}s")

    client = StatusClient(wrs.url, wrs.headers, sleep)
    assert [client.status().status_code for _ in range(3)] == [200, 200, 200]
    assert pauses == [1, 2, 4, 8, 16, 32], "the third call waited until a minute was over"
    assert len(wrs.get("requests", status=429)["data"]) == 6


def test_a_workflow_completes_by_the_clock(wrs):
    wrs.clock.freeze()
    with httpx.Client(base_url=wrs.url, headers=wrs.headers) as client:
        wrs.scenario("announced-endpoints")
        client.post("/v1/events/subscribe", json={"url": wrs.sink_url, "events": ["workflow.completed"]})
        made = client.post("/v1/workflows", json={"name": "invoices"}).json()
        path = f"/v1/workflows/{made['id']}"
        wrs.clock.advance("4s")
        assert client.get(path).json()["status"] == "running"
        assert wrs.received() == []
        wrs.clock.advance("1s")
    [delivery] = wrs.wait_for_deliveries(status="delivered", type="workflow.completed")
    event = json.loads(wrs.received()[0]["body"])
    assert event["data"] == {"workflow_id": made["id"], "status": "completed"} and event["id"] == delivery["event"]


def test_a_frozen_clock_shows_one_time(wrs):
    wrs.clock.freeze("2026-01-31T09:30:00Z")
    url = f"{wrs.url}/v1/system/status"
    times = [requests.get(url, headers=wrs.headers).json()["checked_at"] for _ in range(3)]
    assert times == ["2026-01-31T09:30:00.000Z"] * 3
    assert wrs.clock.advance("36h") == "2026-02-01T21:30:00.000Z"


def play_through(wrs):
    """Something of everything: ids, a secret, a time, quota, an event; as a client sees it."""
    hook = {"url": wrs.sink_url, "events": ["workflow.completed"]}
    subscribed = requests.post(f"{wrs.url}/v1/events/subscribe", json=hook, headers=wrs.headers)
    status = requests.get(f"{wrs.url}/v1/system/status", headers=wrs.headers)
    [delivery] = wrs.trigger("workflow.completed")
    seen = [(answer.json(), answer.headers["x-emulator-request-id"]) for answer in (subscribed, status)]
    return seen, delivery["id"], delivery["attempts"][0]["request"]


def test_a_key_that_is_reset_or_loaded_does_the_same_again(wrs):
    def from_the_start():
        wrs.reset()
        wrs.clock.freeze("2026-01-31T09:30:00Z")
        return play_through(wrs)

    assert from_the_start() == from_the_start()
    saved = wrs.save()
    first = play_through(wrs)
    wrs.clock.advance("1h")
    wrs.load(saved)
    assert play_through(wrs) == first
