//! What the quota's headers show, over the calls of one key.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::super::cassette::{Cassette, Exchange, RecordedAnswer};
use super::evidence::{Evidence, Found, Seen, Unclear, hidden};

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
    /// Seconds since 1970, by the service's clock as far as it tells.
    at: f64,
    /// Seconds until the quota is whole again, at most one second too many.
    reset: Option<f64>,
    /// Whether that was a time, and not a number of seconds.
    is_epoch: bool,
    /// Whether the call before it, of this key, has a reading, too.
    follows: bool,
}

struct Names {
    limit: String,
    rest: String,
}

/// Answers to calls that cost quota.
fn rated<'c>(evidence: &Evidence<'c>) -> impl Iterator<Item = (usize, &'c RecordedAnswer)> {
    let answers = evidence.of_key().filter(|(exchange, _)| !exchange.name.ends_with("-2"));
    answers
        .filter(|(_, answer)| matches!(answer.status, 200 | 422 | 429))
        .map(|(exchange, answer)| (exchange.number, answer))
}

fn number(answer: &RecordedAnswer, name: &str) -> Option<i64> {
    answer.header(name)?.trim().parse().ok().filter(|number| *number >= 0)
}

fn names(evidence: &Evidence<'_>) -> Result<Names, Unclear> {
    let answers: Vec<&RecordedAnswer> = rated(evidence).map(|(_, answer)| answer).collect();
    let Some((first, rest)) = answers.split_first() else { return evidence.not_reached("status") };
    let in_all = |name: &str| answers.iter().all(|answer| number(answer, name).is_some());
    let values = |name: &str| -> Vec<i64> { answers.iter().filter_map(|answer| number(answer, name)).collect() };
    let fits = |limit: &str, left: &str| values(limit).iter().zip(values(left)).all(|(limit, left)| *limit >= left);
    let named = |limit: &str, rest: &str| Names { limit: limit.to_owned(), rest: rest.to_owned() };
    let [limit, left] = PUBLISHED;
    if in_all(limit) && in_all(left) && fits(limit, left) {
        return Ok(named(limit, left));
    }
    // Under other names: two numbers, the same headers not sent without a key, and one never more than the other.
    let without: BTreeSet<&str> = evidence
        .cassette
        .answers("hello")
        .flat_map(|(_, answer)| &answer.headers)
        .map(|(name, _)| name.as_str())
        .collect();
    let candidate = |name: &&str| !OTHERS.contains(name) && !without.contains(name) && in_all(name);
    let found: BTreeSet<&str> = first.headers.iter().map(|(name, _)| name.as_str()).filter(candidate).collect();
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [one, other] if values(one) == values(other) => hidden("the two headers of numbers always agree"),
        [one, other] if fits(one, other) => Ok(named(one, other)),
        [one, other] if fits(other, one) => Ok(named(other, one)),
        found if rest.is_empty() && !found.is_empty() => evidence.not_reached("status"),
        [] => hidden("no header shows the quota"),
        found => hidden(format!("it is not clear which headers show the quota: {}", found.join(", "))),
    }
}

/// The value of a parameter in a header such as `"default";q=100;w=60`.
fn parameter(text: &str, name: &str) -> Option<i64> {
    text.split([';', ',']).find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')?.trim().parse().ok())
}

fn readings(evidence: &Evidence<'_>) -> Result<(Names, Vec<Reading>), Unclear> {
    let names = names(evidence)?;
    let rated: BTreeSet<usize> = rated(evidence).map(|(number, _)| number).collect();
    let (mut readings, mut follows, (skew, _)) = (Vec::new(), false, skew(evidence));
    for (exchange, answer) in evidence.of_key() {
        let is_rated = rated.contains(&exchange.number);
        if let (true, Some(limit), Some(rest)) = (is_rated, number(answer, &names.limit), number(answer, &names.rest)) {
            let at = exchange.at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64() + skew;
            let until = answer.header("ratelimit").and_then(|text| parameter(text, "t"));
            #[allow(clippy::cast_precision_loss, reason = "seconds of this century")]
            let reset = until.or_else(|| number(answer, RESET)).map(|reset| reset as f64);
            let is_epoch = reset.is_some_and(|reset| reset > 1e9);
            let reset = reset.map(|reset| if is_epoch { reset - at } else { reset });
            let (number, status) = (exchange.number, answer.status);
            readings.push(Reading { number, status, limit, rest, at, reset, is_epoch, follows });
        }
        follows = is_rated;
    }
    Ok((names, readings))
}

/// How far the service's clock is ahead of this one, and whether that is known to less than a second: from `checked_at`.
fn skew(evidence: &Evidence<'_>) -> (f64, bool) {
    let clock = |(exchange, answer): (&Exchange, &RecordedAnswer)| {
        let checked = answer.object().and_then(|status| Some(status.get("checked_at")?.as_str()?.to_owned()));
        let exact = checked.as_ref().is_some_and(|text| text.contains('.'));
        let checked = checked.and_then(|text| text.parse::<Timestamp>().ok());
        let date = || DateTimeParser::new().parse_timestamp(answer.header("date")?).ok();
        Some((checked.or_else(date)?.duration_since(exchange.at).as_secs_f64(), exact))
    };
    let clocks: Vec<_> = evidence.of_key().filter_map(clock).collect();
    clocks.iter().find(|(_, exact)| *exact).or(clocks.first()).copied().unwrap_or_default()
}

/// Whole seconds: times are rounded up.
#[allow(clippy::cast_possible_truncation, reason = "seconds of a window")]
fn whole(seconds: f64) -> i64 {
    (seconds + 0.001).floor() as i64
}

fn calls(readings: &[Reading]) -> impl Iterator<Item = usize> {
    readings.iter().map(|reading| reading.number)
}

/// How many requests are left; `None` if no header shows it.
pub(in crate::calibrate) fn rest(cassette: &Cassette) -> Option<usize> {
    let (_, readings) = readings(&Evidence { cassette }).ok()?;
    usize::try_from(readings.last()?.rest).ok()
}

pub(super) fn header_names(evidence: &Evidence<'_>) -> Found {
    const CLAUSE: &str = "Limits: responses carry X-RateLimit-Limit and X-RateLimit-Remaining";
    let (names, readings) = readings(evidence)?;
    let others = [names.limit.as_str(), names.rest.as_str()] != PUBLISHED;
    let value = serde_json::json!({ "limit": names.limit, "remaining": names.rest });
    Ok(Seen::new(value, calls(&readings)).against(CLAUSE, others))
}

pub(super) fn enabled(evidence: &Evidence<'_>) -> Found {
    if let Some((number, _)) = rated(evidence).find(|(_, answer)| answer.status == 429) {
        return Ok(Seen::new(true, [number]));
    }
    let (_, mut readings) = readings(evidence)?;
    readings.retain(|reading| reading.status == 200);
    let costs = readings.iter().any(|reading| reading.rest < reading.limit);
    if costs || readings.len() >= 3 {
        let wrong = "Limits: sandbox traffic is throttled per key";
        return Ok(Seen::new(costs, calls(&readings)).against(wrong, !costs));
    }
    evidence.not_reached("unknown-parameter")
}

pub(super) fn requests(evidence: &Evidence<'_>) -> Found {
    let (_, readings) = readings(evidence)?;
    let limits: BTreeSet<i64> = readings.iter().map(|reading| reading.limit).collect();
    match limits.into_iter().collect::<Vec<_>>().as_slice() {
        [limit @ 0..=4_294_967_295] => Ok(Seen::new(*limit, calls(&readings))),
        limits => hidden(format!("the limit is {limits:?}")),
    }
}

pub(super) fn count(evidence: &Evidence<'_>) -> Found {
    let (_, readings) = readings(evidence)?;
    let (mut paid, mut free) = (Vec::new(), Vec::new());
    for pair in readings.windows(2).filter(|pair| pair[1].follows) {
        let costs = pair[0].rest - pair[1].rest;
        match pair[1].status {
            // More is left than before: a window has ended.
            _ if costs < 0 => {}
            200 => paid.push((pair[1].number, costs)),
            422 => free.push((pair[1].number, costs)),
            _ => {}
        }
    }
    if free.iter().any(|(_, costs)| *costs > 0) {
        return hidden("a 422 costs quota; whether a 429 does is not seen, as the first one ends the calls");
    }
    if free.len() < 2 || paid.iter().filter(|(_, costs)| *costs == 1).count() < 2 {
        return match evidence.cassette.stop() {
            Some(stop) => Err(Unclear::NotReached(stop)),
            None => hidden("the headers do not show what a request costs"),
        };
    }
    if paid.iter().any(|(_, costs)| *costs != 1) {
        return hidden("the rest changes by itself");
    }
    Ok(Seen::new("successful", paid.iter().chain(&free).map(|(number, _)| *number)))
}

fn has_quota_headers(evidence: &Evidence<'_>) -> Result<Vec<(usize, RecordedAnswer)>, Unclear> {
    let answers: Vec<(usize, RecordedAnswer)> =
        rated(evidence).map(|(number, answer)| (number, answer.clone())).collect();
    if answers.is_empty() { evidence.not_reached("status") } else { Ok(answers) }
}

pub(super) fn reset(evidence: &Evidence<'_>) -> Found {
    let answers = has_quota_headers(evidence)?;
    let numbers = answers.iter().map(|(number, _)| *number);
    if answers.iter().all(|(_, answer)| answer.header(RESET).is_none()) {
        return Ok(Seen::new("off", numbers));
    }
    let resets: Option<Vec<i64>> = answers.iter().map(|(_, answer)| number(answer, RESET)).collect();
    match resets.as_deref() {
        Some(resets) if resets.iter().all(|reset| *reset >= EPOCH) => Ok(Seen::new("epoch", numbers)),
        Some(resets) if resets.iter().all(|reset| *reset < EPOCH) => Ok(Seen::new("delta", numbers)),
        _ => hidden("X-RateLimit-Reset is neither seconds nor a time in all answers"),
    }
}

pub(super) fn ietf(evidence: &Evidence<'_>) -> Found {
    let answers = has_quota_headers(evidence)?;
    let numbers = answers.iter().map(|(number, _)| *number);
    let has = |answer: &RecordedAnswer, name: &str, field: &str| {
        answer.header(name).is_some_and(|text| parameter(text, field).is_some())
    };
    let whole = |answer: &RecordedAnswer| has(answer, "ratelimit", "r") && has(answer, "ratelimit-policy", "q");
    let none =
        |answer: &RecordedAnswer| answer.header("ratelimit").is_none() && answer.header("ratelimit-policy").is_none();
    if answers.iter().all(|(_, answer)| whole(answer)) {
        Ok(Seen::new(true, numbers))
    } else if answers.iter().all(|(_, answer)| none(answer)) {
        Ok(Seen::new(false, numbers))
    } else {
        hidden("RateLimit and RateLimit-Policy are not both there, or in another form")
    }
}

pub(super) fn retry_after(evidence: &Evidence<'_>) -> Found {
    let Some((number, answer)) = rated(evidence).find(|(_, answer)| answer.status == 429) else {
        let stop = evidence.cassette.stop().unwrap_or_else(|| {
            "no call was answered 429; --yes allows to use the quota up, if it is small enough".to_owned()
        });
        return Err(Unclear::NotReached(stop));
    };
    let form = match answer.header("retry-after") {
        None => "off",
        Some(text) if text.parse::<u64>().is_ok() => "seconds",
        Some(text) if DateTimeParser::new().parse_timestamp(text).is_ok() => "date",
        Some(text) => return hidden(format!("Retry-After is `{}`", text.escape_debug())),
    };
    Ok(Seen::new(form, [number]))
}

/// The kind of window, told by how the time until it is over changes while requests are made.
pub(super) fn algorithm(evidence: &Evidence<'_>) -> Found {
    let (_, readings) = readings(evidence)?;
    let (mut ends, mut constant, mut rises, mut used) = (Vec::new(), BTreeSet::new(), false, 0);
    for pair in readings.windows(2) {
        let (Some(before), Some(after)) = (pair[0].reset, pair[1].reset) else {
            return hidden("no header shows when the quota is whole again");
        };
        // Requests within a second may look alike under any kind, and a window that ended says nothing.
        let (costs, passed) = (pair[0].rest - pair[1].rest, pair[1].at - pair[0].at);
        if costs != 1 || pair[0].rest >= pair[0].limit {
            continue;
        }
        rises |= after - before >= 2.0;
        if passed >= 1.0 {
            used += 1;
            ends.push(pair[0].at + before - pair[1].at - after);
            constant.insert(whole(before));
            constant.insert(whole(after));
        }
    }
    let calls = calls(&readings);
    if rises {
        return Ok(Seen::new("token_bucket", calls));
    }
    let same_end = ends.iter().all(|moved| moved.abs() <= 1.0) && (ends.iter().sum::<f64>()).abs() <= 2.0;
    match used {
        0..3 => match evidence.cassette.stop() {
            Some(stop) => Err(Unclear::NotReached(stop)),
            None => hidden("the calls were too fast, or the window too short; try --pause 2s"),
        },
        _ if constant.last().zip(constant.first()).is_some_and(|(last, first)| last - first <= 1) => {
            Ok(Seen::new("sliding", calls))
        }
        _ if same_end => Ok(Seen::new("fixed", calls)),
        _ => hidden("the time until the quota is whole again changes as under no known kind"),
    }
}

pub(super) fn window(evidence: &Evidence<'_>) -> Found {
    let (_, readings) = readings(evidence)?;
    let policies: BTreeSet<i64> =
        evidence.of_key().filter_map(|(_, answer)| parameter(answer.header("ratelimit-policy")?, "w")).collect();
    let seen = |seconds: i64, calls: Vec<usize>| {
        Ok(Seen::new(format!("{seconds}s"), calls).noted("in whole seconds, rounded up"))
    };
    if let (1, Some(seconds @ 1..)) = (policies.len(), policies.first()) {
        return seen(*seconds, calls(&readings).collect());
    }
    let kind = algorithm(evidence)?;
    let first = readings.first().and_then(|reading| Some((reading, whole(reading.reset?))));
    match (kind.value.as_str(), first) {
        (_, Some((reading, _))) if reading.is_epoch && !skew(evidence).1 => {
            hidden("the service's clock is known to a second only")
        }
        (Some("sliding"), Some((_, seconds @ 1..))) => seen(seconds, kind.calls),
        (Some("fixed"), Some((reading, seconds @ 1..))) if reading.rest == reading.limit - 1 => {
            // The end of a window that follows the clock says nothing about its length.
            if ((reading.at + reading.reset.unwrap_or_default()).round() % 60.0).abs() < 0.5 {
                return hidden("it ends on a full minute, so it may follow the clock");
            }
            seen(seconds, vec![reading.number])
        }
        (Some("fixed"), _) => hidden("the window had begun before the first call"),
        _ => hidden("a bucket shows how fast it fills, not its window"),
    }
}
