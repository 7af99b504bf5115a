//! Which call comes next: a table of steps in their order, each with when it is made in view of the answers so far, and with the
//! status that the contract promises. What is refused comes first, then one subscription, the quota last. Pure: a call log in, a call out.

use jiff::Timestamp;

use super::call_log::{CallKey, CallLog, Caller, Exchange};
use super::infer::{TIMESTAMPS, names_url, timed, timestamps};
use super::promises::{HELLO, STATUS, SUBSCRIBE};
use super::quota;
use crate::contract::clauses;

pub(super) struct Step {
    name: &'static str,
    method: &'static str,
    /// `$long` stands for `long` bytes in target and body, `$url` and `$secret` for the subscription's, `$list` for a long list.
    target: &'static str,
    body: &'static str,
    long: usize,
    key: CallKey,
    headers: &'static [(&'static str, &'static str)],
    /// True if it is made again after this many times, as far as the answers so far show.
    is_due: fn(&CallLog, usize) -> bool,
    pub(super) promise: Option<StatusPromise>,
    /// Its description, if its status is worth reporting in addition to the settings.
    pub(super) about: &'static str,
}

/// The status that the contract promises, and the clause.
pub(super) type StatusPromise = (u16, &'static str);

const MAX_SUBSCRIPTIONS: usize = 3;
/// Timestamps of this many calls may repeat another.
const MAX_ALIKE: usize = 3;
const SUBSCRIPTION: &str = r#"{"url":"$url","events":["workflow.completed"]}"#;
const LONG_BODY: &str = r#"{"url":"","events":[],"description":"$long"}"#;
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const CODED: &[(&str, &str)] = &[("content-type", "application/json"), ("content-encoding", "gzip")];

const GREETING: StatusPromise = (200, clauses::HELLO);
const NO_KEY: StatusPromise = (401, clauses::STATUS_401);
const INVALID: StatusPromise = (422, clauses::STATUS_422);
const REFUSED: StatusPromise = (422, clauses::SUBSCRIBE_422);
const VALID_KEY: StatusPromise = (200, clauses::STATUS_200);
const SUBSCRIBED: StatusPromise = (200, clauses::SUBSCRIBE_200);

const fn get(name: &'static str, target: &'static str, key: CallKey) -> Step {
    let is_due = |_: &CallLog, made| made == 0;
    Step { name, method: "GET", target, body: "", long: 0, key, headers: &[], is_due, promise: None, about: "" }
}

const fn post(name: &'static str, body: &'static str) -> Step {
    Step { method: "POST", headers: JSON, body, ..get(name, SUBSCRIBE, CallKey::Given) }
}

impl Step {
    const fn promised(self, promise: StatusPromise) -> Self {
        Self { promise: Some(promise), ..self }
    }

    const fn due(self, is_due: fn(&CallLog, usize) -> bool) -> Self {
        Self { is_due, ..self }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

#[rustfmt::skip]
const STEPS: &[Step] = &[
    get("hello", HELLO, CallKey::None).due(|_, made| made < 2).promised(GREETING),
    get("no-key", STATUS, CallKey::None).promised(NO_KEY),
    get("other-scheme", STATUS, CallKey::OtherScheme).promised(NO_KEY),
    get("unknown-path", "/v1/wrs-calibrate", CallKey::None).about("an unknown path without a key"),
    Step { target: HELLO, key: CallKey::None, ..post("wrong-method", "") }.about("POST /v1/hello"),
    Step { long: 8_300, ..get("long-target", "/v1/system/status?wrs_calibrate=$long", CallKey::None) }.about("a target of 8,300 bytes"),
    // From here on the key is sent.
    get("altered", STATUS, CallKey::Altered(0)).due(|call_log, _| next_altered(call_log).is_some()),
    get("unknown-path-2", "/v1/wrs-calibrate-2", CallKey::Given).about("an unknown path with the key"),
    get("wrong-method-2", SUBSCRIBE, CallKey::Given).about("GET /v1/events/subscribe"),
    get("status", STATUS, CallKey::Given).promised(VALID_KEY),
    get("bad-boolean", "/v1/system/status?include_checks=wrs", CallKey::Given).promised(INVALID),
    get("number-boolean", "/v1/system/status?include_checks=1", CallKey::Given),
    get("unknown-parameter", "/v1/system/status?wrs_calibrate=1", CallKey::Given),
    post("malformed", r#"{"url":"#),
    post("no-events", r#"{"url":"$url","events":[]}"#).promised(REFUSED),
    post("unknown-field", r#"{"url":"$url","events":[],"wrs_calibrate":1}"#).promised(REFUSED),
    post("http-url", r#"{"url":"http://wrs-calibrate.invalid/","events":[]}"#).promised(REFUSED),
    post("ftp-url", r#"{"url":"ftp://wrs-calibrate.invalid/","events":[]}"#).promised(REFUSED),
    post("unknown-event", r#"{"url":"$url","events":["wrs.calibrate"]}"#).promised(REFUSED),
    post("long-list", r#"{"url":"ftp://wrs-calibrate.invalid/","events":[$list]}"#).promised(REFUSED)
        .about("a list of 1,000 event types and a wrong URL")
        // A service that does not check URLs would subscribe this one.
        .due(|call_log, made| made == 0 && names_url(call_log) == Ok(true)),
    Step { long: 1_100_000, ..post("long-body", LONG_BODY) }.about("a body of 1,100,000 bytes"),
    Step { long: 70_000, ..post("shorter-body", LONG_BODY) }.about("a body of 70,000 bytes")
        .due(|call_log, made| made == 0 && call_log.status_of("long-body") != 422),
    Step { headers: CODED, ..post("coded", r#"{"url":"","events":[]}"#) }
        .about("a body with Content-Encoding gzip"),
    get("checks", "/v1/system/status?include_checks=true", CallKey::Given).due(|_, made| made < 2).promised(VALID_KEY),
    get("workflows", "/v1/workflows", CallKey::Given).about("GET /v1/workflows"),
    // The one side effect. A service that ignores the content type has subscribed after the first of them.
    Step { headers: &[("content-type", "text/plain")], ..post("subscribe-text", SUBSCRIPTION) }
        .due(|call_log, made| made == 0 && call_log.subscribes),
    post("subscribe", SUBSCRIPTION).promised(SUBSCRIBED)
        .due(|call_log, made| made == 0 && call_log.subscribes && call_log.status_of("subscribe-text") != 200),
    post("subscribe-again", r#"{"url":"$url","events":["workflow.completed"],"secret":"$secret"}"#).promised(SUBSCRIBED)
        .due(|call_log, made| made == 0 && ["subscribe", "subscribe-text"].map(|name| call_log.status_of(name)).contains(&200)),
    // Each may show one more timestamp; if several were alike, the calls are too fast for that.
    get("status", STATUS, CallKey::Given).due(|call_log, _| {
        let different = timestamps(call_log).len();
        let alike = timed(call_log).count() - different;
        different < TIMESTAMPS && alike < MAX_ALIKE && call_log.status_of("status") == 200
    }),
    get("exhaust", STATUS, CallKey::Given).due(|call_log, _| {
        let calls_left = call_log.max_calls.saturating_sub(call_log.calls.len());
        call_log.exhausts && quota::rest(call_log).unwrap_or_default() < calls_left
    }),
];

pub(super) fn step(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// How much of the key the next altered one has: nothing; all but its end; and, if that is valid, a search for the part that decides.
fn next_altered(call_log: &CallLog) -> Option<usize> {
    let (invalid, valid) = call_log.prefix_bounds();
    match call_log.count("altered") {
        0 => Some(0),
        1 => (valid > 0).then(|| call_log.key_length - 1),
        _ => (valid < call_log.key_length && valid > invalid + 1).then(|| usize::midpoint(invalid, valid)),
    }
}

/// The next call, before it is made; `None` if the calibration is over.
pub fn next(call_log: &CallLog, caller: &Caller) -> Option<Exchange> {
    if call_log.stop().is_some() {
        return None;
    }
    // Of a service that checks little, calls that should be refused may have subscribed something.
    let posted = |call: &&Exchange| call.method == "POST" && call.target == SUBSCRIBE && call.status() / 100 == 2;
    let may_subscribe = call_log.answered().filter(posted).count() < MAX_SUBSCRIPTIONS;
    let may_follow = |step: &&Step| may_subscribe || step.method != "POST" || step.target != SUBSCRIBE;
    let mut steps = STEPS.iter().filter(may_follow);
    let step = steps.find(|step| (step.is_due)(call_log, call_log.count(step.name)))?;
    let text = |pattern: &str| {
        let text = pattern.replace("$url", &caller.url).replace("$secret", &caller.secret);
        text.replace("$long", &"x".repeat(step.long)).replace("$list", &[r#""workflow.completed""#; 1_000].join(","))
    };
    Some(Exchange {
        number: call_log.calls.len() + 1,
        name: step.name.to_owned(),
        method: step.method.to_owned(),
        target: text(step.target),
        key: match step.key {
            CallKey::Altered(_) => CallKey::Altered(next_altered(call_log)?),
            key => key,
        },
        headers: step.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        body: text(step.body),
        at: Timestamp::UNIX_EPOCH,
        took_ms: 0,
        answer: None,
        failed: None,
    })
}
