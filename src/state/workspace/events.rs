//! Events as they are requested, events and attempts as the journal and the delivery store keep them: what to fire, which
//! subscriptions it goes to, the signed content, the request, the answer, and the next attempt.
//!
//! Faults that were asked for are described in text, which every output of such a delivery repeats, so that they are not mistaken for bugs.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::advice::Hint;
use crate::clock::Instant;
use crate::contract::signature::{TOLERANCE_SECONDS, Tamper};
use crate::settings::Profile;
use crate::util::duration::duration_text;
use crate::util::header_lines::HeaderLines;
use crate::util::wording::labelled;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A Rust test that embeds the emulator.
    #[default]
    Embedding,
    /// `trigger`, or the control API.
    Command,
    Emission {
        scenario: Arc<str>,
        /// The emission: its name as `` emission `late` ``, or its position as `emission 3`.
        emission: Arc<str>,
    },
}

impl Origin {
    /// The origin of the events of a scenario's emission, whose label is its name or its position (`emit 3`).
    pub fn emission(scenario: &Arc<str>, label: &str) -> Self {
        Self::Emission { scenario: Arc::clone(scenario), emission: labelled("emission", "emit ", label).into() }
    }

    /// The scenario and its emission, as log lines name them.
    pub fn in_scenario(&self) -> Option<String> {
        match self {
            Self::Emission { scenario, emission } => Some(format!("scenario `{scenario}`, {emission}")),
            Self::Embedding | Self::Command => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct FireRequest {
    pub event_type: String,
    /// The whole `data`; the profile's default for the type when absent.
    pub data: Option<Map<String, Value>>,
    /// Single fields of `data` to change, by dotted path; each must exist.
    pub set: Vec<(String, Value)>,
    /// One subscription instead of every matching one.
    pub subscription: Option<String>,
    /// When the first attempts are due; at once when absent.
    pub due: Option<Instant>,
    /// The falsified part of each delivery.
    pub tamper: Option<Tamper>,
    /// Copies of each delivery besides the first; the profile may set a higher total.
    pub extra_copies: u32,
    /// True if the events of one call or trigger are sent in another order than they happen.
    pub shuffled: bool,
    /// True if nothing is delivered, as if the event were lost on the way.
    pub lost: bool,
    pub origin: Origin,
}

#[derive(Clone, Debug, Default)]
pub struct EventRecord {
    /// Form `evt_<id>`.
    pub id: String,
    pub workspace: Arc<str>,
    pub event_type: String,
    pub created_at: Timestamp,
    /// When it was queued for delivery: when it happened, or later if it is delivered again.
    pub handed_at: Timestamp,
    /// The envelope's bytes as signed and sent.
    pub body: Bytes,
    pub due: Instant,
    pub deliveries: Vec<Arc<PlannedDelivery>>,
    /// The subscriptions that it does not go to, and why.
    pub skipped: Vec<SkippedSubscription>,
    /// The falsified part of each delivery.
    pub tamper: Option<Tamper>,
    /// True if nothing is delivered, as if the event were lost on the way.
    pub lost: bool,
    /// The deliberate faults of the deliveries, and who asked for them.
    pub damage: Option<Arc<str>>,
    pub origin: Origin,
    /// Parts of its data that a template could not produce; a few short texts.
    pub warnings: Vec<String>,
}

impl EventRecord {
    /// When the first attempt of one of its deliveries is due.
    pub fn due_of(&self, delivery: &PlannedDelivery) -> Instant {
        delivery.due.unwrap_or(self.due)
    }
}

/// The URL of a subscription. Shown and signed is the one that the client wrote, and dialled the parsed one.
#[derive(Clone, Debug)]
pub struct HookUrl {
    parsed: Arc<Url>,
    /// If it differs. Shared by all deliveries.
    written: Option<Arc<str>>,
}

impl HookUrl {
    pub fn new(written: &str, parsed: Arc<Url>) -> Self {
        let written = (written != parsed.as_str()).then(|| written.into());
        Self { parsed, written }
    }

    pub fn parsed(&self) -> &Arc<Url> {
        &self.parsed
    }

    pub fn as_str(&self) -> &str {
        self.written.as_deref().unwrap_or(self.parsed.as_str())
    }
}

impl fmt::Display for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug)]
pub struct PlannedDelivery {
    /// Form `dlv_<id>`.
    pub id: String,
    pub subscription: String,
    /// The subscription's URL, before any forward.
    pub url: HookUrl,
    /// Attempts made before it was queued: more than 0 only after a snapshot was loaded.
    pub attempts_before: u32,
    /// When its first attempt is due, if not with its event: only after a snapshot was loaded.
    pub due: Option<Instant>,
    /// Its number in the delivery store, once it is entered there.
    pub serial: OnceLock<u64>,
}

#[derive(Clone, Debug)]
pub struct SkippedSubscription {
    pub subscription: String,
    pub url: HookUrl,
    pub reason: SkipReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    TypeNotSubscribed,
    /// By a receiver that answered 410 Gone, or by a call.
    Disabled,
    /// The request names another subscription.
    NotNamed,
}

impl FireRequest {
    /// How many copies of each delivery are sent: as many as were requested, and at least as many as the profile sets.
    pub fn copies(&self, profile: &Profile) -> u32 {
        profile.webhooks.copies.get().max(self.extra_copies.saturating_add(1))
    }

    /// The deliberate faults of the deliveries, and who asked for them or which setting causes them, if there are any.
    pub fn damage(&self, profile: &Profile) -> Option<Arc<str>> {
        let parts: Vec<String> = self.asked_for().into_iter().chain(self.by_settings(profile)).collect();
        (!parts.is_empty()).then(|| parts.join(", ").into())
    }

    fn by_settings(&self, profile: &Profile) -> impl Iterator<Item = String> {
        let (copies, longest) = (self.copies(profile), profile.webhooks.scatter.get());
        let copied = copies > self.extra_copies.saturating_add(1);
        let copied = copied.then(|| format!("sent {copies} times deliberately (setting webhooks.copies)"));
        let delayed = || format!("delayed deliberately by up to {} (setting webhooks.scatter)", duration_text(longest));
        let swap = profile.webhooks.swap.get();
        let swapped = || format!("every other event held back by {} (setting webhooks.swap)", duration_text(swap));
        copied.into_iter().chain((!longest.is_zero()).then(delayed)).chain((!swap.is_zero()).then(swapped))
    }

    fn asked_for(&self) -> Option<String> {
        let copies = self.extra_copies.saturating_add(1);
        let kinds = [
            self.tamper.map(|tamper| {
                (format!("tampered deliberately: {}", tamper.name()), format!("--tamper {}", tamper.name()))
            }),
            (copies > 1).then(|| (format!("sent {copies} times deliberately"), format!("--duplicate {copies}"))),
            self.shuffled.then(|| ("sent out of order deliberately".to_owned(), "--shuffle".to_owned())),
            self.lost.then(|| ("dropped deliberately".to_owned(), "--drop".to_owned())),
        ];
        let (what, flags): (Vec<String>, Vec<String>) = kinds.into_iter().flatten().unzip();
        if what.is_empty() {
            return None;
        }
        let by = self.origin.in_scenario().unwrap_or_else(|| match self.origin {
            Origin::Command => format!("`trigger {}`, or POST /_emulator/events", flags.join(" ")),
            _ => "a `FireRequest`".to_owned(),
        });
        Some(format!("{} ({by})", what.join(", ")))
    }
}

#[derive(Clone, Debug)]
pub struct AttemptRecord {
    pub delivery: Arc<PlannedDelivery>,
    pub event: Arc<EventRecord>,
    /// True if it is a forgery that its receiver could detect. A built-in receiver with a script answers by its script anyway.
    pub forged: bool,
    pub number: u32,
    pub at: Timestamp,
    /// The time of the signature, by the setting `webhooks.timestamp`.
    pub signed_at: Timestamp,
    /// The URL that was dialled, which differs from the subscription's with `--forward` or the built-in receiver; empty if none was.
    pub dialled: Arc<str>,
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
    /// The receiver's reaction to a forgery, accepted or refused; `None` for other deliveries and for other answers.
    pub fn forgery(&self) -> Option<Forgery> {
        match self.outcome {
            AttemptOutcome::Answered { status: 200..=299, .. } if self.forged => Some(Forgery::Accepted),
            AttemptOutcome::Answered { status: 400..=499, .. } if self.forged => Some(Forgery::Refused),
            _ => None,
        }
    }

    /// True if the receiver's clock, as its `Date` shows it, is so far from the time of the signature that it should refuse it.
    pub fn is_of_another_time(&self) -> bool {
        let AttemptOutcome::Answered { date: Some(date), .. } = &self.outcome else { return false };
        date.as_second().abs_diff(self.signed_at.as_second()) > TOLERANCE_SECONDS.unsigned_abs()
    }

    /// True if a built-in receiver answered, which it does by its script.
    pub fn is_by_sink(&self) -> bool {
        self.dialled.starts_with(SINK)
    }
}

/// The status of a delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    // The last attempt failed.
    Exhausted,
    // Given up: the subscription was disabled or deleted, or its key was reset or evicted.
    Cancelled,
}

/// A receiver's reaction to a forged delivery.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Forgery {
    // It answered 2xx.
    Accepted,
    // It answered 4xx, as it should.
    Refused,
}

/// The prefix of the name of a built-in receiver in `dialled`.
const SINK: &str = "sink ";

/// True if `--forward` sent an attempt to another URL than its subscription's. `dialled` is `sink NAME` for a built-in receiver.
pub fn is_elsewhere(url: &str, dialled: &str) -> bool {
    // Parsed, like the URL that is dialled, and without its user.
    let url = Url::parse(url).map(|mut url| {
        let _ = (url.set_username(""), url.set_password(None));
        url.to_string()
    });
    let url = url.unwrap_or_default();
    match dialled.strip_prefix(SINK) {
        Some(name) => !url.contains(&format!("//{name}.sink.localhost")),
        None => !dialled.is_empty() && dialled != url,
    }
}

/// A receiver's status, with what its headers say about it.
pub fn status_text(status: u16, note: Option<&str>) -> String {
    note.map_or_else(|| status.to_string(), |note| format!("{status} ({note})"))
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
        status: u16,
        /// Its `Retry-After`, as a number of seconds or a date.
        retry_after: Option<Duration>,
        /// Its `Date`: what time it is for the receiver.
        date: Option<Timestamp>,
        /// Where a redirect leads.
        location: Option<Box<str>>,
        /// The same in words; a `Retry-After` that cannot be read.
        note: Option<Box<str>>,
        /// Its body, read to 16 KiB.
        body: Bytes,
    },
    Failed {
        reason: FailureReason,
        /// The cause in the user's terms.
        detail: String,
        /// The remedy.
        hint: Option<Box<Hint>>,
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

    /// True if no receiver was there to answer: nothing listened at its address, or it had no address.
    pub fn is_unreached(&self) -> bool {
        use FailureReason::{ConnectTimeout, ConnectionRefused, NameNotFound, SubscriptionGone};
        let reasons = [ConnectionRefused, ConnectTimeout, NameNotFound, SubscriptionGone];
        matches!(self, Self::Failed { reason, .. } if reasons.contains(reason))
    }

    /// True if there was a connection, and no TLS over it.
    pub fn is_tls_problem(&self) -> bool {
        use FailureReason::{
            CertificateExpired, CertificateNameMismatch, NotTls, TlsFailed, TlsTimeout, UnknownCertificateAuthority,
        };
        let of_certificate = [UnknownCertificateAuthority, CertificateNameMismatch, CertificateExpired];
        let others = [NotTls, TlsTimeout, TlsFailed];
        matches!(self, Self::Failed { reason, .. } if of_certificate.contains(reason) || others.contains(reason))
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
    /// The peer speaks TLS where the URL is a plain HTTP URL.
    TlsExpected,
    /// The peer speaks a protocol other than HTTP/1.1.
    NotHttp,
    /// The answer is one of HTTP, but broken.
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
