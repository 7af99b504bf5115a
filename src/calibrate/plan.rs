//! Which call comes next: a table of steps in their order, each with how often it is made in view of the answers so far, and with what
//! the contract promises. What is refused comes first, then one subscription, the quota last. Pure: a cassette in, a call out.

use super::cassette::{CallKey, Cassette};
use super::infer::{TIMESTAMPS, quota, timestamps};

/// A call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: &'static str,
    pub method: &'static str,
    pub target: String,
    pub key: CallKey,
    pub content_type: Option<&'static str>,
    pub content_encoding: Option<&'static str>,
    pub body: String,
}

/// What the calls need to know beside the cassette.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// The URL that is subscribed.
    pub url: String,
    /// The secret that is supplied once.
    pub secret: String,
}

pub(super) struct Step {
    name: &'static str,
    method: &'static str,
    target: &'static str,
    key: CallKey,
    /// How often it is made, as far as the answers so far show.
    times: fn(&Cassette) -> usize,
    content_type: Option<&'static str>,
    /// The body; `$url` and `$secret` stand for what is subscribed, `$long` for a text that may be too long.
    body: &'static str,
    /// The status, and the clause of the contract that promises it.
    pub(super) promise: Option<(u16, &'static str)>,
}

const HELLO: &str = "/v1/hello";
const STATUS: &str = "/v1/system/status";
const SUBSCRIBE: &str = "/v1/events/subscribe";
const SUBSCRIPTION: &str = r#"{"url":"$url","events":["workflow.completed"]}"#;
/// Bytes of a target and of a body that may be too long, and of a second body if the first is.
const LONG: [(&str, usize); 3] = [("long-target", 8_300), ("long-body", 1_100_000), ("shorter-body", 70_000)];
const LONG_BODY: &str = r#"{"url":"","events":[],"description":"$long"}"#;

const NO_KEY: &str = "GET /v1/system/status: 401 when the Bearer token is missing or invalid";
const VALID_KEY: &str = "GET /v1/system/status: 200 when the key is valid";
const VALIDATED: &str = "GET /v1/system/status: 422 when query parameters fail validation";
const REFUSED: &str =
    "POST /v1/events/subscribe: 422 for an invalid URL, an empty events list, or an unsupported event type";
const SUBSCRIBED: &str = "POST /v1/events/subscribe: 200 when a subscription is created or updated";

const fn get(name: &'static str, target: &'static str, key: CallKey) -> Step {
    Step { name, method: "GET", target, key, times: |_| 1, content_type: None, body: "", promise: None }
}

const fn post(name: &'static str, body: &'static str) -> Step {
    let content_type = Some("application/json");
    Step { method: "POST", content_type, body, ..get(name, SUBSCRIBE, CallKey::Given) }
}

impl Step {
    const fn promised(self, status: u16, clause: &'static str) -> Self {
        Self { promise: Some((status, clause)), ..self }
    }

    const fn times(self, times: fn(&Cassette) -> usize) -> Self {
        Self { times, ..self }
    }
}

#[rustfmt::skip]
const STEPS: &[Step] = &[
    get("hello", HELLO, CallKey::None).times(|_| 2).promised(200, "GET /v1/hello: no Bearer token is needed"),
    get("no-key", STATUS, CallKey::None).promised(401, NO_KEY),
    get("other-scheme", STATUS, CallKey::OtherScheme).promised(401, NO_KEY),
    get("unknown-path", "/v1/wrs-calibrate", CallKey::None),
    Step { target: HELLO, key: CallKey::None, ..post("wrong-method", "") },
    get("long-target", "/v1/system/status?wrs_calibrate=$long", CallKey::None),
    // From here on the key is sent.
    get("altered", STATUS, CallKey::Altered(0)).times(altered),
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
    post("long-body", LONG_BODY),
    post("shorter-body", LONG_BODY).times(|cassette| usize::from(cassette.status_of("long-body") != Some(422))),
    post("coded", r#"{"url":"","events":[]}"#),
    get("checks", "/v1/system/status?include_checks=true", CallKey::Given).times(|_| 2).promised(200, VALID_KEY),
    get("workflows", "/v1/workflows", CallKey::Given),
    Step { target: "/v1/oauth/token", key: CallKey::None, content_type: None, ..post("token", "") }
        .times(|cassette| usize::from(cassette.status_of("workflows") == Some(200))),
    // The one side effect. A service that ignores the content type has subscribed after the first of them.
    Step { content_type: Some("text/plain"), ..post("subscribe-text", SUBSCRIPTION) }
        .times(|cassette| usize::from(cassette.subscribes)),
    post("subscribe", SUBSCRIPTION).promised(200, SUBSCRIBED)
        .times(|cassette| usize::from(cassette.subscribes && cassette.status_of("subscribe-text") != Some(200))),
    post("subscribe-again", r#"{"url":"$url","events":["workflow.completed"],"secret":"$secret"}"#).promised(200, SUBSCRIBED)
        .times(|cassette| usize::from(["subscribe", "subscribe-text"].iter().any(|name| cassette.status_of(name) == Some(200)))),
    get("status", STATUS, CallKey::Given).times(|cassette| {
        let more = timestamps(cassette).len() < TIMESTAMPS && cassette.status_of("status") == Some(200);
        if more { cassette.count("status") + 1 } else { 0 }
    }),
    get("exhaust", STATUS, CallKey::Given).times(|cassette| {
        let calls_left = cassette.max_calls - cassette.calls.len().min(cassette.max_calls);
        let rest = quota::rest(cassette).unwrap_or_default();
        if cassette.exhausts && rest < calls_left { cassette.count("exhaust") + 1 } else { 0 }
    }),
];

pub(super) fn promise(name: &str) -> Option<(u16, &'static str)> {
    STEPS.iter().find(|step| step.name == name)?.promise
}

/// Without any part of the key; with all but its end; and, if that is valid, a search for the part that decides.
fn altered(cassette: &Cassette) -> usize {
    let made = cassette.count("altered");
    let any = cassette.status_of("altered") == Some(200);
    let (invalid, valid) = cassette.prefix_bounds();
    let searches = valid < cassette.key_length && valid > invalid + 1;
    if made == 0 || made == 1 && !any && cassette.key_length > 1 || made > 1 && searches { made + 1 } else { made }
}

/// The next call; `None` if the calibration is over.
pub fn next(cassette: &Cassette, subscriber: &Subscriber) -> Option<Call> {
    if cassette.stop().is_some() {
        return None;
    }
    let step = STEPS.iter().find(|step| cassette.count(step.name) < (step.times)(cassette))?;
    let key = match (step.key, cassette.count(step.name)) {
        (CallKey::Altered(_), 0) => CallKey::Altered(0),
        (CallKey::Altered(_), 1) => CallKey::Altered(cassette.key_length - 1),
        (CallKey::Altered(_), _) => {
            let (invalid, valid) = cassette.prefix_bounds();
            CallKey::Altered(usize::midpoint(invalid, valid))
        }
        (key, _) => key,
    };
    let long = LONG.iter().find(|(name, _)| *name == step.name).map_or(0, |(_, bytes)| *bytes);
    let text = |pattern: &str| {
        let text = pattern.replace("$url", &subscriber.url).replace("$secret", &subscriber.secret);
        text.replace("$long", &"x".repeat(long)).replace("$list", &[r#""workflow.completed""#; 1_000].join(","))
    };
    Some(Call {
        name: step.name,
        method: step.method,
        target: text(step.target),
        key,
        content_type: step.content_type,
        content_encoding: (step.name == "coded").then_some("gzip"),
        body: text(step.body),
    })
}
