//! The changes, one row each: what differs, which clause leaves it open, and the settings that make it so.

use serde::Serialize;

use super::record::Aspect;

/// One thing that the contract does not promise, changed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UnpromisedChange {
    /// A stable name.
    pub name: &'static str,
    /// What is different.
    pub changes: &'static str,
    /// What the contract says about it.
    pub clause: &'static str,
    /// How to make a command that saw nothing of it exercise it.
    pub exercise: &'static str,
    /// Where it shows.
    #[serde(skip)]
    pub aspect: Aspect,
    /// The settings; without any, those of all parts together.
    #[serde(skip)]
    whole: &'static [&'static str],
    /// Smaller changes that it consists of.
    #[serde(skip)]
    pub parts: &'static [Part],
}

/// A part of a change.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Part {
    /// Which part.
    pub name: &'static str,
    /// The settings.
    pub settings: &'static [&'static str],
}

impl UnpromisedChange {
    /// The settings of the whole change.
    pub fn settings(&self) -> Vec<&'static str> {
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

/// Every change, the most common cause of trouble first.
pub const CHANGES: &[UnpromisedChange] = &[
    UnpromisedChange {
        name: "message-text",
        changes: "the message of every error reads differently",
        clause: "Errors: message is text for people; no wording is shown",
        exercise: MEET_ERRORS,
        aspect: Aspect::Message,
        whole: &[],
        parts: &[
            part("401", &["errors.messages.unauthorized=\"this message has another wording\""]),
            part("422", &["errors.messages.validation_error=\"this message has another wording\""]),
            part("429", &["errors.messages.rate_limit_exceeded=\"this message has another wording\""]),
            part("404", &["errors.messages.not_found=\"this message has another wording\""]),
            part("405", &["errors.messages.method_not_allowed=\"this message has another wording\""]),
            part(
                "any other status",
                &[
                    "errors.messages.bad_request=\"this message has another wording\"",
                    "errors.messages.request_timeout=\"this message has another wording\"",
                    "errors.messages.payload_too_large=\"this message has another wording\"",
                    "errors.messages.uri_too_long=\"this message has another wording\"",
                    "errors.messages.unsupported_media_type=\"this message has another wording\"",
                    "errors.messages.misdirected_request=\"this message has another wording\"",
                    "errors.messages.headers_too_large=\"this message has another wording\"",
                    "errors.messages.internal_error=\"this message has another wording\"",
                ],
            ),
        ],
    },
    UnpromisedChange {
        name: "error-codes",
        changes: "errors other than 401 have other codes",
        clause: "Errors: the code unauthorized accompanies 401; other codes are not shown",
        exercise: MEET_ERRORS,
        aspect: Aspect::Code,
        whole: &[],
        parts: &[
            part("422", &["errors.codes.validation_error=invalid_request"]),
            part("429", &["errors.codes.rate_limit_exceeded=throttled"]),
            part("404", &["errors.codes.not_found=no_such_resource"]),
            part("405", &["errors.codes.method_not_allowed=wrong_method"]),
            part(
                "any other status",
                &[
                    "errors.codes.bad_request=malformed_request",
                    "errors.codes.request_timeout=too_slow",
                    "errors.codes.payload_too_large=body_too_large",
                    "errors.codes.uri_too_long=target_too_long",
                    "errors.codes.unsupported_media_type=unknown_coding",
                    "errors.codes.misdirected_request=wrong_host",
                    "errors.codes.headers_too_large=head_too_large",
                    "errors.codes.internal_error=server_failure",
                ],
            ),
        ],
    },
    UnpromisedChange {
        name: "key-order",
        changes: "the keys of each JSON object come in the reverse order",
        clause: "not shown; RFC 8259 section 4: an object is unordered",
        exercise: CALL,
        aspect: Aspect::Keys,
        whole: &["variation.key_order=reversed"],
        parts: &[
            part("answers", &["variation.key_order=reversed", "variation.bodies=answers"]),
            part("errors", &["variation.key_order=reversed", "variation.bodies=errors"]),
            part("events", &["variation.key_order=reversed", "variation.bodies=events"]),
        ],
    },
    UnpromisedChange {
        name: "extra-fields",
        changes: "each JSON object has fields that the contract does not name",
        clause: "Errors: the shape may gain fields; compatibility guarantees are not shown",
        exercise: CALL,
        aspect: Aspect::Keys,
        whole: &["variation.unknown_fields=true"],
        parts: &[
            part("answers", &["variation.unknown_fields=true", "variation.bodies=answers"]),
            part("errors", &["variation.unknown_fields=true", "variation.bodies=errors"]),
            part("events", &["variation.unknown_fields=true", "variation.bodies=events"]),
        ],
    },
    UnpromisedChange {
        name: "extra-headers",
        changes: "answers have headers that the contract does not name; Retry-After is a date",
        clause: "Limits: two headers are named; others are neither promised nor excluded",
        exercise: CALL,
        aspect: Aspect::Header,
        whole: &[],
        parts: &[
            part("X-Request-Id", &["ids.request_header=X-Request-Id"]),
            part("X-RateLimit-Reset", &["rate_limit.reset=epoch"]),
            part("RateLimit and RateLimit-Policy", &["rate_limit.ietf=true"]),
            part("Retry-After", &["rate_limit.retry_after=date"]),
        ],
    },
    UnpromisedChange {
        name: "long-ids",
        changes: "ids have 64 letters, digits, _ and - after the prefix",
        clause: "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        exercise: CALL,
        aspect: Aspect::Id,
        whole: &["ids.style=longest"],
        parts: &[],
    },
    UnpromisedChange {
        name: "short-ids",
        changes: "ids are eight digits after the prefix",
        clause: "forms sub_<id>, evt_<id>, req_<id>: the part after the prefix is not shown",
        exercise: CALL,
        aspect: Aspect::Id,
        whole: &["ids.style=counter"],
        parts: &[],
    },
    UnpromisedChange {
        name: "whole-seconds",
        changes: "timestamps have no fraction of a second",
        clause: "timestamps are ISO 8601 in UTC; the fraction is not shown",
        exercise: CALL,
        aspect: Aspect::Time,
        whole: &["time.precision=seconds"],
        parts: &[],
    },
    UnpromisedChange {
        name: "nanoseconds",
        changes: "timestamps have nine digits of a second",
        clause: "timestamps are ISO 8601 in UTC; the fraction is not shown",
        exercise: CALL,
        aspect: Aspect::Time,
        whole: &["time.precision=nanoseconds"],
        parts: &[],
    },
    UnpromisedChange {
        name: "doubled-events",
        changes: "each event is delivered twice, with the same id",
        clause: "Events: how often an event is delivered is not shown; the id is there to recognize it",
        exercise: RECEIVE,
        aspect: Aspect::Copies,
        whole: &["webhooks.copies=2"],
        parts: &[],
    },
    UnpromisedChange {
        name: "reordered-events",
        changes: "of two events in a row, the first is held back by half a second, so the second comes first",
        clause: "Events: their order is not shown",
        exercise: "let the command receive two events that are fired within half a second, while the clock runs",
        aspect: Aspect::Order,
        whole: &["webhooks.swap=500ms"],
        parts: &[],
    },
    UnpromisedChange {
        name: "malformed-status",
        changes: "a body that is not JSON is answered with 400 instead of 422",
        clause: "Endpoints: 422 for validation; a body that is not JSON is not shown",
        exercise: "let the command send a body that is not JSON",
        aspect: Aspect::Status,
        whole: &["errors.malformed_json_status=400"],
        parts: &[],
    },
    UnpromisedChange {
        name: "unpublished-shapes",
        changes: "objects whose fields the contract does not show have others",
        clause: "the body of hello, dependency health and the payload of reference.matched are not shown",
        exercise: "let the command call GET /v1/hello, ask for include_checks=true, or receive reference.matched",
        aspect: Aspect::Keys,
        whole: &[],
        parts: &[
            part(
                "GET /v1/hello",
                &["hello.body={ version = \"1.3.2\", greeting = { text = \"hello\", language = \"en\" } }"],
            ),
            part("include_checks=true", &["status.checks={ primary-store = { healthy = true, since = 0 } }"]),
            part(
                "reference.matched",
                &["events.data={ \"reference.matched\" = { match = { reference = \"ref_{{ ulid() }}\" } } }"],
            ),
        ],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::profile::{KNOBS, Layered};

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
            .map(|path| KNOBS.iter().find(|knob| path.starts_with(knob.path)).map_or(path, |knob| knob.path))
            .collect();
        for knob in KNOBS.iter().filter(|knob| hostile.source(knob.path) == "preset hostile") {
            // Order by chance, and details of errors, which are one of the fields that nobody knows.
            let other = ["webhooks.scatter", "errors.details"].contains(&knob.path);
            assert!(covered.contains(knob.path) != other, "{}", knob.path);
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
