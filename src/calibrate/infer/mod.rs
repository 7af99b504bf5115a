//! What a cassette shows: one pure function for each setting that calls can show, in one table. A value is returned only if no other
//! value of the setting would have been answered alike; everything else is a reason.

mod answers;
mod errors;
mod evidence;
pub(super) mod quota;
mod subscribing;

use super::cassette::Cassette;
use evidence::{Found, has_credential, hidden};

pub(super) use answers::{TIMESTAMPS, style_of, timestamps};
pub(super) use errors::reason;
pub use evidence::{Seen, Unclear};

type Inference = fn(&Cassette) -> Found;

/// The settings that calls can show.
const INFERENCES: &[(&str, Inference)] = &[
    ("environment", answers::environment),
    ("keys.mode", subscribing::key_mode),
    ("keys.test_prefix", |cassette| subscribing::key_prefix(cassette, "sandbox")),
    ("keys.live_prefix", |cassette| subscribing::key_prefix(cassette, "production")),
    ("errors.details", errors::details),
    ("errors.malformed_json_status", |cassette| cassette.by_status("malformed", [(400, 400), (422, 422)])),
    ("errors.codes", errors::codes),
    ("errors.messages", errors::messages),
    ("errors.extra", errors::extra),
    ("validation.unknown", answers::unknown_input),
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
    let found = inference(cassette);
    let is_masked = found.as_ref().is_ok_and(|seen| has_credential(&seen.value.to_string()));
    Some(if is_masked { hidden("it has a credential in it, which was masked") } else { found })
}
