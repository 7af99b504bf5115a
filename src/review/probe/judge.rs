//! What came back for the requests of a case, and how the case is judged by it. Pure.

use std::fmt;

use serde::Serialize;

use super::table::{Case, Expectation};
use crate::contract::named::named;
use crate::state::workspace::FailureReason;

#[derive(Clone, Debug)]
pub(super) enum Reply {
    Answered {
        status: u16,
        location: Option<String>,
        text: String,
    },
    /// No connection, no answer in time, or a connection that broke.
    Failed {
        reason: FailureReason,
        detail: String,
    },
    /// It was not sent, or not given the time that it may take; why.
    Unsent(String),
}

impl Reply {
    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { status, location, text } => {
                write!(f, "{status}")?;
                if let Some(location) = location {
                    write!(f, " to {location}")?;
                }
                match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
                    Some(line) => write!(f, " \"{}\"", line.chars().take(120).collect::<String>()),
                    None => Ok(()),
                }
            }
            Self::Failed { detail: text, .. } | Self::Unsent(text) => f.write_str(text),
        }
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        Pass = "pass",
        Incomplete = "incomplete",
        AcceptedForged = "accepted-forged",
        RefusedValid = "refused-valid",
        Slow = "slow",
        /// An answer of 5xx, or a connection that broke before there was an answer.
        Crashed = "crashed",
        Redirected = "redirected",
        /// There was no connection, although the receiver had answered before.
        NoAnswer = "no-answer",
    }
}

impl Outcome {
    /// Whether it is a fault of the receiver.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Pass | Self::Incomplete)
    }

    /// What to change in a receiver for which a case ended so.
    pub(super) fn remedy(self, case: &Case) -> Option<&'static str> {
        self.is_failure().then(|| match self {
            Self::Slow => {
                "answer first and work later: after its timeout the service counts the delivery as failed and retries"
            }
            Self::Redirected => "subscribe with the URL that answers: redirects are not followed",
            Self::Crashed if case.expects == Expectation::Refused => {
                "refuse with a 4xx: after a 5xx or a closed connection the delivery is sent again, and it may be a crash"
            }
            Self::NoAnswer => "look at the receiver's log: it stopped accepting connections during the probe",
            _ => case.remedy,
        })
    }
}

pub(super) type Judgement = (Outcome, Option<String>);

/// Judges a case. If the receiver did not accept the valid delivery, what it refuses proves nothing.
pub(super) fn judge(expects: Expectation, replies: &[Reply], accepts_valid: bool) -> Judgement {
    let judged = replies.iter().map(|reply| judge_reply(expects, reply, accepts_valid));
    let worst = judged.fold((Outcome::Pass, None), |worst, next| match (worst.0, next.0) {
        (Outcome::Pass, _) => next,
        (Outcome::Incomplete, found) if found.is_failure() => next,
        _ => worst,
    });
    let needs_evidence = matches!(expects, Expectation::OneEffect | Expectation::NoEffect);
    if worst.0 == Outcome::Pass && needs_evidence && replies.iter().any(Reply::is_success) {
        return incomplete("2xx proves nothing about its effect; see in your receiver whether there was one");
    }
    worst
}

fn incomplete(why: &str) -> Judgement {
    (Outcome::Incomplete, Some(why.to_owned()))
}

fn judge_reply(expects: Expectation, reply: &Reply, accepts_valid: bool) -> Judgement {
    use Expectation::{Accepted, Either, NoEffect, OneEffect, Refused};
    let status = match reply {
        Reply::Unsent(why) => return incomplete(why),
        Reply::Failed { reason, .. } => {
            let outcome = match reason {
                FailureReason::Timeout => Outcome::Slow,
                FailureReason::ConnectionReset | FailureReason::InvalidAnswer => Outcome::Crashed,
                _ => Outcome::NoAnswer,
            };
            return (outcome, None);
        }
        Reply::Answered { status, .. } => *status,
    };
    match (expects, status) {
        (_, 429) => incomplete("429 proves nothing; raise the limit of requests and run the probe again"),
        (Refused, 200..=299) => (Outcome::AcceptedForged, None),
        (Accepted | OneEffect | Either, 200..=299) | (NoEffect, 200..=499 | 501) => (Outcome::Pass, None),
        (_, 300..=399) => (Outcome::Redirected, None),
        (Accepted | OneEffect, 400..=499) => (Outcome::RefusedValid, None),
        (Refused | Either, 400..=499) if accepts_valid => (Outcome::Pass, None),
        (Refused | Either, 400..=499) => incomplete("the valid delivery was not accepted either"),
        _ => (Outcome::Crashed, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> Reply {
        Reply::Answered { status, location: None, text: String::new() }
    }

    fn outcome(expects: Expectation, replies: &[Reply]) -> Outcome {
        judge(expects, replies, true).0
    }

    #[test]
    fn an_answer_is_judged_by_what_was_expected() {
        use Outcome::{AcceptedForged, Crashed, Incomplete, Pass, Redirected, RefusedValid};
        for (status, expected) in [
            (200, [Pass, AcceptedForged, Pass, Incomplete, Incomplete]),
            (302, [Redirected, Redirected, Redirected, Redirected, Pass]),
            (401, [RefusedValid, Pass, Pass, RefusedValid, Pass]),
            (429, [Incomplete; 5]),
            (500, [Crashed; 5]),
            (501, [Crashed, Crashed, Crashed, Crashed, Pass]),
            (101, [Crashed; 5]),
        ] {
            assert_eq!(Expectation::ALL.map(|expects| outcome(expects, &[answered(status)])), expected, "{status}");
        }
        let refused = |expects| judge(expects, &[answered(401)], false).0;
        assert_eq!(Expectation::ALL.map(refused), [RefusedValid, Incomplete, Incomplete, RefusedValid, Pass]);
    }

    #[test]
    fn no_answer_is_judged_by_its_cause_and_the_worst_reply_counts() {
        for (reason, expected) in [
            (FailureReason::Timeout, Outcome::Slow),
            (FailureReason::ConnectionReset, Outcome::Crashed),
            (FailureReason::InvalidAnswer, Outcome::Crashed),
            (FailureReason::ConnectionRefused, Outcome::NoAnswer),
        ] {
            let reply = Reply::Failed { reason, detail: String::new() };
            assert_eq!(outcome(Expectation::Refused, &[reply]), expected, "{reason:?}");
        }
        let unsent = Reply::Unsent("the time is up".into());
        assert_eq!(outcome(Expectation::Refused, std::slice::from_ref(&unsent)), Outcome::Incomplete);
        assert_eq!(outcome(Expectation::Accepted, &[unsent, answered(500)]), Outcome::Crashed);
        assert_eq!(outcome(Expectation::Accepted, &[answered(200), answered(409)]), Outcome::RefusedValid);
    }
}
