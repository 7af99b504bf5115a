//! Checks of a profile beyond the types of its settings: values that would corrupt answers or could never work.

use std::collections::BTreeSet;

use hyper::header::HeaderName;

use super::sections::Profile;
use crate::contract::quota::HeaderNameText;
use crate::util::duration::DurationText;

/// Headers that HTTP itself or the emulator sends; a header of a profile with that name would break the answer.
const TAKEN: [&str; 17] = [
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "date",
    "allow",
    "www-authenticate",
    "retry-after",
    "location",
    "x-ratelimit-reset",
    "ratelimit",
    "ratelimit-policy",
];
/// Most copies of one delivery.
const MOST_COPIES: u32 = 100;
/// The fields of a subscription that the contract publishes.
const SUBSCRIPTION_FIELDS: [&str; 5] = ["id", "url", "events", "status", "created_at"];
const ERROR_FIELDS: [&str; 4] = ["code", "message", "request_id", "details"];

/// A rule that a profile breaks.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) settings: &'static [&'static str],
    /// In words; the setting is named by the caller.
    pub(super) message: String,
}

const NAMES: &str = "rate_limit.header_names";
const REQUEST_HEADER: &str = "ids.request_header";
const TEST_PREFIX: &str = "keys.test_prefix";
const LIVE_PREFIX: &str = "keys.live_prefix";

pub(super) fn check(profile: &Profile) -> Vec<Broken> {
    let mut found = Vec::new();
    check_headers(profile, &mut found);
    check_keys(profile, &mut found);
    let mut push = |settings, message| found.push(Broken { settings, message });
    let secret_field = profile.subscriptions.secret_field.as_str();
    if secret_field.is_empty() || SUBSCRIPTION_FIELDS.contains(&secret_field) {
        let message = format!("\"{secret_field}\" cannot name the secret: it is empty or a field of the subscription");
        push(&["subscriptions.secret_field"], message);
    }
    if let Some(field) = profile.errors.extra.keys().find(|field| ERROR_FIELDS.contains(&field.as_str())) {
        push(&["errors.extra"], format!("`{field}` is a field that every error has"));
    }
    if let Some((kind, _)) = profile.errors.codes.iter().find(|(_, code)| code.is_empty()) {
        push(&["errors.codes"], format!("the code of `{}` must not be empty", kind.name()));
    }
    if let Some((name, _)) = profile.status.checks.iter().find(|(_, check)| !check.is_object()) {
        push(&["status.checks"], format!("`{name}` must be an object, such as {{ status = \"ok\" }}"));
    }
    let webhooks = &profile.webhooks;
    let positive: [(&'static [&'static str], DurationText); 3] = [
        (&["rate_limit.window"], profile.rate_limit.window),
        (&["webhooks.timeout"], webhooks.timeout),
        (&["webhooks.connect_timeout"], webhooks.connect_timeout),
    ];
    for (settings, duration) in positive.into_iter().filter(|(_, duration)| duration.get().as_millis() == 0) {
        push(settings, format!("expected at least 1ms, found \"{duration}\""));
    }
    if webhooks.copies.get() > MOST_COPIES {
        push(&["webhooks.copies"], format!("expected at most {MOST_COPIES} copies, found {}", webhooks.copies));
    }
    let word = |text: &String| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(event) = profile.events.extra.iter().find(|event| !word(event)) {
        let message =
            format!("\"{}\" is not an event type: expected letters, digits, `.`, `_` and `-`", event.escape_debug());
        push(&["events.extra"], message);
    }
    if let Err(problem) = webhooks.scheme.check() {
        push(&["webhooks.scheme"], problem.to_owned());
    }
    if let Err(problem) = webhooks.custom.check() {
        push(&["webhooks.custom"], problem);
    }
    found
}

fn check_headers(profile: &Profile, found: &mut Vec<Broken>) {
    let mut push = |settings, message| found.push(Broken { settings, message });
    let taken = |name: &HeaderName| format!("`{name}` is a header that HTTP or the emulator itself sends");
    let names = &profile.rate_limit.header_names;
    let (limit, remaining) = (names.limit.name(), names.remaining.name());
    if let Some(name) = [limit, remaining].into_iter().find(|name| is_taken(name)) {
        push(&[NAMES], taken(name));
    }
    if limit == remaining {
        push(&[NAMES], format!("`limit` and `remaining` cannot both be `{limit}`"));
    }
    let Some(name) = profile.ids.request_header.as_ref().map(HeaderNameText::name) else { return };
    if is_taken(name) {
        push(&[REQUEST_HEADER], taken(name));
    }
    if [limit, remaining].contains(&name) {
        let message = format!("`{name}` is a quota header and cannot carry the request's id as well");
        push(&[REQUEST_HEADER, NAMES], message);
    }
}

fn is_taken(name: &HeaderName) -> bool {
    TAKEN.contains(&name.as_str()) || name.as_str().starts_with("x-emulator-")
}

fn check_keys(profile: &Profile, found: &mut Vec<Broken>) {
    let mut push = |settings, message| found.push(Broken { settings, message });
    let keys = &profile.keys;
    let prefixes: [(&'static [&'static str], &String); 2] =
        [(&[TEST_PREFIX], &keys.test_prefix), (&[LIVE_PREFIX], &keys.live_prefix)];
    for (settings, prefix) in prefixes {
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            push(
                settings,
                format!("\"{}\" is not a prefix: expected characters without spaces", prefix.escape_debug()),
            );
        }
    }
    if keys.test_prefix == keys.live_prefix {
        let message = format!("test and live keys cannot both begin with \"{}\"", keys.test_prefix);
        push(&[TEST_PREFIX, LIVE_PREFIX], message);
    }
    if keys.list.iter().any(String::is_empty) {
        push(&["keys.list"], "\"\" is not a key".to_owned());
    }
    if keys.workspaces.values().flatten().any(String::is_empty) {
        push(&["keys.workspaces"], "\"\" is not a key".to_owned());
    }
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    if let Some(key) = keys.workspaces.values().flatten().find(|key| !seen.insert(key)) {
        let shown = crate::contract::keys::shown(key, keys);
        push(&["keys.workspaces"], format!("the key \"{shown}\" is in two groups"));
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Layered;

    #[test]
    fn values_that_corrupt_answers_or_cannot_work_are_refused() {
        for (assignment, said) in [
            ("rate_limit.header_names.limit=Content-Length", "content-length"),
            ("rate_limit.header_names={limit=\"Transfer-Encoding\",remaining=\"Connection\"}", "transfer-encoding"),
            ("rate_limit.header_names={limit=\"A\",remaining=\"a\"}", "cannot both be"),
            ("rate_limit.header_names.limit=X-Emulator-Generation", "x-emulator-generation"),
            ("rate_limit.header_names.limit=X-RateLimit-Reset", "x-ratelimit-reset"),
            ("ids.request_header=Date", "date"),
            ("ids.request_header=X-RateLimit-Limit", "a quota header"),
            ("ids.request_header=a b", "field name"),
            ("subscriptions.secret_field=id", "field of the subscription"),
            ("subscriptions.secret_field=", "empty"),
            ("errors.extra={code=\"x\"}", "`code`"),
            ("errors.codes.not_found=", "`not_found`"),
            ("status.checks.db=1", "`db` must be an object"),
            ("rate_limit.window=0s", "at least 1ms"),
            ("webhooks.timeout=0s", "at least 1ms"),
            ("webhooks.copies=101", "at most 100 copies"),
            ("webhooks.copies=0", "an integer from 1"),
            ("keys.test_prefix=", "not a prefix"),
            ("keys.test_prefix=sk_live_", "cannot both begin"),
            ("keys.workspaces={a=[\"sk_test_x\"],b=[\"sk_test_x\"]}", "two groups"),
            ("events.extra=[\"a b\"]", "not an event type"),
        ] {
            let problem = Layered::default().with_assignment(assignment, "test").expect_err(assignment);
            assert!(problem.message.contains(said), "{assignment}: {}", problem.message);
        }
    }
}
