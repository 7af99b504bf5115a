# Python's own urllib: a connection for each request.
import json, os, time, urllib.error, urllib.request
base, key = os.environ["WRS_BASE_URL"], os.environ["WRS_API_KEY"]
def send(path, body=None):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"} if body else {"Authorization": "Bearer " + key}
    while True:
        try:
            return urllib.request.urlopen(urllib.request.Request(base + path, body, headers)).read()
        except urllib.error.HTTPError as error:
            if error.code != 429:
                raise
            time.sleep(float(error.headers["Retry-After"]))
for _ in range(4):
    send("/v1/system/status")
send("/v1/events/subscribe", json.dumps({"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]}).encode())
