//! The `OpenAPI` 3.1 document of the emulated API, made from the route table, the wire types and the settings in force.
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

pub fn document(profile: &Profile) -> Value {
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| route.stage == Stage::Open || profile.preview.enabled) {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_ascii_lowercase()] = operation(route, profile);
        if route.method == hyper::Method::GET {
            entry["head"] = head_of(route, profile);
        }
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Workflow Reference Service API",
            "version": VERSION,
            "summary": "The sandbox beta as wrs-emulator serves it",
            "description": "Parts that the published contract does not state carry `x-assumed`, which names the setting of the emulator's profile behind them.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "webhooks": { "event": webhook(profile) },
        "components": {
            "securitySchemes": { "api_key": { "type": "http", "scheme": "bearer", "description": "An API key of the environment." } },
            "schemas": schemas(profile),
            "headers": headers(profile),
        },
    })
}

fn operation(route: &Route, profile: &Profile) -> Value {
    let mut operation = json!({
        "operationId": route.operation.name(),
        "summary": route.summary,
        "responses": responses(route, profile),
    });
    match route.credential {
        Credential::Bearer => operation["security"] = json!([{ "api_key": [] }]),
        Credential::None => operation["security"] = json!([]),
    }
    match route.operation {
        Operation::SystemStatus => operation["parameters"] = json!([include_checks(profile)]),
        Operation::EventsSubscribe => {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/SubscribeRequest" } } },
            });
        }
        Operation::Hello => {}
        _ => describe_preview(route, &mut operation, profile),
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

fn include_checks(profile: &Profile) -> Value {
    let schema = if profile.validation.lenient_booleans {
        json!({ "type": ["boolean", "string"], "default": false })
    } else {
        json!({ "type": "boolean", "default": false })
    };
    json!({
        "name": "include_checks",
        "in": "query",
        "required": false,
        "description": "When true, the response includes dependency health details.",
        "schema": schema,
    })
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
        announced => preview_schema(announced),
    };
    let counted = route.credential == Credential::Bearer;
    let mut responses = Map::new();
    let mut push = |status: u16, description: &str, schema: &str, counted: bool, assumed: Option<&str>| {
        let mut response = json!({
            "description": description,
            "headers": response_headers(status, counted, route.stage, profile),
            "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } },
        });
        if let Some(setting) = assumed {
            response["x-assumed"] = setting.into();
        }
        responses.insert(status.to_string(), response);
    };
    push(200, "Success.", body, counted, (route.operation == Operation::Hello).then_some("hello.body"));
    push(400, "Not a valid HTTP request.", "Error", false, Some("http"));
    if counted {
        push(401, "Bearer token missing or invalid.", "Error", false, None);
        push(422, "The request failed validation.", "Error", true, None);
        push(429, "The key's quota is used up; back off before retrying.", "Error", true, None);
    }
    if route.operation == Operation::OauthToken {
        let schema = oauth_error(profile);
        push(401, "The client's secret is not a valid API key.", schema, false, Some("oauth.error_shape"));
        let (status, text) = if schema == "Error" {
            (422, "Not a token request.")
        } else {
            (400, "Not a token request, or not a valid HTTP request.")
        };
        let schemas = if schema == "Error" { "Error" } else { "OauthErrorOrError" };
        push(status, text, schemas, false, Some("oauth.error_shape"));
    }
    if route.path.contains("{id}") {
        push(404, "There is none with this id.", "Error", counted, Some("preview.enabled"));
    }
    if route.has_body() {
        push(408, "The body did not arrive in time.", "Error", counted, Some("http"));
        push(413, "The body is too large.", "Error", counted, Some("http"));
        push(
            415,
            "A transfer coding other than chunked, or a content coding such as gzip.",
            "Error",
            counted,
            Some("http"),
        );
    }
    push(414, "The request target is too long.", "Error", false, Some("http"));
    push(431, "The header block is too large.", "Error", false, Some("http"));
    Value::Object(responses)
}

fn response_headers(status: u16, counted: bool, stage: Stage, profile: &Profile) -> Value {
    let mut headers = Map::new();
    let mut add = |name: &str, component: &str| {
        headers.insert(name.to_owned(), json!({ "$ref": format!("#/components/headers/{component}") }));
    };
    add("X-Emulator-Request-Id", "RequestId");
    if let Some(name) = &profile.ids.request_header {
        add(name.as_str(), "RequestIdToo");
    }
    if stage == Stage::Announced && ![400, 414, 431].contains(&status) {
        add("X-Emulator-Preview", "Preview");
    }
    if counted {
        add(profile.rate_limit.header_names.limit.as_str(), "Limit");
        add(profile.rate_limit.header_names.remaining.as_str(), "Remaining");
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

fn headers(profile: &Profile) -> Value {
    // The token endpoint of the preview is the one place with another scheme.
    let challenge = if profile.preview.enabled { "^(Bearer|Basic)" } else { "^Bearer" };
    let retry_after = match profile.rate_limit.retry_after {
        RetryAfterForm::Date => json!({ "type": "string" }),
        _ => json!({ "type": "integer", "minimum": 0 }),
    };
    json!({
        "RequestId": { "description": "Names the request in the emulator's journal.", "required": true, "schema": { "type": "string", "pattern": "^req_" }, "x-assumed": "emulator" },
        "RequestIdToo": { "description": "The request's id, as `request_id` in an error.", "required": true, "schema": { "type": "string", "pattern": id_pattern("req_", profile) }, "x-assumed": "ids.request_header" },
        "Preview": { "description": "The endpoint is announced, its shape assumed.", "required": true, "schema": { "type": "string", "const": "true" }, "x-assumed": "preview.enabled" },
        "Limit": { "description": "Requests per window.", "required": true, "schema": { "type": "integer", "minimum": 0 }, "x-assumed": "rate_limit.requests" },
        "Remaining": { "description": "Requests left after this one.", "required": true, "schema": { "type": "integer", "minimum": 0 }, "x-assumed": "rate_limit.requests" },
        "Reset": { "description": "When the full quota is available again.", "required": true, "schema": { "type": "integer" }, "x-assumed": "rate_limit.reset" },
        "Ietf": { "description": "The quota in the form of the IETF draft.", "required": true, "schema": { "type": "string" }, "x-assumed": "rate_limit.ietf" },
        "RetryAfter": { "description": "How long to back off.", "required": true, "schema": retry_after, "x-assumed": "rate_limit.retry_after" },
        "Challenge": { "description": "RFC 9110 requires it on 401.", "required": true, "schema": { "type": "string", "pattern": challenge }, "x-assumed": "http" },
    })
}

fn schemas(profile: &Profile) -> Value {
    let mut status = schema_of("SystemStatus");
    status["properties"]["version"]["const"] = VERSION.into();
    status["properties"]["checks"] = json!({
        "description": "Dependency health, only with include_checks=true.",
        "type": "object",
        "additionalProperties": if profile.variation.unknown_fields { json!(true) } else { json!({ "type": "object" }) },
        "x-assumed": "status.checks",
    });
    let mut subscription = schema_of("Subscription");
    subscription["properties"]["id"]["pattern"] = id_pattern("sub_", profile).into();
    subscription["properties"][profile.subscriptions.secret_field.as_str()] = json!({
        "description": "The signing secret, once, when the service generated it.",
        "type": "string",
        "x-assumed": "subscriptions.secret_field",
    });
    let mut request = schema_of("SubscribeRequest");
    let types: Vec<&str> = profile.events.types().collect();
    request["properties"]["url"] = url_schema(profile);
    request["properties"]["events"] = json!({
        "description": "Event types to subscribe to.",
        "type": "array",
        "minItems": 1,
        "items": { "type": "string", "enum": types },
    });
    request["properties"]["secret"] = json!({
        "description": "Signing secret; when omitted the service generates one and returns it once. The part after `whsec_` is base64.",
        "type": ["string", "null"],
        "pattern": "^(?!whsec_)[\\s\\S]+$",
        "x-assumed": "webhooks.secret_key",
    });
    request["properties"]["description"] = json!({ "description": "Short label.", "type": ["string", "null"] });
    if profile.validation.unknown == Unknown::Reject {
        request["additionalProperties"] = false.into();
    }
    let mut envelope = schema_of("EventEnvelope");
    envelope["properties"]["id"]["pattern"] = id_pattern("evt_", profile).into();
    let mut schemas = Map::new();
    if profile.preview.enabled {
        add_preview_schemas(&mut schemas, profile);
    }
    let mut open = json!({
        "SystemStatus": status,
        "SubscribeRequest": request,
        "Subscription": subscription,
        "Hello": hello_schema(profile),
        "Error": error_schema(profile),
        "Event": envelope,
    });
    if let Some(open) = open.as_object_mut() {
        open.append(&mut schemas);
    }
    open
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

fn error_schema(profile: &Profile) -> Value {
    let codes: Vec<&String> = profile.errors.codes.values().collect();
    let extra = profile.variation.unknown_fields
        || !profile.errors.extra.is_empty()
        || profile.errors.details != ErrorDetails::Off;
    json!({
        "type": "object",
        "required": ["error"],
        "additionalProperties": false,
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "request_id"],
                "additionalProperties": extra,
                "properties": {
                    "code": { "description": "Machine-readable; clients branch on this.", "type": "string", "enum": codes, "x-assumed": "errors.codes" },
                    "message": { "description": "For people.", "type": "string" },
                    "request_id": { "description": "Form req_<id>.", "type": "string", "pattern": id_pattern("req_", profile) },
                },
            },
        },
    })
}

/// What a subscription's URL must look like, as far as a pattern can express it: an https URL without user information,
/// fragment, spaces or port 0, whose host is a plain name. Other valid URLs (IP literals, internationalised names) are
/// accepted as well; a pattern that covered them would be unreadable.
fn url_schema(profile: &Profile) -> Value {
    let scheme = if profile.webhooks.allow_http { "https?" } else { "https" };
    let label = "[a-z][a-z0-9]{0,20}";
    let rest = "[A-Za-z0-9._~!$&'()*+,;=:@/-]*";
    json!({
        "description": "HTTPS endpoint that receives signed webhook POSTs.",
        "type": "string",
        "maxLength": LONGEST_URL,
        "pattern": format!("^{scheme}://{label}(\\.{label}){{0,3}}(:[1-9][0-9]{{0,3}})?(/{rest})?(\\?{rest})?$"),
    })
}

fn id_pattern(prefix: &str, profile: &Profile) -> String {
    match profile.ids.style {
        IdStyle::Ulid => format!("^{prefix}[0-7][0-9a-hjkmnp-tv-z]{{25}}$"),
        IdStyle::Uuid => format!("^{prefix}[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$"),
        IdStyle::Counter => format!("^{prefix}[0-9]{{8,}}$"),
        IdStyle::Longest => format!("^{prefix}[A-Za-z0-9_-]{{64}}$"),
    }
}

fn webhook(profile: &Profile) -> Value {
    let types: Vec<&str> = profile.events.types().collect();
    json!({
        "post": {
            "operationId": "event",
            "summary": "What a subscribed endpoint receives",
            "description": format!("Event types: {}. Signed; the scheme is assumed.", types.join(", ")),
            "x-assumed": "webhooks.scheme",
            "requestBody": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Event" } } } },
            "responses": { "2XX": { "description": "The event was accepted." } },
        },
    })
}

/// The name of the schema that an announced operation answers with.
fn preview_schema(operation: Operation) -> &'static str {
    match operation {
        Operation::WorkflowsList => "WorkflowList",
        Operation::UsersList => "UserList",
        Operation::UsersRead => "User",
        Operation::OauthToken => "Token",
        _ => "Workflow",
    }
}

/// What an announced operation has beyond its answers.
fn describe_preview(route: &Route, operation: &mut Value, profile: &Profile) {
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema });
    let body =
        |kind: &str, schema: &str| json!({ kind: { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
    operation["x-assumed"] = "preview.enabled".into();
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    if matches!(route.operation, Operation::WorkflowsList | Operation::UsersList) {
        let (most, default) = (profile.preview.page_limit, profile.preview.page_size.min(profile.preview.page_limit));
        let limit = json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
        parameters.push(query("limit", "Most entries of the page.", limit));
        parameters.push(query("cursor", "The next_cursor of the previous page.", json!({ "type": "string" })));
    }
    if route.operation == Operation::WorkflowsList {
        let statuses = json!({ "type": "string", "enum": WorkflowStatus::ALL.map(WorkflowStatus::name) });
        let instant = json!({ "type": "string", "format": "date-time" });
        parameters.push(query("status", "Only workflows with this status.", statuses));
        parameters.push(query("created_after", "Only workflows created later.", instant.clone()));
        parameters.push(query("created_before", "Only workflows created earlier.", instant));
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    match route.operation {
        Operation::OauthToken => {
            operation["requestBody"] = json!({
                "required": true,
                "description": "The client's secret is an API key, here or as the password of HTTP Basic.",
                "content": body("application/x-www-form-urlencoded", "TokenRequest"),
            });
        }
        Operation::WorkflowsCreate | Operation::WorkflowsUpdate => {
            operation["requestBody"] =
                json!({ "required": true, "content": body("application/json", "WorkflowFields") });
        }
        _ => {}
    }
}

/// Adds the schemas of the announced endpoints.
fn add_preview_schemas(schemas: &mut Map<String, Value>, profile: &Profile) {
    let label = |text: &str| json!({ "description": text, "type": ["string", "null"], "minLength": 1, "maxLength": LONGEST_LABEL });
    let mut fields = json!({
        "type": "object",
        "properties": { "name": label("A label."), "reference": label("The reference that it is about.") },
    });
    if profile.validation.unknown == Unknown::Reject {
        fields["additionalProperties"] = false.into();
    }
    // Its id has any form after the prefix: a scenario may give one.
    let mut workflow = schema_of("Workflow");
    workflow["required"] = json!(["id", "name", "status", "reference", "created_at", "updated_at"]);
    let user = json!({ "description": "As the scenario gave it.", "type": "object", "required": ["id"] });
    let added = [
        ("Workflow", workflow),
        ("WorkflowFields", fields),
        ("WorkflowList", list("Workflow")),
        ("User", user),
        ("UserList", list("User")),
    ];
    for (name, mut schema) in added.into_iter().chain(oauth_schemas()) {
        schema["x-assumed"] = "preview.enabled".into();
        schemas.insert(name.to_owned(), schema);
    }
}

/// The schema of the token endpoint's errors.
fn oauth_error(profile: &Profile) -> &'static str {
    match profile.oauth.error_shape {
        OauthErrorShape::Rfc6749 => "OauthError",
        OauthErrorShape::Envelope => "Error",
    }
}

fn oauth_schemas() -> [(&'static str, Value); 4] {
    let text = || json!({ "type": "string" });
    let token = json!({
        "type": "object",
        "required": ["access_token", "token_type", "expires_in"],
        "properties": {
            "access_token": text(),
            "token_type": { "const": "Bearer" },
            "expires_in": { "description": "Seconds.", "type": "integer", "minimum": 0 },
        },
    });
    let request = json!({
        "type": "object",
        "required": ["grant_type"],
        "properties": { "grant_type": { "const": "client_credentials" }, "client_id": text(), "client_secret": text() },
    });
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": { "enum": ["invalid_request", "invalid_client", "unsupported_grant_type"] },
            "error_description": text(),
        },
    });
    let either =
        json!({ "anyOf": [{ "$ref": "#/components/schemas/OauthError" }, { "$ref": "#/components/schemas/Error" }] });
    [("OauthErrorOrError", either), ("Token", token), ("TokenRequest", request), ("OauthError", error)]
}

fn list(entry: &str) -> Value {
    json!({
        "type": "object",
        "required": ["data", "has_more", "next_cursor"],
        "properties": {
            "data": { "type": "array", "items": { "$ref": format!("#/components/schemas/{entry}") } },
            "has_more": { "type": "boolean" },
            "next_cursor": { "type": ["string", "null"] },
        },
    })
}

/// The JSON Schemas of the types on the wire, by name. A test makes the file from the types.
static SCHEMAS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("schemas.json")).expect("a test has made it"));

/// The JSON Schema of a type as it is read, without references.
fn schema_of(name: &str) -> Value {
    SCHEMAS[name].clone()
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

    #[test]
    fn every_route_is_in_the_document_of_the_api() {
        let mut profile = Profile::default();
        for preview in [false, true] {
            profile.preview.enabled = preview;
            let document = document(&profile);
            for route in ROUTES {
                let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
                let announced = route.stage == Stage::Announced;
                assert_eq!(operation["operationId"] == route.operation.name(), preview || !announced, "{}", route.path);
                assert_eq!(operation["x-assumed"] == "preview.enabled", preview && announced, "{}", route.path);
            }
            assert_eq!(document["components"]["schemas"]["Workflow"].is_object(), preview);
        }
    }
}
