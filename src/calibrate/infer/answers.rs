//! What answers show beside errors and quota: fields, ids, timestamps, unknown input, and endpoints that are announced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::super::cassette::{Cassette, RecordedAnswer};
use super::errors::reason;
use super::evidence::{Found, Seen, Unclear, alike, hidden};
use crate::contract::ids::IdKind;

pub(super) fn environment(cassette: &Cassette) -> Found {
    let (number, status) = cassette.objects("status")?.remove(0);
    match status.get("environment").and_then(Value::as_str) {
        Some(name @ ("sandbox" | "production")) => Ok(Seen::new(name, [number])),
        other => Err(Unclear::Contradicts(
            "System status: environment, for example the value sandbox; two environments exist",
            format!("`environment` is {other:?}"),
        )),
    }
}

pub(super) fn hello(cassette: &Cassette) -> Found {
    steady(cassette, "hello", |greeting| Some(Value::Object(greeting)))
}

pub(super) fn checks(cassette: &Cassette) -> Found {
    let is_checks = |checks: &Value| checks.as_object().is_some_and(|checks| checks.values().all(Value::is_object));
    steady(cassette, "checks", |mut status| status.remove("checks").filter(is_checks))
}

/// A part of answers to the same call. Fields that come and go leave no value; of numbers that change, the first is taken.
fn steady(cassette: &Cassette, name: &str, part: impl Fn(Map<String, Value>) -> Option<Value>) -> Found {
    let (numbers, objects): (Vec<usize>, Vec<_>) = cassette.objects(name)?.into_iter().unzip();
    let parts: Option<Vec<Value>> = objects.into_iter().map(part).collect();
    match parts.as_deref() {
        None => hidden("`checks` is not an object of objects"),
        Some([first, others @ ..]) if !others.is_empty() => {
            if others.iter().any(|other| !alike(first, other)) {
                return hidden("fields of it come and go from call to call");
            }
            let changes = others.iter().any(|other| other != first);
            let note = if changes { "numbers in it change from call to call; the first are given" } else { "" };
            Ok(Seen::new(first.clone(), numbers).noted(note))
        }
        Some(_) => cassette.not_reached(name),
    }
}

pub(super) fn unknown_input(cassette: &Cassette) -> Found {
    let seen = cassette.by_status("unknown-parameter", [(200, "ignore"), (422, "reject")])?;
    let field = "wrs_calibrate";
    // Only refusals that name each reason show whether the field is one of them.
    let names_each = reason(cassette, "no-events", "url")?.1 != reason(cassette, "ftp-url", "url")?.1;
    let (call, with) = reason(cassette, "unknown-field", field)?;
    let refused = with != reason(cassette, "no-events", field)?.1;
    let in_body = if refused { "reject" } else { "ignore" };
    match (names_each, seen.value == in_body) {
        (false, _) => Ok(seen.noted("of query parameters; refusals do not show it of fields")),
        (true, true) => Ok(Seen { calls: [seen.calls, vec![call]].concat(), ..seen }),
        (true, false) => {
            hidden(format!("of query parameters: {}; of fields of a body (call {call}): {in_body}", seen.value))
        }
    }
}

pub(super) fn lenient_booleans(cassette: &Cassette) -> Found {
    let (number, answer) = cassette.one("number-boolean")?;
    let has_checks = || answer.object().is_some_and(|status| status.contains_key("checks"));
    match answer.status {
        422 => Ok(Seen::new(false, [number])),
        200 if has_checks() => Ok(Seen::new(true, [number])),
        status => Err(Unclear::Contradicts(
            "GET /v1/system/status: 422 when query parameters fail validation",
            format!("include_checks=1 was answered {status} without `checks`"),
        )),
    }
}

static STYLES: LazyLock<[(&str, Regex); 4]> = LazyLock::new(|| {
    let style = |name, form: &str| (name, Regex::new(form).expect("a valid expression"));
    [
        style("ulid", "^[0-7][0-9a-hjkmnp-tv-z]{25}$"),
        style("uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"),
        style("counter", "^[0-9]{8,19}$"),
        style("longest", "^[A-Za-z0-9_-]{64}$"),
    ]
});

/// The style of ids whose parts after the prefix are these.
pub(in crate::calibrate) fn style_of(parts: &[&str]) -> Option<&'static str> {
    STYLES.iter().find(|(_, form)| parts.iter().all(|part| form.is_match(part))).map(|(style, _)| *style)
}

pub(super) fn id_style(cassette: &Cassette) -> Found {
    let text = |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let errors = cassette.errors().into_iter();
    let mut ids: Vec<_> =
        errors.filter_map(|error| Some((IdKind::Request, text(&error.fields, "request_id")?, error.number))).collect();
    let made =
        cassette.answered().filter(|(exchange, answer)| exchange.name.starts_with("subscribe") && answer.status == 200);
    ids.extend(made.filter_map(|(exchange, answer)| {
        Some((IdKind::Subscription, text(&answer.object()?, "id")?, exchange.number))
    }));
    let mut parts = Vec::new();
    for (kind, id, _) in &ids {
        let Some(part) = id.strip_prefix(kind.prefix()) else {
            let text = format!("an id is `{}`, which does not begin with {}", id.escape_debug(), kind.prefix());
            return Err(Unclear::Contradicts("Resources: ids have the form sub_<id>, req_<id>", text));
        };
        parts.push(part);
    }
    if parts.len() < 2 {
        return cassette.not_reached("status");
    }
    match style_of(&parts) {
        Some(style) => Ok(Seen::new(style, ids.iter().map(|(.., number)| *number))),
        None => hidden(format!(
            "ids such as `{}` ({} characters) have none of the known forms",
            ids[0].1.escape_debug(),
            ids[0].1.chars().count()
        )),
    }
}

pub(super) fn request_header(cassette: &Cassette) -> Found {
    const CLAUSE: &str = "Errors: request_id, the request identifier";
    let mut names: Option<BTreeSet<&str>> = None;
    let mut calls = Vec::new();
    for (exchange, answer) in cassette.answered() {
        let Some(error) = answer.error() else { continue };
        let Some(id) = error.get("request_id").and_then(Value::as_str) else {
            return Err(Unclear::Contradicts(CLAUSE, format!("call {} has no `request_id`", exchange.number)));
        };
        let with_id = answer.headers.iter().filter(|(name, value)| value == id && !name.starts_with("x-emulator-"));
        let found: BTreeSet<&str> = with_id.map(|(name, _)| name.as_str()).collect();
        names = Some(names.map_or(found.clone(), |names| names.intersection(&found).copied().collect()));
        calls.push(exchange.number);
    }
    match names.map(|names| names.into_iter().collect::<Vec<_>>()).as_deref() {
        Some([]) if calls.len() > 1 => Ok(Seen::new("", calls)),
        Some([name]) if calls.len() > 1 => Ok(Seen::new(*name, calls)),
        Some(several) if calls.len() > 1 => hidden(format!("several headers carry the id: {}", several.join(", "))),
        _ => cassette.not_reached("no-key"),
    }
}

/// How many different timestamps show that their precision is fixed.
pub(in crate::calibrate) const TIMESTAMPS: usize = 8;

/// The different timestamps of answers, with their calls.
pub(in crate::calibrate) fn timestamps(cassette: &Cassette) -> BTreeMap<String, usize> {
    let answers = cassette.answered().filter(|(_, answer)| answer.status == 200);
    let times = answers.filter_map(|(exchange, answer)| {
        let object = answer.object()?;
        let time = object.get("checked_at").or_else(|| object.get("created_at"))?.as_str()?.to_owned();
        Some((time, exchange.number))
    });
    times.collect()
}

pub(super) fn precision(cassette: &Cassette) -> Found {
    const NAMES: [(usize, &str); 4] = [(0, "seconds"), (3, "milliseconds"), (6, "microseconds"), (9, "nanoseconds")];
    const CLAUSE: &str = "Resources: ISO 8601 UTC timestamps";
    let times = timestamps(cassette);
    let mut digits = BTreeSet::new();
    for time in times.keys() {
        let zone = time.trim_end_matches("+00:00").trim_end_matches('Z');
        if zone.len() == time.len() || time.parse::<jiff::Timestamp>().is_err() {
            return Err(Unclear::Contradicts(CLAUSE, format!("a timestamp is `{}`", time.escape_debug())));
        }
        digits.insert(zone.split_once('.').map_or(0, |(_, fraction)| fraction.len()));
    }
    let named: Vec<&str> = NAMES.iter().filter(|(count, _)| digits.contains(count)).map(|(_, name)| *name).collect();
    let is_offset = times.keys().any(|time| !time.ends_with('Z'));
    let note = if is_offset { "the zone is +00:00, which is always Z here" } else { "" };
    match named.as_slice() {
        [] if digits.is_empty() => cassette.not_reached("status"),
        named if named.len() < digits.len() => hidden(format!("fractions have {digits:?} digits")),
        // Another one may have another precision.
        [_] if times.len() < TIMESTAMPS => cassette.ended(format!("only {} different timestamps came", times.len())),
        [name] => Ok(Seen::new(*name, times.into_values()).noted(note)),
        _ => Ok(Seen::new("mixed", times.into_values()).noted(note)),
    }
}

pub(super) fn preview(cassette: &Cassette) -> Found {
    let is_page = |answer: &RecordedAnswer| {
        let page = answer.object().unwrap_or_default();
        page.get("data").is_some_and(Value::is_array) && page.contains_key("has_more")
    };
    match cassette.by_status("workflows", [(404, false), (200, true)])? {
        seen if seen.value == true && !is_page(cassette.one("workflows")?.1) => {
            hidden("GET /v1/workflows was answered 200, not as any setting answers")
        }
        seen if seen.value == true => Ok(seen.noted("only the list of workflows was looked at")),
        seen => Ok(seen),
    }
}

pub(super) fn oauth_errors(cassette: &Cassette) -> Found {
    if preview(cassette)?.value == false {
        return hidden("no announced endpoint is served");
    }
    let (number, answer) = cassette.one("token")?;
    match answer.object().and_then(|mut body| body.remove("error")) {
        Some(Value::String(_)) => Ok(Seen::new("rfc6749", [number])),
        Some(Value::Object(_)) => Ok(Seen::new("envelope", [number])),
        _ => hidden(format!("POST /v1/oauth/token was answered {} in another form", answer.status)),
    }
}
