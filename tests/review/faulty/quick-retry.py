# Retries once at once, then waits long enough.
import os, time, requests
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
for pause in (0, 0, 0, 0, 1.2):
    time.sleep(pause)
    session.get(os.environ["WRS_BASE_URL"] + "/v1/system/status")
