# Is subscribed, and asks all the time.
import os, requests
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
session.post(os.environ["WRS_BASE_URL"] + "/v1/events/subscribe", json={"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]})
for _ in range(12):
    session.get(os.environ["WRS_BASE_URL"] + "/v1/system/status")
