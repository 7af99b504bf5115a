"""Keeps ids in a column of forty characters."""

from client import call, subscribe

assert len(subscribe("https://app.example.com/").json["id"]) <= 40
