"""A FastAPI application with a client that retries, tested without a sleep: what it receives, what it does not, and its back-off."""

import time

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.testclient import TestClient
from standardwebhooks import Webhook, WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def application(url, key):
    app, api = FastAPI(), httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"})
    app.state.completed = []

    @app.get("/health")
    def health():
        for attempt in range(8):
            answer = api.get("/v1/system/status")
            if answer.status_code != 429:
                return answer.json()
            time.sleep(2**attempt)

    @app.post("/hooks")
    async def hooks(request: Request):
        try:
            event = Webhook(SECRET).verify(await request.body(), dict(request.headers))
        except WebhookVerificationError:
            return Response(status_code=401)
        if event["type"] == "workflow.completed" and event["id"] not in app.state.completed:
            app.state.completed.append(event["id"])
        return Response(status_code=204)

    return app


@pytest.fixture
def app(wrs):
    return application(wrs.url, wrs.key)


def test_a_completed_workflow_is_taken_once(wrs, app):
    event = wrs.signed("workflow.completed", {"workflow_id": "wf_7", "status": "completed"}, secret=SECRET)
    client = TestClient(app)
    for _ in range(2):
        assert client.post("/hooks", content=event.body, headers=event.headers).status_code == 204
    assert app.state.completed == [event.id]


def test_every_delivery_there_may_be(wrs, app):
    client = TestClient(app)
    for case in wrs.cases(SECRET):
        for method, request in case.requests:
            answer = client.request(method, "/hooks", content=request.body, headers=request.headers)
            assert case.problem(answer.status_code) is None
    wrs.no_request()
    wrs.no_delivery()


def test_the_client_backs_off(wrs, app, time_machine):
    wrs.set(rate_limit={"requests": 1, "window": "60s"})
    wrs.clock.follow(time_machine)
    client = TestClient(app)
    assert [client.get("/health").status_code for _ in range(2)] == [200, 200]
    assert len(wrs.get("requests", status=429)["data"]) == 6
