"""Corrects its URL if the message says that it has to."""

from client import call, subscribe

answer = subscribe("ftp://app.example.com/")
assert answer.status == 422
url = "https://app.example.com/" if "https" in answer.json["error"]["message"] else None
assert url and subscribe(url).status == 200
call("GET", "/v1/hello", key=None)
