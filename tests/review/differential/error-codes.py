"""Knows a 422 by a code that was never published."""

from client import call

answer = call("GET", "/v1/system/status?include_checks=perhaps")
assert answer.json["error"]["code"] == "validation_error", answer.text
call("GET", "/v1/system/status")
