//! Rules about requests that repeat what an answer has settled: after a 429, a 401 and a 422; and about polling.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use super::check::{Check, Confidence, FindingRule, Judged, ON_ONE_CONNECTION, Occurrence, Severity};
use super::traffic::{RecordedRequest, Traffic};
use crate::advice::Advice;
use crate::contract::clauses;
use crate::contract::routes::Operation;

pub(super) const CHECKS: [Check; 6] = [
    Check::new("no-back-off", Severity::Medium, "Requests follow each 429 at once")
        .why("A client that does not wait keeps itself throttled.")
        .clause(clauses::RETRYABLE)
        .remedy("after a 429 wait as long as Retry-After says, or else with growing pauses, before the key is used again")
        .confidence("found if three requests in a row follow refusals, each within 100 ms and without growing pauses; certain if they are \
                     alike, on one connection and with pauses alike, and no longer pauses follow, otherwise likely")
        .exercise("let requests meet a 429").advice(burst)
        .rule(FindingRule::All(no_back_off)),
    Check::new("quick-retry", Severity::Info, "A request follows a 429 within 100 ms")
        .why("Clients that back off often begin so. Without growing pauses it would be no-back-off.")
        .clause(clauses::RETRYABLE)
        .remedy("also wait before the first retry")
        .confidence("always likely")
        .exercise("let requests meet a 429").advice(burst)
        .rule(FindingRule::All(quick_retry)),
    Check::new("polls-while-subscribed", Severity::Info, "A subscribed client polls the status ten times a second")
        .why("Its subscription reports changes; polling only uses up the quota.")
        .clause("Limits: requests count towards the quota of the key")
        .remedy("wait for webhooks, or check the status less often")
        .exercise("subscribe to events, then check the status")
        .rule(FindingRule::All(polls)),
    Check::new("before-retry-after", Severity::Medium, "A request comes before the time in Retry-After")
        .why("It is refused again, and some services then make the pause longer.")
        .clause("Limits: clients back off before retrying; RFC 9110 section 10.2.3: Retry-After")
        .remedy("read Retry-After, and wait at least that long")
        .confidence(ON_ONE_CONNECTION)
        .exercise("let requests meet a 429 with Retry-After")
        .advice(|| [vec![Advice::set("rate_limit.retry_after", "seconds")], burst()].concat())
        .rule(FindingRule::All(before_retry_after)),
    Check::new("loop-after-401", Severity::Medium, "A request is repeated after a 401 without another key")
        .why("Repeating the request does not help, and may get the key locked.")
        .clause("Authentication 4: 401 means that the token is missing or invalid")
        .remedy("treat 401 as final until the key has been changed")
        .confidence("certain if the requests came on one connection, likely otherwise")
        .cwe(834)
        .exercise("send a request with a wrong key")
        .rule(FindingRule::All(loop_after_401)),
    Check::new("invalid-repeated", Severity::Medium, "An invalid request is repeated without a change")
        .why("A 422 says that the request will never succeed as it is.")
        .clause("Endpoints: 422 means that validation failed")
        .remedy("do not retry a 422; report its message")
        .confidence(ON_ONE_CONNECTION)
        .exercise("let a request meet a 422: send a wrong value, or play a scenario")
        .advice(|| vec![Advice::use_scenario("always-422")])
        .rule(FindingRule::All(repeated_422)),
];

fn burst() -> Vec<Advice> {
    vec![Advice::use_scenario("rate-limit-burst")]
}

/// How many requests follow refusals at once where a client does not back off.
const SERIES: usize = 3;
/// By how much the last pause of a series is longer than its first where a client backs off.
const GROWTH: f64 = 1.5;
/// So many status checks within a second are polling.
const POLLING: usize = 10;
/// Pauses below this differ by chance; no client that backs off begins with them.
const CHANCE: Duration = Duration::from_millis(10);
/// A request that follows an answer faster than this has not waited at all.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How early the clocks and timers of a client may be.
const EARLY: Duration = Duration::from_millis(10);
/// How many refusals in a row make a loop.
const LOOP: usize = 3;
/// Refusals further apart are not of one loop.
const SAME_LOOP: Duration = Duration::from_secs(2);

/// Requests that are alike, with their places in the traffic, oldest first.
type Group<'a> = Vec<(usize, RecordedRequest<'a>)>;

fn groups<'a, K: Ord>(traffic: &Traffic<'a>, alike: impl Fn(RecordedRequest<'a>) -> K) -> BTreeMap<K, Group<'a>> {
    let mut groups: BTreeMap<K, Group<'a>> = BTreeMap::new();
    for (at, request) in traffic.requests().enumerate() {
        groups.entry(alike(request)).or_default().push((at, request));
    }
    groups
}

/// A request that follows a refusal.
#[derive(Clone, Copy)]
struct FollowUp<'a> {
    /// Its place in the traffic.
    at: usize,
    refused: RecordedRequest<'a>,
    next: RecordedRequest<'a>,
    waited: Duration,
    same_connection: bool,
}

impl FollowUp<'_> {
    /// Another connection, or another request, may belong to a part of the client that has not seen the answer.
    fn is_certain(&self) -> bool {
        self.same_connection && self.next.line() == self.refused.line()
    }
}

/// The next request of a group that began after this one was answered, and its place in the group.
fn next_of<'a>(group: &Group<'a>, place: usize) -> Option<(usize, FollowUp<'a>)> {
    let (_, refused) = group[place];
    group.iter().enumerate().skip(place + 1).find_map(|(place, (at, next))| {
        let (waited, same_connection) = next.after(refused)?;
        Some((place, FollowUp { at: *at, refused, next: *next, waited, same_connection }))
    })
}

/// Judges each request with this status by the next one that is alike. Only those that are alike are compared: comparing each of ten
/// thousand with each would last a minute.
fn after_each<'a, K: Ord>(
    traffic: &Traffic<'a>,
    status: u16,
    alike: impl Fn(RecordedRequest<'a>) -> K,
    judge: impl Fn(&FollowUp<'a>) -> Option<String>,
) -> Judged {
    let (mut judged, mut found) = (0, Vec::new());
    for group in groups(traffic, alike).values() {
        for place in (0..group.len()).filter(|place| group[*place].1.0.status == status) {
            judged += 1;
            found.extend(next_of(group, place).and_then(|(_, retry)| {
                let confidence = if retry.is_certain() { Confidence::Certain } else { Confidence::Likely };
                Some((retry.at, Occurrence::new(confidence, retry.next.id(), judge(&retry)?)))
            }));
        }
    }
    Judged { subjects: judged, found: in_order(found), without_time: false }
}

fn in_order(mut found: Vec<(usize, Occurrence)>) -> Vec<Occurrence> {
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, sighting)| sighting).collect()
}

/// Chains of requests with the same credentials, each of which follows the 429 of the one before.
fn chains<'a>(traffic: &Traffic<'a>) -> Vec<Vec<FollowUp<'a>>> {
    let mut chains = Vec::new();
    for group in groups(traffic, RecordedRequest::credentials).values() {
        let (mut chain, mut place) = (Vec::new(), 0);
        while place < group.len() {
            let next = if group[place].1.0.status == 429 { next_of(group, place) } else { None };
            if let Some((next, retry)) = next {
                chain.push(retry);
                place = next;
            } else {
                chains.push(std::mem::take(&mut chain));
                place += 1;
            }
        }
    }
    chains
}

/// True if the retries of a series come at once, with pauses that do not grow.
fn is_hammering(pauses: &[Duration]) -> bool {
    // A busy machine stretches single pauses, so only the ends of the series are compared.
    let grows = pauses[pauses.len() - 1] >= pauses[0].mul_f64(GROWTH).max(CHANCE);
    pauses.iter().all(|pause| *pause < AT_ONCE) && !grows
}

/// True if the whole chain is of one kind: without longer pauses later, and without the differences of pauses drawn at random.
fn is_steady(chain: &[Duration], series: &[Duration]) -> bool {
    let later = chain.iter().filter(|pause| **pause >= AT_ONCE).count();
    let (shortest, longest) = (series.iter().min(), series.iter().max());
    let is_alike =
        longest.zip(shortest).is_some_and(|(longest, shortest)| *longest <= (2 * *shortest).max(AT_ONCE / 2));
    later * 10 <= chain.len() && is_alike
}

fn pauses(series: &[FollowUp<'_>]) -> Vec<Duration> {
    series.iter().map(|retry| retry.waited).collect()
}

/// Findings about pauses while the clock does not run: none, whether or not there were requests.
fn without_time(judged: usize) -> Judged {
    Judged { without_time: judged > 0, ..Judged::default() }
}

/// The retries after a 429, judged by the chain that each is part of and its place in it.
fn retries<'a>(traffic: &Traffic<'a>, judge: impl Fn(&[FollowUp<'a>], usize) -> Option<Occurrence>) -> Judged {
    let judged = traffic.requests().filter(|request| request.0.status == 429).count();
    if !traffic.clock_runs {
        return without_time(judged);
    }
    let chains = chains(traffic);
    let places = chains.iter().flat_map(|chain| (0..chain.len()).map(move |place| (chain, place)));
    let found = places.filter_map(|(chain, place)| Some((chain[place].at, judge(chain, place)?))).collect();
    Judged { subjects: judged, found: in_order(found), without_time: false }
}

fn no_back_off(traffic: &Traffic<'_>) -> Judged {
    retries(traffic, |chain, place| {
        let series = &chain[(place + 1).checked_sub(SERIES)?..=place];
        let last = &series[SERIES - 1];
        is_hammering(&pauses(series)).then(|| {
            let certain = series.iter().all(FollowUp::is_certain) && is_steady(&pauses(chain), &pauses(series));
            let after: Vec<String> = series.iter().map(|retry| retry.waited.as_millis().to_string()).collect();
            let detail =
                format!("{} followed {SERIES} refusals in a row after {} ms", last.next.line(), after.join(", "));
            Occurrence::new(if certain { Confidence::Certain } else { Confidence::Likely }, last.next.id(), detail)
        })
    })
}

fn quick_retry(traffic: &Traffic<'_>) -> Judged {
    retries(traffic, |chain, place| {
        let retry = &chain[place];
        let hammers = ((place + 1).saturating_sub(SERIES)..=place)
            .filter_map(|from| chain.get(from..from + SERIES))
            .any(|series| is_hammering(&pauses(series)));
        (retry.waited < AT_ONCE && !hammers).then(|| {
            let (line, waited) = (retry.next.line(), retry.waited.as_millis());
            let detail = format!("{line} came {waited} ms after the 429 of {}", retry.refused.id());
            Occurrence::likely(retry.next.id(), detail)
        })
    })
}

fn polls(traffic: &Traffic<'_>) -> Judged {
    let mut judged = Judged::default();
    for group in groups(traffic, RecordedRequest::credentials).values() {
        let subscribed = |(_, request): &&(usize, RecordedRequest<'_>)| {
            request.0.operation == Some(Operation::EventsSubscribe) && request.0.status < 300
        };
        let Some((from, _)) = group.iter().find(subscribed) else { continue };
        let checks: Vec<RecordedRequest<'_>> = group
            .iter()
            .filter(|(at, request)| at > from && request.0.operation == Some(Operation::SystemStatus))
            .map(|(_, request)| *request)
            .collect();
        judged.subjects += checks.len();
        let within = |window: &&[RecordedRequest<'_>]| {
            let begun = |request: &RecordedRequest<'_>| request.0.arrival.first_byte;
            begun(&window[0])
                .zip(begun(&window[POLLING - 1]))
                .is_some_and(|(first, last)| last.duration_since(first) <= SignedDuration::from_secs(1))
        };
        judged.found.extend(checks.windows(POLLING).find(within).map(|window| {
            let detail = format!("{POLLING} status checks within a second, with an active subscription");
            Occurrence::certain(window[POLLING - 1].id(), detail)
        }));
    }
    if traffic.clock_runs { judged } else { without_time(judged.subjects) }
}

fn before_retry_after(traffic: &Traffic<'_>) -> Judged {
    let asking =
        traffic.requests().filter(|request| request.0.status == 429 && request.retry_after().is_some()).count();
    if !traffic.clock_runs {
        return without_time(asking);
    }
    let mut judged =
        after_each(traffic, 429, RecordedRequest::credentials, |FollowUp { refused, next, waited, .. }| {
            let asked = refused.retry_after()?;
            (*waited + EARLY < asked).then(|| {
                let (waited, asked) = (waited.as_secs_f64(), asked.as_secs_f64());
                format!("{} came {waited:.1} s after {}, which asked for {asked:.1} s", next.line(), refused.id())
            })
        });
    judged.subjects = asking;
    judged
}

fn loop_after_401(traffic: &Traffic<'_>) -> Judged {
    let requests: Vec<RecordedRequest<'_>> = traffic.requests().filter(|request| request.0.status == 401).collect();
    let mut judged = Judged { subjects: requests.len(), ..Judged::default() };
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
            let key =
                if request.credentials().is_some() { "with a key that was refused each time" } else { "without a key" };
            let detail = format!("{} was sent {LOOP} times in a row {key}", request.line());
            let confidence = if same { Confidence::Certain } else { Confidence::Likely };
            judged.found.push(Occurrence::new(confidence, request.id(), detail));
        }
    }
    judged
}

fn repeated_422(traffic: &Traffic<'_>) -> Judged {
    after_each(traffic, 422, RecordedRequest::parts, |FollowUp { refused, next, .. }| {
        // A 429 that is retried at once says so itself.
        let text =
            || format!("{} repeats {}, which was refused as invalid, without a change", next.line(), refused.id());
        (next.0.status != 429).then(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_drawn_at_random_are_no_certain_hammering() {
        let steady = |chain: &[u64]| {
            let pauses: Vec<Duration> = chain.iter().copied().map(Duration::from_millis).collect();
            is_steady(&pauses, &pauses[..SERIES])
        };
        assert!(steady(&[1, 0, 2]) && steady(&[24, 0, 2]) && steady(&[90, 60, 80]), "at once, or after a fixed pause");
        // Full jitter: each pause is drawn from a range that doubles.
        assert!(!steady(&[31, 87, 11]) && !steady(&[94, 96, 40]) && !steady(&[48, 1, 35, 260, 700]));
    }

    #[test]
    fn a_client_that_begins_quickly_and_slows_down_backs_off() {
        let series = |pauses: [f64; 3]| is_hammering(&pauses.map(|ms| Duration::from_secs_f64(ms / 1000.0)));
        for hammering in [[0.2, 0.1, 0.2], [1.0, 1.1, 1.2], [90.0, 90.0, 90.0], [50.0, 20.0, 10.0], [5.0, 50.0, 6.0]] {
            assert!(series(hammering), "{hammering:?}");
        }
        for by_chance in [[1.0, 2.0, 2.0], [0.3, 1.1, 4.0], [3.0, 1.0, 9.0]] {
            assert!(series(by_chance), "{by_chance:?}");
        }
        // urllib3, tenacity and axios-retry, a Java client; one that waits.
        for backing_off in [[0.0, 200.0, 400.0], [20.0, 40.0, 80.0], [37.0, 35.0, 65.0], [100.0, 100.0, 100.0]] {
            assert!(!series(backing_off), "{backing_off:?}");
        }
    }
}
