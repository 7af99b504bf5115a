//! A delivery attempt as the journal and the delivery store keep it: what was signed and sent, the answer, and the next attempt.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{EventRecord, PlannedDelivery};
use crate::clock::Instant;
use crate::util::header_lines::HeaderLines;

#[derive(Clone, Debug)]
pub struct AttemptRecord {
    pub delivery: Arc<PlannedDelivery>,
    pub event: Arc<EventRecord>,
    /// Whether it is a forgery that its receiver could detect. A built-in receiver with a script answers by that.
    pub forged: bool,
    /// 1 for the first attempt.
    pub number: u32,
    pub at: Timestamp,
    /// The URL that was dialled, which differs from the subscription's with `--forward` or the built-in receiver; empty if none was.
    pub dialled: Arc<str>,
    /// The request's headers in sending order.
    pub headers: HeaderLines,
    /// The exact bytes that were signed, for the first scheme.
    pub signed: SignedContent,
    pub body: Bytes,
    pub outcome: AttemptOutcome,
    /// From start to end, by the workspace's clock.
    pub latency: Duration,
    pub next: Option<Instant>,
}

impl AttemptRecord {
    /// Whether the receiver accepted or refused a forgery; `None` for other deliveries and for other answers.
    pub fn forgery(&self) -> Option<Forgery> {
        match self.outcome {
            AttemptOutcome::Answered { status: 200..=299, .. } if self.forged => Some(Forgery::Accepted),
            AttemptOutcome::Answered { status: 400..=499, .. } if self.forged => Some(Forgery::Refused),
            _ => None,
        }
    }

    /// Roughly the bytes that it takes in memory. The event's body is shared by all attempts and is counted with the event.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 1024;
        let answer = match &self.outcome {
            AttemptOutcome::Answered { body, .. } => body.len(),
            AttemptOutcome::Failed { detail, .. } => detail.len(),
        };
        FIXED + self.headers.size() + self.signed.before.len() + self.dialled.len() + answer
    }
}

/// The status of a delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    // The last attempt failed.
    Exhausted,
    // Given up: the subscription was disabled or deleted, or its key was reset or evicted.
    Cancelled,
}

/// What a receiver did with a forged delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    // It answered 2xx, so it does not verify signatures.
    Accepted,
    // It answered 4xx, as it should.
    Refused,
}

/// Whether `--forward` sent an attempt to another URL than its subscription's. `dialled` is `sink NAME` for a built-in receiver.
pub fn is_elsewhere(url: &str, dialled: &str) -> bool {
    match dialled.strip_prefix("sink ") {
        Some(name) => !url.contains(&format!("//{name}.sink.localhost")),
        None => !dialled.is_empty() && dialled != url,
    }
}

/// The bytes that were signed. They usually end with the event's body, which is shared and not copied.
#[derive(Clone, Debug, Default)]
pub struct SignedContent {
    before: Bytes,
    body: Bytes,
}

impl SignedContent {
    pub fn new(content: Vec<u8>, body: &Bytes) -> Self {
        match content.strip_suffix(body.as_ref()) {
            Some(before) => Self { before: Bytes::copy_from_slice(before), body: body.clone() },
            None => Self { before: content.into(), body: Bytes::new() },
        }
    }

    pub fn to_vec(&self) -> Vec<u8> {
        [self.before.as_ref(), self.body.as_ref()].concat()
    }
}

#[derive(Clone, Debug)]
pub enum AttemptOutcome {
    Answered {
        /// Its status; 2xx is success.
        status: u16,
        /// Its `Retry-After`, as a number of seconds or a date.
        retry_after: Option<Duration>,
        /// Its body, read to 16 KiB.
        body: Bytes,
    },
    Failed {
        reason: FailureReason,
        /// The cause in the user's terms, with the flag that fixes it.
        detail: String,
    },
}

impl AttemptOutcome {
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }

    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            Self::Failed { .. } => None,
        }
    }

    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Answered { status: 400..=499, .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    NameNotFound,
    EgressRefused,
    ConnectionRefused,
    /// The process, or the machine, has no file descriptor left for a connection.
    NoDescriptors,
    ConnectTimeout,
    UnknownCertificateAuthority,
    CertificateNameMismatch,
    /// The certificate has expired or is not valid yet.
    CertificateExpired,
    NotTls,
    /// The peer accepted the connection but did not answer the TLS handshake.
    TlsTimeout,
    /// The TLS handshake failed otherwise.
    TlsFailed,
    Timeout,
    /// The connection was closed or reset before an answer.
    ConnectionReset,
    InvalidAnswer,
    /// The subscription was deleted or disabled before the attempt.
    SubscriptionGone,
    /// The secret cannot be read as key bytes under the profile in force.
    SecretUnreadable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_attempts_go_elsewhere() {
        for (url, dialled, expected) in [
            ("https://a.example/x", "https://a.example/x", false),
            ("https://a.example/x", "", false),
            ("https://a.example/x", "http://127.0.0.1:1/x", true),
            ("https://a.sink.localhost/x", "sink a", false),
            ("https://a.example/x", "sink a", true),
        ] {
            assert_eq!(is_elsewhere(url, dialled), expected, "{url} {dialled}");
        }
    }
}
