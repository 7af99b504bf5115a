//! Every case of the probe, in the order of listings. To add one, add a row.

use hyper::Method;

use super::case::{Case, Event, Expectation, Sending, Signing, Transfer};
use crate::contract::signature::Tamper;

/// The name of the case that every other one depends on.
pub const VALID: &str = "valid";

const POST: &str = "contract, Events: \"the service sends an HTTP POST with a JSON body (the Event envelope)\"";
const SIGNED: &str = "contract, Events: \"The body is signed with the subscription secret\"";
const VERIFYING: &str = "Standard Webhooks, Verifying webhook authenticity";
const SCHEME: &str = "Standard Webhooks, Signature scheme: {msg_id}.{timestamp}.{payload} is signed";
const REPLAY: &str =
    "Standard Webhooks, Verifying signatures: the timestamp is within some tolerance of the current time";
const HEADERS: &str = "Standard Webhooks, Webhook headers";
const NOT_SHOWN: &str =
    "contract, Events: the full list of event types and the data of reference.matched are not shown";
const SUCCESS: &str =
    "Standard Webhooks, Delivery success and failure: any status but 2xx is a failure and leads to retries";

const VERIFY_FIRST: &str =
    "verify before anything else, also before you answer, and answer 401 to what does not verify";
const CHECK_TIME: &str =
    "compare the timestamp with the current time and answer 401 if it is more than five minutes off";
const REQUIRE_HEADERS: &str = "answer 401 if a header of the signature is missing or empty";

const fn sent(signing: Signing) -> Sending {
    Sending { signing, ..Sending::VALID }
}

const fn about(event: Event) -> Sending {
    Sending { event, ..Sending::VALID }
}

const fn bare(method: Method) -> Sending {
    Sending { method, event: Event::None, ..Sending::VALID }
}

/// All cases; the valid delivery first.
pub const CASES: &[Case] = &[
    Case {
        name: VALID,
        sends: "a valid delivery of workflow.completed",
        expects: Expectation::Accepted,
        clause: POST,
        remedy: "check the path of the URL, the secret and how it is read, and the scheme",
        requests: &[Sending::VALID],
    },
    Case {
        name: "body-changed",
        sends: "a field is added to the body after it was signed",
        expects: Expectation::Refused,
        clause: SIGNED,
        remedy: VERIFY_FIRST,
        requests: &[sent(Signing::Tampered(Tamper::Body))],
    },
    Case {
        name: "body-missing",
        sends: "headers of a valid delivery without its body",
        expects: Expectation::Refused,
        clause: SIGNED,
        remedy: "verify an empty body like any other, before it is parsed",
        requests: &[sent(Signing::BodyDropped)],
    },
    Case {
        name: "signature-changed",
        sends: "one character of the signature is changed",
        expects: Expectation::Refused,
        clause: SIGNED,
        remedy: VERIFY_FIRST,
        requests: &[sent(Signing::Tampered(Tamper::Signature))],
    },
    Case {
        name: "another-secret",
        sends: "a delivery signed with another secret",
        expects: Expectation::Refused,
        clause: SIGNED,
        remedy: VERIFY_FIRST,
        requests: &[sent(Signing::Tampered(Tamper::Secret))],
    },
    Case {
        name: "signature-missing",
        sends: "a delivery without the header of the signature",
        expects: Expectation::Refused,
        clause: VERIFYING,
        remedy: REQUIRE_HEADERS,
        requests: &[sent(Signing::NoSignature)],
    },
    Case {
        name: "headers-missing",
        sends: "a delivery without any of the webhook headers",
        expects: Expectation::Refused,
        clause: VERIFYING,
        remedy: REQUIRE_HEADERS,
        requests: &[sent(Signing::Tampered(Tamper::Headers))],
    },
    Case {
        name: "signature-empty",
        sends: "a delivery whose signature is an empty header",
        expects: Expectation::Refused,
        clause: VERIFYING,
        remedy: REQUIRE_HEADERS,
        requests: &[sent(Signing::EmptySignature)],
    },
    Case {
        name: "other-version",
        sends: "a signature under the name of a version that does not exist (v9)",
        expects: Expectation::Refused,
        clause: "Standard Webhooks, Signature scheme: symmetric signatures are prefixed with v1",
        remedy: "compare the whole signature with its version, and ignore versions that you do not know",
        requests: &[sent(Signing::OtherVersion)],
    },
    Case {
        name: "old-timestamp",
        sends: "a delivery that was signed an hour ago, as in a replay",
        expects: Expectation::Refused,
        clause: REPLAY,
        remedy: CHECK_TIME,
        requests: &[sent(Signing::Tampered(Tamper::Timestamp))],
    },
    Case {
        name: "future-timestamp",
        sends: "a delivery that was signed for a time one hour ahead",
        expects: Expectation::Refused,
        clause: REPLAY,
        remedy: "compare the timestamp with the current time in both directions: a future one can be replayed until then",
        requests: &[sent(Signing::Tampered(Tamper::FutureTimestamp))],
    },
    Case {
        name: "timestamp-not-a-number",
        sends: "the timestamp `soon`, with a signature over it",
        expects: Expectation::Refused,
        clause: "Standard Webhooks, Webhook headers: an integer unix timestamp",
        remedy: "answer 401 if the timestamp is not an integer: a comparison with NaN is never true",
        requests: &[sent(Signing::TimestampText)],
    },
    Case {
        name: "timestamp-changed",
        sends: "another timestamp than was signed",
        expects: Expectation::Refused,
        clause: SCHEME,
        remedy: "compute the signature over the timestamp from the header as well",
        requests: &[sent(Signing::TimestampChanged)],
    },
    Case {
        name: "id-changed",
        sends: "another id in the header than was signed",
        expects: Expectation::Refused,
        clause: SCHEME,
        remedy: "compute the signature over the id from the header as well",
        requests: &[sent(Signing::IdChanged)],
    },
    Case {
        name: "rotation",
        sends: "two signatures: by a new secret, then by the one that you have",
        expects: Expectation::Accepted,
        clause: HEADERS,
        remedy: "the header is a list: accept the delivery if any signature matches",
        requests: &[sent(Signing::RotationFirst)],
    },
    Case {
        name: "rotation-reversed",
        sends: "two signatures: by the secret that you have, then by another",
        expects: Expectation::Accepted,
        clause: HEADERS,
        remedy: "the header is a list: accept the delivery if any signature matches",
        requests: &[sent(Signing::RotationLast)],
    },
    Case {
        name: "unknown-event-type",
        sends: "a valid delivery of the type `workflow.probed`",
        expects: Expectation::Accepted,
        clause: NOT_SHOWN,
        remedy: "answer 2xx to types that you do not know, and ignore them",
        requests: &[about(Event::UnknownType)],
    },
    Case {
        name: "unknown-fields",
        sends: "a valid delivery with unknown fields in the envelope and in data",
        expects: Expectation::Accepted,
        clause: "contract, Versioning: \"compatibility guarantees: not shown\", so fields may be added",
        remedy: "ignore fields that you do not know",
        requests: &[about(Event::UnknownFields)],
    },
    Case {
        name: "duplicate",
        sends: "the same delivery twice",
        expects: Expectation::OneEffect,
        clause: "Standard Webhooks, Verifying signatures: use the webhook-id header as an idempotency key",
        remedy: "remember the id of each event; answer 2xx to one that you know and do nothing else",
        requests: &[Sending::VALID, Sending { repeats: true, ..Sending::VALID }],
    },
    Case {
        name: "out-of-order",
        sends: "two events, of which the one created later comes first",
        expects: Expectation::Accepted,
        clause: "contract, Events: no order of deliveries is promised",
        remedy: "accept events in any order, and compare `created_at` where the order matters",
        requests: &[Sending::VALID, about(Event::Older)],
    },
    Case {
        name: "large-body",
        sends: "a valid delivery of 64 KiB",
        expects: Expectation::Accepted,
        clause: "contract, Events: no largest size is shown; Standard Webhooks, Payload size: \"no technical limitations\"",
        remedy: "raise the limit for bodies, in a proxy as well",
        requests: &[about(Event::Large)],
    },
    Case {
        name: "unicode",
        sends: "a valid delivery with text outside ASCII: umlauts, emoji, line separators",
        expects: Expectation::Accepted,
        clause: POST,
        remedy: "verify the bytes as received, before they are decoded",
        requests: &[about(Event::Unicode)],
    },
    Case {
        name: "empty-data",
        sends: "a valid delivery of reference.matched with empty data",
        expects: Expectation::Accepted,
        clause: NOT_SHOWN,
        remedy: "do not require fields that the contract does not show",
        requests: &[about(Event::EmptyData)],
    },
    Case {
        name: "reformatted-body",
        sends: "a valid delivery with white space and another order of keys, signed as sent",
        expects: Expectation::Accepted,
        clause: SCHEME,
        remedy: "verify the bytes as received: a body that was parsed and serialised again differs",
        requests: &[about(Event::Spaced)],
    },
    Case {
        name: "slow-sender",
        sends: "a valid delivery whose body arrives in pieces over a second",
        expects: Expectation::Accepted,
        clause: SUCCESS,
        remedy: "read the whole body before you verify it, and allow it more than a second",
        requests: &[Sending { transfer: Transfer::InPieces, ..Sending::VALID }],
    },
    Case {
        name: "upper-case-headers",
        sends: "a valid delivery with the names of all headers in upper case",
        expects: Expectation::Accepted,
        clause: "RFC 9110, 5.1: names of fields are case-insensitive",
        remedy: "look headers up without regard to case",
        requests: &[Sending { transfer: Transfer::UpperCaseNames, ..Sending::VALID }],
    },
    Case {
        name: "content-type-charset",
        sends: "a valid delivery as `application/json; charset=utf-8`",
        expects: Expectation::Accepted,
        clause: "RFC 9110, 8.3.1: a media type may have parameters",
        remedy: "compare the media type without its parameters",
        requests: &[Sending { content_type: "application/json; charset=utf-8", ..Sending::VALID }],
    },
    Case {
        name: "wrong-content-type",
        sends: "a valid delivery as `text/plain`",
        expects: Expectation::Either,
        clause: "contract, Events: \"a JSON body\"; another type need be neither accepted nor refused",
        remedy: "answer 415, or read the body as JSON whatever its type",
        requests: &[Sending { content_type: "text/plain", ..Sending::VALID }],
    },
    Case {
        name: "get",
        sends: "GET without a body or a signature, as a monitor or a browser does",
        expects: Expectation::NoEffect,
        clause: POST,
        remedy: "take only POST as a delivery; answer 405 to GET",
        requests: &[bare(Method::GET)],
    },
    Case {
        name: "head",
        sends: "HEAD without a signature",
        expects: Expectation::NoEffect,
        clause: POST,
        remedy: "take only POST as a delivery; answer 405 to HEAD",
        requests: &[bare(Method::HEAD)],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_is_large_enough_and_stays_within_the_limit_of_requests() {
        let names: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
        assert!(names.len() == CASES.len() && CASES.len() >= 24, "{names:?}");
        assert_eq!(CASES[0].name, VALID);
        let requests: usize = CASES.iter().map(|case| case.requests.len()).sum();
        assert!(requests + super::super::delivery::MOST_VARIATIONS <= 100, "{requests}");
        for case in CASES {
            assert!(!case.requests.is_empty() && !case.requests[0].repeats, "{}", case.name);
            let texts = [case.sends, case.clause, case.remedy];
            assert!(texts.iter().all(|text| text.len() > 10 && !text.ends_with('.')), "{}", case.name);
            assert!(case.name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()), "{}", case.name);
        }
    }
}
