//! Two runs compared: whether the client saw anything of a change, and the first request in which it acted differently.

use serde::Serialize;

use super::record::{Aspect, Exchange, Features, Record, shape};

/// Most characters of a text that are shown.
const SHOWN: usize = 400;

/// The first request that differs from the plain run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub what: String,
    /// The request of the plain run; `None` if the changed run has an additional one.
    pub plain: Option<String>,
    /// The request in its place in the changed run; `None` if it is missing.
    pub changed: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sight {
    pub what: String,
    /// The answer or the event; of a long one the beginning.
    pub text: String,
}

/// Whether the client saw anything of the change.
pub fn is_exercised(plain: &Record, changed: &Record, aspect: Aspect) -> bool {
    !changed.features(aspect).is_subset(&plain.features(aspect))
}

/// The first request that differs, and the changed answer or event that the client saw last before it.
pub fn compare(plain: &Record, changed: &Record, aspect: Aspect) -> (Option<Difference>, Option<Sight>) {
    let (difference, before) = match first_difference(plain, changed) {
        Some((difference, place)) => (Some(difference), place),
        None => (None, changed.exchanges.len()),
    };
    (difference, last_sight(plain, changed, aspect, before))
}

/// The last changed answer before the request at this place; without one, the first changed event.
fn last_sight(plain: &Record, changed: &Record, aspect: Aspect, before: usize) -> Option<Sight> {
    let known = plain.features(aspect);
    let is_new = |features: Features| !features.is_subset(&known);
    let shown = |text: &str| match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let earlier = changed.exchanges.iter().take(before);
    let answer = earlier.rev().find(|exchange| is_new(exchange.features(aspect))).map(|exchange| {
        let headers = exchange.headers.iter().filter(|name| !known.contains(&name.to_ascii_lowercase()));
        let headers = headers.map(String::as_str).collect::<Vec<_>>().join(", ");
        let text = if aspect == Aspect::Header { headers } else { exchange.answer.clone() };
        Sight {
            what: format!("the answer {} to {} ({})", exchange.status, exchange.title(), exchange.id),
            text: shown(&text),
        }
    });
    answer.or_else(|| {
        let varied = || changed.delivered.iter().find(|one| is_new(one.features(aspect)));
        let event = changed.unusual(aspect).next().or_else(varied)?;
        let what = format!("the delivery {} of {}", event.id, event.event_type);
        Some(Sight { what, text: shown(&event.body) })
    })
}

/// The first difference in the order of the changed run, and the place of its request there.
fn first_difference(plain: &Record, changed: &Record) -> Option<(Difference, usize)> {
    let keys = |record: &Record| {
        let mut keys: Vec<Option<String>> = record.exchanges.iter().map(|exchange| exchange.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let (known, found) = (keys(plain), keys(changed));
    // Tests with keys of their own may run at the same time, so each key is compared by itself; keys that are drawn anew by each run
    // have no counterpart, and everything is compared in one sequence.
    let are_drawn = found.iter().any(|key| !known.contains(key));
    let groups = if are_drawn { vec![None] } else { known.into_iter().map(Some).collect() };
    let differences = groups.iter().filter_map(|group| {
        let of = |record| of_key(record, group.as_ref());
        difference_of(&of(plain), &of(changed))
    });
    // Anything may have led to a request that is missing; of several, the first in the plain run is reported.
    let first = differences.min_by_key(|(_, [before, now])| (now.unwrap_or(usize::MAX), *before));
    first.map(|(difference, [_, now])| (difference, now.unwrap_or(usize::MAX)))
}

/// The exchanges of a key with their places; without a key, those of all keys.
fn of_key<'r>(record: &'r Record, key: Option<&Option<String>>) -> Vec<(usize, &'r Exchange)> {
    let all = record.exchanges.iter().enumerate();
    all.filter(|(_, exchange)| key.is_none_or(|key| *key == exchange.key)).collect()
}

/// The first difference, and the places of the two requests in their runs.
fn difference_of(
    plain: &[(usize, &Exchange)],
    changed: &[(usize, &Exchange)],
) -> Option<(Difference, [Option<usize>; 2])> {
    let at = (0..plain.len().max(changed.len())).find(|at| {
        let shape = |list: &[(usize, &Exchange)]| list.get(*at).map(|(_, exchange)| exchange.shape());
        shape(plain) != shape(changed)
    })?;
    let title = |list: &[(usize, &Exchange)]| list.get(at).map(|(_, exchange)| exchange.title());
    let nth = |list: &[(usize, &Exchange)]| {
        let title = list[at].1.title();
        let count = list[..=at].iter().filter(|(_, exchange)| exchange.title() == title).count();
        format!("{title} (number {count})")
    };
    let what = match (plain.get(at), changed.get(at)) {
        (Some((_, one)), Some((_, other))) if shape(&one.title()) == shape(&other.title()) => {
            format!("{} has another body", nth(changed))
        }
        (Some(_), Some(_)) => format!("{} came in place of {}", nth(changed), nth(plain)),
        (Some(_), None) => format!("{} did not come any more", nth(plain)),
        _ => format!("{} came in addition", nth(changed)),
    };
    let places = [plain, changed].map(|list| list.get(at).map(|(place, _)| *place));
    Some((Difference { what, plain: title(plain), changed: title(changed) }, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(requests: &[(&str, &str, &str)]) -> Record {
        let exchange = |(at, (key, title, answer)): (usize, &(&str, &str, &str))| {
            let (method, target) = title.split_once(' ').expect("method and target");
            let (target, body) = target.split_once(' ').unwrap_or((target, ""));
            Exchange {
                id: format!("req_{at}"),
                key: Some((*key).to_owned()),
                method: method.to_owned(),
                target: target.to_owned(),
                body: body.to_owned(),
                status: 200,
                answer: (*answer).to_owned(),
                ..Exchange::default()
            }
        };
        Record { exchanges: requests.iter().enumerate().map(exchange).collect(), ..Record::default() }
    }

    #[test]
    fn the_first_difference_is_named_with_what_led_there() {
        const ONE: &str = "{\"a\":1}";
        const MORE: &str = "{\"a\":1,\"b\":2}";
        let plain = run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_1", ONE), ("k", "POST /c x", ONE)]);
        for (changed, what, led) in [
            (run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_2", ONE), ("k", "POST /c x", ONE)]), None, None),
            (run(&[("k", "GET /a", MORE)]), Some("GET /b/sub_1 (number 1) did not come any more"), Some("req_0")),
            (
                run(&[("k", "GET /a", MORE), ("k", "GET /b/sub_2", MORE), ("k", "POST /c y", MORE)]),
                Some("POST /c (number 1) has another body"),
                Some("req_1"),
            ),
            (
                run(&[("k", "GET /a", MORE), ("k", "GET /a", MORE)]),
                Some("GET /a (number 2) came in place of GET /b/sub_1 (number 1)"),
                Some("req_0"),
            ),
            (
                run(&[("new", "GET /a", MORE), ("new", "GET /b/sub_2", ONE)]),
                Some("POST /c (number 1) did not come any more"),
                Some("req_0"),
            ),
            (
                run(&[("k", "GET /a", ONE), ("k", "GET /b/sub_2", ONE), ("k", "POST /c x", ONE), ("k", "GET /a", ONE)]),
                Some("GET /a (number 2) came in addition"),
                None,
            ),
        ] {
            let (difference, sight) = compare(&plain, &changed, Aspect::Keys);
            assert_eq!(difference.as_ref().map(|difference| difference.what.as_str()), what);
            assert_eq!(
                sight.as_ref().is_some_and(|sight| led.is_some_and(|id| sight.what.contains(id))),
                led.is_some()
            );
            assert_eq!(is_exercised(&plain, &changed, Aspect::Keys), led.is_some());
        }
    }

    #[test]
    fn keys_whose_tests_run_at_the_same_time_are_compared_by_themselves() {
        let plain = run(&[("a", "GET /1", ""), ("b", "GET /2", ""), ("a", "GET /3", "")]);
        let changed = run(&[("b", "GET /2", ""), ("a", "GET /1", ""), ("a", "GET /3", "")]);
        assert_eq!(compare(&plain, &changed, Aspect::Keys), (None, None));
    }
}
