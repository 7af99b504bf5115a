//! The changes of `exec --under`: one thing each that the contract does not promise. What the preset `hostile` does at once, they do one
//! by one.

/// One thing that the contract does not promise, changed.
#[derive(Debug)]
pub(crate) struct Unpromised {
    pub(crate) name: &'static str,
    /// The change, as a clause after "your suite passes unless".
    pub(crate) unless: &'static str,
    /// A text like a profile file.
    pub(crate) settings: &'static str,
}

/// Every change, the most common cause of trouble first.
pub(crate) const UNPROMISED: &[Unpromised] = &[
    Unpromised {
        name: "message-text",
        unless: "the messages of errors have another wording",
        settings: r#"
            [errors.messages]
            bad_request = "this message has another wording"
            unauthorized = "this message has another wording"
            not_found = "this message has another wording"
            method_not_allowed = "this message has another wording"
            request_timeout = "this message has another wording"
            payload_too_large = "this message has another wording"
            uri_too_long = "this message has another wording"
            unsupported_media_type = "this message has another wording"
            validation_error = "this message has another wording"
            rate_limit_exceeded = "this message has another wording"
            headers_too_large = "this message has another wording"
            internal_error = "this message has another wording"
            not_implemented = "this message has another wording"
        "#,
    },
    Unpromised {
        name: "error-codes",
        unless: "errors other than 401 have other codes",
        settings: r#"
            [errors.codes]
            bad_request = "malformed_request"
            not_found = "no_such_resource"
            method_not_allowed = "wrong_method"
            request_timeout = "too_slow"
            payload_too_large = "body_too_large"
            uri_too_long = "target_too_long"
            unsupported_media_type = "unknown_coding"
            validation_error = "invalid_request"
            rate_limit_exceeded = "throttled"
            headers_too_large = "head_too_large"
            internal_error = "server_failure"
            not_implemented = "unknown_transfer_coding"
        "#,
    },
    Unpromised {
        name: "key-order",
        unless: "the keys of JSON objects come in the reverse order",
        settings: r#"variation.key_order = "reversed""#,
    },
    Unpromised {
        name: "extra-fields",
        unless: "JSON objects have more fields than the contract names",
        settings: "variation.unknown_fields = true",
    },
    Unpromised {
        name: "extra-headers",
        unless: "answers have more headers than the contract names",
        settings: r#"
            ids.request_header = "X-Request-Id"
            rate_limit.reset = "epoch"
            rate_limit.ietf = true
        "#,
    },
    Unpromised {
        name: "retry-after-date",
        unless: "Retry-After is a date",
        settings: r#"rate_limit.retry_after = "date""#,
    },
    Unpromised {
        name: "long-ids",
        unless: "ids have 64 characters after the prefix",
        settings: r#"ids.style = "longest""#,
    },
    Unpromised {
        name: "short-ids",
        unless: "ids have eight digits after the prefix",
        settings: r#"ids.style = "counter""#,
    },
    Unpromised {
        name: "whole-seconds",
        unless: "timestamps have no fraction of a second",
        settings: r#"time.precision = "seconds""#,
    },
    Unpromised {
        name: "nanoseconds",
        unless: "timestamps have nine digits of a second",
        settings: r#"time.precision = "nanoseconds""#,
    },
    Unpromised {
        name: "header-letters",
        unless: "header names are in Title-Case instead of lower case",
        settings: r#"variation.header_names = "title""#,
    },
    Unpromised {
        name: "chunked-bodies",
        unless: "deliveries come in chunks, without a Content-Length",
        settings: r#"webhooks.framing = "chunked""#,
    },
    Unpromised { name: "doubled-events", unless: "each event is delivered twice", settings: "webhooks.copies = 2" },
    Unpromised {
        name: "reordered-events",
        unless: "the events of a burst are reordered",
        settings: r#"webhooks.swap = "500ms""#,
    },
    Unpromised {
        name: "malformed-status",
        unless: "a body that is not JSON is answered with 400 instead of 422",
        settings: "errors.malformed_json_status = 400",
    },
    Unpromised {
        name: "unpublished-shapes",
        unless: "bodies that the contract does not show have another shape",
        settings: r#"
            hello.body = { version = "1.3.2", greeting = { text = "hello", language = "en" } }
            status.checks = { primary-store = { healthy = true, since = 0 } }
            events.data = { "reference.matched" = { match = { reference = "ref_{{ ulid() }}" } } }
        "#,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::{Layered, SETTINGS};

    /// The settings that a text changes.
    fn changed(text: &str) -> BTreeSet<&'static str> {
        let layered = Layered::default().with(|draft| draft.text(text, "text"));
        let layered = layered.unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        let paths = SETTINGS.iter().map(|setting| setting.path.as_str());
        paths.filter(|path| layered.source(path) == "text").collect()
    }

    #[test]
    fn the_changes_cover_the_preset_hostile_and_keep_what_is_published() {
        let covered: BTreeSet<&str> = UNPROMISED.iter().flat_map(|change| changed(change.settings)).collect();
        let hostile = changed(include_str!("hostile.toml"));
        // Order by chance, and details of errors, which are one of the unknown fields.
        let others = BTreeSet::from(["errors.details", "webhooks.scatter"]);
        assert_eq!(&hostile - &covered, others);
        for path in covered {
            for kept in ["environment", "keys.", "rate_limit.header_names", "rate_limit.requests", "webhooks.scheme"] {
                assert!(!path.starts_with(kept), "{path}");
            }
        }
    }

    #[test]
    fn every_change_is_documented() {
        let page = include_str!("../../docs/testing.md");
        let undocumented = UNPROMISED.iter().filter(|change| !page.contains(&format!("`{}`", change.name)));
        assert_eq!(undocumented.map(|change| change.name).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn every_message_changes_and_every_code_but_unauthorized() {
        let errors = |name: &str| {
            let change = UNPROMISED.iter().find(|change| change.name == name).expect("a change");
            let layered = Layered::default().with(|draft| draft.text(change.settings, "text")).expect("a profile");
            layered.profile().errors.clone()
        };
        let (messages, codes) = (errors("message-text").messages, errors("error-codes").codes);
        for (kind, code) in &Layered::default().profile().errors.codes {
            assert!(messages.contains_key(kind), "{code}");
            assert_eq!(codes[kind] == *code, code == "unauthorized", "{code}");
        }
    }
}
