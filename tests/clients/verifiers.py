"""Deliveries signed by the emulator, verified by PyPI packages: standardwebhooks, svix, slack_sdk.

A good delivery must be accepted, each tampered copy and each delivery that the emulator falsifies itself rejected, as
far as the library promises to.
Usage: verifiers.py EMULATOR_BINARY
"""

import os
import sys

import standardwebhooks
import svix.webhooks
from deliveries import TAMPERS, gather
from slack_sdk.signature import SignatureVerifier

OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def by_standardwebhooks(secret: str, headers: dict, body: str) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


def by_svix(secret: str, headers: dict, body: str) -> bool:
    # The delivery carries `webhook-` headers as well, which the library would fall back to.
    own = {name: value for name, value in headers.items() if name.startswith("svix-")}
    try:
        svix.webhooks.Webhook(secret).verify(body, own)
    except svix.webhooks.WebhookVerificationError:
        return False
    return True


def by_slack(secret: str, headers: dict, body: str) -> bool:
    return SignatureVerifier(secret).is_valid_request(body, headers)


# Library, scheme, verification, the headers it needs with the signature last and the timestamp before it.
LIBRARIES = [
    ("standardwebhooks", "standard", by_standardwebhooks, ["webhook-id", "webhook-timestamp", "webhook-signature"]),
    ("svix", "svix", by_svix, ["svix-id", "svix-timestamp", "svix-signature"]),
    ("slack_sdk", "slack", by_slack, ["x-slack-request-timestamp", "x-slack-signature"]),
]


def main() -> None:
    made = gather(os.path.abspath(sys.argv[1]))
    secret, received = made["secret"], made["received"]
    headers, body = received[""]["headers"], received[""]["body"]
    passed, failed = 0, 0

    for library, scheme, verify, names in LIBRARIES:
        def check(what: str, accepted: bool, secret: str, headers: dict, body: str) -> None:
            nonlocal passed, failed
            if verify(secret, headers, body) == accepted:
                passed += 1
            else:
                failed += 1
                print(f"{library}: {what} was {'rejected' if accepted else 'accepted'}")

        signature, timestamp = names[-1], names[-2]
        signed = made["signed"][scheme]
        # Another digit in the middle: still well-formed.
        middle = len(headers[signature]) // 2
        digit = "A" if headers[signature][middle] != "A" else "B"
        if scheme == "slack":
            digit = "0" if headers[signature][middle] != "0" else "1"
        forged = headers[signature][:middle] + digit + headers[signature][middle + 1:]
        check("a good delivery", True, secret, headers, body)
        check("a body signed by the command line", True, secret, signed["now"], body)
        check("a changed body", False, secret, headers, body.replace("completed", "cancelled"))
        check("a body with a newline", False, secret, headers, body + "\n")
        check("a changed signature", False, secret, {**headers, signature: forged}, body)
        check("another secret", False, OTHER, headers, body)
        check("a changed timestamp", False, secret, {**headers, timestamp: str(int(headers[timestamp]) - 1)}, body)
        check("a stale timestamp", False, secret, signed["stale"], body)
        check("a future timestamp", False, secret, signed["future"], body)
        for name in names:
            left = {key: value for key, value in headers.items() if key != name}
            check(f"a delivery without {name}", False, secret, left, body)
        for tamper in TAMPERS:
            check(f"a delivery with `tamper: {tamper}`", False, secret, received[tamper]["headers"], received[tamper]["body"])

    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
