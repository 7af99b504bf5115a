//! What a case is: what it sends, as data, and what must come back. The cases themselves are in `table`.

use hyper::Method;
use serde::Serialize;

use crate::contract::named::named;
use crate::contract::signature::Tamper;

/// One case of the probe. All texts are for people.
#[derive(Debug, Serialize)]
pub struct Case {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// What is sent.
    pub sends: &'static str,
    /// What must come back.
    pub expects: Expectation,
    /// Where the contract or Standard Webhooks says so.
    pub clause: &'static str,
    /// What to change in a receiver that fails.
    pub remedy: &'static str,
    /// The requests, in their order.
    #[serde(skip)]
    pub(super) requests: &'static [Sending],
}

named! {
    /// What must come back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expectation {
        /// A genuine delivery.
        Accepted = "2xx",
        /// A forged delivery. A 5xx or a redirect refuses it as well, but makes the sender send it again.
        Refused = "4xx",
        /// A genuine delivery in a form that may be refused.
        Either = "2xx or 4xx",
        /// The same genuine delivery twice.
        OneEffect = "2xx each time, and one effect",
        /// No delivery at all.
        NoEffect = "3xx, 4xx or 501, or 2xx without an effect",
    }
}

impl Expectation {
    /// Whether only the effect of the requests can show that the receiver is right.
    pub const fn needs_evidence(self) -> bool {
        matches!(self, Self::OneEffect | Self::NoEffect)
    }
}

/// How one request is made.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub(super) method: Method,
    pub(super) event: Event,
    pub(super) signing: Signing,
    pub(super) content_type: &'static str,
    pub(super) transfer: Transfer,
    /// Whether it carries the same event as the request before it.
    pub(super) repeats: bool,
}

impl Sending {
    /// A valid delivery; each case differs from it in one thing.
    pub(super) const VALID: Self = Self {
        method: Method::POST,
        event: Event::Plain,
        signing: Signing::Genuine,
        content_type: "application/json",
        transfer: Transfer::AtOnce,
        repeats: false,
    };
}

/// The event in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// `workflow.completed` with the fields that the contract shows.
    Plain,
    /// The same, created an hour ago.
    Older,
    /// The same with white space and another order of its keys.
    Spaced,
    /// A type that the contract does not show.
    UnknownType,
    /// Fields that the contract does not show, in the envelope and in the data.
    UnknownFields,
    /// `reference.matched`, whose data the contract does not show, with 64 KiB of text.
    Large,
    /// `reference.matched` with text outside ASCII.
    Unicode,
    /// `reference.matched` with empty data.
    EmptyData,
    /// No body, and no signature either.
    None,
}

/// How a request is signed, and what is changed after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signing {
    /// As a delivery is.
    Genuine,
    /// Forged as the emulator's own forged deliveries are.
    Tampered(Tamper),
    /// Without the header of the signature.
    NoSignature,
    /// With an empty header of the signature.
    EmptySignature,
    /// With the signature under the name of another version.
    OtherVersion,
    /// With a timestamp that is not a number, and a signature over it.
    TimestampText,
    /// With another timestamp than was signed.
    TimestampChanged,
    /// With another id than was signed.
    IdChanged,
    /// Without the body that was signed.
    BodyDropped,
    /// By another secret as well, whose signature comes first.
    RotationFirst,
    /// By another secret as well, whose signature comes last.
    RotationLast,
}

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// At once.
    AtOnce,
    /// The body in pieces over about a second.
    InPieces,
    /// Names of headers in upper case.
    UpperCaseNames,
}
