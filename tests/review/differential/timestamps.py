"""Reads timestamps with three to six digits of a second only."""

from datetime import datetime

from client import subscribe

datetime.strptime(subscribe("https://app.example.com/").json["created_at"], "%Y-%m-%dT%H:%M:%S.%fZ")
