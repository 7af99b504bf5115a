"""Reads the fields of an answer by their place."""

from client import call, subscribe, test

with test("status"):
    assert call("GET", "/v1/system/status").status == 200

with test("subscription"):
    first, second, *_ = subscribe("https://app.example.com/").json.values()
    assert (first[:4], second) == ("sub_", "https://app.example.com/"), f"the id is {first}, the URL {second}"
