//! The changes, one row each: what differs, which clause leaves it open, and the settings that make it so.

use serde::Serialize;

use super::compare::Aspect;

/// One thing that the contract does not promise, changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct UnpromisedChange {
    pub(crate) name: &'static str,
    pub(crate) changes: &'static str,
    pub(crate) clause: &'static str,
    /// How to make a command that saw nothing of it exercise it.
    pub(crate) exercise: &'static str,
    /// Where it shows.
    #[serde(skip)]
    pub(crate) aspect: Aspect,
    /// The settings; without any, those of all parts together.
    #[serde(skip)]
    whole: &'static [&'static str],
    /// Smaller changes that it consists of.
    #[serde(skip)]
    pub(crate) parts: &'static [Part],
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) settings: &'static [&'static str],
}

impl UnpromisedChange {
    pub(crate) fn settings(&self) -> Vec<&'static str> {
        let parts = || self.parts.iter().flat_map(|part| part.settings);
        if self.whole.is_empty() { parts().copied().collect() } else { self.whole.to_vec() }
    }
}

const fn part(name: &'static str, settings: &'static [&'static str]) -> Part {
    Part { name, settings }
}

const MEET_ERRORS: &str = "let the command meet errors: a wrong key, a wrong value, --scenario always-429";
const CALL: &str = "let the command call the API with its key";
const RECEIVE: &str =
    "let the command subscribe a receiver, fire events with `wrs-emulator trigger`, and wait for them";

const fn change(
    name: &'static str,
    aspect: Aspect,
    changes: &'static str,
    clause: &'static str,
    exercise: &'static str,
    whole: &'static [&'static str],
    parts: &'static [Part],
) -> UnpromisedChange {
    UnpromisedChange { name, changes, clause, exercise, aspect, whole, parts }
}

/// Every change, the most common cause of trouble first.
#[rustfmt::skip]
pub(crate) const CHANGES: &[UnpromisedChange] = &[
    change("message-text", Aspect::Message, "the message of every error reads differently",
        "Errors: message is text for people; no wording is shown",
        MEET_ERRORS, &[], &[
            part("401", &["errors.messages.unauthorized=\"this message has another wording\""]),
            part("422", &["errors.messages.validation_error=\"this message has another wording\""]),
            part("429", &["errors.messages.rate_limit_exceeded=\"this message has another wording\""]),
            part("404", &["errors.messages.not_found=\"this message has another wording\""]),
            part("405", &["errors.messages.method_not_allowed=\"this message has another wording\""]),
            part("any other status", &[
                "errors.messages.bad_request=\"this message has another wording\"", "errors.messages.request_timeout=\"this message has another wording\"",
                "errors.messages.payload_too_large=\"this message has another wording\"", "errors.messages.uri_too_long=\"this message has another wording\"",
                "errors.messages.unsupported_media_type=\"this message has another wording\"", "errors.messages.misdirected_request=\"this message has another wording\"",
                "errors.messages.headers_too_large=\"this message has another wording\"", "errors.messages.internal_error=\"this message has another wording\"",
            ]),
        ]),
    change("error-codes", Aspect::Code, "errors other than 401 have other codes",
        "Errors: the code unauthorized accompanies 401; other codes are not shown",
        MEET_ERRORS, &[], &[
            part("422", &["errors.codes.validation_error=invalid_request"]),
            part("429", &["errors.codes.rate_limit_exceeded=throttled"]),
            part("404", &["errors.codes.not_found=no_such_resource"]),
            part("405", &["errors.codes.method_not_allowed=wrong_method"]),
            part("any other status", &[
                "errors.codes.bad_request=malformed_request", "errors.codes.request_timeout=too_slow",
                "errors.codes.payload_too_large=body_too_large", "errors.codes.uri_too_long=target_too_long",
                "errors.codes.unsupported_media_type=unknown_coding", "errors.codes.misdirected_request=wrong_host",
                "errors.codes.headers_too_large=head_too_large", "errors.codes.internal_error=server_failure",
            ]),
        ]),
    change("key-order", Aspect::Keys, "the keys of each JSON object come in the reverse order",
        "not shown; RFC 8259 section 4: an object is unordered",
        CALL, &["variation.key_order=reversed"], &[
            part("answers", &["variation.key_order=reversed", "variation.bodies=answers"]),
            part("errors", &["variation.key_order=reversed", "variation.bodies=errors"]),
            part("events", &["variation.key_order=reversed", "variation.bodies=events"]),
        ]),
    change("extra-fields", Aspect::Keys, "each JSON object has fields that the contract does not name",
        "Errors: the shape may gain fields; compatibility guarantees are not shown",
        CALL, &["variation.unknown_fields=true"], &[
            part("answers", &["variation.unknown_fields=true", "variation.bodies=answers"]),
            part("errors", &["variation.unknown_fields=true", "variation.bodies=errors"]),
            part("events", &["variation.unknown_fields=true", "variation.bodies=events"]),
        ]),
    change("extra-headers", Aspect::Header, "answers have headers that the contract does not name; Retry-After is a date",
        "Limits: two headers are named; others are neither promised nor excluded",
        CALL, &[], &[
            part("X-Request-Id", &["ids.request_header=X-Request-Id"]),
            part("X-RateLimit-Reset", &["rate_limit.reset=epoch"]),
            part("RateLimit and RateLimit-Policy", &["rate_limit.ietf=true"]),
            part("Retry-After", &["rate_limit.retry_after=date"]),
        ]),
    change("long-ids", Aspect::Id, "ids have 64 letters, digits, _ and - after the prefix",
        "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        CALL, &["ids.style=longest"], &[]),
    change("short-ids", Aspect::Id, "ids are eight digits after the prefix",
        "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        CALL, &["ids.style=counter"], &[]),
    change("whole-seconds", Aspect::Time, "timestamps have no fraction of a second",
        "timestamps are ISO 8601 in UTC; the fraction is not shown",
        CALL, &["time.precision=seconds"], &[]),
    change("nanoseconds", Aspect::Time, "timestamps have nine digits of a second",
        "timestamps are ISO 8601 in UTC; the fraction is not shown",
        CALL, &["time.precision=nanoseconds"], &[]),
    change("doubled-events", Aspect::Copies, "each event is delivered twice, with the same id",
        "Events: how often an event is delivered is not shown; the id is there to recognize it",
        RECEIVE, &["webhooks.copies=2"], &[]),
    change("reordered-events", Aspect::Order, "of two events in a row, the first is held back by half a second, so the second comes first",
        "Events: their order is not shown",
        "let the command receive two events that are fired within half a second, while the clock runs", &["webhooks.swap=500ms"], &[]),
    change("malformed-status", Aspect::Status, "a body that is not JSON is answered with 400 instead of 422",
        "Endpoints: 422 for validation; a body that is not JSON is not shown",
        "let the command send a body that is not JSON", &["errors.malformed_json_status=400"], &[]),
    change("unpublished-shapes", Aspect::Keys, "objects whose fields the contract does not show have others",
        "the body of hello, dependency health and the payload of reference.matched are not shown",
        "let the command call GET /v1/hello, ask for include_checks=true, or receive reference.matched", &[], &[
            part("GET /v1/hello", &["hello.body={ version = \"1.3.2\", greeting = { text = \"hello\", language = \"en\" } }"]),
            part("include_checks=true", &["status.checks={ primary-store = { healthy = true, since = 0 } }"]),
            part("reference.matched", &["events.data={ \"reference.matched\" = { match = { reference = \"ref_{{ ulid() }}\" } } }"]),
        ]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::{Layered, SETTINGS};

    fn with(settings: &[&str]) -> Layered {
        settings.iter().fold(Layered::default(), |layered, setting| {
            layered.with_assignment(setting, "test").unwrap_or_else(|problem| panic!("{setting}: {problem:?}"))
        })
    }

    #[test]
    fn each_change_and_part_is_valid_and_changes_something() {
        let mut names = BTreeSet::new();
        for change in CHANGES {
            assert!(names.insert(change.name), "`{}` is there twice", change.name);
            let whole = with(&change.settings());
            assert_ne!(whole.profile(), Layered::default().profile(), "{}", change.name);
            let mut parts = BTreeSet::new();
            for part in change.parts {
                assert!(parts.insert(part.name), "{}: `{}` is there twice", change.name, part.name);
                let profile = with(part.settings);
                assert!(profile.profile() != Layered::default().profile() && profile.profile() != whole.profile());
            }
        }
    }

    /// What one preset does at once, the changes do one by one.
    #[test]
    fn the_changes_cover_the_preset_hostile() {
        let hostile = Layered::default().with(|draft| draft.preset("hostile")).expect("the preset is valid");
        let covered: BTreeSet<&str> = CHANGES
            .iter()
            .flat_map(UnpromisedChange::settings)
            .map(|setting| setting.split('=').next().expect("a path"))
            .map(|path| {
                SETTINGS.iter().find(|setting| path.starts_with(setting.path)).map_or(path, |setting| setting.path)
            })
            .collect();
        for setting in SETTINGS.iter().filter(|setting| hostile.source(setting.path) == "preset hostile") {
            // Order by chance, and details of errors, which are one of the fields that nobody knows.
            let other = ["webhooks.scatter", "errors.details"].contains(&setting.path);
            assert!(covered.contains(setting.path) != other, "{}", setting.path);
        }
    }

    #[test]
    fn what_the_contract_publishes_stays() {
        for setting in CHANGES.iter().flat_map(UnpromisedChange::settings) {
            assert!(!setting.starts_with("errors.codes.unauthorized"), "{setting}");
            for kept in ["environment", "keys.", "rate_limit.header_names", "rate_limit.requests", "webhooks.scheme"] {
                assert!(!setting.starts_with(kept), "{setting}");
            }
        }
    }
}
