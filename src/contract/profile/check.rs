//! What a profile must hold beyond the types of its knobs: values that would corrupt answers or could never work.

use hyper::header::HeaderName;

use super::{DurationText, HeaderNameText, Profile};

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
/// The fields of an error.
const ERROR_FIELDS: [&str; 4] = ["code", "message", "request_id", "details"];

/// The first thing wrong, in words; the knob is named by the caller.
pub(super) fn check(profile: &Profile) -> Result<(), String> {
    let names = &profile.rate_limit.header_names;
    let request_header = profile.ids.request_header.get().map(HeaderNameText::name);
    for name in [names.limit.name(), names.remaining.name()].into_iter().chain(request_header) {
        if is_taken(name) {
            return Err(format!("`{name}` is a header that HTTP or the emulator itself sends"));
        }
    }
    if names.limit.name() == names.remaining.name() {
        return Err(format!("`limit` and `remaining` cannot both be `{}`", names.limit.name()));
    }
    if let Some(name) = request_header.filter(|name| [names.limit.name(), names.remaining.name()].contains(name)) {
        return Err(format!("`{name}` is a quota header and cannot carry the request's id as well"));
    }
    let secret_field = profile.subscriptions.secret_field.as_str();
    if secret_field.is_empty() || SUBSCRIPTION_FIELDS.contains(&secret_field) {
        return Err(format!("\"{secret_field}\" cannot name the secret: it is empty or a field of the subscription"));
    }
    if let Some(field) = profile.errors.extra.keys().find(|field| ERROR_FIELDS.contains(&field.as_str())) {
        return Err(format!("`{field}` is a field that every error has"));
    }
    if let Some((kind, _)) = profile.errors.codes.iter().find(|(_, code)| code.is_empty()) {
        return Err(format!("the code of `{}` must not be empty", kind.name()));
    }
    if let Some((name, _)) = profile.status.checks.iter().find(|(_, check)| !check.is_object()) {
        return Err(format!("`{name}` must be an object, such as {{ status = \"ok\" }}"));
    }
    let positive = [profile.rate_limit.window, profile.webhooks.timeout, profile.webhooks.connect_timeout];
    if let Some(short) = positive.into_iter().find(|duration: &DurationText| duration.get().as_millis() == 0) {
        return Err(format!("expected at least 1ms, found \"{short}\""));
    }
    if profile.webhooks.copies.get() > MOST_COPIES {
        return Err(format!("expected at most {MOST_COPIES} copies, found {}", profile.webhooks.copies));
    }
    check_keys(profile)?;
    let word = |text: &String| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(event) = profile.events.extra.iter().find(|event| !word(event)) {
        return Err(format!(
            "\"{}\" is no event type: expected letters, digits, `.`, `_` and `-`",
            event.escape_debug()
        ));
    }
    profile.webhooks.custom.check().map_err(|problem| problem.to_string())
}

fn is_taken(name: &HeaderName) -> bool {
    TAKEN.contains(&name.as_str()) || name.as_str().starts_with("x-emulator-")
}

fn check_keys(profile: &Profile) -> Result<(), String> {
    let keys = &profile.keys;
    for prefix in [&keys.test_prefix, &keys.live_prefix] {
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("\"{}\" is no prefix: expected characters without spaces", prefix.escape_debug()));
        }
    }
    if keys.test_prefix == keys.live_prefix {
        return Err(format!("test and live keys cannot both begin with \"{}\"", keys.test_prefix));
    }
    let groups = keys.workspaces.values().flatten();
    if let Some(key) = keys.list.iter().chain(groups).find(|key| key.is_empty()) {
        return Err(format!("\"{key}\" is no key"));
    }
    let mut seen: Vec<&String> = Vec::new();
    for key in keys.workspaces.values().flatten() {
        if seen.contains(&key) {
            return Err(format!("the key \"{}\" stands in two groups", crate::contract::keys::shown(key, keys)));
        }
        seen.push(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::contract::profile::Layered;

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
            ("webhooks.copies=0", "a whole number from 1"),
            ("keys.test_prefix=", "no prefix"),
            ("keys.test_prefix=sk_live_", "cannot both begin"),
            ("keys.workspaces={a=[\"sk_test_x\"],b=[\"sk_test_x\"]}", "two groups"),
            ("events.extra=[\"a b\"]", "no event type"),
        ] {
            let problem = Layered::default().with_assignment(assignment, "test").expect_err(assignment);
            assert!(problem.message.contains(said), "{assignment}: {}", problem.message);
        }
    }
}
