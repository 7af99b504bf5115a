# urllib3's Retry without Retry-After: its first retry comes at once, later ones grow.
import os, requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
base, session = os.environ["WRS_BASE_URL"], requests.Session()
retry = Retry(total=12, backoff_factor=0.05, status_forcelist=[429], allowed_methods=None, respect_retry_after_header=False)
session.mount("http://", HTTPAdapter(max_retries=retry))
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
for _ in range(4):
    session.get(base + "/v1/system/status").raise_for_status()
hook = {"url": "https://a.sink.localhost/hooks", "events": ["workflow.completed"]}
session.post(base + "/v1/events/subscribe", json=hook).raise_for_status()
