import os, requests
base, key = os.environ["WRS_BASE_URL"], os.environ["WRS_API_KEY"]
hook = {"url": "https://a.sink.localhost/", "events": ["workflow.completed"], "description": "made with " + key}
requests.post(base + "/v1/events/subscribe", json=hook, headers={"Authorization": "Bearer " + key})
