"""Each accepted request, sent through Prism as a proxy. Usage: prism.py PROXY_URL"""

import json
import sys
import urllib.error
import urllib.request


def call(method: str, path: str, body: object = None) -> tuple[int, str]:
    headers = {"Authorization": "Bearer sk_test_local", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sys.argv[1] + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def subscribe(**fields: object) -> tuple[int, str]:
    return call("POST", "/v1/events/subscribe", {"url": "https://app.example.com", "events": ["workflow.completed"], **fields})


with open("accepted.json", encoding="utf-8") as file:
    accepted = json.load(file)
checks = [
    call("GET", "/v1/system/status"),
    call("GET", "/v1/system/status?include_checks=true"),
    call("GET", "/v1/hello"),
    *(subscribe(url=url) for url in accepted["urls"]),
    *(subscribe(secret=secret) for secret in accepted["secrets"]),
]
for status, body in checks:
    assert status == 200, (status, body)
status, body = subscribe(url="http://app.example.com")
assert status == 422 and "stoplight" in body, "Prism refuses what the document does not have"
print(f"✓ Prism passes {len(checks)} requests and their answers")
