//! The answer to a path that leads to no endpoint: it names the nearest endpoint, or all of them.
//!
//! The cost is bounded: only short paths are compared, and only the beginning of a path is repeated.

use std::fmt::Write as _;

use hyper::Method;

use crate::contract::routes::{ROUTES, Route, Stage};

/// Longest path that is compared. A longer one cannot be a misspelt endpoint.
const LONGEST_COMPARED: usize = 64;
/// Most characters of a path that are repeated.
const MOST_REPEATED: usize = 80;
/// The similarity, from 0 to 1, from which a path is taken for a misspelt endpoint.
const LIKELY: f64 = 0.65;

/// Why this path leads nowhere, and what was probably meant; announced endpoints only where they are served.
pub fn no_endpoint(method: &Method, path: &str, serves_announced: bool) -> String {
    let served: Vec<&Route> = ROUTES
        .iter()
        .filter(|route| route.stage == Stage::Open || serves_announced && !route.path.contains('{'))
        .collect();
    let name = |route: &Route| format!("{} {}", route.method, route.path);
    let shown = repeated(path);
    if let Some((above, _)) = path.split_once("/_emulator").filter(|(above, _)| !above.is_empty()) {
        let above = repeated(above);
        return format!(
            "no endpoint `{shown}`; the control API is at `/_emulator`, so leave `{above}` out of the emulator's URL"
        );
    }
    if let Some(route) = nearest_route(&served, method, path) {
        return format!("no endpoint `{shown}`; did you mean {}?", name(route));
    }
    let open: Vec<String> = served.iter().filter(|route| route.stage == Stage::Open).map(|route| name(route)).collect();
    let (last, others) = open.split_last().expect("the contract opens endpoints");
    format!("no endpoint `{shown}`; there are {} and {last}", others.join(", "))
}

/// The route whose path is most like this one, with the method of the request where there is a choice.
fn nearest_route<'r>(routes: &[&'r Route], method: &Method, path: &str) -> Option<&'r Route> {
    if path.len() > LONGEST_COMPARED {
        return None;
    }
    let sent = meant(path);
    if sent.is_empty() {
        return None;
    }
    let likeness = |route: &Route| strsim::normalized_damerau_levenshtein(&sent, &meant(route.path));
    let ranked = routes.iter().map(|route| (likeness(route), route.method == *method, *route));
    // The first of several that are equal.
    let best = ranked.rev().max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    best.filter(|(likeness, ..)| *likeness >= LIKELY).map(|(.., route)| route)
}

/// What is left of a path without its version, its empty segments and its case, which are what people get wrong first.
fn meant(path: &str) -> String {
    let lower = path.to_ascii_lowercase();
    let segments = lower.split('/').filter(|segment| !segment.is_empty());
    let is_version = |segment: &str| {
        segment.strip_prefix('v').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    segments.skip_while(|segment| is_version(segment)).collect::<Vec<_>>().join("/")
}

/// The beginning of a path, safe to repeat: everything but letters, digits and the punctuation of plain paths is percent-encoded.
fn repeated(path: &str) -> String {
    let mut shown = String::new();
    for byte in path.bytes().take(MOST_REPEATED) {
        if byte.is_ascii_alphanumeric() || b"/-._~%:@!$*+,;=".contains(&byte) {
            shown.push(char::from(byte));
        } else {
            // A write to a String cannot fail.
            let _ = write!(shown, "%{byte:02X}");
        }
    }
    if path.len() > MOST_REPEATED {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let near = |path: &str| {
            let routes: Vec<&Route> = ROUTES.iter().filter(|route| route.stage == Stage::Open).collect();
            nearest_route(&routes, &Method::GET, path).map(|route| route.path)
        };
        for (path, expected) in [
            ("/v1/sytem/status", Some("/v1/system/status")),
            ("/v1/system/state", Some("/v1/system/status")),
            ("/system/status", Some("/v1/system/status")),
            ("/V12//Hello/", Some("/v1/hello")),
            ("/v1/helo", Some("/v1/hello")),
            ("/v1/event/subscribe", Some("/v1/events/subscribe")),
            ("/v1/subscriptions", None),
            ("/v1/invoices", None),
            ("/favicon.ico", None),
            ("/v1", None),
            ("/", None),
            ("", None),
            (&format!("/v1/hello{}", "/".repeat(100)), None),
        ] {
            assert_eq!(near(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_repeated_is_plain_and_short() {
        assert_eq!(repeated("/a b`\"<>{}\u{202e}"), "/a%20b%60%22%3C%3E%7B%7D%E2%80%AE");
        let long = repeated(&"/x".repeat(10_000));
        assert!(long.ends_with("/x…") && long.chars().count() == MOST_REPEATED + 1, "{long}");
    }
}
