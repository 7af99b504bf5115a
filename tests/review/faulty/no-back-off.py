# Tries again at once, on the same connection.
import os, requests
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["WRS_API_KEY"]
for _ in range(6):
    session.get(os.environ["WRS_BASE_URL"] + "/v1/system/status")
