"""Compares the text of an answer."""

from client import call

text = call("GET", "/v1/system/status").text
assert text.startswith('{"ok":true,'), text
