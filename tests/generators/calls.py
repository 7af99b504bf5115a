"""Calls of an emulator with the clients that openapi-python-client and openapi-generator made of its documents. Usage: calls.py URL, in their
folder."""

import json
import sys

import openapi_client
from control import Client
from control.api.emulator import get_health
from control.api.webhooks import post_events
from control.models import PostEventsBody
from emulated import AuthenticatedClient
from emulated.api.events import events_subscribe
from emulated.api.hello import hello
from emulated.api.system import system_status
from emulated.models import SubscribeRequest, SubscribeRequestEventsItem

url = sys.argv[1]
emulated = AuthenticatedClient(base_url=url, token="sk_test_local", raise_on_unexpected_status=True)
control = Client(base_url=url, raise_on_unexpected_status=True)

assert system_status.sync(client=emulated, include_checks=True).environment == "sandbox"
assert hello.sync(client=control).message
with open("accepted.json", encoding="utf-8") as file:
    accepted = json.load(file)
for hook in [*accepted["urls"], "https://app.sink.localhost/hooks"]:
    body = SubscribeRequest(url=hook, events=[SubscribeRequestEventsItem.WORKFLOW_COMPLETED])
    subscription = events_subscribe.sync(client=emulated, body=body)
    assert subscription.url == hook, subscription

assert get_health.sync(client=control).status == "ready"
fired = post_events.sync(client=control, body=PostEventsBody(type_="workflow.completed"))
assert fired.events, fired
print("✓ openapi-python-client")

openapi_generator = openapi_client.ApiClient(openapi_client.Configuration(host=url, access_token="sk_test_local"))
assert openapi_client.SystemApi(openapi_generator).system_status(include_checks=True).environment == "sandbox"
body = openapi_client.SubscribeRequest(url="https://app.sink.localhost/hooks", events=["workflow.completed"])
assert openapi_client.EventsApi(openapi_generator).events_subscribe(body).url == body.url
print("✓ openapi-generator")
