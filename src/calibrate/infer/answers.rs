//! What answers show: greeting, status, the form of ids and timestamps, fields and orders that vary, the announced endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::super::cassette::{Cassette, SUBSCRIPTION};
use super::evidence::{
    ERROR, Evidence, Found, Seen, TIMESTAMPS, Unclear, common_to_all, extra_fields, hidden, numbers,
};
use crate::contract::ids::IdKind;

const STATUS: [&str; 5] = ["ok", "environment", "version", "checked_at", "checks"];
/// How many answers, and how many errors, in the same order show that it is not a random one.
const IN_ORDER: [usize; 2] = [4, 8];

/// Whether answers have fields that come and go, so that one does not show what always comes.
pub(in crate::calibrate) fn answers_vary(cassette: &Cassette) -> bool {
    let evidence = Evidence { cassette };
    let mut greetings = cassette.answers("hello").map(|(_, answer)| answer.object());
    let first = greetings.next();
    greetings.any(|other| Some(&other) != first.as_ref())
        || evidence.statuses().iter().any(|(_, status)| has_more(status))
}

fn has_more(status: &Map<String, Value>) -> bool {
    status.keys().any(|name| !STATUS.contains(&name.as_str()))
}

pub(super) fn hello(evidence: &Evidence<'_>) -> Found {
    let greetings = evidence.objects("hello")?;
    if answers_vary(evidence.cassette) && greetings.len() < 4 {
        return evidence.not_reached("hello");
    }
    Ok(Seen::new(common_to_all(&greetings), numbers(&greetings)))
}

pub(super) fn environment(evidence: &Evidence<'_>) -> Found {
    let statuses = evidence.objects("status")?;
    match statuses[0].1.get("environment").and_then(Value::as_str) {
        Some(name @ ("sandbox" | "production")) => Ok(Seen::new(name, [statuses[0].0])),
        other => Err(Unclear::Contradicts(
            "System status: environment, for example the value sandbox; two environments exist",
            format!("`environment` is {other:?}"),
        )),
    }
}

pub(super) fn checks(evidence: &Evidence<'_>) -> Found {
    let answers = evidence.objects("checks")?;
    if answers_vary(evidence.cassette) && answers.len() < 4 {
        return evidence.not_reached("checks");
    }
    let common = common_to_all(&answers);
    match common.get("checks") {
        Some(Value::Object(checks)) if checks.values().all(Value::is_object) => {
            let (first, last) = (&answers[0], &answers[answers.len() - 1]);
            let changes =
                common_to_all(&[first.clone(), last.clone()]) != common_to_all(&[last.clone(), first.clone()]);
            let note = if changes { "numbers in it change from call to call; the first are given" } else { "" };
            Ok(Seen::new(checks.clone(), numbers(&answers)).noted(note))
        }
        Some(_) => hidden("`checks` is not an object of objects"),
        None => {
            let others: Vec<&str> = common.keys().map(String::as_str).filter(|name| !STATUS.contains(name)).collect();
            hidden(format!("there is no field `checks`; fields beside the published ones: {}", others.join(", ")))
        }
    }
}

pub(super) fn unknown_parameters(evidence: &Evidence<'_>) -> Found {
    let (exchange, answer) = evidence.one("unknown-parameter")?;
    match answer.status {
        200 => Ok(Seen::new("ignore", [exchange.number])),
        422 => Ok(Seen::new("reject", [exchange.number])),
        status => hidden(format!("an unknown parameter was answered {status}")),
    }
}

pub(super) fn lenient_booleans(evidence: &Evidence<'_>) -> Found {
    let (exchange, answer) = evidence.one("number-boolean")?;
    let has_checks = || answer.object().is_some_and(|status| status.contains_key("checks"));
    match answer.status {
        422 => Ok(Seen::new(false, [exchange.number])),
        200 if has_checks() => Ok(Seen::new(true, [exchange.number])),
        status => Err(Unclear::Contradicts(
            "GET /v1/system/status: 422 when query parameters fail validation",
            format!("include_checks=1 was answered {status} without `checks`"),
        )),
    }
}

/// The ids of answers: kind, id, number of the call.
fn ids(evidence: &Evidence<'_>) -> Vec<(IdKind, String, usize)> {
    let text = |fields: &Map<String, Value>, name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let errors = evidence.errors();
    let requests =
        errors.iter().filter_map(|error| Some((IdKind::Request, text(&error.fields, "request_id")?, error.number)));
    let subscribed = ["subscribe-text", "subscribe", "subscribe-again"].into_iter();
    let subscribed =
        subscribed.flat_map(|name| evidence.cassette.answers(name)).filter(|(_, answer)| answer.status == 200);
    let subscriptions = subscribed
        .filter_map(|(exchange, answer)| Some((IdKind::Subscription, text(&answer.object()?, "id")?, exchange.number)));
    requests.chain(subscriptions).collect()
}

/// The style of ids whose parts after the prefix are these.
pub(in crate::calibrate) fn style_of(parts: &[&str]) -> Option<&'static str> {
    STYLES.iter().find(|(_, form)| parts.iter().all(|part| form.is_match(part))).map(|(style, _)| *style)
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

pub(super) fn id_style(evidence: &Evidence<'_>) -> Found {
    let ids = ids(evidence);
    let calls = ids.iter().map(|(.., number)| *number);
    let mut parts = Vec::new();
    for (kind, id, _) in &ids {
        let Some(part) = id.strip_prefix(kind.prefix()) else {
            let text = format!("an id is `{}`, which does not begin with {}", id.escape_debug(), kind.prefix());
            return Err(Unclear::Contradicts("Resources: ids have the form sub_<id>, req_<id>", text));
        };
        parts.push(part);
    }
    if parts.len() < 2 {
        return evidence.not_reached("status");
    }
    match style_of(&parts) {
        Some(style) => Ok(Seen::new(style, calls)),
        None => hidden(format!("ids such as `{}` have none of the known forms", ids[0].1.escape_debug())),
    }
}

pub(super) fn request_header(evidence: &Evidence<'_>) -> Found {
    const CLAUSE: &str = "Errors: request_id, the request identifier";
    let mut names: Option<BTreeSet<String>> = None;
    let mut calls = Vec::new();
    for (exchange, answer) in evidence.cassette.answered() {
        let Some(error) = answer.error() else { continue };
        let Some(id) = error.get("request_id").and_then(Value::as_str) else {
            return Err(Unclear::Contradicts(CLAUSE, format!("call {} has no `request_id`", exchange.number)));
        };
        let with_id = answer.headers.iter().filter(|(name, value)| value == id && !name.starts_with("x-emulator-"));
        let found: BTreeSet<String> = with_id.map(|(name, _)| name.clone()).collect();
        names = Some(names.map_or(found.clone(), |names| names.intersection(&found).cloned().collect()));
        calls.push(exchange.number);
    }
    let Some(names) = names.filter(|_| calls.len() > 1) else { return evidence.not_reached("no-key") };
    match names.len() {
        0 | 1 => Ok(Seen::new(names.into_iter().next().unwrap_or_default(), calls)),
        _ => hidden(format!("several headers carry the id: {}", names.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

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

pub(super) fn precision(evidence: &Evidence<'_>) -> Found {
    const NAMES: [(usize, &str); 4] = [(0, "seconds"), (3, "milliseconds"), (6, "microseconds"), (9, "nanoseconds")];
    const CLAUSE: &str = "Resources: ISO 8601 UTC timestamps";
    let times = timestamps(evidence.cassette);
    let mut digits = BTreeSet::new();
    for time in times.keys() {
        let zone = time.trim_end_matches("+00:00").trim_end_matches('Z');
        if zone.len() == time.len() || time.parse::<jiff::Timestamp>().is_err() {
            return Err(Unclear::Contradicts(CLAUSE, format!("a timestamp is `{}`", time.escape_debug())));
        }
        digits.insert(zone.split_once('.').map_or(0, |(_, fraction)| fraction.len()));
    }
    let named: Vec<&str> = NAMES.iter().filter(|(count, _)| digits.contains(count)).map(|(_, name)| *name).collect();
    let zone =
        if times.keys().any(|time| !time.ends_with('Z')) { "the zone is +00:00, which is always Z here" } else { "" };
    let seen = |value: &str| Ok(Seen::new(value, times.values().copied()).noted(zone));
    match (digits.len(), named.as_slice()) {
        (0, _) => evidence.not_reached("status"),
        (found, named) if found != named.len() => hidden(format!("fractions have {digits:?} digits")),
        (1, [_]) if times.len() < TIMESTAMPS => match evidence.cassette.stop() {
            // Another one may have another precision.
            Some(stop) => Err(Unclear::NotReached(stop)),
            None => hidden(format!("only {} different timestamps came", times.len())),
        },
        (1, [name]) => seen(name),
        _ => seen("mixed"),
    }
}

/// What varies in bodies of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Order {
    Fixed,
    Reversed,
    Shuffled,
}

struct Variety {
    /// Whether there are fields that come and go.
    grows: bool,
    order: Order,
    calls: Vec<usize>,
}

/// Looks at objects of one kind: whether they have fields beyond the published ones and `more`, and the order of the published ones.
fn variety(
    bodies: &[(usize, Map<String, Value>)],
    published: &[&str],
    more: &Map<String, Value>,
    least: usize,
) -> Result<Variety, Unclear> {
    let extra = |body: &Map<String, Value>| -> BTreeSet<String> {
        body.iter()
            .filter(|(name, _)| !published.contains(&name.as_str()) && !more.contains_key(*name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    };
    let extras: BTreeSet<BTreeSet<String>> = bodies.iter().map(|(_, body)| extra(body)).collect();
    let grows = match extras.len() {
        0 | 1 if extras.iter().all(BTreeSet::is_empty) => false,
        0 | 1 => return hidden("there are fields beyond the published ones, always the same"),
        _ => true,
    };
    let order = |body: &Map<String, Value>| -> Vec<usize> {
        body.keys().filter_map(|name| published.iter().position(|known| known == name)).collect()
    };
    let orders: BTreeSet<Vec<usize>> = bodies.iter().map(|(_, body)| order(body)).collect();
    let order = if orders.iter().all(|order| order.is_sorted()) {
        Order::Fixed
    } else if orders.iter().all(|order| order.is_sorted_by(|one, next| one > next)) {
        Order::Reversed
    } else if orders.len() > 2 {
        Order::Shuffled
    } else {
        return hidden("keys are in an order of the service's own");
    };
    if bodies.len() < least {
        return Err(Unclear::NotReached(format!("only {} bodies came, which may be alike by chance", bodies.len())));
    }
    Ok(Variety { grows, order, calls: numbers(bodies) })
}

/// What varies in answers, and in errors.
fn varieties(evidence: &Evidence<'_>) -> Result<[Variety; 2], Unclear> {
    let reached = |unknown| match (unknown, evidence.cassette.stop()) {
        (Unclear::NotReached(_), Some(stop)) => Unclear::NotReached(stop),
        (unknown, _) => unknown,
    };
    let extra = extra_fields(evidence);
    let errors: Vec<_> = evidence.errors().into_iter().map(|error| (error.number, error.fields)).collect();
    let answers = variety(&evidence.statuses(), &STATUS, &Map::new(), IN_ORDER[0]).map_err(reached)?;
    Ok([answers, variety(&errors, &ERROR, &extra, IN_ORDER[1]).map_err(reached)?])
}

pub(in crate::calibrate) const EVENTS: &str = "neither answers nor errors vary; whether events do takes a delivery";

pub(super) fn unknown_fields(evidence: &Evidence<'_>) -> Found {
    let [answers, errors] = varieties(evidence)?;
    let calls = [answers.calls, errors.calls].concat();
    if answers.grows || errors.grows { Ok(Seen::new(true, calls)) } else { hidden(EVENTS) }
}

pub(super) fn key_order(evidence: &Evidence<'_>) -> Found {
    let [answers, errors] = varieties(evidence)?;
    let calls = [answers.calls, errors.calls].concat();
    match (answers.order, errors.order) {
        (Order::Fixed, Order::Fixed) => hidden(EVENTS),
        (Order::Reversed, Order::Reversed | Order::Fixed) | (Order::Fixed, Order::Reversed) => {
            Ok(Seen::new("reversed", calls))
        }
        (Order::Shuffled, Order::Shuffled | Order::Fixed) | (Order::Fixed, Order::Shuffled) => {
            Ok(Seen::new("shuffled", calls))
        }
        _ => hidden("answers and errors have different orders"),
    }
}

pub(super) fn bodies(evidence: &Evidence<'_>) -> Found {
    let [answers, errors] = varieties(evidence)?;
    let varies = |variety: &Variety| variety.grows || variety.order != Order::Fixed;
    let which = match (varies(&answers), varies(&errors)) {
        (true, true) => "all",
        (true, false) => "answers",
        (false, true) => "errors",
        (false, false) => return hidden(EVENTS),
    };
    Ok(Seen::new(which, [answers.calls, errors.calls].concat()))
}

pub(super) fn preview(evidence: &Evidence<'_>) -> Found {
    let (exchange, answer) = evidence.one("workflows")?;
    let is_page = || {
        answer
            .object()
            .is_some_and(|page| page.get("data").is_some_and(Value::is_array) && page.contains_key("has_more"))
    };
    match answer.status {
        404 => Ok(Seen::new(false, [exchange.number])),
        200 if is_page() => Ok(Seen::new(true, [exchange.number]).noted("only the list of workflows was looked at")),
        status => hidden(format!("GET /v1/workflows was answered {status}, not as any setting answers")),
    }
}

pub(super) fn oauth_errors(evidence: &Evidence<'_>) -> Found {
    if preview(evidence)?.value == false {
        return hidden("no announced endpoint is served");
    }
    let (exchange, answer) = evidence.one("token")?;
    match answer.object().and_then(|mut body| body.remove("error")) {
        Some(Value::String(_)) => Ok(Seen::new("rfc6749", [exchange.number])),
        Some(Value::Object(_)) => Ok(Seen::new("envelope", [exchange.number])),
        _ => hidden(format!("POST /v1/oauth/token was answered {} in another form", answer.status)),
    }
}

/// The fields of a subscription beyond the published ones.
pub(super) fn further(subscription: &Map<String, Value>) -> impl Iterator<Item = (&String, &str)> {
    let fields = subscription.iter().filter(|(name, _)| !SUBSCRIPTION.contains(&name.as_str()));
    fields.filter_map(|(name, value)| Some((name, value.as_str()?)))
}
