//! Inference from a published OpenAPI document. It promises and does not show, so results of calls come first.

use serde_json::Value;

use super::evidence::{Seen, hidden};
use super::promises::is_published;
use super::report::OtherSource;
use crate::contract::types::EVENT_TYPES;

/// Maximum number of references that lead to each other.
const MAX_REFERENCES: usize = 8;

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
    let subscribe = resolved(&document, &document["paths"]["/v1/events/subscribe"]["post"]);
    let at = |path: &str| path.split(' ').fold(subscribe, |place, name| resolved(&document, &place[name]));

    let listed = at("requestBody content application/json schema properties events items enum");
    let types: Vec<&str> = listed.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_whole = EVENT_TYPES.iter().all(|known| types.contains(known));
    let extra: Value = types.iter().filter(|name| !EVENT_TYPES.contains(name)).copied().collect();
    let fields = at("responses 200 content application/json schema properties");
    let names = fields.as_object().into_iter().flat_map(serde_json::Map::keys);
    let secrets: Vec<&String> = names.filter(|name| !is_published(name) && name.contains("secret")).collect();
    let [may_be_400, may_be_422] = ["400", "422"].map(|status| at(&format!("responses {status}")).is_object());
    let headers = at("responses 429 headers");
    let header = |wanted: &str| headers.as_object()?.keys().find(|name| name.eq_ignore_ascii_case(wanted));
    let retry_after = header("retry-after").map(|name| at(&format!("responses 429 headers {name} schema type")));
    let form = match retry_after {
        None => headers.is_object().then_some("off"),
        Some(form) => (*form == "integer").then_some("seconds"),
    };
    let ietf = headers.is_object().then(|| header("ratelimit-policy").is_some());
    let secret = if let [one] = secrets[..] { Some(one.as_str()) } else { None };
    let shown: [(_, Option<Value>); 5] = [
        ("events.extra", is_whole.then_some(extra)),
        ("subscriptions.secret_field", secret.map(Value::from)),
        ("rate_limit.retry_after", form.map(Value::from)),
        ("rate_limit.ietf", ietf.map(Value::from)),
        ("errors.malformed_json_status", (may_be_422 && !may_be_400).then(|| 422.into())),
    ];
    let observed = |value: Option<Value>| match value {
        Some(value) => Ok(Seen::new(value, [])),
        None => hidden("the OpenAPI document does not show it"),
    };
    let settings = shown.into_iter().map(|(setting, value)| (setting, observed(value))).collect();
    Ok(OtherSource { source: "the OpenAPI document", settings })
}

/// A part of the document, with a reference followed.
fn resolved<'d>(document: &'d Value, mut place: &'d Value) -> &'d Value {
    // A reference may lead to another; more than a few would be a circle.
    for _ in 0..MAX_REFERENCES {
        let Some(pointer) = place["$ref"].as_str().and_then(|text| text.strip_prefix('#')) else { break };
        place = document.pointer(pointer).unwrap_or(&Value::Null);
    }
    place
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A clone at each reference would use many times the memory of a large document.
    #[test]
    fn references_lead_to_the_document_itself_and_circles_end() {
        let document = json!({
            "start": { "$ref": "#/a~1b/0" },
            "a/b": [{ "$ref": "#/end" }],
            "end": { "large": [1, 2, 3] },
            "circle": { "$ref": "#/circle" },
            "elsewhere": { "$ref": "other.json#/a" },
            "nowhere": { "$ref": "#/none" },
        });
        for (from, to) in [("start", "/end"), ("circle", "/circle"), ("elsewhere", "/elsewhere")] {
            let found = resolved(&document, &document[from]);
            assert!(std::ptr::eq(found, document.pointer(to).expect("a place")), "{from}: {found}");
        }
        assert_eq!(*resolved(&document, &document["nowhere"]), Value::Null);
    }
}
