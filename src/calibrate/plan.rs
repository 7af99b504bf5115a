//! Which call comes next: a table of steps in their order, each with when it is made in view of the answers so far, and with what
//! the contract promises. What is refused comes first, then one subscription, the quota last. Pure: a cassette in, a call out.

use jiff::Timestamp;

use super::cassette::{CallKey, Caller, Cassette, Exchange};
use super::infer::{TIMESTAMPS, timestamps};
use super::quota;

struct Step {
    name: &'static str,
    method: &'static str,
    /// `$long` stands for `long` bytes in target and body, `$url` and `$secret` for what is subscribed, `$list` for a long list.
    target: &'static str,
    body: &'static str,
    long: usize,
    key: CallKey,
    content_type: Option<&'static str>,
    content_encoding: Option<&'static str>,
    /// Whether it is made again after this many times, as far as the answers so far show.
    is_due: fn(&Cassette, usize) -> bool,
    /// The status, and the clause of the contract that promises it.
    promise: Option<(u16, &'static str)>,
}

const HELLO: &str = "/v1/hello";
const STATUS: &str = "/v1/system/status";
const SUBSCRIBE: &str = "/v1/events/subscribe";
const SUBSCRIPTION: &str = r#"{"url":"$url","events":["workflow.completed"]}"#;
const LONG_BODY: &str = r#"{"url":"","events":[],"description":"$long"}"#;

const NO_KEY: &str = "GET /v1/system/status: 401 when the Bearer token is missing or invalid";
const VALID_KEY: &str = "GET /v1/system/status: 200 when the key is valid";
const VALIDATED: &str = "GET /v1/system/status: 422 when query parameters fail validation";
const REFUSED: &str =
    "POST /v1/events/subscribe: 422 for an invalid URL, an empty events list, or an unsupported event type";
const SUBSCRIBED: &str = "POST /v1/events/subscribe: 200 when a subscription is created or updated";

const fn get(name: &'static str, target: &'static str, key: CallKey) -> Step {
    Step {
        name,
        method: "GET",
        target,
        body: "",
        long: 0,
        key,
        content_type: None,
        content_encoding: None,
        is_due: |_, made| made == 0,
        promise: None,
    }
}

const fn post(name: &'static str, body: &'static str) -> Step {
    let content_type = Some("application/json");
    Step { method: "POST", content_type, body, ..get(name, SUBSCRIBE, CallKey::Given) }
}

impl Step {
    const fn promised(self, status: u16, clause: &'static str) -> Self {
        Self { promise: Some((status, clause)), ..self }
    }

    const fn due(self, is_due: fn(&Cassette, usize) -> bool) -> Self {
        Self { is_due, ..self }
    }
}

#[rustfmt::skip]
const STEPS: &[Step] = &[
    get("hello", HELLO, CallKey::None).due(|_, made| made < 2).promised(200, "GET /v1/hello: no Bearer token is needed"),
    get("no-key", STATUS, CallKey::None).promised(401, NO_KEY),
    get("other-scheme", STATUS, CallKey::OtherScheme).promised(401, NO_KEY),
    get("unknown-path", "/v1/wrs-calibrate", CallKey::None),
    Step { target: HELLO, key: CallKey::None, ..post("wrong-method", "") },
    Step { long: 8_300, ..get("long-target", "/v1/system/status?wrs_calibrate=$long", CallKey::None) },
    // From here on the key is sent.
    get("altered", STATUS, CallKey::Altered(0)).due(|cassette, _| next_altered(cassette).is_some()),
    get("unknown-path-2", "/v1/wrs-calibrate-2", CallKey::Given),
    get("wrong-method-2", SUBSCRIBE, CallKey::Given),
    get("status", STATUS, CallKey::Given).promised(200, VALID_KEY),
    get("bad-boolean", "/v1/system/status?include_checks=wrs", CallKey::Given).promised(422, VALIDATED),
    get("number-boolean", "/v1/system/status?include_checks=1", CallKey::Given),
    get("unknown-parameter", "/v1/system/status?wrs_calibrate=1", CallKey::Given),
    post("malformed", r#"{"url":"#),
    post("no-events", r#"{"url":"$url","events":[]}"#).promised(422, REFUSED),
    post("unknown-field", r#"{"url":"$url","events":[],"wrs_calibrate":1}"#).promised(422, REFUSED),
    post("http-url", r#"{"url":"http://wrs-calibrate.invalid/","events":[]}"#).promised(422, REFUSED),
    post("ftp-url", r#"{"url":"ftp://wrs-calibrate.invalid/","events":[]}"#).promised(422, REFUSED),
    post("unknown-event", r#"{"url":"$url","events":["wrs.calibrate"]}"#).promised(422, REFUSED),
    post("long-list", r#"{"url":"ftp://wrs-calibrate.invalid/","events":[$list]}"#).promised(422, REFUSED),
    Step { long: 1_100_000, ..post("long-body", LONG_BODY) },
    Step { long: 70_000, ..post("shorter-body", LONG_BODY) }
        .due(|cassette, made| made == 0 && cassette.status_of("long-body") != 422),
    Step { content_encoding: Some("gzip"), ..post("coded", r#"{"url":"","events":[]}"#) },
    get("checks", "/v1/system/status?include_checks=true", CallKey::Given).due(|_, made| made < 2).promised(200, VALID_KEY),
    get("workflows", "/v1/workflows", CallKey::Given),
    Step { target: "/v1/oauth/token", key: CallKey::None, content_type: None, ..post("token", "") }
        .due(|cassette, made| made == 0 && cassette.status_of("workflows") == 200),
    // The one side effect. A service that ignores the content type has subscribed after the first of them.
    Step { content_type: Some("text/plain"), ..post("subscribe-text", SUBSCRIPTION) }
        .due(|cassette, made| made == 0 && cassette.subscribes),
    post("subscribe", SUBSCRIPTION).promised(200, SUBSCRIBED)
        .due(|cassette, made| made == 0 && cassette.subscribes && cassette.status_of("subscribe-text") != 200),
    post("subscribe-again", r#"{"url":"$url","events":["workflow.completed"],"secret":"$secret"}"#).promised(200, SUBSCRIBED)
        .due(|cassette, made| made == 0 && ["subscribe", "subscribe-text"].map(|name| cassette.status_of(name)).contains(&200)),
    get("status", STATUS, CallKey::Given)
        .due(|cassette, _| timestamps(cassette).len() < TIMESTAMPS && cassette.status_of("status") == 200),
    get("exhaust", STATUS, CallKey::Given).due(|cassette, _| {
        let calls_left = cassette.max_calls.saturating_sub(cassette.calls.len());
        cassette.exhausts && quota::rest(cassette).unwrap_or_default() < calls_left
    }),
];

/// What the contract promises about a call: the status, and the clause.
pub(super) fn promise(name: &str) -> Option<(u16, &'static str)> {
    STEPS.iter().find(|step| step.name == name)?.promise
}

/// How much of the key the next altered one has: nothing; all but its end; and, if that is valid, a search for the part that decides.
fn next_altered(cassette: &Cassette) -> Option<usize> {
    let (invalid, valid) = cassette.prefix_bounds();
    match cassette.count("altered") {
        0 => Some(0),
        1 => (valid > 0).then(|| cassette.key_length - 1),
        _ => (valid < cassette.key_length && valid > invalid + 1).then(|| usize::midpoint(invalid, valid)),
    }
}

/// The next call, before it is made; `None` if the calibration is over.
pub fn next(cassette: &Cassette, caller: &Caller) -> Option<Exchange> {
    if cassette.stop().is_some() {
        return None;
    }
    let step = STEPS.iter().find(|step| (step.is_due)(cassette, cassette.count(step.name)))?;
    let text = |pattern: &str| {
        let text = pattern.replace("$url", &caller.url).replace("$secret", &caller.secret);
        text.replace("$long", &"x".repeat(step.long)).replace("$list", &[r#""workflow.completed""#; 1_000].join(","))
    };
    let body = text(step.body);
    Some(Exchange {
        number: cassette.calls.len() + 1,
        name: step.name.to_owned(),
        method: step.method.to_owned(),
        target: text(step.target),
        key: match step.key {
            CallKey::Altered(_) => CallKey::Altered(next_altered(cassette)?),
            key => key,
        },
        content_type: step.content_type.map(str::to_owned),
        content_encoding: step.content_encoding.map(str::to_owned),
        body_bytes: body.len(),
        body,
        at: Timestamp::UNIX_EPOCH,
        took_ms: 0,
        answer: None,
        failed: None,
    })
}
