//! Judges what came back for a case. Pure: replies and evidence go in, an outcome comes out.

use serde::Serialize;

use super::case::Expectation;
use super::reply::ProbeReply;
use crate::contract::named::named;
use crate::workspace::FailureReason;

named! {
    /// How a case ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        /// As expected.
        Pass = "pass",
        /// It proves nothing, either way.
        Incomplete = "incomplete",
        /// A forged delivery was accepted.
        AcceptedForged = "accepted-forged",
        /// A genuine delivery was refused.
        RefusedValid = "refused-valid",
        /// There was no answer in time.
        Slow = "slow",
        /// An answer of 5xx, or a connection that broke before there was an answer.
        Crashed = "crashed",
        /// An answer of 3xx, which no sender follows.
        Redirected = "redirected",
        /// There was no connection, although the receiver had answered before.
        NoAnswer = "no-answer",
        /// A delivery that must have one effect, or none, had more.
        RepeatedEffect = "repeated-effect",
    }
}

impl Outcome {
    /// Whether it is a fault of the receiver.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Pass | Self::Incomplete)
    }
}

/// What a case is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    /// What came back for each request.
    pub(super) replies: &'a [ProbeReply],
    /// Whether the receiver accepted the valid delivery. If it did not, what it refuses proves nothing.
    pub(super) accepts_valid: bool,
    /// The effect before the first request, then after each; `None` if nobody can tell.
    pub(super) effects: Option<&'a [String]>,
}

/// An outcome, and why if it is not obvious.
pub(super) type Judgement = (Outcome, Option<String>);

/// Judges a case.
pub(super) fn judge(expects: Expectation, evidence: &Evidence<'_>) -> Judgement {
    let judged = evidence.replies.iter().map(|reply| judge_reply(expects, reply, evidence.accepts_valid));
    let worst = judged.fold((Outcome::Pass, None), |worst, next| match (worst.0, next.0) {
        (Outcome::Pass, _) => next,
        (Outcome::Incomplete, found) if found.is_failure() => next,
        _ => worst,
    });
    if worst.0 != Outcome::Pass || !expects.needs_evidence() {
        return worst;
    }
    if expects == Expectation::NoEffect && !evidence.replies.iter().any(ProbeReply::is_success) {
        return worst;
    }
    match evidence.effects {
        None => incomplete("2xx proves nothing about its effect; --effect-command CMD can show it"),
        Some(effects) => judge_effects(expects, effects),
    }
}

fn judge_effects(expects: Expectation, effects: &[String]) -> Judgement {
    match (expects, effects) {
        (Expectation::OneEffect, [before, first, second]) => {
            if before == first {
                incomplete("the effect command printed the same before and after the first delivery")
            } else if first == second {
                (Outcome::Pass, None)
            } else {
                (
                    Outcome::RepeatedEffect,
                    Some(format!("the effect was {before}, then {first}, and after the duplicate {second}")),
                )
            }
        }
        (_, [before, after]) if before != after => {
            (Outcome::RepeatedEffect, Some(format!("the effect was {before} and is {after} now")))
        }
        _ => (Outcome::Pass, None),
    }
}

fn incomplete(why: &str) -> Judgement {
    (Outcome::Incomplete, Some(why.to_owned()))
}

fn judge_reply(expects: Expectation, reply: &ProbeReply, accepts_valid: bool) -> Judgement {
    use Expectation::{Accepted, Either, NoEffect, OneEffect, Refused};
    let status = match reply {
        ProbeReply::Unsent(why) => return incomplete(why),
        ProbeReply::Failed { reason, .. } => {
            let outcome = match reason {
                FailureReason::Timeout => Outcome::Slow,
                FailureReason::ConnectionReset | FailureReason::InvalidAnswer => Outcome::Crashed,
                _ => Outcome::NoAnswer,
            };
            return (outcome, None);
        }
        ProbeReply::Answered { status, .. } => *status,
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

    fn outcome(expects: Expectation, replies: &[ProbeReply], effects: Option<&[&str]>) -> Outcome {
        let effects: Option<Vec<String>> = effects.map(|all| all.iter().map(|&text| text.into()).collect());
        judge(expects, &Evidence { replies, accepts_valid: true, effects: effects.as_deref() }).0
    }

    #[test]
    fn an_answer_is_judged_by_what_was_expected() {
        use Outcome::{AcceptedForged, Crashed, Incomplete, Pass, Redirected, RefusedValid};
        let expected = [
            (200, [Pass, AcceptedForged, Pass, Incomplete, Incomplete]),
            (204, [Pass, AcceptedForged, Pass, Incomplete, Incomplete]),
            (302, [Redirected, Redirected, Redirected, Redirected, Pass]),
            (401, [RefusedValid, Pass, Pass, RefusedValid, Pass]),
            (429, [Incomplete; 5]),
            (500, [Crashed; 5]),
            (501, [Crashed, Crashed, Crashed, Crashed, Pass]),
            (101, [Crashed; 5]),
        ];
        for (status, outcomes) in expected {
            let found = Expectation::ALL.map(|expects| outcome(expects, &[ProbeReply::status(status)], None));
            assert_eq!(found, outcomes, "{status}");
        }
    }

    #[test]
    fn no_answer_is_judged_by_its_cause() {
        for (reason, expected) in [
            (FailureReason::Timeout, Outcome::Slow),
            (FailureReason::ConnectionReset, Outcome::Crashed),
            (FailureReason::InvalidAnswer, Outcome::Crashed),
            (FailureReason::ConnectionRefused, Outcome::NoAnswer),
        ] {
            for expects in Expectation::ALL {
                let reply = ProbeReply::Failed { reason, detail: String::new() };
                assert_eq!(outcome(expects, &[reply], None), expected, "{reason:?}");
            }
        }
        let unsent = ProbeReply::Unsent("the time is up".into());
        assert_eq!(outcome(Expectation::Refused, std::slice::from_ref(&unsent), None), Outcome::Incomplete);
        assert_eq!(
            outcome(Expectation::Accepted, &[unsent, ProbeReply::status(500)], None),
            Outcome::Crashed,
            "the worst"
        );
        assert_eq!(
            outcome(Expectation::Accepted, &[ProbeReply::status(200), ProbeReply::status(409)], None),
            Outcome::RefusedValid
        );
    }

    #[test]
    fn who_refuses_everything_proves_nothing_by_refusing_a_forgery() {
        let judged = |expects, status| {
            judge(expects, &Evidence { replies: &[ProbeReply::status(status)], accepts_valid: false, effects: None }).0
        };
        assert_eq!(judged(Expectation::Refused, 401), Outcome::Incomplete);
        assert_eq!(judged(Expectation::Either, 401), Outcome::Incomplete);
        assert_eq!(judged(Expectation::Refused, 200), Outcome::AcceptedForged);
        assert_eq!(judged(Expectation::Accepted, 401), Outcome::RefusedValid);
        assert_eq!(judged(Expectation::NoEffect, 405), Outcome::Pass);
    }

    #[test]
    fn effects_show_what_answers_cannot() {
        use Expectation::{NoEffect, OneEffect};
        let twice = [ProbeReply::status(200), ProbeReply::status(200)];
        for (effects, expected) in [
            (&["0", "1", "1"], Outcome::Pass),
            (&["0", "1", "2"], Outcome::RepeatedEffect),
            (&["0", "0", "0"], Outcome::Incomplete),
            (&["0", "0", "1"], Outcome::Incomplete),
        ] {
            assert_eq!(outcome(OneEffect, &twice, Some(effects)), expected, "{effects:?}");
        }
        let refused = [ProbeReply::status(200), ProbeReply::status(409)];
        assert_eq!(outcome(OneEffect, &refused, Some(&["0", "1", "1"])), Outcome::RefusedValid);
        assert_eq!(outcome(NoEffect, &[ProbeReply::status(200)], Some(&["1", "1"])), Outcome::Pass);
        assert_eq!(outcome(NoEffect, &[ProbeReply::status(200)], Some(&["1", "2"])), Outcome::RepeatedEffect);
        assert_eq!(outcome(NoEffect, &[ProbeReply::status(405)], None), Outcome::Pass);
    }
}
