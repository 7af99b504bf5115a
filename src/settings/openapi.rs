//! The `OpenAPI` 3.1 document of the emulated API, made from the route table, the wire types and the settings in force. The
//! fixed parts are in `openapi_parts.json`: the document, and parameters and bodies by operation.
//!
//! Everything that the published contract does not state is marked: `x-assumed` names the setting of the profile behind it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::sections::Profile;
use crate::contract::VERSION;
use crate::contract::error::{ErrorDetails, ErrorKind};
use crate::contract::ids::IdStyle;
use crate::contract::preview::{MAX_LABEL, OauthErrorShape, WorkflowStatus};
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::routes::{Credential, Operation, ROUTES, Route, Stage};
use crate::contract::rules::{Unknown, url_schema};
use crate::contract::signature::SigningKey;
use crate::contract::types::WORKFLOW_COMPLETED;
use crate::util::schema::add_examples;

static PARTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("openapi_parts.json")).expect("the tests read it as well"));

/// The JSON Schemas of the types on the wire, by name. A test makes the file from the types.
static SCHEMAS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("schemas.json")).expect("a test has made it"));

pub fn document(profile: &Profile) -> Value {
    let mut document = PARTS["document"].clone();
    document["info"]["version"] = VERSION.into();
    for route in ROUTES.iter().filter(|route| is_served(route, profile)) {
        document["paths"][route.path][route.method.as_str().to_ascii_lowercase()] = operation(route, profile);
    }
    if let Some(tags) = document["tags"].as_array_mut() {
        tags.retain(|tag| ROUTES.iter().any(|route| is_served(route, profile) && tag["name"] == tag_of(route)));
    }
    let types: Vec<&str> = profile.events.types().collect();
    document["webhooks"]["event"]["post"]["description"] =
        format!("Event types: {}. Signed; the scheme is assumed.", types.join(", ")).into();
    fill_schemas(&mut document["components"]["schemas"], profile);
    fill_headers(&mut document["components"]["headers"], profile);
    let text = document["paths"].to_string();
    if let Some(headers) = document["components"]["headers"].as_object_mut() {
        headers.retain(|name, _| text.contains(&format!("#/components/headers/{name}\"")));
    }
    add_examples(&mut document, &[]);
    document
}

fn is_served(route: &Route, profile: &Profile) -> bool {
    route.stage == Stage::Open || profile.preview.enabled
}

/// Generators make one part of a client of the operations with one tag.
fn tag_of(route: &Route) -> &'static str {
    let name = route.operation.name();
    name.split_once('.').map_or(name, |(tag, _)| tag)
}

fn operation(route: &Route, profile: &Profile) -> Value {
    let name = route.operation.name();
    let mut operation = json!({
        "operationId": name.replace('.', "_"),
        "tags": [tag_of(route)],
        "summary": route.summary,
    });
    if route.credential == Credential::None {
        operation["security"] = json!([]);
    }
    if route.stage == Stage::Announced {
        operation["x-assumed"] = "preview.enabled".into();
    }
    for (name, part) in PARTS["operations"][name].as_object().into_iter().flatten() {
        operation[name] = part.clone();
    }
    operation["responses"] = responses(route, profile);
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
        if schema == "Error" {
            response["content"]["application/json"]["example"] = error_example(status, description, profile);
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

/// An error with the code that belongs to its status.
fn error_example(status: u16, description: &str, profile: &Profile) -> Value {
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.status() == status);
    let code = kind.and_then(|kind| profile.errors.codes.get(&kind));
    let id = id_example("req_", profile);
    json!({ "error": { "code": code, "message": description, "request_id": id } })
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
    fill_id(&mut headers["RequestIdToo"]["schema"], "req_", profile);
    headers["RetryAfter"]["schema"] = match profile.rate_limit.retry_after {
        RetryAfterForm::Date => json!({ "type": "string" }),
        _ => json!({ "type": "integer", "minimum": 0 }),
    };
}

fn fill_schemas(schemas: &mut Value, profile: &Profile) {
    let is_varied = profile.variation.unknown_fields;
    add_type(&mut schemas["SystemStatus"], "SystemStatus");
    let status = &mut schemas["SystemStatus"]["properties"];
    status["version"] = json!({ "type": "string", "description": status["version"]["description"], "enum": [VERSION] });
    status["checks"]["additionalProperties"] = if is_varied { json!(true) } else { json!({ "type": "object" }) };

    add_type(&mut schemas["Subscription"], "Subscription");
    let subscription = &mut schemas["Subscription"]["properties"];
    fill_id(&mut subscription["id"], "sub_", profile);
    subscription["events"]["examples"] = json!([[WORKFLOW_COMPLETED]]);
    let secret = subscription.as_object_mut().and_then(|fields| fields.shift_remove("secret"));
    subscription[profile.subscriptions.secret_field.as_str()] = secret.into();

    add_type(&mut schemas["SubscribeRequest"], "SubscribeRequest");
    let request = &mut schemas["SubscribeRequest"]["properties"];
    request["events"]["items"]["enum"] = profile.events.types().collect();
    fill_secret(&mut request["secret"], profile);
    schemas["WebhookUrl"] = url_schema(profile.webhooks.allow_http);

    schemas["Hello"] = hello_schema(profile);
    let error = &mut schemas["Error"]["properties"]["error"];
    let has_more = is_varied || !profile.errors.extra.is_empty() || profile.errors.details != ErrorDetails::Off;
    error["additionalProperties"] = has_more.into();
    error["properties"]["code"]["enum"] = json!(profile.errors.codes.values().collect::<Vec<_>>());
    fill_id(&mut error["properties"]["request_id"], "req_", profile);
    add_type(&mut schemas["Event"], "EventEnvelope");
    fill_id(&mut schemas["Event"]["properties"]["id"], "evt_", profile);

    // The id of a workflow has any form after the prefix: a scenario may give one.
    add_type(&mut schemas["Workflow"], "Workflow");
    for name in ["name", "reference"] {
        schemas["WorkflowFields"]["properties"][name]["maxLength"] = MAX_LABEL.into();
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

/// The body of the hello endpoint: its fields and their types, and the body itself as the example.
fn hello_schema(profile: &Profile) -> Value {
    let body = Value::Object(profile.hello.body.clone());
    let mut schema = shape_of(&body, profile.variation.unknown_fields);
    schema["examples"] = json!([body]);
    schema["x-assumed"] = "hello.body".into();
    schema
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

fn fill_secret(schema: &mut Value, profile: &Profile) {
    let mut patterns: Vec<String> = profile
        .schemes()
        .iter()
        .map(|scheme| SigningKey::secret_pattern(scheme, profile.webhooks.secret_key))
        .collect();
    patterns.sort();
    patterns.dedup();
    match &patterns[..] {
        [one] => schema["pattern"] = one.as_str().into(),
        several => schema["allOf"] = several.iter().map(|pattern| json!({ "pattern": pattern })).collect(),
    }
}

fn fill_id(schema: &mut Value, prefix: &str, profile: &Profile) {
    schema["pattern"] = id_pattern(prefix, profile).into();
    schema["examples"] = json!([id_example(prefix, profile)]);
}

fn id_example(prefix: &str, profile: &Profile) -> String {
    let id = match profile.ids.style {
        IdStyle::Ulid => "01kg9tbs8075j3q2a1zqxhg4v6".to_owned(),
        IdStyle::Uuid => "9f1c7a52-3f5e-4b0a-8f0e-2d6b1c4a7e90".to_owned(),
        IdStyle::Counter => "00000001".to_owned(),
        IdStyle::Longest => "a".repeat(64),
    };
    format!("{prefix}{id}")
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
    use crate::contract::preview::Workflow;
    use crate::contract::types::{EventEnvelope, SubscribeRequest, Subscription, SystemStatus};
    use crate::golden;
    use crate::util::schema::plain;

    pub(crate) fn schema<T: JsonSchema>() -> Value {
        let generator = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut made = generator.into_generator().into_root_schema_for::<T>().to_value();
        plain(&mut made);
        made
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
        golden::compare("src/settings/schemas.json", &golden::json(&made, 1));
    }
}
