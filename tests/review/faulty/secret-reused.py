import os, requests
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
for name in "ab":
    hook = {"url": f"https://{name}.sink.localhost/", "events": ["workflow.completed"], "secret": secret}
    requests.post(os.environ["WRS_BASE_URL"] + "/v1/events/subscribe", json=hook, headers={"Authorization": "Bearer " + os.environ["WRS_API_KEY"]})
