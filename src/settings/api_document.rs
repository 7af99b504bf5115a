//! The `OpenAPI` document of the emulated API under a profile: the values for the places of `contract/openapi.json`.

use serde_json::{Map, Value, json};

use super::sections::Profile;
use crate::contract::VERSION;
use crate::contract::error::ErrorDetails;
use crate::contract::headers::HeaderSetting;
use crate::contract::ids::IdStyle;
use crate::contract::openapi::filled;
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::rules::{Unknown, url_schema};
use crate::contract::signature::SigningKey;
use crate::contract::types::WORKFLOW_COMPLETED;

pub fn document(profile: &Profile) -> Value {
    let mut document = filled(&values(profile));
    add_events(&mut document["components"]["schemas"], profile);
    // Linters report headers that no answer has.
    let answers = format!("{} {}", document["paths"], document["components"]["responses"]);
    if let Some(headers) = document["components"]["headers"].as_object_mut() {
        headers.retain(|name, _| answers.contains(&format!("#/components/headers/{name}\"")));
    }
    document
}

/// The value for each place, by its name.
fn values(profile: &Profile) -> Map<String, Value> {
    let Profile { errors, events, hello, ids, rate_limit, subscriptions, validation, webhooks, .. } = profile;
    let is_varied = profile.variation.unknown_fields;
    let names = &rate_limit.header_names;
    let sent_if = |is_sent: bool, name: &str| is_sent.then(|| name.to_owned());
    let (id_pattern, id_example) = id_forms(ids.style);
    let secret_patterns = secret_patterns(profile);
    let has_one_pattern = secret_patterns.len() == 1;
    let retry_after = match rate_limit.retry_after {
        RetryAfterForm::Date => json!({ "type": "string" }),
        RetryAfterForm::Off | RetryAfterForm::Seconds => json!({ "type": "integer", "minimum": 0 }),
    };
    let Value::Object(mut values) = json!({
        "version": VERSION,
        "include_checks type": if validation.lenient_booleans { json!(["boolean", "string"]) } else { json!("boolean") },
        "event types": events.types().collect::<Vec<_>>().join(", "),
        "subscribable types": events.types().collect::<Vec<_>>(),
        "id pattern": id_pattern,
        "id example": id_example,
        "ids.request_header": ids.request_header.as_ref().map(HeaderSetting::as_written),
        "rate_limit.header_names.limit": names.limit.as_written(),
        "rate_limit.header_names.remaining": names.remaining.as_written(),
        "rate_limit.reset_header": sent_if(rate_limit.reset != ResetForm::Off, rate_limit.reset_header.as_written()),
        "RateLimit": sent_if(rate_limit.ietf, "RateLimit"),
        "RateLimit-Policy": sent_if(rate_limit.ietf, "RateLimit-Policy"),
        "Retry-After": sent_if(rate_limit.retry_after != RetryAfterForm::Off, "Retry-After"),
        "retry_after schema": retry_after,
        "check schema": if is_varied { json!(true) } else { json!({ "type": "object" }) },
        "url schema": url_schema(webhooks.allow_http),
        "secret pattern": secret_patterns.first().filter(|_| has_one_pattern),
        "secret patterns": (!has_one_pattern).then(|| all_of(&secret_patterns)),
        "unknown fields of requests": (validation.unknown == Unknown::Reject).then_some(false),
        "subscriptions.secret_field": subscriptions.secret_field,
        "hello.body": hello.body,
        "hello schema": hello_schema(&hello.body, is_varied),
        "errors.codes": errors.codes.values().collect::<Vec<_>>(),
        "unknown fields of errors": is_varied || !errors.extra.is_empty() || errors.details != ErrorDetails::Off,
    }) else {
        unreachable!("it is an object")
    };
    values.extend(errors.codes.iter().map(|(kind, code)| (format!("errors.codes.{}", kind.name()), json!(code))));
    values
}

/// The part after an id's prefix: a pattern, and an example.
fn id_forms(style: IdStyle) -> (&'static str, String) {
    match style {
        IdStyle::Ulid => ("[0-7][0-9a-hjkmnp-tv-z]{25}", "01kg9tbs8075j3q2a1zqxhg4v6".to_owned()),
        IdStyle::Uuid => {
            ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "9f1c7a52-3f5e-4b0a-8f0e-2d6b1c4a7e90".to_owned())
        }
        IdStyle::Counter => ("[0-9]{8,}", "00000001".to_owned()),
        IdStyle::Longest => ("[A-Za-z0-9_-]{64}", "a".repeat(64)),
    }
}

/// A signing secret must match all of them.
fn secret_patterns(profile: &Profile) -> Vec<String> {
    let schemes = profile.schemes();
    let patterns = schemes.iter().map(|scheme| SigningKey::secret_pattern(scheme, profile.webhooks.secret_key));
    let mut patterns: Vec<String> = patterns.collect();
    patterns.sort();
    patterns.dedup();
    patterns
}

fn all_of(patterns: &[String]) -> Value {
    patterns.iter().map(|pattern| json!({ "pattern": pattern })).collect()
}

/// The body of the hello endpoint: its fields and their types, and the body itself as the example.
fn hello_schema(body: &Map<String, Value>, has_more: bool) -> Value {
    let body = Value::Object(body.clone());
    let mut schema = shape_of(&body, has_more);
    schema["examples"] = json!([body]);
    schema["x-assumed"] = "hello.body".into();
    schema
}

/// Adds the event types whose `data` is a setting: each is `WorkflowCompletedEvent` with another name, type and data.
fn add_events(schemas: &mut Value, profile: &Profile) {
    for event_type in profile.events.types().filter(|event_type| *event_type != WORKFLOW_COMPLETED) {
        let words = event_type.split(['.', '_', '-']).filter_map(|word| word.split_at_checked(1));
        let mut name: String =
            words.map(|(first, rest)| first.to_ascii_uppercase() + rest).chain(["Event".into()]).collect();
        // Some types differ in a separator alone.
        while schemas.get(&name).is_some() {
            name.push('_');
        }
        let data = profile.events.data.get(event_type).cloned().unwrap_or_default();
        let mut event = schemas["WorkflowCompletedEvent"].clone();
        event["title"] = name.as_str().into();
        event["properties"]["type"]["enum"] = json!([event_type]);
        event["properties"]["data"] = shape_of(&data.into(), true);
        event["properties"]["data"]["x-assumed"] = "events.data".into();
        let reference = format!("#/components/schemas/{name}");
        schemas["Event"]["discriminator"]["mapping"][event_type] = reference.as_str().into();
        let choice = schemas["Event"]["oneOf"].as_array_mut();
        choice.expect("it is a list").push(json!({ "$ref": reference }));
        schemas[name] = event;
    }
}

/// The type of a value; of an object, those of its fields.
fn shape_of(value: &Value, has_more: bool) -> Value {
    let kind = match value {
        Value::Object(fields) => {
            let names: Vec<&String> = fields.keys().collect();
            let properties: Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), shape_of(value, has_more))).collect();
            let has_more: Value = has_more.into();
            return json!({
                "type": "object", "required": names, "properties": properties, "additionalProperties": has_more,
            });
        }
        Value::Array(_) => return json!({ "type": "array", "items": {} }),
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
    };
    json!({ "type": kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Layered;

    #[test]
    fn every_place_has_a_value_and_every_value_a_place() {
        let layered = Layered::default();
        let document = document(layered.profile()).to_string();
        assert!(!document.contains("\"{") && !document.contains("_{"), "{document}");
        let written = include_str!("../contract/openapi.json");
        for place in values(layered.profile()).keys().filter(|place| !place.starts_with("errors.codes.")) {
            assert!(written.contains(&format!("{{{place}}}")), "{place}");
        }
    }
}
