//! What a published OpenAPI document says about settings. It promises, and does not show: what calls show comes first.

use serde_json::Value;

use super::cassette::SUBSCRIPTION;
use super::infer::{Seen, Unclear};
use super::report::OtherSource;
use crate::contract::types::EVENT_TYPES;

const SUBSCRIBE: &str = "/v1/events/subscribe";

/// Reads a document; it must be JSON.
pub fn shows(text: &str) -> Result<OtherSource, String> {
    let document: Value = serde_json::from_str(text).map_err(|error| {
        let is_yaml = text.trim_start().starts_with("openapi:") || text.contains("\nopenapi:");
        if is_yaml {
            "it is YAML; convert it to JSON first".to_owned()
        } else {
            format!("it is not valid JSON: {error}")
        }
    })?;
    if !document["openapi"].is_string() || !document["paths"].is_object() {
        return Err("it is not an OpenAPI document: expected `openapi` and `paths`".to_owned());
    }
    let mut shown = OtherSource { source: "the OpenAPI document", ..OtherSource::default() };
    let mut say = |setting, found: Result<Value, String>| {
        let found = found.map(|value| Seen::new(value, [])).map_err(Unclear::NotObservable);
        shown.settings.insert(setting, found);
    };
    let at = |place: &Value, path: &[&str]| {
        path.iter().fold(resolved(&document, place), |place, name| resolved(&document, &place[name]))
    };
    let subscribe = at(&document["paths"], &[SUBSCRIBE, "post"]);
    let responses = at(&subscribe, &["responses"]);
    let body = at(&subscribe, &["requestBody", "content", "application/json", "schema", "properties"]);
    let listed = at(&body, &["events", "items", "enum"]);
    let types: Option<Vec<&str>> = listed.as_array().map(|types| types.iter().filter_map(Value::as_str).collect());
    say(
        "events.extra",
        match types {
            Some(types) if EVENT_TYPES.iter().all(|known| types.contains(known)) => {
                Ok(types.into_iter().filter(|name| !EVENT_TYPES.contains(name)).collect())
            }
            _ => Err("the OpenAPI document does not list the event types".to_owned()),
        },
    );
    let fields = at(&responses, &["200", "content", "application/json", "schema", "properties"]);
    let names = fields.as_object().into_iter().flat_map(serde_json::Map::keys);
    let secrets: Vec<&String> =
        names.filter(|name| !SUBSCRIPTION.contains(&name.as_str()) && name.contains("secret")).collect();
    say(
        "subscriptions.secret_field",
        match secrets.as_slice() {
            [name] => Ok(name.as_str().into()),
            _ => Err("the OpenAPI document does not show the secret's field".to_owned()),
        },
    );
    let headers = at(&responses, &["429", "headers"]);
    let header = |wanted: &str| {
        headers.as_object()?.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    if headers.is_object() {
        say(
            "rate_limit.retry_after",
            match header("retry-after").map(|header| at(header, &["schema", "type"])) {
                None => Ok("off".into()),
                Some(kind) if kind == "integer" => Ok("seconds".into()),
                Some(_) => Err("the OpenAPI document does not show the form of Retry-After".to_owned()),
            },
        );
        say("rate_limit.ietf", Ok(header("ratelimit-policy").is_some().into()));
    }
    say("preview.enabled", Ok(document["paths"]["/v1/workflows"].is_object().into()));
    let malformed: Vec<u16> =
        [400, 422].into_iter().filter(|status: &u16| responses[status.to_string()].is_object()).collect();
    say(
        "errors.malformed_json_status",
        match malformed.as_slice() {
            [422] => Ok(422.into()),
            _ => Err("the OpenAPI document does not show which status a body that is not JSON gets".to_owned()),
        },
    );
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
