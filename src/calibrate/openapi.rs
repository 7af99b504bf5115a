//! What a published OpenAPI document says about settings. It promises, and does not show: what calls show comes first.

use serde_json::Value;

use super::cassette::SUBSCRIPTION;
use super::evidence::{Seen, hidden};
use super::report::OtherSource;
use crate::contract::types::EVENT_TYPES;

/// Reads a document; it must be JSON.
pub fn shows(text: &str) -> Result<OtherSource, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| {
        if text.trim_start().starts_with("openapi:") || text.contains("\nopenapi:") {
            "it is YAML; convert it to JSON first".to_owned()
        } else {
            format!("it is not valid JSON: {error}")
        }
    })?;
    if !document["openapi"].is_string() || !document["paths"].is_object() {
        return Err("it is not an OpenAPI document: expected `openapi` and `paths`".to_owned());
    }
    let below = |place: Value, path: &[&str]| path.iter().fold(place, |place, name| resolved(&document, &place[name]));
    let post = below(document.clone(), &["paths", "/v1/events/subscribe", "post"]);
    let at = |path: &[&str]| below(post.clone(), path);
    let mut shown = OtherSource { source: "the OpenAPI document", ..OtherSource::default() };
    let mut say = |setting, what: &str, value: Option<Value>| {
        let unknown = || hidden(format!("the OpenAPI document does not show {what}"));
        shown.settings.insert(setting, value.map_or_else(unknown, |value| Ok(Seen::new(value, []))));
    };

    let listed = at(&["requestBody", "content", "application/json", "schema", "properties", "events", "items", "enum"]);
    let types: Vec<&str> = listed.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_whole = EVENT_TYPES.iter().all(|known| types.contains(known));
    let extra = || types.iter().filter(|name| !EVENT_TYPES.contains(name)).copied().collect();
    say("events.extra", "the event types", is_whole.then(extra));

    let fields = at(&["responses", "200", "content", "application/json", "schema", "properties"]);
    let names = fields.as_object().into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
    let mut secrets = names.filter(|name| !SUBSCRIPTION.contains(name) && name.contains("secret"));
    let secret = secrets.next().filter(|_| secrets.next().is_none());
    say("subscriptions.secret_field", "the secret's field", secret.map(Value::from));

    if let Value::Object(headers) = at(&["responses", "429", "headers"]) {
        let header = |wanted: &str| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let retry_after = header("retry-after")
            .map(|(name, _)| at(&["responses", "429", "headers", name, "schema", "type"]) == "integer");
        let form = match retry_after {
            None => Some("off"),
            Some(is_integer) => is_integer.then_some("seconds"),
        };
        say("rate_limit.retry_after", "the form of Retry-After", form.map(Value::from));
        say("rate_limit.ietf", "", Some(header("ratelimit-policy").is_some().into()));
    }
    say("preview.enabled", "", Some(document["paths"]["/v1/workflows"].is_object().into()));
    let [may_be_400, may_be_422] = ["400", "422"].map(|status| at(&["responses", status]).is_object());
    let malformed = (may_be_422 && !may_be_400).then(|| 422.into());
    say("errors.malformed_json_status", "which status a body that is not JSON gets", malformed);
    Ok(shown)
}

/// A part of the document, with a reference followed.
fn resolved(document: &Value, place: &Value) -> Value {
    let mut place = place;
    // A reference may lead to another; more than a few would be a circle.
    for _ in 0..8 {
        let Some(pointer) = place["$ref"].as_str().and_then(|text| text.strip_prefix('#')) else { break };
        place = document.pointer(pointer).unwrap_or(&Value::Null);
    }
    place.clone()
}
