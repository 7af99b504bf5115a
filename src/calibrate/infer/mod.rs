//! What a cassette shows: one pure function for each setting that calls can show, in one table. A value is returned only if no other
//! value of the setting would have been answered alike; everything else is a reason.

mod answers;
mod errors;
mod evidence;
pub(super) mod quota;
mod subscribing;

use serde_json::Value;

use super::cassette::Cassette;
use evidence::{Evidence, Found, has_credential, hidden};

pub(super) use answers::{EVENTS, answers_vary, style_of, timestamps};
pub(super) use evidence::TIMESTAMPS;
pub use evidence::{Seen, Unclear};

type Inference = fn(&Evidence<'_>) -> Found;

/// The settings that calls can show.
const INFERENCES: &[(&str, Inference)] = &[
    ("environment", answers::environment),
    ("keys.mode", subscribing::key_mode),
    ("keys.test_prefix", |evidence| subscribing::key_prefix(evidence, "sandbox")),
    ("keys.live_prefix", |evidence| subscribing::key_prefix(evidence, "production")),
    ("errors.details", errors::details),
    ("errors.malformed_json_status", errors::malformed_status),
    ("errors.codes", errors::codes),
    ("errors.messages", errors::messages),
    ("errors.extra", errors::extra),
    ("validation.unknown", answers::unknown_parameters),
    ("validation.lenient_booleans", answers::lenient_booleans),
    ("validation.content_type", subscribing::content_type),
    ("status.checks", answers::checks),
    ("rate_limit.enabled", quota::enabled),
    ("rate_limit.requests", quota::requests),
    ("rate_limit.window", quota::window),
    ("rate_limit.algorithm", quota::algorithm),
    ("rate_limit.count", quota::count),
    ("rate_limit.header_names", quota::header_names),
    ("rate_limit.retry_after", quota::retry_after),
    ("rate_limit.reset", quota::reset),
    ("rate_limit.ietf", quota::ietf),
    ("ids.style", answers::id_style),
    ("ids.request_header", answers::request_header),
    ("time.precision", answers::precision),
    ("variation.unknown_fields", answers::unknown_fields),
    ("variation.key_order", answers::key_order),
    ("variation.bodies", answers::bodies),
    ("subscriptions.upsert", subscribing::upsert),
    ("subscriptions.secret_field", subscribing::secret_field),
    ("subscriptions.echo_secret", subscribing::echo_secret),
    ("events.extra", errors::event_types),
    ("webhooks.allow_http", errors::allow_http),
    ("hello.body", answers::hello),
    ("preview.enabled", answers::preview),
    ("oauth.error_shape", answers::oauth_errors),
];

/// What the cassette shows about a setting; `None` if calls cannot show it.
pub fn infer(cassette: &Cassette, setting: &str) -> Option<Found> {
    let (_, inference) = INFERENCES.iter().find(|(path, _)| *path == setting)?;
    let found = inference(&Evidence { cassette });
    Some(found.and_then(|seen| match seen.value.to_string() {
        _ if setting == "errors.messages" => Ok(seen),
        text if text.contains("null") && has_null(&seen.value) => {
            hidden("it has null in it, which a profile cannot hold")
        }
        text if has_credential(&text) => hidden("it has a credential in it, which was masked"),
        _ => Ok(seen),
    }))
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}
