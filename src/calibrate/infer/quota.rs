//! What the quota's headers show, over the calls of one key.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::json;

use super::super::cassette::{Cassette, RecordedAnswer};
use super::evidence::{Found, Seen, Unclear, hidden};

const PUBLISHED: [&str; 2] = ["x-ratelimit-limit", "x-ratelimit-remaining"];
const RESET: &str = "x-ratelimit-reset";
/// Headers of numbers that are not the quota's.
const OTHERS: [&str; 5] = ["content-length", "age", "retry-after", RESET, "x-emulator-generation"];
/// Numbers from here on are times since 1970.
const EPOCH: i64 = 1_000_000_000;

/// What one answer says about the quota.
struct Reading {
    number: usize,
    status: u16,
    limit: i64,
    rest: i64,
    /// Seconds since 1970, by the clock here.
    at: f64,
    /// When the quota is whole again, up to a second late: by the service's clock if it sends a time, else by the clock here.
    end: Option<f64>,
    is_epoch: bool,
    /// Whether the call before it, of this key, has a reading, too.
    follows: bool,
}

/// Answers to calls that cost quota.
fn rated(cassette: &Cassette) -> Vec<(usize, &RecordedAnswer)> {
    let answers = cassette.of_key().filter(|(exchange, _)| !exchange.name.ends_with("-2"));
    let rated = answers.filter(|(_, answer)| matches!(answer.status, 200 | 422 | 429));
    rated.map(|(exchange, answer)| (exchange.number, answer)).collect()
}

fn number(answer: &RecordedAnswer, name: &str) -> Option<i64> {
    answer.header(name)?.trim().parse().ok().filter(|number| *number >= 0)
}

/// The headers of the limit and of the rest.
fn names(cassette: &Cassette) -> Result<[&str; 2], Unclear> {
    let answers: Vec<&RecordedAnswer> = rated(cassette).into_iter().map(|(_, answer)| answer).collect();
    let Some((first, rest)) = answers.split_first() else { return cassette.not_reached("status") };
    let values = |name: &str| answers.iter().map(|answer| number(answer, name)).collect::<Option<Vec<i64>>>();
    // One that is never more than the other.
    let fits = |limit: &str, rest: &str| match (values(limit), values(rest)) {
        (Some(limits), Some(rests)) => limits.iter().zip(&rests).all(|(limit, rest)| limit >= rest),
        _ => false,
    };
    if fits(PUBLISHED[0], PUBLISHED[1]) {
        return Ok(PUBLISHED);
    }
    // Under other names: two numbers, the same headers not sent without a key.
    let keyless = |name: &str| cassette.answers("hello").any(|(_, answer)| answer.header(name).is_some());
    let is_candidate = |name: &&str| !OTHERS.contains(name) && !keyless(name) && values(name).is_some();
    let found: BTreeSet<&str> = first.headers.iter().map(|(name, _)| name.as_str()).filter(is_candidate).collect();
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [one, other] if values(one) == values(other) => hidden("the two headers of numbers always agree"),
        [one, other] if fits(one, other) => Ok([one, other]),
        [one, other] if fits(other, one) => Ok([other, one]),
        found if rest.is_empty() && !found.is_empty() => cassette.not_reached("status"),
        [] => hidden("no header shows the quota"),
        found => hidden(format!("it is not clear which headers show the quota: {}", found.join(", "))),
    }
}

/// The value of a parameter in a header such as `"default";q=100;w=60`.
fn parameter(answer: &RecordedAnswer, header: &str, name: &str) -> Option<i64> {
    let mut parts = answer.header(header)?.split([';', ',']);
    parts.find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')?.trim().parse().ok())
}

#[allow(clippy::cast_precision_loss, reason = "seconds of this century")]
fn readings(cassette: &Cassette) -> Result<Vec<Reading>, Unclear> {
    let names = names(cassette)?;
    let rated: BTreeSet<usize> = rated(cassette).into_iter().map(|(number, _)| number).collect();
    let (mut readings, mut follows) = (Vec::new(), false);
    for (exchange, answer) in cassette.of_key() {
        let is_rated = rated.contains(&exchange.number);
        if let (true, Some(limit), Some(rest)) = (is_rated, number(answer, names[0]), number(answer, names[1])) {
            let at = exchange.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
            let reset = parameter(answer, "ratelimit", "t").or_else(|| number(answer, RESET));
            let is_epoch = reset.is_some_and(|reset| reset >= EPOCH);
            let end = reset.map(|reset| if is_epoch { reset as f64 } else { at + reset as f64 });
            let (number, status) = (exchange.number, answer.status);
            readings.push(Reading { number, status, limit, rest, at, end, is_epoch, follows });
        }
        follows = is_rated;
    }
    Ok(readings)
}

fn calls(readings: &[Reading]) -> impl Iterator<Item = usize> {
    readings.iter().map(|reading| reading.number)
}

/// How many requests are left; `None` if no header shows it.
pub(in crate::calibrate) fn rest(cassette: &Cassette) -> Option<usize> {
    usize::try_from(readings(cassette).ok()?.last()?.rest).ok()
}

pub(super) fn header_names(cassette: &Cassette) -> Found {
    const CLAUSE: &str = "Limits: responses carry X-RateLimit-Limit and X-RateLimit-Remaining";
    let (names, readings) = (names(cassette)?, readings(cassette)?);
    let value = json!({ "limit": names[0], "remaining": names[1] });
    Ok(Seen::new(value, calls(&readings)).against(CLAUSE, names != PUBLISHED))
}

pub(super) fn enabled(cassette: &Cassette) -> Found {
    if let Some((number, _)) = rated(cassette).into_iter().find(|(_, answer)| answer.status == 429) {
        return Ok(Seen::new(true, [number]));
    }
    let mut readings = readings(cassette)?;
    readings.retain(|reading| reading.status == 200);
    let costs = readings.iter().any(|reading| reading.rest < reading.limit);
    if !costs && readings.len() < 3 {
        return cassette.not_reached("unknown-parameter");
    }
    Ok(Seen::new(costs, calls(&readings)).against("Limits: sandbox traffic is throttled per key", !costs))
}

pub(super) fn requests(cassette: &Cassette) -> Found {
    let readings = readings(cassette)?;
    let limits: BTreeSet<i64> = readings.iter().map(|reading| reading.limit).collect();
    match limits.into_iter().collect::<Vec<_>>().as_slice() {
        [limit @ 0..=4_294_967_295] => Ok(Seen::new(*limit, calls(&readings))),
        limits => hidden(format!("the limit is {limits:?}")),
    }
}

pub(super) fn count(cassette: &Cassette) -> Found {
    let readings = readings(cassette)?;
    // Where more is left than before, a window has ended.
    let pairs = readings.windows(2).filter(|pair| pair[1].follows && pair[1].rest <= pair[0].rest);
    let costs: Vec<(u16, i64, usize)> =
        pairs.map(|pair| (pair[1].status, pair[0].rest - pair[1].rest, pair[1].number)).collect();
    let of = |wanted: u16| costs.iter().filter(move |(status, ..)| *status == wanted);
    if of(422).any(|(_, costs, _)| *costs > 0) {
        return hidden("a 422 costs quota; whether a 429 does is not seen, as the first one ends the calls");
    }
    if of(422).count() < 2 || of(200).filter(|(_, costs, _)| *costs == 1).count() < 2 {
        return cassette.ended("the headers do not show what a request costs");
    }
    if of(200).any(|(_, costs, _)| *costs != 1) {
        return hidden("the rest changes by itself");
    }
    Ok(Seen::new("successful", of(200).chain(of(422)).map(|(.., number)| *number)))
}

pub(super) fn reset(cassette: &Cassette) -> Found {
    let answers = rated(cassette);
    let resets: Vec<Option<i64>> = answers.iter().map(|(_, answer)| number(answer, RESET)).collect();
    let form = match resets.as_slice() {
        [] => return cassette.not_reached("status"),
        _ if answers.iter().all(|(_, answer)| answer.header(RESET).is_none()) => "off",
        resets if resets.iter().all(|reset| reset.is_some_and(|reset| reset >= EPOCH)) => "epoch",
        resets if resets.iter().all(|reset| reset.is_some_and(|reset| reset < EPOCH)) => "delta",
        _ => return hidden("X-RateLimit-Reset is neither seconds nor a time in all answers"),
    };
    Ok(Seen::new(form, answers.iter().map(|(number, _)| *number)))
}

pub(super) fn ietf(cassette: &Cassette) -> Found {
    let answers = rated(cassette);
    let is_sent = |answer: &RecordedAnswer| {
        let is_whole =
            parameter(answer, "ratelimit", "r").is_some() && parameter(answer, "ratelimit-policy", "q").is_some();
        let is_none = answer.header("ratelimit").is_none() && answer.header("ratelimit-policy").is_none();
        (is_whole || is_none).then_some(is_whole)
    };
    let sent: BTreeSet<Option<bool>> = answers.iter().map(|(_, answer)| is_sent(answer)).collect();
    match sent.into_iter().collect::<Vec<_>>().as_slice() {
        [] => cassette.not_reached("status"),
        [Some(is_sent)] => Ok(Seen::new(*is_sent, answers.iter().map(|(number, _)| *number))),
        _ => hidden("RateLimit and RateLimit-Policy are not both there, or in another form"),
    }
}

pub(super) fn retry_after(cassette: &Cassette) -> Found {
    let Some((number, answer)) = rated(cassette).into_iter().find(|(_, answer)| answer.status == 429) else {
        let stop = cassette.stop();
        let why = "no call was answered 429; --yes allows to use the quota up, if it is small enough";
        return Err(Unclear::NotReached(stop.unwrap_or_else(|| why.to_owned())));
    };
    match answer.header("retry-after") {
        None => Ok(Seen::new("off", [number])),
        Some(text) if text.parse::<u64>().is_ok() => Ok(Seen::new("seconds", [number])),
        Some(text) if DateTimeParser::new().parse_timestamp(text).is_ok() => Ok(Seen::new("date", [number])),
        Some(text) => hidden(format!("Retry-After is `{}`", text.escape_debug())),
    }
}

/// The kind of window, told by how its end moves while requests are made.
pub(super) fn algorithm(cassette: &Cassette) -> Found {
    let readings = readings(cassette)?;
    // How far the end moved while how much time passed.
    let mut moves = Vec::new();
    for pair in readings.windows(2) {
        let (Some(before), Some(after)) = (pair[0].end, pair[1].end) else {
            return hidden("no header shows when the quota is whole again");
        };
        // A window that ended says nothing.
        if pair[0].rest - pair[1].rest == 1 && pair[0].rest < pair[0].limit {
            moves.push((after - before, pair[1].at - pair[0].at));
        }
    }
    if moves.iter().any(|(moved, passed)| moved - passed >= 2.0) {
        return Ok(Seen::new("token_bucket", calls(&readings)));
    }
    // Requests within a second may look alike under any kind.
    moves.retain(|(_, passed)| *passed >= 1.0);
    let is_steady = |drifts: &[f64]| drifts.iter().all(|by| by.abs() <= 1.0) && drifts.iter().sum::<f64>().abs() <= 2.0;
    let ends: Vec<f64> = moves.iter().map(|(moved, _)| *moved).collect();
    let lengths: Vec<f64> = moves.iter().map(|(moved, passed)| moved - passed).collect();
    match (is_steady(&ends), is_steady(&lengths)) {
        _ if moves.len() < 3 => cassette.ended("the calls were too fast, or the window too short; try --pause 2s"),
        (true, false) => Ok(Seen::new("fixed", calls(&readings))),
        (false, true) => Ok(Seen::new("sliding", calls(&readings))),
        _ => hidden("the time until the quota is whole again changes as under no known kind"),
    }
}

/// How far the service's clock is ahead of this one, from `checked_at` if it has fractions of a second.
fn skew(cassette: &Cassette) -> Option<f64> {
    cassette.of_key().find_map(|(exchange, answer)| {
        let checked = answer.object()?.get("checked_at")?.as_str()?.to_owned();
        let checked: Timestamp = checked.parse().ok().filter(|_| checked.contains('.'))?;
        Some(checked.duration_since(exchange.at).as_secs_f64())
    })
}

#[allow(clippy::cast_possible_truncation, reason = "seconds of a window")]
pub(super) fn window(cassette: &Cassette) -> Found {
    let seen = |seconds: i64, calls: Vec<usize>| {
        Ok(Seen::new(format!("{seconds}s"), calls).noted("in whole seconds, rounded up"))
    };
    let policies: BTreeSet<i64> =
        cassette.of_key().filter_map(|(_, answer)| parameter(answer, "ratelimit-policy", "w")).collect();
    let readings = readings(cassette)?;
    if let (1, Some(seconds @ 1..)) = (policies.len(), policies.first()) {
        return seen(*seconds, calls(&readings).collect());
    }
    let kind = algorithm(cassette)?;
    let first = readings.first().and_then(|first| Some((first, first.end?)));
    let Some((first, end)) = first else { return hidden("no header shows when the quota is whole again") };
    let Some(ahead) = (if first.is_epoch { skew(cassette) } else { Some(0.0) }) else {
        return hidden("the service's clock is known to a second only");
    };
    // Times are rounded up.
    let seconds = (end - first.at - ahead + 0.001).floor() as i64;
    match kind.value.as_str() {
        Some("sliding") if seconds >= 1 => seen(seconds, kind.calls),
        Some("fixed") if first.rest != first.limit - 1 => hidden("the window had begun before the first call"),
        // The end of a window that follows the clock says nothing about its length.
        Some("fixed") if (end.round() % 60.0).abs() < 0.5 => {
            hidden("it ends on a full minute, so it may follow the clock")
        }
        Some("fixed") if seconds >= 1 => seen(seconds, vec![first.number]),
        _ => hidden("a bucket shows how fast it fills, not its window"),
    }
}
