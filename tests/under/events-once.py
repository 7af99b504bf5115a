"""Counts each delivery as an event of its own."""

from client import Receiver, fire, subscribe, test

with test("count"):
    receiver = Receiver()
    assert subscribe(receiver.url).status == 200
    fire()
    events = receiver.all()
    assert len(events) == 1, f"{len(events)} workflows were completed instead of one"
