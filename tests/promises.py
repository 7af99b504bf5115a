"""What the checks in these folders share: each promise that holds is printed, and the first one that does not ends the run."""

import sys
import time

passed = []


def check(promise, holds, seen=""):
    """Ends the run at the first promise that does not hold."""
    if not holds:
        sys.exit(f"✗ {promise}\n  {seen}")
    passed.append(promise)
    print(f"✓ {promise}", flush=True)


def until(what, holds):
    """Asks again until it holds, and gives that answer."""
    end = time.monotonic() + 20
    while not (seen := holds()):
        if time.monotonic() > end:
            sys.exit(f"✗ {what}: not within 20 s")
        time.sleep(0.05)
    return seen
