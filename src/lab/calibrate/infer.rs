//! Inference from a call log: one pure function for each setting that calls can show, in one table. A value is returned only if no other
//! value of the setting would have been answered alike; everything else is a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::call_log::{CallKey, CallLog, Exchange, GENERATED, SUPPLIED, is_masked};
use super::evidence::{Observation, Seen, UNKNOWN_KEY, Unclear, contradiction, hidden, unlike_any};
use super::promises::{Promise, UNAUTHORIZED, is_published};
use super::quota;
use crate::contract::clauses;
use crate::contract::error::{ERROR_FIELDS, ErrorKind};
use crate::contract::headers::OWN_PREFIX;
use crate::contract::ids::IdKind;
use crate::contract::types::EVENT_TYPES;
use crate::util::wording::quoted;

type Inference = fn(&CallLog) -> Observation;

/// The settings that calls can show.
#[rustfmt::skip]
const INFERENCES: &[(&str, Inference)] = &[
    ("environment", environment),
    ("keys.mode", key_mode),
    ("keys.test_prefix", |call_log| key_prefix(call_log, "sandbox")),
    ("keys.live_prefix", |call_log| key_prefix(call_log, "production")),
    ("errors.details", details),
    ("errors.malformed_json_status", |call_log| call_log.by_status("malformed", [(400, 400), (422, 422)])),
    ("errors.codes", codes),
    ("errors.messages", messages),
    ("errors.extra", extra),
    ("validation.unknown", unknown_input),
    ("validation.lenient_booleans", lenient_booleans),
    ("validation.content_type", content_type),
    ("status.checks", |call_log| steady(call_log, "checks", |call| {
        let checks = call.field("checks");
        checks.as_object().is_some_and(|checks| checks.values().all(Value::is_object)).then_some(checks)
    })),
    ("rate_limit.enabled", quota::enabled),
    ("rate_limit.requests", quota::requests),
    ("rate_limit.window", quota::window),
    ("rate_limit.algorithm", quota::algorithm),
    ("rate_limit.count", quota::count),
    ("rate_limit.header_names", quota::header_names),
    ("rate_limit.retry_after", quota::retry_after),
    ("rate_limit.reset", quota::reset),
    ("rate_limit.reset_header", quota::reset_header_name),
    ("rate_limit.ietf", quota::ietf),
    ("ids.style", id_style),
    ("ids.request_header", request_header),
    ("time.precision", precision),
    ("subscriptions.upsert", upsert),
    ("subscriptions.secret_field", secret_field),
    ("subscriptions.echo_secret", echo_secret),
    ("events.extra", event_types),
    ("webhooks.allow_http", allow_http),
    ("hello.body", |call_log| steady(call_log, "hello", |call| Some(call.json()).filter(Value::is_object))),
];

/// The inference about a setting; `None` if calls cannot show it.
pub fn infer(call_log: &CallLog, setting: &str) -> Option<Observation> {
    let (_, inference) = INFERENCES.iter().find(|(path, _)| *path == setting)?;
    let found = inference(call_log);
    let has_credential = found.as_ref().is_ok_and(|seen| is_masked(&seen.value.to_string()));
    Some(if has_credential { hidden("it has a credential in it, which was masked") } else { found })
}

/// Nothing, unless an answer breaks a promise about a field.
fn keeps(call: &Exchange, field: &str) -> Result<(), Unclear> {
    let broken = call.breaches().into_iter().find(|(promise, _)| promise.field == field);
    broken.map_or(Ok(()), |(promise, how)| contradiction(promise.clause, how))
}

fn text<'v>(fields: &'v Value, name: &str) -> &'v str {
    fields[name].as_str().unwrap_or_default()
}

fn environment(call_log: &CallLog) -> Observation {
    let answers = call_log.answers("status").filter(|call| call.status() == 200);
    call_log.agreed("status", answers, |call| {
        keeps(call, "/environment")?;
        Ok(call.field("environment"))
    })
}

fn key_mode(call_log: &CallLog) -> Observation {
    let tried: Vec<&Exchange> = call_log.answers("altered").take(2).collect();
    match tried.iter().map(|call| call.status()).collect::<Vec<_>>()[..] {
        [200, ..] => Ok(Seen::new("any", tried)),
        [401, 200] => Ok(Seen::new("prefix", tried)),
        // A key that is refused itself shows nothing.
        [401, 401] if call_log.status_of("status") == 200 => {
            Ok(Seen::new("list", tried).noted("the keys that are valid are not observable"))
        }
        [] | [401] | [401, 401] => call_log.too_little("altered keys were not tried, or the key itself is refused"),
        _ => hidden("keys that were never issued are not refused with 401"),
    }
}

/// The prefix of the environment's keys.
fn key_prefix(call_log: &CallLog, of: &str) -> Observation {
    if environment(call_log)?.value != of {
        return hidden(format!("the key is not for {of}"));
    }
    match &call_log.key_prefix {
        _ if key_mode(call_log)?.value != "prefix" => hidden("no prefix decides whether a key is valid"),
        Some(prefix) => Ok(Seen::new(prefix.as_str(), call_log.answers("altered"))),
        None => call_log.too_little("too much of the key is needed for it to be valid"),
    }
}

fn details(call_log: &CallLog) -> Observation {
    let refusals = call_log.refusals().map(|(call, _)| call);
    call_log.agreed("bad-boolean", refusals, |call| match call.json()["error"].get("details") {
        None => Ok("off"),
        Some(Value::Array(_)) => Ok("list"),
        Some(Value::Object(_)) => Ok("map"),
        Some(_) => unlike_any(call),
    })
}

/// The text in a field of each kind of error. `judge` returns it, or null if there is none, or why that is not known, from the calls and
/// the different texts.
fn by_kind(
    call_log: &CallLog,
    field: &str,
    judge: impl Fn(ErrorKind, &[&str], &[String]) -> Result<Value, &'static str>,
) -> Observation {
    let (mut values, mut shown_by, mut without) = (Map::new(), Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for kind in ErrorKind::ALL {
        let errors = call_log.errors().filter(|(call, _)| call.status() == kind.status());
        let (calls, texts): (Vec<_>, BTreeSet<_>) =
            errors.map(|(call, error)| (call, text(&error, field).to_owned())).unzip();
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        match judge(kind, &names, &Vec::from_iter(texts)) {
            Ok(value) => {
                if value.is_null() {
                    without.entry("depends on the request").or_default().push(kind.name());
                }
                values.insert(kind.name().to_owned(), value);
                shown_by.extend(calls);
            }
            Err(why) => without.entry(why).or_default().push(kind.name()),
        }
    }
    if values.is_empty() {
        return call_log.too_little("no error of this kind came in the envelope");
    }
    let without: Vec<String> = without.iter().map(|(why, kinds)| format!("{why}: {}", kinds.join(", "))).collect();
    Ok(Seen::new(values, shown_by).noted(without.join("; ")))
}

fn codes(call_log: &CallLog) -> Observation {
    let seen = by_kind(call_log, "code", |kind, _, codes| match codes {
        // A 400 may be the answer to a body that is not JSON, whose code is that of a 422.
        [code] if kind != ErrorKind::BadRequest => Ok(code.as_str().into()),
        [] | [_] => Err("not met"),
        _ => Err("more than one code"),
    })?;
    let is_wrong = seen.value.get("unauthorized").is_some_and(|code| code != "unauthorized");
    Ok(seen.against(UNAUTHORIZED[0].clause, is_wrong))
}

fn messages(call_log: &CallLog) -> Observation {
    by_kind(call_log, "message", |kind, calls, messages| {
        // Two calls for which a message that depends on the request differs.
        let different = match kind {
            ErrorKind::Unauthorized => ["no-key", "other-scheme"],
            ErrorKind::ValidationError => ["bad-boolean", "no-events"],
            ErrorKind::NotFound => ["unknown-path", "unknown-path-2"],
            ErrorKind::MethodNotAllowed => ["wrong-method", "wrong-method-2"],
            _ => return Err("not met twice"),
        };
        match messages {
            _ if !different.iter().all(|name| calls.contains(name)) => Err("not met twice"),
            [message] if is_masked(message) => Err("has a masked credential in it"),
            [message] => Ok(message.as_str().into()),
            _ => Ok(Value::Null),
        }
    })
}

/// Fields that every error has, always with the same value.
fn extra(call_log: &CallLog) -> Observation {
    let (calls, errors): (Vec<_>, Vec<_>) = call_log.errors().unzip();
    if errors.len() < 5 {
        // Fields that come and go may be in all of a few by chance.
        return call_log.too_little("too few errors came");
    }
    let mut fields = errors[0].as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| {
        !ERROR_FIELDS.contains(&name.as_str()) && errors.iter().all(|error| error.get(name).is_some())
    });
    match fields.iter().find(|(name, value)| errors.iter().any(|error| error[name.as_str()] != **value)) {
        Some((name, _)) => hidden(format!("`{name}` of errors changes from call to call")),
        None => Ok(Seen::new(fields, calls)),
    }
}

/// What shows whether a refusal has a field among its reasons: that itself if details say so, else the message.
pub(super) fn reason<'c>(call_log: &'c CallLog, name: &str, field: &str) -> Result<(&'c Exchange, String), Unclear> {
    let refusal = call_log.refusals().find(|(call, _)| call.name == name);
    let (call, error) = refusal.ok_or_else(|| call_log.not_shown_by(name))?;
    let named = reasons(&error).map(|reasons| reasons.contains_key(field).to_string());
    Ok((call, named.unwrap_or_else(|| text(&error, "message").to_owned())))
}

/// The reasons of a refusal by field, if its details have them.
fn reasons(error: &Value) -> Option<BTreeMap<String, String>> {
    match error.get("details")? {
        Value::Array(entries) => {
            let reason = |entry: &Value| Some((entry["field"].as_str()?.to_owned(), entry.get("reason")?.to_string()));
            Some(entries.iter().filter_map(reason).collect())
        }
        // Further fields of the map may come and go; reasons are lists.
        Value::Object(fields) => {
            let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            let lists = fields.iter().filter(|(_, value)| is_list(value));
            Some(lists.map(|(field, value)| (field.clone(), value.to_string())).collect())
        }
        _ => None,
    }
}

/// True if refusals show that the URL is checked, and whether it is among several reasons.
pub(super) fn names_url(call_log: &CallLog) -> Result<bool, Unclear> {
    Ok(reason(call_log, "no-events", "url")?.1 != reason(call_log, "ftp-url", "url")?.1)
}

fn allow_http(call_log: &CallLog) -> Observation {
    let [(first, https), (second, http)] =
        [reason(call_log, "no-events", "url")?, reason(call_log, "http-url", "url")?];
    if !names_url(call_log)? {
        return hidden("a 422 with two reasons does not show whether the URL is one of them");
    }
    let seen = Seen::new(https == http, [first, second].into_iter().chain(call_log.answers("ftp-url")));
    Ok(seen.against(clauses::HTTPS, https == http))
}

static LISTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9._-]+(?:, [A-Za-z0-9._-]+)+").expect("a valid expression"));

/// The event types that a refusal lists.
fn event_types(call_log: &CallLog) -> Observation {
    const CALL: &str = "unknown-event";
    let refusal = call_log.refusals().find(|(call, _)| call.name == CALL);
    let (call, error) = refusal.ok_or_else(|| call_log.not_shown_by(CALL))?;
    let message = text(&error, "message");
    // A message that every refusal has lists nothing in particular.
    let is_own = call_log.refusals().any(|(other, error)| other.name != CALL && text(&error, "message") != message);
    let by_message = || Vec::from_iter(is_own.then(|| message.to_owned()));
    let texts = reasons(&error).map_or_else(by_message, |reasons| reasons.into_values().collect());
    let lists = texts.iter().flat_map(|text| LISTS.find_iter(text));
    let mut lists = lists.map(|list| list.as_str().split(", ").collect::<Vec<_>>());
    let Some(list) = lists.find(|list| EVENT_TYPES.iter().all(|known| list.contains(known))) else {
        return hidden("no message lists the event types");
    };
    let extra: Vec<&str> = list.into_iter().filter(|name| !EVENT_TYPES.contains(name)).collect();
    Ok(Seen::new(extra, [call]))
}

fn unknown_input(call_log: &CallLog) -> Observation {
    const FIELD: &str = "wrs_calibrate";
    let mut seen = call_log.by_status("unknown-parameter", [(200, "ignore"), (422, "reject")])?;
    // Only refusals that name each reason show whether the field is one of them.
    let names_each = names_url(call_log)?;
    let (call, with) = reason(call_log, "unknown-field", FIELD)?;
    let in_body = if with == reason(call_log, "no-events", FIELD)?.1 { "ignore" } else { "reject" };
    if !names_each {
        return Ok(seen.noted("of query parameters; refusals do not show it of fields"));
    }
    if seen.value != in_body {
        let of_query = seen.value;
        return hidden(format!(
            "of query parameters: {of_query}; of fields of a body (call {}): {in_body}",
            call.number
        ));
    }
    seen.calls.insert(call.number);
    Ok(seen)
}

fn lenient_booleans(call_log: &CallLog) -> Observation {
    const CLAUSE: &str = clauses::STATUS_422;
    call_log.shown_by("number-boolean", |call| match call.status() {
        422 => Ok(false),
        200 if call.json().get("checks").is_some() => Ok(true),
        status => contradiction(CLAUSE, format!("include_checks=1 was answered {status} without `checks`")),
    })
}

fn content_type(call_log: &CallLog) -> Observation {
    call_log.shown_by("subscribe-text", |call| match call.status() {
        200 => Ok("ignore"),
        // The same body is taken as JSON, so the type was the reason.
        400 | 415 | 422 => call_log.one("subscribe", 200).map(|_| "require"),
        _ => unlike_any(call),
    })
}

static NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([:,\[])-?[0-9][0-9.eE+-]*").expect("a valid expression"));

/// A part of the answers to a call that is made twice. Fields that come and go leave no value; of numbers that change, such as latencies,
/// the first are given.
fn steady(call_log: &CallLog, name: &str, part: impl Fn(&Exchange) -> Option<Value>) -> Observation {
    let answers: Vec<&Exchange> = call_log.answers(name).filter(|call| call.status() == 200).collect();
    let (call, again) = match answers[..] {
        [] => return Err(call_log.not_shown_by(name)),
        [_] => return call_log.too_little("it was answered once"),
        [call, again, ..] => (call, again),
    };
    let without_numbers = |value: &Value| NUMBERS.replace_all(&value.to_string(), "${1}0").into_owned();
    match (part(call), part(again)) {
        (Some(first), Some(second)) if first == second => Ok(Seen::new(first, answers)),
        (Some(first), Some(second)) if without_numbers(&first) == without_numbers(&second) => {
            Ok(Seen::new(first, answers).noted("numbers in it change from call to call; the first are given"))
        }
        (Some(_), Some(_)) => hidden("parts of it change from call to call"),
        _ => unlike_any(call),
    }
}

static STYLES: LazyLock<[(&str, Regex); 4]> = LazyLock::new(|| {
    [
        ("ulid", "^[0-7][0-9a-hjkmnp-tv-z]{25}$"),
        ("uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        ("counter", "^[0-9]{8,19}$"),
        ("longest", "^[A-Za-z0-9_-]{64}$"),
    ]
    .map(|(style, form)| (style, Regex::new(form).expect("a valid expression")))
});

/// The style of an id.
pub(super) fn style_of(kind: IdKind, id: &str) -> Result<&'static str, Unclear> {
    let part = id.strip_prefix(kind.prefix()).unwrap_or(id);
    if let Some((style, _)) = STYLES.iter().find(|(_, form)| form.is_match(part)) {
        return Ok(style);
    }
    let shown = quoted(id);
    hidden(format!("ids such as `{shown}` ({} bytes) have none of the known forms", id.len()))
}

fn id_style(call_log: &CallLog) -> Observation {
    let errors = call_log.errors().map(|(call, _)| call);
    call_log.agreed("no-key", errors.chain(subscribed(call_log)), |call| {
        keeps(call, REQUEST_ID)?;
        keeps(call, "/id")?;
        match call.error() {
            Some(error) => style_of(IdKind::Request, text(&error, "request_id")),
            None => style_of(IdKind::Subscription, text(&call.json(), "id")),
        }
    })
}

const REQUEST_ID: &str = "/error/request_id";

fn request_header(call_log: &CallLog) -> Observation {
    call_log.agreed("no-key", call_log.errors().map(|(call, _)| call), |call| {
        let json = call.json();
        let id = text(&json["error"], "request_id");
        let with_id = call.answer_headers().filter(|(name, value)| *value == id && !name.starts_with(OWN_PREFIX));
        match with_id.map(|(name, _)| name).collect::<Vec<_>>()[..] {
            [] => keeps(call, REQUEST_ID).map(|()| String::new()),
            [name] => Ok(name.to_owned()),
            [one, other, ..] => hidden(format!("`{one}` and `{other}` carry the id")),
        }
    })
}

/// How many different timestamps show that their precision is fixed.
pub(super) const TIMESTAMPS: usize = 8;

/// The timestamps that answers must have: their calls and the promises.
pub(super) fn timed(call_log: &CallLog) -> impl Iterator<Item = (&Exchange, &'static Promise)> {
    call_log
        .answered()
        .flat_map(|call| call.promised().filter(|promise| promise.is_time()).map(move |time| (call, time)))
}

/// The timestamps that are ones, with their calls.
pub(super) fn timestamps(call_log: &CallLog) -> BTreeMap<String, &Exchange> {
    let valid = timed(call_log).filter_map(|(call, promise)| {
        let json = call.json();
        let time = json.pointer(promise.field)?.as_str()?.to_owned();
        promise.broken_by(&json).is_none().then_some((time, call))
    });
    valid.collect()
}

fn precision(call_log: &CallLog) -> Observation {
    const NAMES: [(usize, &str); 4] = [(0, "seconds"), (3, "milliseconds"), (6, "microseconds"), (9, "nanoseconds")];
    for (call, promise) in timed(call_log) {
        keeps(call, promise.field)?;
    }
    let times = timestamps(call_log);
    let fraction = |time: &str| {
        time.trim_end_matches("+00:00")
            .trim_end_matches('Z')
            .split_once(['.', ','])
            .map_or(0, |(_, digits)| digits.len())
    };
    let digits: BTreeSet<usize> = times.keys().map(|time| fraction(time)).collect();
    let named: Vec<&str> = NAMES.iter().filter(|(count, _)| digits.contains(count)).map(|(_, name)| *name).collect();
    let is_offset = times.keys().any(|time| !time.ends_with('Z'));
    let name = match named[..] {
        _ if named.len() < digits.len() => return hidden(format!("fractions have {digits:?} digits")),
        // Another one may have another precision.
        [] | [_] if times.len() < TIMESTAMPS => {
            let came = times.len();
            let advice = call_log.advice("; --pause 1s shows more");
            return call_log.too_little(&format!("only {came} different timestamps came{advice}"));
        }
        [name] => name,
        _ => "mixed",
    };
    let note = if is_offset { "the zone is +00:00, which is always Z here" } else { "" };
    Ok(Seen::new(name, times.into_values()).noted(note))
}

/// The answer that made the subscription.
fn subscription(call_log: &CallLog) -> Result<&Exchange, Unclear> {
    call_log.one("subscribe-text", 200).or_else(|_| call_log.one("subscribe", 200))
}

/// The answer that made the subscription, and the answer to another of the same URL, which in the plan supplies a secret.
fn subscriptions(call_log: &CallLog) -> Result<[&Exchange; 2], Unclear> {
    let again = call_log.one("subscribe-repeat", 200).or_else(|_| call_log.one("subscribe-again", 200));
    Ok([subscription(call_log)?, again?])
}

/// The answers that have a subscription.
fn subscribed(call_log: &CallLog) -> impl Iterator<Item = &Exchange> {
    call_log.answered().filter(|call| call.name.starts_with("subscribe") && call.status() == 200)
}

/// A field of the body of a call, as far as it was kept.
fn sent(call: &Exchange, name: &str) -> Value {
    let mut body: Value = serde_json::from_str(&call.body).unwrap_or_default();
    body.get_mut(name).map(Value::take).unwrap_or_default()
}

/// The fields of a subscription beyond the published ones that have this text.
fn fields_with(call: &Exchange, text: &str) -> Vec<String> {
    let json = call.json();
    let fields = json.as_object().into_iter().flatten();
    let with = fields.filter(|(name, value)| !is_published(name) && **value == text);
    with.map(|(name, _)| name.clone()).collect()
}

fn upsert(call_log: &CallLog) -> Observation {
    let both = subscriptions(call_log)?;
    match both.map(|call| call.field("id")) {
        [Value::Null, _] | [_, Value::Null] => unlike_any(both[1]),
        [id, other] if id != other && both.iter().any(|call| call.key == CallKey::Unrecorded) => hidden(UNKNOWN_KEY),
        [id, other] => Ok(Seen::new(if id == other { "url" } else { "never" }, both)),
    }
}

fn echo_secret(call_log: &CallLog) -> Observation {
    let supplies = |call: &&Exchange| call.name == "subscribe-again" || sent(call, "secret") == SUPPLIED;
    match subscribed(call_log).find(supplies) {
        Some(call) => Ok(Seen::new(!fields_with(call, SUPPLIED).is_empty(), [call])),
        None => Err(subscriptions(call_log).err().unwrap_or_else(|| call_log.not_shown_by("subscribe-again"))),
    }
}

fn secret_field(call_log: &CallLog) -> Observation {
    const CLAUSE: &str = clauses::SECRET_ONCE;
    if call_log.is_traffic {
        return secret_field_of_traffic(call_log);
    }
    let first = subscription(call_log)?;
    match &fields_with(first, GENERATED)[..] {
        [name] => Ok(Seen::new(name.as_str(), [first])),
        [] => contradiction(CLAUSE, "no field of the answer looks like a secret"),
        several => hidden(format!("several fields may be the secret: {several:?}")),
    }
}

/// A subscription may have been made before the recording, and then shows no secret; so only a field with the secret that was supplied
/// counts, or one that was not in the request and is named a secret.
fn secret_field_of_traffic(call_log: &CallLog) -> Observation {
    let field = |call: &Exchange| {
        let is_supplied = !sent(call, "secret").is_null();
        let mut fields = fields_with(call, if is_supplied { SUPPLIED } else { GENERATED });
        fields.retain(|name| is_supplied || name.contains("secret") && sent(call, name).is_null());
        fields.pop().filter(|_| fields.is_empty())
    };
    let shows = subscribed(call_log).filter(|call| field(call).is_some());
    call_log.agreed("subscribe", shows, |call| Ok(field(call)))
}
