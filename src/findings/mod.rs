//! Findings: what the emulator knows about a client and its receivers from their traffic alone.
//!
//! [`checks`] has one row for each: its code, the clause of the contract, how bad it is and what to do. A row's function judges the
//! traffic, and says how much of it there was: a rule with nothing to judge proves nothing, so it is listed as not exercised. Reading
//! order: `check`, `traffic`, then the rules by subject, each with its functions.

#![allow(clippy::unnecessary_wraps, reason = "all rules have one signature")]

mod check;
mod receivers;
mod requests;
mod retries;
mod traffic;

pub use check::{Check, Confidence, Severity};
pub(crate) use check::{Finding, Findings, NotExercised, ShownGroup};
use check::{FindingRule, Judged};
use traffic::JudgedRequest;
pub(crate) use traffic::Traffic;

use crate::advice::Advice;

/// Every kind of finding.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let subjects: [&'static [Check]; 5] = [
        &requests::KEY_CHECKS,
        &retries::CHECKS,
        &requests::CONTENT_CHECKS,
        &requests::SECRET_CHECKS,
        &receivers::CHECKS,
    ];
    subjects.into_iter().flatten()
}

/// True if a finding is about where credentials are, and not about refused requests.
pub(crate) fn is_about_credentials(code: &str) -> bool {
    requests::KEY_CHECKS.iter().chain(&requests::SECRET_CHECKS).any(|check| check.code == code)
}

/// Judges the traffic by each check.
pub(crate) fn judge(traffic: &Traffic<'_>) -> Findings {
    let mut results: Vec<(&Check, Judged)> = checks().map(|check| (check, Judged::default())).collect();
    for request in traffic.requests() {
        let subject = JudgedRequest::read(request, traffic.profile);
        for (check, judged) in &mut results {
            if let FindingRule::Request(rule) = check.rule {
                judged.count(rule(&subject));
            }
        }
    }
    let mut findings = Findings {
        rules: results.len(),
        beyond: BEYOND.map(str::to_owned).to_vec(),
        judged_requests: traffic.requests.len(),
        judged_deliveries: traffic.deliveries.len(),
        ..Findings::default()
    };
    for (check, mut judged) in results {
        match check.rule {
            FindingRule::Request(_) => {}
            FindingRule::Delivery(rule) => {
                traffic.deliveries().for_each(|delivery| judged.count(rule(delivery, traffic)));
            }
            FindingRule::All(rule) => judged = rule(traffic),
        }
        if judged.subjects == 0 {
            let (exercise, advice) = if judged.without_time {
                (WITHOUT_TIME, vec![Advice::ResumeClock {}])
            } else {
                (check.exercise, (check.advice)())
            };
            let [code, title, exercise] = [check.code, check.title, exercise].map(str::to_owned);
            findings.not_exercised.push(NotExercised { code, title, exercise, advice });
        }
        findings.data.extend(Confidence::ALL.into_iter().filter_map(|confidence| check.finding(confidence, &judged)));
    }
    findings.data.sort_by_key(|finding| finding.severity);
    findings
}

/// The check with this code.
pub fn check(code: &str) -> Option<&'static Check> {
    checks().find(|check| check.code == code)
}

/// Instead of how to exercise a check whose requests were made, but show nothing.
const WITHOUT_TIME: &str = "such requests were made while the clock stood still, and their pauses cannot be judged: let it run, and make them again";

/// The limits of the review, so that a clean list is not overrated.
const BEYOND: [&str; 5] = [
    "whether a client that gave up after a 429 meant to",
    "whether it branches on the message of an error instead of its code",
    "whether it looks at X-RateLimit-Remaining",
    "how it stores keys and secrets",
    "whether a receiver recognizes an event that it has received before",
];
