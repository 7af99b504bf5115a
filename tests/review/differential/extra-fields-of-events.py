"""Decodes an event strictly."""

from client import Receiver, fire, subscribe

receiver = Receiver()
assert subscribe(receiver.url).status == 200
fire()
event = receiver.wait(1)[0]
assert set(event["data"]) == {"workflow_id", "status"}, event
