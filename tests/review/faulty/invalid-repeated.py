import os, requests
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
for _ in range(2):
    session.post(os.environ["WRS_BASE_URL"] + "/v1/events/subscribe", json={"url": "http://a.example", "events": []})
