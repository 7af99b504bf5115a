//! The `OpenAPI` 3.1 document of the emulated API. It is written by hand in `openapi.json`; what settings decide is a place there, such
//! as `{errors.codes}`.
//!
//! Everything that the published contract does not state is marked: `x-assumed` names the setting of the profile behind it.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::contract::routes::Route;

/// The document with its places.
static WRITTEN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("openapi.json")).expect("the document is JSON"));

/// The document with a value in each place. A text or the name of a field that is one place becomes the value; in a longer text the
/// place becomes a part of it. A field whose name or value is null is left out.
pub fn filled(values: &Map<String, Value>) -> Value {
    fill(&WRITTEN, values)
}

fn fill(part: &Value, values: &Map<String, Value>) -> Value {
    match part {
        Value::String(text) => fill_text(text, values),
        Value::Array(parts) => parts.iter().map(|part| fill(part, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, part)| (fill_text(name, values), fill(part, values)));
            let present = fields.filter(|(_, part)| !part.is_null());
            Value::Object(present.filter_map(|(name, part)| Some((name.as_str()?.to_owned(), part))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => part.clone(),
    }
}

fn fill_text(text: &str, values: &Map<String, Value>) -> Value {
    let place = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(value) = place.and_then(|place| values.get(place)) {
        return value.clone();
    }
    let texts = values.iter().filter_map(|(place, value)| Some((place, value.as_str()?)));
    texts.fold(text.to_owned(), |text, (place, value)| text.replace(&format!("{{{place}}}"), value)).into()
}

fn operation(route: &Route) -> &'static Value {
    &WRITTEN["paths"][route.path][route.method.as_str().to_ascii_lowercase()]
}

/// The names of the query parameters that an endpoint has.
pub fn query_parameters(route: &Route) -> impl Iterator<Item = &'static str> {
    let parameters = operation(route)["parameters"].as_array().into_iter().flatten();
    parameters.filter_map(|parameter| parameter["name"].as_str())
}

/// The statuses that an endpoint answers, in order, each with true if the rules of the API lead to it, and not those by which any HTTP
/// server refuses a request.
fn responses(route: &Route) -> Vec<(u16, bool)> {
    let responses = operation(route)["responses"].as_object().into_iter().flatten();
    let mut statuses: Vec<(u16, bool)> = responses
        .filter_map(|(status, response)| {
            let shared = response["$ref"].as_str().and_then(|reference| WRITTEN.pointer(reference.strip_prefix('#')?));
            Some((status.parse().ok()?, shared.unwrap_or(response)["x-assumed"] != "http"))
        })
        .collect();
    statuses.sort_unstable();
    statuses
}

/// The statuses that an endpoint answers, a failure of the emulator included.
pub fn statuses(route: &Route) -> impl Iterator<Item = u16> {
    responses(route).into_iter().map(|(status, _)| status).chain([500])
}

/// The statuses that an endpoint answers by the rules of the API, in order.
pub fn statuses_of_api(route: &Route) -> impl Iterator<Item = u16> {
    responses(route).into_iter().filter_map(|(status, by_api)| by_api.then_some(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::routes::ROUTES;

    #[test]
    fn the_document_has_the_routes_and_their_statuses() {
        let paths = WRITTEN["paths"].as_object().expect("an object");
        assert!(ROUTES.iter().map(|route| route.path).eq(paths.keys()));
        let by_api: Vec<Vec<u16>> = ROUTES.iter().map(|route| statuses_of_api(route).collect()).collect();
        assert_eq!(by_api, [vec![200, 401, 422, 429], vec![200, 401, 422, 429], vec![200]]);
        assert!(statuses(&ROUTES[1]).eq([200, 400, 401, 408, 413, 414, 415, 422, 429, 431, 500]));
        assert!(query_parameters(&ROUTES[0]).eq(["include_checks"]));
    }

    #[test]
    fn places_become_values_and_null_leaves_a_field_out() {
        let written =
            serde_json::json!({ "{name}": ["{list}", "^sub_{id}$"], "{none}": 1, "other": "{none}", "{2}": "{x}" });
        let values = serde_json::json!({ "name": "n", "list": [1], "id": "[0-9]{2}", "none": null });
        let expected = serde_json::json!({ "n": [[1], "^sub_[0-9]{2}$"], "{2}": "{x}" });
        assert_eq!(fill(&written, values.as_object().expect("an object")), expected);
    }
}
