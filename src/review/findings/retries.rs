//! Rules about requests that repeat what an answer has settled: after a 429, a 401 and a 422.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use super::check::{Check, Confidence, Judged, ON_ONE_CONNECTION, Rule, Severity, Sighting};
use super::traffic::{Request, Traffic};

pub(super) const CHECKS: [Check; 4] = [
    Check {
        code: "no-back-off",
        title: "A request follows a 429 at once",
        why: "A client that does not wait keeps itself throttled.",
        clause: "Limits: a 429 is retryable, and clients back off before retrying",
        severity: Severity::Medium,
        confidence: ON_ONE_CONNECTION,
        remedy: "after a 429 wait as long as Retry-After says, or else with growing pauses, before the key is used again",
        cwe: None,
        exercise: "let requests meet a 429: --scenario rate-limit-burst",
        rule: Rule::All(no_back_off),
    },
    Check {
        code: "before-retry-after",
        title: "A request comes before the time in Retry-After",
        why: "It is refused again, and some services then make the pause longer.",
        clause: "Limits: clients back off before retrying; RFC 9110 section 10.2.3: Retry-After",
        severity: Severity::Medium,
        confidence: ON_ONE_CONNECTION,
        remedy: "read Retry-After, and wait at least that long",
        cwe: None,
        exercise: "let requests meet a 429 with Retry-After: --set rate_limit.retry_after=seconds --scenario rate-limit-burst",
        rule: Rule::All(before_retry_after),
    },
    Check {
        code: "loop-after-401",
        title: "A refused key is sent again and again",
        why: "Repeating the request does not help, and may get the key locked.",
        clause: "Authentication 4: 401 means that the token is missing or invalid",
        severity: Severity::Medium,
        confidence: "certain if the requests came on one connection, likely otherwise",
        remedy: "treat 401 as final until the key has been changed",
        cwe: Some(834),
        exercise: "send a request with a wrong key",
        rule: Rule::All(loop_after_401),
    },
    Check {
        code: "invalid-repeated",
        title: "An invalid request is repeated without a change",
        why: "A 422 says that the request will never succeed as it is.",
        clause: "Endpoints: 422 means that validation failed",
        severity: Severity::Medium,
        confidence: ON_ONE_CONNECTION,
        remedy: "do not retry a 422; report its message",
        cwe: None,
        exercise: "let a request meet a 422: --scenario always-422, or send a wrong value",
        rule: Rule::All(repeated_422),
    },
];

/// A request that follows an answer faster than this has not waited at all.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How early the clocks and timers of a client may be.
const EARLY: Duration = Duration::from_millis(10);
/// How many refusals in a row make a loop.
const LOOP: usize = 3;
/// Refusals further apart are not of one loop.
const SAME_LOOP: Duration = Duration::from_secs(2);

/// Judges each request with this status by the next one that is alike, and began after its answer was written. Only those that are
/// alike are compared: comparing each of ten thousand with each would take a minute.
fn after_each<'a, K: Hash + Eq>(
    traffic: &Traffic<'a>,
    status: u16,
    alike: impl Fn(Request<'a>) -> K,
    judge: impl Fn(Request<'a>, Request<'a>, Duration) -> Option<String>,
) -> Judged {
    let mut groups: HashMap<K, Vec<(usize, Request<'a>)>> = HashMap::new();
    for (at, request) in traffic.requests().enumerate() {
        groups.entry(alike(request)).or_default().push((at, request));
    }
    let (mut judged, mut found) = (0, Vec::new());
    for group in groups.values() {
        for (place, (_, answered)) in group.iter().enumerate() {
            if answered.0.status != status {
                continue;
            }
            judged += 1;
            let next = group[place + 1..].iter().find_map(|(at, next)| Some((*at, *next, next.after(*answered)?)));
            let Some((at, next, (waited, same_connection))) = next else { continue };
            // Another connection, or another request, may belong to a part of the client that has not seen the answer.
            let is_certain = same_connection && next.line() == answered.line();
            let confidence = if is_certain { Confidence::Certain } else { Confidence::Likely };
            found.extend(
                judge(*answered, next, waited).map(|detail| (at, Sighting::new(confidence, next.id(), detail))),
            );
        }
    }
    found.sort_by_key(|(at, _)| *at);
    Judged { judged, found: found.into_iter().map(|(_, sighting)| sighting).collect() }
}

fn no_back_off(traffic: &Traffic<'_>) -> Judged {
    if !traffic.clock_runs {
        return Judged::default();
    }
    after_each(traffic, 429, Request::credentials, |refused, next, waited| {
        (waited < AT_ONCE)
            .then(|| format!("{} came {} ms after the 429 of {}", next.line(), waited.as_millis(), refused.id()))
    })
}

fn before_retry_after(traffic: &Traffic<'_>) -> Judged {
    if !traffic.clock_runs {
        return Judged::default();
    }
    let mut judged = after_each(traffic, 429, Request::credentials, |refused, next, waited| {
        let asked = refused.retry_after()?;
        (waited + EARLY < asked).then(|| {
            let (waited, asked) = (waited.as_secs_f64(), asked.as_secs());
            format!("{} came {waited:.1} s after {}, which asked for {asked} s", next.line(), refused.id())
        })
    });
    judged.judged =
        traffic.requests().filter(|request| request.0.status == 429 && request.retry_after().is_some()).count();
    judged
}

fn loop_after_401(traffic: &Traffic<'_>) -> Judged {
    let requests: Vec<Request<'_>> = traffic.requests().filter(|request| request.0.status == 401).collect();
    let mut judged = Judged { judged: requests.len(), found: Vec::new() };
    let mut row = 1;
    for (at, request) in requests.iter().enumerate().skip(1) {
        let before = requests[at - 1];
        let follows = request.parts() == before.parts()
            && request.after(before).is_some_and(|(waited, _)| waited < SAME_LOOP || !traffic.clock_runs);
        row = if follows { row + 1 } else { 1 };
        if row == LOOP {
            let same = requests[at + 1 - LOOP..=at]
                .windows(2)
                .all(|pair| pair[1].0.arrival.connection == pair[0].0.arrival.connection);
            let detail =
                format!("{} was sent {LOOP} times in a row with a key that was refused each time", request.line());
            let confidence = if same { Confidence::Certain } else { Confidence::Likely };
            judged.found.push(Sighting::new(confidence, request.id(), detail));
        }
    }
    judged
}

fn repeated_422(traffic: &Traffic<'_>) -> Judged {
    after_each(traffic, 422, Request::parts, |refused, next, _| {
        Some(format!("{} repeats {}, which was refused as invalid, without a change", next.line(), refused.id()))
    })
}
