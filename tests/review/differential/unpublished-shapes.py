"""Reads a field of a body that was never shown."""

from client import call

assert call("GET", "/v1/hello", key=None).json["message"]
