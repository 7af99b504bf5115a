# httpx, with growing pauses that are never shorter than Retry-After.
import os, time, httpx
with httpx.Client(base_url=os.environ["WRS_BASE_URL"], headers={"Authorization": "Bearer " + os.environ["WRS_API_KEY"]}) as client:
    def send(*arguments, **named):
        pause = 0.5
        while (answer := client.request(*arguments, **named)).status_code == 429:
            time.sleep(max(pause, float(answer.headers.get("Retry-After", 0))))
            pause *= 2
        answer.raise_for_status()
    for _ in range(4):
        send("GET", "/v1/system/status", params={"include_checks": "true"})
    send("POST", "/v1/events/subscribe", json={"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]})
