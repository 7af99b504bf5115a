"""Keys do not meet: many at once with httpx, asynchronously; and the same key does the same again after a reset or a load."""

import asyncio
import collections

import httpx
import pytest
import requests

from conftest import Emulator

pytestmark = pytest.mark.anyio
KEYS = 150


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_many_keys_at_once_do_not_meet(emulator):
    keys = [f"{emulator.key}_{number}" for number in range(KEYS)]
    limits = httpx.Limits(max_connections=40)

    async def use(client, number, key):
        """Each key makes another number of requests, and sees its own quota and its own subscription only."""
        headers = {"Authorization": f"Bearer {key}"}
        hook = {"url": f"https://app.example.com/{number}", "events": ["workflow.completed"]}
        subscribed = (await client.post("/v1/events/subscribe", json=hook, headers=headers)).json()
        left = []
        for _ in range(number % 7 + 1):
            answer = await client.get("/v1/system/status", headers=headers)
            left.append(int(answer.headers["x-ratelimit-remaining"]))
        assert left == list(range(98, 98 - len(left), -1)), key
        listed = (await client.get(f"/_emulator/subscriptions?key={key}")).json()["data"]
        assert [(one["id"], one["url"]) for one in listed] == [(subscribed["id"], hook["url"])]
        rows = (await client.get(f"/_emulator/requests?key={key}&limit=100")).json()["data"]
        assert collections.Counter(row["operation"] for row in rows) == {
            "events.subscribe": 1,
            "system.status": len(left),
        }
        return subscribed["id"]

    async with httpx.AsyncClient(base_url=emulator.url, limits=limits, timeout=60) as client:
        ids = await asyncio.gather(*(use(client, number, key) for number, key in enumerate(keys)))
    assert len(set(ids)) == KEYS


async def test_what_one_key_is_told_another_does_not_notice(emulator):
    other = Emulator(emulator.url, f"{emulator.key}_other")
    emulator.freeze("2030-01-01T00:00:00Z")
    emulator.play("always-422")
    emulator.set(rate_limit={"requests": 1})

    async def ask(client, key):
        return await client.get("/v1/system/status", headers=key.headers)

    async with httpx.AsyncClient(base_url=emulator.url) as client:
        answers = await asyncio.gather(ask(client, emulator), ask(client, other), ask(client, other))
        assert [answer.status_code for answer in answers] == [422, 200, 200]
        assert answers[1].headers["x-ratelimit-limit"] == "100"
        assert not answers[1].json()["checked_at"].startswith("2030")
        emulator.reset()
        assert (await ask(client, emulator)).status_code == 200
        assert (await ask(client, other)).headers["x-ratelimit-remaining"] == "97", "the other went on"


def play_through(emulator):
    """Something of everything: ids, a secret, a time, quota, an event; as a client sees it."""
    hook = {"url": emulator.sink_url, "events": ["workflow.completed"]}
    subscribed = requests.post(f"{emulator.url}/v1/events/subscribe", json=hook, headers=emulator.headers)
    status = requests.get(f"{emulator.url}/v1/system/status", headers=emulator.headers)
    [delivery] = emulator.trigger("workflow.completed")
    seen = [(answer.json(), answer.headers["x-emulator-request-id"]) for answer in (subscribed, status)]
    return seen, delivery["id"], delivery["attempts"][0]["request"]


async def test_a_reset_key_gives_the_same_ids_and_signatures_again(emulator):
    runs = []
    for _ in range(2):
        emulator.reset()
        emulator.freeze("2026-01-31T09:30:00Z")
        runs.append(play_through(emulator))
    assert runs[0] == runs[1]
    emulator.advance("1ms")
    assert play_through(emulator) != runs[0], "without a reset the source of ids continues"


async def test_a_saved_state_goes_on_as_if_nothing_had_been(emulator):
    emulator.freeze("2026-01-31T09:30:00Z")
    emulator.set(rate_limit={"requests": 20})
    play_through(emulator)
    saved = emulator.save()
    first = play_through(emulator)
    emulator.advance("1h")
    emulator.load(saved)
    assert play_through(emulator) == first
