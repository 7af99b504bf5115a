//! Which call comes next: a table of steps in their order, each with how often it is made in view of the answers so far. What is
//! refused comes first, then one subscription, the quota last. Pure: a cassette in, a call out.

use super::cassette::{CallKey, Cassette};
use super::infer::{TIMESTAMPS, answers_vary, quota, timestamps};

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

struct Step {
    name: &'static str,
    method: &'static str,
    target: &'static str,
    key: CallKey,
    /// How often it is made, as far as the answers so far show.
    times: fn(&Cassette) -> usize,
    content_type: Option<&'static str>,
    /// The body; `$url` and `$secret` stand for what is subscribed.
    body: &'static str,
}

const JSON: Option<&str> = Some("application/json");
/// How often the same is asked where answers have fields that vary.
const REPEATS: usize = 4;
/// Bytes of the target that is too long.
const LONG: usize = 8_300;

const fn get(name: &'static str, target: &'static str, key: CallKey, times: fn(&Cassette) -> usize) -> Step {
    Step { name, method: "GET", target, key, times, content_type: None, body: "" }
}

const fn post(name: &'static str, target: &'static str, key: CallKey, body: &'static str) -> Step {
    Step { name, method: "POST", target, key, times: once, content_type: JSON, body }
}

const fn refused(name: &'static str, body: &'static str) -> Step {
    post(name, SUBSCRIBE, CallKey::Given, body)
}

const fn subscribed(name: &'static str, times: fn(&Cassette) -> usize, body: &'static str) -> Step {
    Step { times, ..refused(name, body) }
}

const HELLO: &str = "/v1/hello";
const STATUS: &str = "/v1/system/status";
const SUBSCRIBE: &str = "/v1/events/subscribe";

const STEPS: &[Step] = &[
    get("hello", HELLO, CallKey::None, |cassette| if answers_vary(cassette) { REPEATS } else { 2 }),
    get("no-key", STATUS, CallKey::None, once),
    get("other-scheme", STATUS, CallKey::OtherScheme, once),
    get("unknown-path", "/v1/wrs-calibrate", CallKey::None, once),
    post("wrong-method", HELLO, CallKey::None, ""),
    get("long-target", "/v1/system/status?wrs_calibrate=$long", CallKey::None, once),
    // From here on the key is sent.
    get("altered", STATUS, CallKey::Altered(0), altered),
    get("unknown-path-2", "/v1/wrs-calibrate-2", CallKey::Given, once),
    get("wrong-method-2", SUBSCRIBE, CallKey::Given, once),
    get("status", STATUS, CallKey::Given, once),
    get("bad-boolean", "/v1/system/status?include_checks=wrs", CallKey::Given, once),
    get("number-boolean", "/v1/system/status?include_checks=1", CallKey::Given, once),
    get("unknown-parameter", "/v1/system/status?wrs_calibrate=1", CallKey::Given, once),
    refused("malformed", "{\"url\":"),
    refused("no-events", "{\"url\":\"$url\",\"events\":[]}"),
    refused("http-url", "{\"url\":\"http://wrs-calibrate.invalid/\",\"events\":[]}"),
    refused("ftp-url", "{\"url\":\"ftp://wrs-calibrate.invalid/\",\"events\":[]}"),
    refused("unknown-event", "{\"url\":\"$url\",\"events\":[\"wrs.calibrate\"]}"),
    refused("coded", "{\"url\":\"\",\"events\":[]}"),
    get("checks", "/v1/system/status?include_checks=true", CallKey::Given, |cassette| {
        if answers_vary(cassette) { REPEATS } else { 1 }
    }),
    get("workflows", "/v1/workflows", CallKey::Given, once),
    Step {
        times: |cassette| usize::from(cassette.status_of("workflows") == Some(200)),
        content_type: None,
        ..post("token", "/v1/oauth/token", CallKey::None, "")
    },
    // The one side effect. A service that ignores the content type has subscribed after the first of them.
    Step {
        content_type: Some("text/plain"),
        ..subscribed("subscribe-text", |cassette| usize::from(cassette.subscribes), SUBSCRIPTION)
    },
    subscribed(
        "subscribe",
        |cassette| usize::from(cassette.subscribes && cassette.status_of("subscribe-text") != Some(200)),
        SUBSCRIPTION,
    ),
    subscribed(
        "subscribe-again",
        |cassette| {
            usize::from(["subscribe", "subscribe-text"].iter().any(|name| cassette.status_of(name) == Some(200)))
        },
        "{\"url\":\"$url\",\"events\":[\"workflow.completed\"],\"secret\":\"$secret\"}",
    ),
    get("status", STATUS, CallKey::Given, |cassette| {
        let more = timestamps(cassette).len() < TIMESTAMPS && cassette.status_of("status") == Some(200);
        if more { cassette.count("status") + 1 } else { 0 }
    }),
    get("exhaust", STATUS, CallKey::Given, |cassette| {
        let calls_left = cassette.max_calls - cassette.calls.len().min(cassette.max_calls);
        let rest = quota::rest(cassette).unwrap_or_default();
        if cassette.exhausts && rest < calls_left { cassette.count("exhaust") + 1 } else { 0 }
    }),
];

const SUBSCRIPTION: &str = "{\"url\":\"$url\",\"events\":[\"workflow.completed\"]}";

fn once(_: &Cassette) -> usize {
    1
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
    Some(Call {
        name: step.name,
        method: step.method,
        target: step.target.replace("$long", &"x".repeat(LONG)),
        key,
        content_type: step.content_type,
        content_encoding: (step.name == "coded").then_some("gzip"),
        body: step.body.replace("$url", &subscriber.url).replace("$secret", &subscriber.secret),
    })
}
