//! What a kind of finding is: its texts, its function, its example; and what the function returns.

use super::traffic::{Subject, Traffic};
use crate::contract::named::named;
use crate::engine::deliveries::DeliveryRecord;

/// A subscribe request as on the wire: as most examples have it, perhaps with a further field; or with this key, content type, URL,
/// and text after the events.
macro_rules! subscribe {
    () => {
        subscribe!("sk_test_local", "application/json", r#""url":"https://a.sink.localhost/""#)
    };
    ($further:literal) => {
        subscribe!("sk_test_local", "application/json", r#""url":"https://a.sink.localhost/""#, ",", $further)
    };
    ($key:literal, $media:literal, $url:literal $(, $further:literal)*) => {
        concat!(
            "POST /v1/events/subscribe HTTP/1.1\nhost: localhost\nauthorization: Bearer ",
            $key,
            "\ncontent-type: ",
            $media,
            "\n\n{",
            $url,
            r#","events":["workflow.completed"]"#,
            $($further,)*
            "}"
        )
    };
}
pub(super) use subscribe;

pub(super) const ALWAYS: &str = "always certain";
pub(super) const ON_ONE_CONNECTION: &str = "certain if the second request has the method and path of the first and came on the same \
     connection, so that its sender had read the answer; otherwise likely";
pub(super) const SEND_REQUESTS: &str = "send any request";
pub(super) const SUBSCRIBE: &str = "subscribe to events: POST /v1/events/subscribe";
pub(super) const OWN_SECRET: &str = "subscribe with a secret of your own";
pub(super) const DELIVER: &str = "subscribe your receiver, then: wrs-emulator trigger workflow.completed";
/// A call of the status check by a test key, as most examples have it.
pub(super) const STATUS: &str =
    "GET /v1/system/status HTTP/1.1\nhost: localhost\nauthorization: Bearer sk_test_local\n\n";
pub(super) const SOUND_SUBSCRIBE: &str = subscribe!();

named! {
    /// How bad a finding is, the worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// Anybody can forge what the receiver acts on.
        Critical = "critical",
        /// A credential is exposed, or will be.
        High = "high",
        /// Breaks the contract, or will fail in production.
        Medium = "medium",
        /// Works today, by luck.
        Low = "low",
        /// Worth knowing.
        Info = "info",
    }
}

named! {
    /// How sure a finding is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Confidence {
        /// The traffic leaves no other explanation.
        Certain = "certain",
        /// There may be another one.
        Likely = "likely",
    }
}

/// One kind of finding.
#[derive(Debug)]
pub struct Check {
    /// Its stable name.
    pub code: &'static str,
    /// What is wrong, in a line.
    pub title: &'static str,
    /// Why it matters, in a sentence or two.
    pub why: &'static str,
    /// The clause of the contract, or of the standard, that it goes against.
    pub clause: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// When it is certain and when only likely.
    pub confidence: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// The number in the Common Weakness Enumeration, where one fits.
    pub cwe: Option<u16>,
    /// How to give it something to judge.
    pub exercise: &'static str,
    pub(super) rule: Rule,
    /// Traffic with it and without.
    pub example: Example,
}

/// Traffic that shows a rule at work.
#[derive(Clone, Copy, Debug)]
pub enum Example {
    /// Requests, each as on the wire with plain line ends, all on one connection.
    Requests {
        /// Settings of the emulator, `KNOB=VALUE`.
        settings: &'static [&'static str],
        /// With the finding.
        found: &'static [&'static str],
        /// Without it.
        sound: &'static [&'static str],
    },
    /// Events for a receiver.
    Deliveries {
        /// The body of `POST /_emulator/events`.
        event: &'static str,
        /// Settings of the emulator, `KNOB=VALUE`.
        settings: &'static [&'static str],
        /// The statuses of a receiver with the finding.
        found: &'static [u16],
        /// The statuses of one without it.
        sound: &'static [u16],
    },
}

/// An example of requests without settings.
pub(super) const fn requests(found: &'static [&'static str], sound: &'static [&'static str]) -> Example {
    Example::Requests { settings: &[], found, sound }
}

/// Example traffic of deliveries: the statuses that the receiver answers, in order, 0 standing for no answer.
pub(super) const fn deliveries(
    event: &'static str,
    settings: &'static [&'static str],
    found: &'static [u16],
    sound: &'static [u16],
) -> Example {
    Example::Deliveries { event, settings, found, sound }
}

/// What a rule found in the traffic.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// How many requests or deliveries could have shown the finding.
    pub judged: usize,
    /// Those that did, oldest first.
    pub found: Vec<Sighting>,
}

/// Most characters of a detail.
const LONGEST_DETAIL: usize = 300;

/// One request or delivery that shows a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The id of the request or of the delivery.
    pub id: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// What was seen, without any secret.
    pub detail: String,
}

/// `None` if something has nothing to do with a rule, `Some(None)` if it is sound.
pub(super) type Outcome = Option<Option<Sighting>>;

/// How traffic is judged.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Each request by itself.
    Request(fn(&Subject<'_>) -> Outcome),
    /// Each delivery by itself.
    Delivery(fn(&DeliveryRecord, &Traffic<'_>) -> Outcome),
    /// All requests and deliveries together.
    All(fn(&Traffic<'_>) -> Judged),
    /// All subscriptions with secrets together.
    Secrets(fn(&[OwnSecret]) -> Judged),
}

/// A subscribe request with a secret.
#[derive(Debug)]
pub(super) struct OwnSecret {
    pub(super) request: String,
    pub(super) url: String,
    pub(super) secret: String,
}

impl Judged {
    /// Counts one outcome.
    pub(super) fn count(&mut self, outcome: Outcome) {
        if let Some(outcome) = outcome {
            self.judged += 1;
            self.found.extend(outcome);
        }
    }
}

impl Sighting {
    pub(super) fn certain(id: &str, detail: impl Into<String>) -> Self {
        // URLs and paths may be as long as a body; ten thousand of them must not fill the memory.
        let detail = detail.into().chars().take(LONGEST_DETAIL).collect();
        Self { id: id.to_owned(), confidence: Confidence::Certain, detail }
    }

    pub(super) fn likely(id: &str, detail: impl Into<String>) -> Self {
        Self { confidence: Confidence::Likely, ..Self::certain(id, detail) }
    }
}
