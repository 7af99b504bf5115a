//! Every case of the probe as data: the request, and the expected answer. To add one, add a row.

use serde::Serialize;

use self::Expectation::{Accepted, Either, IfSubscribed, NoEffect, OneEffect, Refused};
use crate::contract::named::named;
use crate::contract::signature::Tamper;
use crate::contract::variation::HeaderLetters;

/// The name of the case that every other one depends on.
pub const VALID: &str = "valid";
/// A receiver that accepts this forgery does not verify the signature, and accepts the other forgeries for this reason.
pub const ANOTHER_SECRET: &str = "another-secret";

/// One case of the probe. All texts are for people.
#[derive(Debug, Serialize)]
pub struct Case {
    pub name: &'static str,
    pub sends: &'static str,
    pub expects: Expectation,
    pub clause: &'static str,
    pub remedy: &'static str,
    /// The case from which this one differs in one thing, if that is not the valid delivery: if the receiver refuses that one as well,
    /// this one proves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builds_on: Option<&'static str>,
    #[serde(skip)]
    pub requests: &'static [Sending],
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Expectation {
        /// A genuine delivery.
        #[serde(rename = "2xx")]
        Accepted = "2xx",
        /// A forged delivery. A 5xx or a redirect refuses it as well, but makes the sender send it again.
        #[serde(rename = "4xx")]
        Refused = "4xx",
        /// A genuine delivery in a form that may be refused.
        #[serde(rename = "2xx or 4xx")]
        Either = "2xx or 4xx",
        /// A genuine delivery of a type that not every receiver subscribes to.
        #[serde(rename = "2xx, or 4xx if it does not subscribe to the type")]
        IfSubscribed = "2xx, or 4xx if it does not subscribe to the type",
        /// The same genuine delivery twice.
        #[serde(rename = "2xx each time, and one effect")]
        OneEffect = "2xx each time, and one effect",
        /// No delivery at all.
        #[serde(rename = "3xx, 4xx or 501, or 2xx without an effect")]
        NoEffect = "3xx, 4xx or 501, or 2xx without an effect",
    }
}

impl Expectation {
    /// The classes of status that are right.
    pub fn accepted(self) -> &'static [&'static str] {
        match self {
            Accepted | OneEffect => &["2xx"],
            Refused => &["4xx"],
            Either | IfSubscribed => &["2xx", "4xx"],
            NoEffect => &["2xx", "3xx", "4xx", "501"],
        }
    }
}

impl Case {
    /// True if it needs two secrets of the receiver: the one before a rotation, and the one after it.
    pub fn needs_two_secrets(&self) -> bool {
        let is_alone = |signing| matches!(signing, SignatureVariant::NewestAlone | SignatureVariant::OldestAlone);
        self.requests.iter().any(|sending| is_alone(sending.signing))
    }

    /// True if it differs from another case only in how it is sent.
    pub fn is_of_the_wire(&self) -> bool {
        let is_usual = |letters| matches!(letters, HeaderLetters::Lower);
        self.requests.iter().any(|sending| sending.is_slow || sending.is_chunked || !is_usual(sending.letters))
    }
}

#[derive(Clone, Debug)]
pub struct Sending {
    pub method: &'static str,
    pub event: EventShape,
    pub signing: SignatureVariant,
    pub content_type: &'static str,
    /// True if the body is sent in pieces over about a second.
    pub is_slow: bool,
    /// True if the body comes in chunks, without a `Content-Length`.
    pub is_chunked: bool,
    pub letters: HeaderLetters,
    /// True if it carries the same event as the request before it.
    pub repeats: bool,
}

impl Sending {
    /// A valid delivery; each case differs from it in one thing.
    pub const VALID: Self = Self {
        method: "POST",
        event: EventShape::Plain,
        signing: SignatureVariant::Genuine,
        content_type: "application/json",
        is_slow: false,
        is_chunked: false,
        letters: HeaderLetters::Lower,
        repeats: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventShape {
    Plain,
    Older,
    /// The same with white space and another order of its keys.
    Spaced,
    UnknownType,
    /// Fields that the contract does not show, in the envelope and in the data.
    UnknownFields,
    /// With an unknown field of 64 KiB.
    Large,
    /// With an unknown field that has text outside ASCII.
    Unicode,
    /// `reference.matched` with the data of the settings.
    Matched,
    /// `reference.matched`, whose data the contract does not show, with empty data.
    EmptyData,
    None,
}

/// How a request is signed, and how it is changed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureVariant {
    Genuine,
    Tampered(Tamper),
    NoSignature,
    /// With an empty header of the signature.
    EmptySignature,
    /// With the first characters of the signature alone.
    Cut(usize),
    /// With the signature under the name of another version.
    OtherVersion,
    /// With a timestamp that is not a number, and a signature over it.
    TimestampText,
    TimestampChanged,
    IdChanged,
    BodyDropped,
    /// By another secret as well, whose signature comes first.
    RotationFirst,
    /// By another secret as well, whose signature comes last.
    RotationLast,
    /// By the newest of several secrets alone.
    NewestAlone,
    /// By the oldest of several secrets alone.
    OldestAlone,
}

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

pub const VERIFY_FIRST: &str =
    "verify before anything else, also before you answer, and answer 401 if the signature is wrong";
const CHECK_TIME: &str =
    "compare the timestamp with the current time and answer 401 if it is more than five minutes off";
const REQUIRE_HEADERS: &str = "answer 401 if a header of the signature is missing or empty";

const fn sent(signing: SignatureVariant) -> Sending {
    Sending { signing, ..Sending::VALID }
}

const fn about(event: EventShape) -> Sending {
    Sending { event, ..Sending::VALID }
}

const fn bare(method: &'static str) -> Sending {
    Sending { method, event: EventShape::None, ..Sending::VALID }
}

const fn case(
    name: &'static str,
    expects: Expectation,
    sends: &'static str,
    clause: &'static str,
    remedy: &'static str,
    requests: &'static [Sending],
) -> Case {
    Case { name, sends, expects, clause, remedy, builds_on: None, requests }
}

const fn building_on(name: &'static str, case: Case) -> Case {
    Case { builds_on: Some(name), ..case }
}

/// All cases; the valid delivery first.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    case(VALID, Accepted, "a valid delivery of workflow.completed",
        POST, "check the path of the URL, the secret and how it is read, and the scheme", &[Sending::VALID]),
    case("body-changed", Refused, "a field is added to the body after it was signed",
        SIGNED, VERIFY_FIRST, &[sent(SignatureVariant::Tampered(Tamper::Body))]),
    case("body-missing", Refused, "headers of a valid delivery without its body",
        SIGNED, "verify an empty body like any other, before it is parsed", &[sent(SignatureVariant::BodyDropped)]),
    case("signature-changed", Refused, "one character of the signature is changed",
        SIGNED, VERIFY_FIRST, &[sent(SignatureVariant::Tampered(Tamper::Signature))]),
    case("signature-cut", Refused, "the first 4 characters of the right signature, then the first 8",
        SIGNED, "compare the whole signature with the one you computed, not as many characters as were sent", &[sent(SignatureVariant::Cut(4)), sent(SignatureVariant::Cut(8))]),
    case(ANOTHER_SECRET, Refused, "a delivery signed with another secret",
        SIGNED, VERIFY_FIRST, &[sent(SignatureVariant::Tampered(Tamper::Secret))]),
    case("signature-missing", Refused, "a delivery without the header of the signature",
        VERIFYING, REQUIRE_HEADERS, &[sent(SignatureVariant::NoSignature)]),
    case("headers-missing", Refused, "a delivery without any of the webhook headers",
        VERIFYING, REQUIRE_HEADERS, &[sent(SignatureVariant::Tampered(Tamper::Headers))]),
    case("signature-empty", Refused, "a delivery whose signature is an empty header",
        VERIFYING, REQUIRE_HEADERS, &[sent(SignatureVariant::EmptySignature)]),
    case("other-version", Refused, "a signature under the name of a version that does not exist (v9)",
        "Standard Webhooks, Signature scheme: symmetric signatures are prefixed with v1",
        "compare the whole signature with its version, and ignore versions that you do not know", &[sent(SignatureVariant::OtherVersion)]),
    case("old-timestamp", Refused, "a delivery that was signed an hour ago, as in a replay",
        REPLAY, CHECK_TIME, &[sent(SignatureVariant::Tampered(Tamper::Timestamp))]),
    case("future-timestamp", Refused, "a delivery that was signed for a time one hour ahead",
        REPLAY,
        "compare the timestamp with the current time in both directions: a future one can be replayed until then", &[sent(SignatureVariant::Tampered(Tamper::FutureTimestamp))]),
    case("timestamp-not-a-number", Refused, "the timestamp `soon`, with a signature over it",
        "Standard Webhooks, Webhook headers: an integer unix timestamp",
        "answer 401 if the timestamp is not an integer: a comparison with NaN is never true", &[sent(SignatureVariant::TimestampText)]),
    case("timestamp-changed", Refused, "another timestamp than was signed",
        SCHEME, "compute the signature over the timestamp from the header as well", &[sent(SignatureVariant::TimestampChanged)]),
    case("id-changed", Refused, "another id in the header than was signed",
        SCHEME, "compute the signature over the id from the header as well", &[sent(SignatureVariant::IdChanged)]),
    case("rotation", Accepted, "two signatures: by a new secret, then by the one that you have",
        HEADERS, "the header is a list: accept the delivery if any signature matches", &[sent(SignatureVariant::RotationFirst)]),
    case("rotation-reversed", Accepted, "two signatures: by the secret that you have, then by another",
        HEADERS, "the header is a list: accept the delivery if any signature matches", &[sent(SignatureVariant::RotationLast)]),
    case("new-secret-alone", Accepted, "a delivery signed by the newest of your secrets alone, as after a rotation",
        HEADERS, "your receiver knows the old secret only: give it the new one as well, and accept what either verifies", &[sent(SignatureVariant::NewestAlone)]),
    case("old-secret-alone", Accepted, "a delivery signed by the oldest of your secrets alone, as before a rotation",
        HEADERS, "your receiver knows the new secret only: let it keep the old one while that signs, and accept what either verifies", &[sent(SignatureVariant::OldestAlone)]),
    case("unknown-event-type", Accepted, "a valid delivery of the type `workflow.probed`",
        NOT_SHOWN, "answer 2xx to types that you do not know, and ignore them", &[about(EventShape::UnknownType)]),
    case("unknown-fields", Accepted, "a valid delivery with unknown fields in the envelope and in data",
        "contract, Versioning: \"compatibility guarantees: not shown\", so fields may be added",
        "ignore fields that you do not know", &[about(EventShape::UnknownFields)]),
    case("duplicate", OneEffect, "the same delivery twice",
        "Standard Webhooks, Verifying signatures: use the webhook-id header as an idempotency key",
        "remember the id of each event; answer 2xx to one that you know and do nothing else", &[Sending::VALID, Sending { repeats: true, ..Sending::VALID }]),
    case("out-of-order", Accepted, "two events, the one created later first",
        "contract, Events: no order of deliveries is promised",
        "accept events in any order, and compare `created_at` where the order matters", &[Sending::VALID, about(EventShape::Older)]),
    building_on("unknown-fields", case("large-body", Accepted, "a valid delivery of 64 KiB, in a field that you do not know",
        "contract, Events: no largest size is shown; Standard Webhooks, Payload size: \"no technical limitations\"",
        "raise the limit for bodies, in a proxy as well", &[about(EventShape::Large)])),
    building_on("unknown-fields", case("unicode", Accepted, "a valid delivery with text outside ASCII, in a field that you do not know: umlauts, emoji, line separators",
        POST, "verify the bytes as received, before they are decoded", &[about(EventShape::Unicode)])),
    case("reference-matched", IfSubscribed, "a valid delivery of reference.matched with the data of the settings (events.data)",
        NOT_SHOWN, "answer 2xx to types that you do not handle, and ignore them", &[about(EventShape::Matched)]),
    building_on("reference-matched", case("empty-data", Accepted, "a valid delivery of reference.matched with empty data",
        NOT_SHOWN, "do not require fields that the contract does not show: the fields of reference.matched in our OpenAPI document are assumed",
        &[about(EventShape::EmptyData)])),
    case("reformatted-body", Accepted, "a valid delivery with white space and another order of keys, signed as sent",
        SCHEME, "verify the bytes as received: a body that was parsed and serialised again differs", &[about(EventShape::Spaced)]),
    case("slow-sender", Accepted, "a valid delivery whose body arrives in pieces over a second",
        SUCCESS,
        "read the whole body before you verify it, and allow it more than a second", &[Sending { is_slow: true, ..Sending::VALID }]),
    case("chunked", Accepted, "a valid delivery in chunks (`Transfer-Encoding: chunked`), without a Content-Length",
        "RFC 9112, 7.1: a recipient must be able to read chunks; that deliveries have a Content-Length is not shown",
        "read the body to its end, and not as many bytes as Content-Length says; where the server or proxy in front refuses chunks, let it join them",
        &[Sending { is_chunked: true, ..Sending::VALID }]),
    case("title-case-headers", Accepted, "a valid delivery with header names such as `Content-Type` instead of `content-type`",
        "RFC 9110, 5.1: field names are case-insensitive",
        "look headers up without regard to letter case", &[Sending { letters: HeaderLetters::Title, ..Sending::VALID }]),
    case("content-type-charset", Accepted, "a valid delivery as `application/json; charset=utf-8`",
        "RFC 9110, 8.3.1: a media type may have parameters",
        "compare the media type without its parameters", &[Sending { content_type: "application/json; charset=utf-8", ..Sending::VALID }]),
    case("wrong-content-type", Either, "a valid delivery as `text/plain`",
        "contract, Events: \"a JSON body\"; another type need be neither accepted nor refused",
        "answer 415, or read the body as JSON whatever its type", &[Sending { content_type: "text/plain", ..Sending::VALID }]),
    case("get", NoEffect, "GET without a body or a signature, as a monitor or a browser does",
        POST, "accept only POST as a delivery; answer 405 to GET", &[bare("GET")]),
    case("head", NoEffect, "HEAD without a signature",
        POST, "accept only POST as a delivery; answer 405 to HEAD", &[bare("HEAD")]),
];
