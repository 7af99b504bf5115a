//! Inference from the quota's headers, over the calls of one key.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::json;

use super::call_log::{CallKey, CallLog, Exchange};
use super::evidence::{Observation, Seen, UNKNOWN_KEY, Unclear, hidden, not_reached, unlike_any};
use super::promises::{STATUS, SUBSCRIBE};
use crate::contract::clauses;

const PUBLISHED: [&str; 2] = ["x-ratelimit-limit", "x-ratelimit-remaining"];
/// The usual header that shows when the quota is whole again, and what the names of others have in common with it.
const RESET: &str = "x-ratelimit-reset";
const RESETS: &str = "reset";
/// Headers of numbers that are not the quota's, besides those that show when it is whole again.
const OTHERS: [&str; 4] = ["content-length", "age", "retry-after", "x-emulator-generation"];
/// Numbers from here on are times since 1970.
const EPOCH: i64 = 1_000_000_000;
const NO_END: &str = "no header shows when the quota is whole again";

/// The quota as one answer shows it.
struct Reading<'c> {
    call: &'c Exchange,
    limit: i64,
    rest: i64,
    /// When the call was made, in seconds since 1970, by the clock here.
    at: f64,
    /// When the quota is whole again, up to a second late: by the service's clock if it sends a time, else by the clock here.
    end: Option<f64>,
    /// True if the call of this key before it had ended, and also cost quota.
    follows: bool,
}

fn has_key(call: &Exchange) -> bool {
    matches!(call.key, CallKey::Given | CallKey::Unrecorded)
}

fn is_rated(call: &Exchange) -> bool {
    let is_published = [STATUS, SUBSCRIBE].contains(&call.path());
    has_key(call) && (call.status() == 429 || is_published && matches!(call.status(), 200 | 422))
}

/// Answers to calls that cost quota.
fn rated(call_log: &CallLog) -> impl Iterator<Item = &Exchange> {
    call_log.answered().filter(|call| is_rated(call))
}

fn number(call: &Exchange, name: &str) -> Option<i64> {
    call.header(name)?.trim().parse().ok().filter(|number| *number >= 0)
}

/// The value of a parameter in a header such as `"default";q=100;w=60`.
fn parameter(call: &Exchange, header: &str, name: &str) -> Option<i64> {
    let mut parts = call.header(header)?.split([';', ',']);
    parts.find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')?.trim().parse().ok())
}

/// The header that shows when the quota is whole again: the usual one, or the only one with numbers whose name says so.
fn reset_header(call_log: &CallLog) -> Option<&str> {
    let is_reset = |name: &str| name.contains(RESETS) && rated(call_log).all(|call| number(call, name).is_some());
    let first = rated(call_log).next()?;
    if first.header(RESET).is_some() {
        return Some(RESET);
    }
    let found: Vec<&str> = first.answer_headers().map(|(name, _)| name).filter(|name| is_reset(name)).collect();
    if let [one] = found[..] { Some(one) } else { None }
}

/// The headers of the limit and of the rest.
fn names(call_log: &CallLog) -> Result<[&str; 2], Unclear> {
    let first = rated(call_log).next().ok_or_else(|| call_log.not_shown_by("status"))?;
    let values = |name: &str| rated(call_log).map(|call| number(call, name)).collect::<Option<Vec<i64>>>();
    // A header whose number is never more than the other.
    let matches = |[limit, rest]: [&str; 2]| match (values(limit), values(rest)) {
        (Some(limits), Some(rests)) => limits.iter().zip(&rests).all(|(limit, rest)| limit >= rest),
        _ => false,
    };
    if matches(PUBLISHED) {
        return Ok(PUBLISHED);
    }
    // Under other names: two numbers, the same headers not sent without a key.
    let is_keyless = |name: &str| call_log.answers("hello").any(|call| call.header(name).is_some());
    let names = first.answer_headers().map(|(name, _)| name);
    let found: BTreeSet<&str> = names
        .filter(|name| !OTHERS.contains(name) && !name.contains(RESETS) && !is_keyless(name) && values(name).is_some())
        .collect();
    match Vec::from_iter(found)[..] {
        [one, other] if values(one) == values(other) => hidden("the two headers of numbers always agree"),
        [one, other] if matches([one, other]) => Ok([one, other]),
        [one, other] if matches([other, one]) => Ok([other, one]),
        [] => hidden("no header shows the quota"),
        ref found => {
            call_log.too_little(&format!("it is not clear which headers show the quota: {}", found.join(", ")))
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds of this century")]
fn readings(call_log: &CallLog) -> Result<Vec<Reading<'_>>, Unclear> {
    let [limit, rest] = names(call_log)?;
    let reset_header = reset_header(call_log).unwrap_or(RESET);
    let (mut readings, mut follows, mut ended) = (Vec::new(), false, f64::MIN);
    for call in call_log.answered().filter(|call| has_key(call)) {
        if let (true, Some(limit), Some(rest)) = (is_rated(call), number(call, limit), number(call, rest)) {
            let at = call.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
            let reset = parameter(call, "ratelimit", "t").or_else(|| number(call, reset_header));
            let end = reset.map(|reset| if reset >= EPOCH { reset as f64 } else { at + reset as f64 });
            readings.push(Reading { call, limit, rest, at, end, follows: follows && at >= ended });
            ended = at + Duration::from_millis(call.took_ms).as_secs_f64();
        }
        follows = is_rated(call);
    }
    Ok(readings)
}

/// Changes from call to call are only known if the calls are those of one key.
fn require_one_key(readings: Vec<Reading<'_>>) -> Result<Vec<Reading<'_>>, Unclear> {
    let is_unknown = readings.iter().any(|reading| reading.call.key == CallKey::Unrecorded);
    if is_unknown { hidden(UNKNOWN_KEY) } else { Ok(readings) }
}

fn calls<'c>(readings: &[Reading<'c>]) -> impl Iterator<Item = &'c Exchange> {
    readings.iter().map(|reading| reading.call)
}

/// How many requests are left; `None` if no header shows it.
pub(super) fn rest(call_log: &CallLog) -> Option<usize> {
    usize::try_from(readings(call_log).ok()?.last()?.rest).ok()
}

pub(super) fn header_names(call_log: &CallLog) -> Observation {
    let names = names(call_log)?;
    let seen = Seen::new(json!({ "limit": names[0], "remaining": names[1] }), rated(call_log));
    Ok(seen.against(clauses::QUOTA_HEADERS, names != PUBLISHED))
}

pub(super) fn enabled(call_log: &CallLog) -> Observation {
    if let Some(refused) = rated(call_log).find(|call| call.status() == 429) {
        return Ok(Seen::new(true, [refused]));
    }
    let mut readings = readings(call_log)?;
    readings.retain(|reading| reading.call.status() == 200);
    let costs = readings.iter().any(|reading| reading.rest < reading.limit);
    if !costs && readings.len() < 3 {
        return call_log.too_little("too few headers show the quota");
    }
    Ok(Seen::new(costs, calls(&readings)).against(clauses::THROTTLED, !costs))
}

pub(super) fn requests(call_log: &CallLog) -> Observation {
    let [limit, _] = names(call_log)?;
    call_log.agreed("status", rated(call_log), |call| match number(call, limit) {
        Some(limit @ 0..=4_294_967_295) => Ok(limit),
        _ => unlike_any(call),
    })
}

pub(super) fn count(call_log: &CallLog) -> Observation {
    let readings = require_one_key(readings(call_log)?)?;
    if call_log.is_traffic && algorithm(call_log)?.value != "fixed" {
        return hidden("the rest may change by itself between the calls of a client");
    }
    // In other traffic a window is recognised by its end, in the plan by a remaining count that rises.
    let is_same_window = |pair: &[Reading<'_>]| {
        let ends = pair[0].end.zip(pair[1].end);
        !call_log.is_traffic || ends.is_some_and(|(one, other)| (one - other).abs() <= 1.0)
    };
    let pairs = readings.windows(2);
    let pairs = pairs.filter(|pair| pair[1].follows && pair[1].rest <= pair[0].rest && is_same_window(pair));
    let costs: Vec<(&Exchange, i64)> = pairs.map(|pair| (pair[1].call, pair[0].rest - pair[1].rest)).collect();
    let of = |status: u16| costs.iter().filter(move |(call, _)| call.status() == status);
    if of(422).any(|(_, costs)| *costs > 0) {
        return hidden("a 422 costs quota; whether a 429 does is not seen because the first one ends the calls");
    }
    if of(422).count() < 2 || of(200).filter(|(_, costs)| *costs == 1).count() < 2 {
        return call_log.too_little("the headers do not show what a request costs");
    }
    if of(200).any(|(_, costs)| *costs != 1) {
        return hidden("the rest changes by itself");
    }
    Ok(Seen::new("successful", of(200).chain(of(422)).map(|(call, _)| *call)))
}

pub(super) fn reset_header_name(call_log: &CallLog) -> Observation {
    match reset_header(call_log) {
        Some(name) => Ok(Seen::new(shown_name(name), rated(call_log))),
        None if rated(call_log).next().is_none() => Err(call_log.not_shown_by("status")),
        None => hidden("no header, or more than one, shows when the quota is whole again"),
    }
}

/// The usual name as the default writes it, so that it does not count as another.
fn shown_name(name: &str) -> &str {
    if name == RESET { "X-RateLimit-Reset" } else { name }
}

pub(super) fn reset(call_log: &CallLog) -> Observation {
    let name = reset_header(call_log).unwrap_or(RESET);
    call_log.agreed("status", rated(call_log), |call| match (call.header(name), number(call, name)) {
        (None, _) => Ok("off"),
        (_, Some(EPOCH..)) => Ok("epoch"),
        (_, Some(_)) => Ok("delta"),
        _ => unlike_any(call),
    })
}

pub(super) fn ietf(call_log: &CallLog) -> Observation {
    call_log.agreed("status", rated(call_log), |call| {
        let parameters = parameter(call, "ratelimit", "r").and(parameter(call, "ratelimit-policy", "q"));
        match [call.header("ratelimit"), call.header("ratelimit-policy")] {
            [None, None] => Ok(false),
            [Some(_), Some(_)] if parameters.is_some() => Ok(true),
            _ => unlike_any(call),
        }
    })
}

pub(super) fn retry_after(call_log: &CallLog) -> Observation {
    let Some(refused) = rated(call_log).find(|call| call.status() == 429) else {
        return Err(not_reached(match rest(call_log) {
            _ if call_log.is_traffic => "no call was answered 429".to_owned(),
            _ if !call_log.exhausts => "no call was answered 429; the quota is used up with --yes only".to_owned(),
            Some(rest) => format!("no call was answered 429; {rest} requests were left, more than calls"),
            None => "no call was answered 429".to_owned(),
        }));
    };
    match refused.header("retry-after") {
        None => Ok(Seen::new("off", [refused])),
        Some(text) if text.parse::<u64>().is_ok() => Ok(Seen::new("seconds", [refused])),
        Some(text) if DateTimeParser::new().parse_timestamp(text).is_ok() => Ok(Seen::new("date", [refused])),
        Some(_) => unlike_any(refused),
    }
}

/// The kind of window, shown by how its end moves while requests are made.
pub(super) fn algorithm(call_log: &CallLog) -> Observation {
    let readings = require_one_key(readings(call_log)?)?;
    // How far the end moved while how much time passed.
    let mut moves = Vec::new();
    for pair in readings.windows(2) {
        let [Some(before), Some(after)] = [pair[0].end, pair[1].end] else { return hidden(NO_END) };
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
    let is_steady = |drift: fn(&(f64, f64)) -> f64| {
        moves.iter().all(|pair| drift(pair).abs() <= 1.0) && moves.iter().map(drift).sum::<f64>().abs() <= 2.0
    };
    // A bucket that fills as fast as the calls empty it looks like a window of a call or two.
    let pause = moves.iter().map(|(_, passed)| *passed).fold(0.0, f64::max);
    let until_whole =
        readings.iter().filter_map(|reading| Some(reading.end? - reading.at - ahead(call_log, reading, "")?));
    let is_short = until_whole.fold(f64::INFINITY, f64::min) < 3.0 * pause;
    match (is_steady(|(moved, _)| *moved), is_steady(|(moved, passed)| moved - passed)) {
        _ if moves.len() < 3 => {
            let advice = call_log.advice("; try --pause 2s");
            call_log.too_little(&format!("the calls were too fast, or the window too short{advice}"))
        }
        (true, false) => Ok(Seen::new("fixed", calls(&readings))),
        (false, true) if is_short => {
            hidden("a window of a few pauses looks like a bucket; a shorter --pause shows more")
        }
        (false, true) => Ok(Seen::new("sliding", calls(&readings))),
        _ => hidden("the time until the quota is whole again changes as under no known kind"),
    }
}

/// How far the clock by which a reading ends is ahead of this one: the service's, from a `checked_at` that has `part` in it, or this one.
fn ahead(call_log: &CallLog, reading: &Reading<'_>, part: &str) -> Option<f64> {
    let name = reset_header(call_log).unwrap_or(RESET);
    if parameter(reading.call, "ratelimit", "t").is_some() || number(reading.call, name) < Some(EPOCH) {
        return Some(0.0);
    }
    call_log.answered().filter(|call| call.key == CallKey::Given).find_map(|call| {
        let checked = call.json()["checked_at"].as_str()?.to_owned();
        let time: Timestamp = checked.parse().ok().filter(|_| checked.contains(part))?;
        Some(time.duration_since(call.at).as_secs_f64())
    })
}

#[allow(clippy::cast_possible_truncation, reason = "seconds of a window")]
pub(super) fn window(call_log: &CallLog) -> Observation {
    let policy = call_log.agreed("status", rated(call_log), |call| {
        parameter(call, "ratelimit-policy", "w").filter(|seconds| *seconds >= 1).map_or_else(|| unlike_any(call), Ok)
    });
    let (seconds, seen) = if let Ok(policy) = policy {
        (policy.value.as_i64().unwrap_or_default(), policy)
    } else {
        let (kind, readings) = (algorithm(call_log)?, readings(call_log)?);
        let Some((first, end)) = readings.first().and_then(|first| Some((first, first.end?))) else {
            return hidden(NO_END);
        };
        // To a fraction of a second.
        let Some(ahead) = ahead(call_log, first, ".") else {
            return hidden("the service's clock is known to a second only");
        };
        // Times are rounded up.
        let seconds = (end - first.at - ahead + 0.001).floor() as i64;
        match kind.value.as_str() {
            Some("sliding") if seconds >= 1 => (seconds, kind),
            Some("fixed") if first.rest != first.limit - 1 => {
                return hidden("the window had begun before the first call");
            }
            // The end of a window that follows the clock says nothing about its length.
            Some("fixed") if (end.round() % 60.0).abs() < 0.5 => {
                return hidden("it ends on a full minute, so it may follow the clock");
            }
            Some("fixed") if seconds >= 1 => (seconds, Seen::new("", [first.call])),
            _ => return hidden("a bucket shows how fast it fills, not its window"),
        }
    };
    Ok(Seen { value: format!("{seconds}s").into(), ..seen }.noted("in whole seconds, rounded up"))
}
