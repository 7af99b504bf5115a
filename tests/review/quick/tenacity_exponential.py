# tenacity: pauses of 20 ms that double.
import os, requests, tenacity
base, session = os.environ["WRS_BASE_URL"], requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
@tenacity.retry(wait=tenacity.wait_exponential(multiplier=0.02), stop=tenacity.stop_after_attempt(12))
def call(method, path, **more):
    session.request(method, base + path, **more).raise_for_status()
for _ in range(4):
    call("GET", "/v1/system/status")
call("POST", "/v1/events/subscribe", json={"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]})
