"""Reads Retry-After as a number, if there is one."""

from client import call

answer = call("GET", "/v1/system/status", **{"X-Emulator-Scenario": "always-429"})
assert answer.status == 429 and float(answer.headers.get("Retry-After", "0")) >= 0
