//! The `OpenAPI` 3.1 document of the emulated API, made from the route table, the wire types and the settings in force. The
//! fixed parts are in `openapi_parts.json`: the document, and parameters and bodies by operation.
//!
//! Everything that the published contract does not state is marked: `x-assumed` names the setting of the profile behind it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::sections::Profile;
use crate::contract::VERSION;
use crate::contract::error::ErrorDetails;
use crate::contract::ids::IdStyle;
use crate::contract::preview::{LONGEST_LABEL, OauthErrorShape, WorkflowStatus};
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::routes::{Credential, Operation, ROUTES, Route, Stage};
use crate::contract::rules::{LONGEST_URL, Unknown};

static PARTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("openapi_parts.json")).expect("the tests read it as well"));

/// The JSON Schemas of the types on the wire, by name. A test makes the file from the types.
static SCHEMAS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("schemas.json")).expect("a test has made it"));

pub fn document(profile: &Profile) -> Value {
    let mut document = PARTS["document"].clone();
    document["info"]["version"] = VERSION.into();
    for route in ROUTES.iter().filter(|route| route.stage == Stage::Open || profile.preview.enabled) {
        let entry = &mut document["paths"][route.path];
        entry[route.method.as_str().to_ascii_lowercase()] = operation(route, profile);
        if route.method == hyper::Method::GET {
            entry["head"] = head_of(route, profile);
        }
    }
    let types: Vec<&str> = profile.events.types().collect();
    document["webhooks"]["event"]["post"]["description"] =
        format!("Event types: {}. Signed; the scheme is assumed.", types.join(", ")).into();
    fill_schemas(&mut document["components"]["schemas"], profile);
    fill_headers(&mut document["components"]["headers"], profile);
    document
}

fn operation(route: &Route, profile: &Profile) -> Value {
    let mut operation = json!({
        "operationId": route.operation.name(),
        "summary": route.summary,
        "responses": responses(route, profile),
        "security": if route.credential == Credential::Bearer { json!([{ "api_key": [] }]) } else { json!([]) },
    });
    if route.stage == Stage::Announced {
        operation["x-assumed"] = "preview.enabled".into();
    }
    for (name, part) in PARTS["operations"][route.operation.name()].as_object().into_iter().flatten() {
        operation[name] = part.clone();
    }
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        let schema = &mut parameter["schema"];
        match name.as_str() {
            "include_checks" if profile.validation.lenient_booleans => schema["type"] = json!(["boolean", "string"]),
            "limit" => {
                schema["maximum"] = json!(profile.preview.page_limit);
                schema["default"] = json!(profile.preview.page_size.min(profile.preview.page_limit));
            }
            "status" => schema["enum"] = json!(WorkflowStatus::ALL.map(WorkflowStatus::name)),
            _ => {}
        }
    }
    operation
}

/// HEAD is answered wherever GET is, without a body.
fn head_of(route: &Route, profile: &Profile) -> Value {
    let mut head = operation(route, profile);
    head["operationId"] = format!("{}.head", route.operation.name()).into();
    head["x-assumed"] = "http".into();
    if let Some(responses) = head["responses"].as_object_mut() {
        for response in responses.values_mut().filter_map(Value::as_object_mut) {
            response.remove("content");
        }
    }
    head
}

/// The names of the query parameters that an endpoint has.
pub fn query_parameters(route: &Route, profile: &Profile) -> Vec<String> {
    let operation = operation(route, profile);
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let queries = parameters.filter(|parameter| parameter["in"] == "query");
    queries.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
}

/// The statuses that an endpoint answers, a failure of the emulator included.
pub fn statuses(route: &Route, profile: &Profile) -> impl Iterator<Item = u16> {
    let answered = responses(route, profile).as_object().cloned().unwrap_or_default();
    answered.into_iter().filter_map(|(status, _)| status.parse().ok()).chain([500])
}

fn responses(route: &Route, profile: &Profile) -> Value {
    let body = match route.operation {
        Operation::SystemStatus => "SystemStatus",
        Operation::EventsSubscribe => "Subscription",
        Operation::Hello => "Hello",
        Operation::WorkflowsList => "WorkflowList",
        Operation::UsersList => "UserList",
        Operation::UsersRead => "User",
        Operation::OauthToken => "Token",
        _ => "Workflow",
    };
    let counted = route.credential == Credential::Bearer;
    let (has_id, has_body) = (route.path.contains("{id}"), route.has_body());
    let is_token = route.operation == Operation::OauthToken;
    let hello = (route.operation == Operation::Hello).then_some("hello.body");
    let (refused, wrong, wrong_status, not_token) = match profile.oauth.error_shape {
        OauthErrorShape::Rfc6749 => {
            ("OauthError", "OauthErrorOrError", 400, "Not a token request, or not a valid HTTP request.")
        }
        OauthErrorShape::Envelope => ("Error", "Error", 422, "Not a token request."),
    };
    let oauth = Some("oauth.error_shape");
    let coding = "A transfer coding other than chunked, or a content coding such as gzip.";
    // Whether the route has it, the status, what it says, its body, whether it has the quota's headers, and the setting behind it.
    let all = [
        (true, 200, "Success.", body, counted, hello),
        (true, 400, "Not a valid HTTP request.", "Error", false, Some("http")),
        (counted, 401, "Bearer token missing or invalid.", "Error", false, None),
        (counted, 422, "The request failed validation.", "Error", true, None),
        (counted, 429, "The key's quota is used up; back off before retrying.", "Error", true, None),
        (is_token, 401, "The client's secret is not a valid API key.", refused, false, oauth),
        (is_token, wrong_status, not_token, wrong, false, oauth),
        (has_id, 404, "There is none with this id.", "Error", counted, Some("preview.enabled")),
        (has_body, 408, "The body did not arrive in time.", "Error", counted, Some("http")),
        (has_body, 413, "The body is too large.", "Error", counted, Some("http")),
        (has_body, 415, coding, "Error", counted, Some("http")),
        (true, 414, "The request target is too long.", "Error", false, Some("http")),
        (true, 431, "The header block is too large.", "Error", false, Some("http")),
    ];
    let mut responses = Map::new();
    for (_, status, description, schema, counted, assumed) in all.into_iter().filter(|(applies, ..)| *applies) {
        let mut response = json!({
            "description": description,
            "headers": response_headers(status, counted, route.stage, profile),
            "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } },
        });
        if let Some(setting) = assumed {
            response["x-assumed"] = setting.into();
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

fn response_headers(status: u16, counted: bool, stage: Stage, profile: &Profile) -> Value {
    let mut headers = Map::new();
    let mut add = |name: &str, component: &str| {
        headers.insert(name.to_owned(), json!({ "$ref": format!("#/components/headers/{component}") }));
    };
    add("X-Emulator-Request-Id", "RequestId");
    if let Some(name) = &profile.ids.request_header {
        add(name.as_written(), "RequestIdToo");
    }
    if stage == Stage::Announced && ![400, 414, 431].contains(&status) {
        add("X-Emulator-Preview", "Preview");
    }
    if counted {
        add(profile.rate_limit.header_names.limit.as_written(), "Limit");
        add(profile.rate_limit.header_names.remaining.as_written(), "Remaining");
        if profile.rate_limit.reset != ResetForm::Off {
            add("X-RateLimit-Reset", "Reset");
        }
        if profile.rate_limit.ietf {
            add("RateLimit", "Ietf");
            add("RateLimit-Policy", "Ietf");
        }
    }
    if status == 401 {
        add("WWW-Authenticate", "Challenge");
    }
    if status == 429 && profile.rate_limit.retry_after != RetryAfterForm::Off {
        add("Retry-After", "RetryAfter");
    }
    Value::Object(headers)
}

fn fill_headers(headers: &mut Value, profile: &Profile) {
    // The token endpoint of the preview is the one place with another scheme.
    let challenge = if profile.preview.enabled { "^(Bearer|Basic)" } else { "^Bearer" };
    headers["Challenge"]["schema"]["pattern"] = challenge.into();
    headers["RequestIdToo"]["schema"]["pattern"] = id_pattern("req_", profile).into();
    headers["RetryAfter"]["schema"] = match profile.rate_limit.retry_after {
        RetryAfterForm::Date => json!({ "type": "string" }),
        _ => json!({ "type": "integer", "minimum": 0 }),
    };
}

fn fill_schemas(schemas: &mut Value, profile: &Profile) {
    let is_varied = profile.variation.unknown_fields;
    add_type(&mut schemas["SystemStatus"], "SystemStatus");
    let status = &mut schemas["SystemStatus"]["properties"];
    status["version"]["const"] = VERSION.into();
    status["checks"]["additionalProperties"] = if is_varied { json!(true) } else { json!({ "type": "object" }) };

    add_type(&mut schemas["Subscription"], "Subscription");
    let subscription = &mut schemas["Subscription"]["properties"];
    subscription["id"]["pattern"] = id_pattern("sub_", profile).into();
    let secret = subscription.as_object_mut().and_then(|fields| fields.shift_remove("secret"));
    subscription[profile.subscriptions.secret_field.as_str()] = secret.into();

    add_type(&mut schemas["SubscribeRequest"], "SubscribeRequest");
    let request = &mut schemas["SubscribeRequest"]["properties"];
    request["url"]["maxLength"] = LONGEST_URL.into();
    request["url"]["pattern"] = url_pattern(profile).into();
    request["events"]["items"]["enum"] = profile.events.types().collect();

    schemas["Hello"] = hello_schema(profile);
    let error = &mut schemas["Error"]["properties"]["error"];
    let has_more = is_varied || !profile.errors.extra.is_empty() || profile.errors.details != ErrorDetails::Off;
    error["additionalProperties"] = has_more.into();
    error["properties"]["code"]["enum"] = json!(profile.errors.codes.values().collect::<Vec<_>>());
    error["properties"]["request_id"]["pattern"] = id_pattern("req_", profile).into();
    add_type(&mut schemas["Event"], "EventEnvelope");
    schemas["Event"]["properties"]["id"]["pattern"] = id_pattern("evt_", profile).into();

    // The id of a workflow has any form after the prefix: a scenario may give one.
    add_type(&mut schemas["Workflow"], "Workflow");
    for name in ["name", "reference"] {
        schemas["WorkflowFields"]["properties"][name]["maxLength"] = LONGEST_LABEL.into();
    }
    for name in ["SubscribeRequest", "WorkflowFields"] {
        if let Some(schema) = schemas[name].as_object_mut().filter(|_| profile.validation.unknown == Unknown::Ignore) {
            schema.shift_remove("additionalProperties");
        }
    }
    if let Some(all) = schemas.as_object_mut().filter(|_| !profile.preview.enabled) {
        all.retain(|_, schema| schema["x-assumed"] != "preview.enabled");
    }
}

/// Adds the generated schema of a type on the wire; the fixed parts take precedence over it.
fn add_type(schema: &mut Value, name: &str) {
    let parts = std::mem::replace(schema, SCHEMAS[name].clone());
    for (name, part) in parts.as_object().into_iter().flatten() {
        match part.as_object().filter(|_| name == "properties") {
            Some(properties) => properties.iter().for_each(|(name, part)| schema["properties"][name] = part.clone()),
            None => schema[name] = part.clone(),
        }
    }
}

fn hello_schema(profile: &Profile) -> Value {
    let body = &profile.hello.body;
    if !profile.variation.unknown_fields {
        return json!({ "type": "object", "const": body, "x-assumed": "hello.body" });
    }
    // Objects inside may gain fields as well, so only plain values are described.
    let plain = body.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
    let plain: Map<String, Value> = plain.map(|(name, value)| (name.clone(), json!({ "const": value }))).collect();
    let names: Vec<&String> = body.keys().collect();
    json!({ "type": "object", "required": names, "properties": plain, "x-assumed": "hello.body" })
}

/// What a subscription's URL must look like, as far as a pattern can express it: an https URL without user information,
/// fragment, spaces or port 0, whose host is a plain name. Other valid URLs (IP literals, internationalised names) are
/// accepted as well; a pattern that covered them would be unreadable.
fn url_pattern(profile: &Profile) -> String {
    let scheme = if profile.webhooks.allow_http { "https?" } else { "https" };
    let label = "[a-z][a-z0-9]{0,20}";
    let rest = "[A-Za-z0-9._~!$&'()*+,;=:@/-]*";
    format!("^{scheme}://{label}(\\.{label}){{0,3}}(:[1-9][0-9]{{0,3}})?(/{rest})?(\\?{rest})?$")
}

fn id_pattern(prefix: &str, profile: &Profile) -> String {
    match profile.ids.style {
        IdStyle::Ulid => format!("^{prefix}[0-7][0-9a-hjkmnp-tv-z]{{25}}$"),
        IdStyle::Uuid => format!("^{prefix}[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$"),
        IdStyle::Counter => format!("^{prefix}[0-9]{{8,}}$"),
        IdStyle::Longest => format!("^{prefix}[A-Za-z0-9_-]{{64}}$"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::committed;
    use crate::contract::preview::Workflow;
    use crate::contract::types::{EventEnvelope, SubscribeRequest, Subscription, SystemStatus};

    pub(crate) fn schema<T: JsonSchema>() -> Value {
        let generator = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        generator.into_generator().into_root_schema_for::<T>().to_value()
    }

    #[test]
    fn the_file_beside_is_made_from_the_types() {
        let made = serde_json::json!({
            "SystemStatus": schema::<SystemStatus>(),
            "Subscription": schema::<Subscription>(),
            "SubscribeRequest": schema::<SubscribeRequest>(),
            "EventEnvelope": schema::<EventEnvelope>(),
            "Workflow": schema::<Workflow>(),
        });
        committed::compare("src/settings/schemas.json", &committed::json(&made, 1));
    }
}
