"""Counts each delivery as its own event."""

from client import Receiver, fire, subscribe

receiver = Receiver()
assert subscribe(receiver.url).status == 200
fire()
receiver.wait(1)
assert len(receiver.quiet(0.5)) == 1
