//! The results of a probe, as JSON has them.

use std::time::Duration;

use hyper::body::Bytes;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::case::{Case, Expectation};
use super::delivery::Made;
use super::judge::Outcome;
use super::reply::ProbeReply;
use crate::redact::Redactor;

/// Most bytes of a body that are shown.
const MOST_SHOWN: usize = 1024;

/// The results of all cases.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    /// The URL given.
    pub url: String,
    /// The URL that was called: another one if a forward covers it.
    pub dialled: String,
    /// The name of the scheme.
    pub scheme: &'static str,
    /// Milliseconds in all.
    pub took_ms: u128,
    /// The number of requests sent.
    pub requests: usize,
    /// How many cases ended as expected.
    pub passed: usize,
    /// How many found a fault.
    pub failed: usize,
    /// How many prove nothing.
    pub incomplete: usize,
    /// What is wrong, if the valid delivery was not accepted: nearly everything else follows from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<String>,
    /// One for each case, in the order of the table.
    pub cases: Vec<Probed>,
    /// Names of cases that mean nothing under the scheme.
    pub not_applicable: Vec<&'static str>,
}

/// The result of one case.
#[derive(Debug, Serialize)]
pub struct Probed {
    /// The case's name.
    pub name: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// What was sent.
    pub sent: &'static str,
    /// What must come back.
    pub expected: Expectation,
    /// What came back.
    pub observed: String,
    /// Why it ended so, if that is not obvious.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where the contract or Standard Webhooks says so.
    pub clause: &'static str,
    /// What to change, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
    /// Milliseconds until the last answer.
    pub took_ms: u128,
    /// The requests.
    pub requests: Vec<SentRequest>,
}

impl Probed {
    pub(super) fn remedy_of(case: &Case, outcome: Outcome) -> Option<&'static str> {
        outcome.is_failure().then(|| match outcome {
            Outcome::Slow => {
                "answer first and work later: after its timeout the service counts the delivery as failed and retries"
            }
            Outcome::Redirected => "subscribe with the URL that answers: redirects are not followed",
            Outcome::Crashed if case.expects == Expectation::Refused => {
                "refuse with a 4xx: after a 5xx or a closed connection the delivery is sent again, and it may be a crash"
            }
            Outcome::NoAnswer => "look at the receiver's log: it stopped accepting connections during the probe",
            _ => case.remedy,
        })
    }
}

/// One request of a case.
#[derive(Debug, Serialize)]
pub struct SentRequest {
    method: String,
    headers: Map<String, Value>,
    /// The beginning of its body.
    body: String,
    body_bytes: usize,
    observed: String,
    took_ms: u128,
}

impl SentRequest {
    pub(super) fn new(made: &Made, reply: &ProbeReply, took: Duration) -> Self {
        let headers = made.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        Self {
            method: made.method.to_string(),
            headers,
            body: beginning(&made.body),
            body_bytes: made.body.len(),
            observed: observed(reply),
            took_ms: took.as_millis(),
        }
    }
}

/// What came back, with credentials masked.
pub(super) fn observed(reply: &ProbeReply) -> String {
    Redactor::default().text(&reply.to_string()).into_owned()
}

fn beginning(body: &Bytes) -> String {
    String::from_utf8_lossy(&body[..body.len().min(MOST_SHOWN)]).into_owned()
}

impl Serialize for Expectation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
