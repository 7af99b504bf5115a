# requests, waiting as Retry-After says.
import os, time, requests
base, session = os.environ["WRS_BASE_URL"], requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
for _ in range(4):
    while (answer := session.get(base + "/v1/system/status")).status_code == 429:
        time.sleep(float(answer.headers["Retry-After"]))
    answer.raise_for_status()
hook = {"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]}
while (answer := session.post(base + "/v1/events/subscribe", json=hook)).status_code == 429:
    time.sleep(float(answer.headers["Retry-After"]))
answer.raise_for_status()
