"""Decodes a subscription strictly."""

from client import call, subscribe


def subscription(id, url, events, status, created_at, secret=None, description=None):
    return id


assert call("GET", "/v1/system/status").status == 200
assert subscription(**subscribe("https://app.example.com/").json)
call("GET", "/v1/hello", key=None)
