"""Expects 422 for a body that is not JSON."""

from client import call

assert call("POST", "/v1/events/subscribe", b"{").status == 422
