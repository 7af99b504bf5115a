"""Takes the event that comes last for the newest."""

from client import Receiver, fire, subscribe

receiver = Receiver()
assert subscribe(receiver.url).status == 200
first, second = fire(count=2)
assert receiver.distinct(2)[-1]["id"] == second
