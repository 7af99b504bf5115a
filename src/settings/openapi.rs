//! The `OpenAPI` 3.1 document of the emulated API, made from the route table, the wire types and the settings in force.
//!
//! Everything that the published contract does not state is marked: `x-assumed` names the setting of the profile behind it.

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::Contract;
use serde_json::{Map, Value, json};

use super::sections::Profile;
use crate::contract::error::{Envelope, ErrorDetails, ErrorKind};
use crate::contract::ids::IdStyle;
use crate::contract::quota::{ResetForm, RetryAfterForm};
use crate::contract::routes::{Credential, Operation, ROUTES, Route};
use crate::contract::rules::{StatusQuery, Unknown, url_schema};
use crate::contract::signature::SigningKey;
use crate::contract::types::{
    EventEnvelope, SubscribeRequest, Subscription, SystemStatus, WORKFLOW_COMPLETED, WorkflowCompleted,
};
use crate::contract::{DEFAULT_URL, VERSION};
use crate::util::schema::{add_examples, schema_of};

/// The groups of operations, of which generators make one part of a client each.
const TAGS: [(&str, &str); 4] = [
    ("system", "Whether the service is reachable and the key valid."),
    ("events", "Webhook subscriptions."),
    ("hello", "Hello world, without a key."),
    // Apart from the calls: generators make one class of each tag, and would write that of the webhook over that of the calls.
    ("webhooks", "The events that a subscribed endpoint receives."),
];

pub fn document(profile: &Profile) -> Value {
    let tags: Vec<Value> =
        TAGS.iter().map(|(name, description)| json!({ "name": name, "description": description })).collect();
    let mut paths = json!({});
    for route in ROUTES {
        paths[route.path][route.method.as_str().to_ascii_lowercase()] = operation(route, profile);
    }
    let types: Vec<&str> = profile.events.types().collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Workflow Reference Service API",
            "version": VERSION,
            "summary": "The sandbox beta as wrs-emulator serves it",
            "description": "Parts that the published contract does not state carry `x-assumed`, which names the setting of the \
                            emulator's profile behind them. HEAD is answered wherever GET is, without a body.",
            "license": { "name": "MIT", "identifier": "MIT" },
            "contact": { "name": "wrs-emulator" },
        },
        "servers": [{ "url": DEFAULT_URL, "description": "wrs-emulator at its default address" }],
        "security": [{ "api_key": [] }],
        "tags": tags,
        "paths": paths,
        "webhooks": { "event": { "post": {
            "operationId": "event",
            "summary": "What a subscribed endpoint receives",
            "description": format!("Event types: {}. Signed; the scheme is assumed.", types.join(", ")),
            "x-assumed": "webhooks.scheme",
            "requestBody": body_of("Event", "application/json"),
            "responses": { "2XX": { "description": "The event was accepted." } },
            "tags": ["webhooks"],
            "security": [],
        } } },
        "components": {
            "securitySchemes": {
                "api_key": { "type": "http", "scheme": "bearer", "description": "An API key of the environment." },
            },
            "schemas": schemas(profile),
            "headers": headers(profile),
        },
    });
    let text = document["paths"].to_string();
    if let Some(headers) = document["components"]["headers"].as_object_mut() {
        headers.retain(|name, _| text.contains(&format!("#/components/headers/{name}\"")));
    }
    add_examples(&mut document, &[]);
    document
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn body_of(schema: &str, media_type: &str) -> Value {
    json!({ "required": true, "content": { media_type: { "schema": reference(schema) } } })
}

fn tag_of(route: &Route) -> &'static str {
    let name = route.operation.name();
    name.split_once('.').map_or(name, |(tag, _)| tag)
}

fn operation(route: &Route, profile: &Profile) -> Value {
    let mut operation = json!({
        "operationId": route.operation.name().replace('.', "_"),
        "tags": [tag_of(route)],
        "summary": route.summary,
    });
    if route.credential == Credential::None {
        operation["security"] = json!([]);
    }
    operation["description"] = route.description.into();
    let mut parameters = query_of(route.operation).to_vec();
    for parameter in &mut parameters {
        if parameter["name"] == "include_checks" && profile.validation.lenient_booleans {
            parameter["schema"]["type"] = json!(["boolean", "string"]);
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if route.operation == Operation::EventsSubscribe {
        operation["requestBody"] = body_of("SubscribeRequest", "application/json");
    }
    operation["responses"] = responses(route, profile);
    operation
}

/// The query parameters of an operation.
fn query_of(operation: Operation) -> &'static [Value] {
    static STATUS: LazyLock<Vec<Value>> = LazyLock::new(parameters::<StatusQuery>);
    if operation == Operation::SystemStatus { &STATUS } else { &[] }
}

/// The fields of a query as parameters.
fn parameters<Q: JsonSchema>() -> Vec<Value> {
    let query = schema_of::<Q>(Contract::Deserialize);
    let fields = query["properties"].as_object().into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
    };
    fields.map(parameter).collect()
}

/// The names of the query parameters that an endpoint has.
pub fn query_parameters(route: &Route) -> impl Iterator<Item = &'static str> {
    query_of(route.operation).iter().filter_map(|parameter| parameter["name"].as_str())
}

/// The statuses that an endpoint answers, a failure of the emulator included.
pub fn statuses(route: &Route, profile: &Profile) -> impl Iterator<Item = u16> {
    let answered = responses(route, profile).as_object().cloned().unwrap_or_default();
    answered.into_iter().filter_map(|(status, _)| status.parse().ok()).chain([500])
}

/// The statuses that an endpoint answers by the rules of the API, in order; without those by which any HTTP server refuses a request.
pub fn statuses_of_api(route: &Route, profile: &Profile) -> Vec<u16> {
    let answered = responses(route, profile);
    let by_api = answered.as_object().into_iter().flatten().filter(|(_, response)| response["x-assumed"] != "http");
    let mut statuses: Vec<u16> = by_api.filter_map(|(status, _)| status.parse().ok()).collect();
    statuses.sort_unstable();
    statuses
}

fn responses(route: &Route, profile: &Profile) -> Value {
    let body = match route.operation {
        Operation::SystemStatus => "SystemStatus",
        Operation::EventsSubscribe => "Subscription",
        Operation::Hello | Operation::Stub => "Hello",
    };
    let counted = route.credential == Credential::Bearer;
    let has_body = route.has_body();
    let hello = (route.operation == Operation::Hello).then_some("hello.body");
    let coding = "A transfer coding other than chunked, or a content coding such as gzip.";
    // Whether the route has it, the status, its description, its body, whether it has the quota's headers, and the setting behind it.
    let all = [
        (true, 200, "Success.", body, counted, hello),
        (true, 400, "Not a valid HTTP request.", "Error", false, Some("http")),
        (counted, 401, "Bearer token missing or invalid.", "Error", false, None),
        (counted, 422, "The request failed validation.", "Error", true, None),
        (counted, 429, "The key's quota is used up; back off before retrying.", "Error", true, None),
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
            "headers": response_headers(status, counted, profile),
            "content": { "application/json": { "schema": reference(schema) } },
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

fn response_headers(status: u16, counted: bool, profile: &Profile) -> Value {
    let mut headers = Map::new();
    let mut add = |name: &str, component: &str| {
        headers.insert(name.to_owned(), json!({ "$ref": format!("#/components/headers/{component}") }));
    };
    add("X-Emulator-Request-Id", "RequestId");
    if let Some(name) = &profile.ids.request_header {
        add(name.as_written(), "RequestIdToo");
    }
    if counted {
        add(profile.rate_limit.header_names.limit.as_written(), "Limit");
        add(profile.rate_limit.header_names.remaining.as_written(), "Remaining");
        if profile.rate_limit.reset != ResetForm::Off {
            add(profile.rate_limit.reset_header.as_written(), "Reset");
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
    let retry_after = match profile.rate_limit.retry_after {
        RetryAfterForm::Date => json!({ "type": "string" }),
        _ => json!({ "type": "integer", "minimum": 0 }),
    };
    let count = json!({ "type": "integer", "minimum": 0 });
    let mut headers = json!({});
    let mut add = |name: &str, assumed: &str, description: &str, schema: Value| {
        headers[name] = json!({ "description": description, "required": true, "schema": schema, "x-assumed": assumed });
    };
    let own_id = json!({ "type": "string", "pattern": "^req_" });
    add("RequestId", "emulator", "Names the request in the emulator's journal.", own_id);
    let mut id = json!({ "type": "string" });
    fill_id(&mut id, "req_", profile);
    add("RequestIdToo", "ids.request_header", "The request's id, as `request_id` in an error.", id);
    add("Limit", "rate_limit.requests", "Requests per window.", count.clone());
    add("Remaining", "rate_limit.requests", "Requests left after this one.", count);
    let reset = json!({ "type": "integer" });
    add("Reset", "rate_limit.reset", "When the full quota is available again.", reset);
    add("Ietf", "rate_limit.ietf", "The quota in the form of the IETF draft.", json!({ "type": "string" }));
    add("RetryAfter", "rate_limit.retry_after", "How long to back off.", retry_after);
    add("Challenge", "http", "RFC 9110 requires it on 401.", json!({ "type": "string", "pattern": "^Bearer" }));
    headers
}

fn schemas(profile: &Profile) -> Value {
    let is_varied = profile.variation.unknown_fields;
    let url = reference("WebhookUrl");
    let mut status = answer::<SystemStatus>();
    let fields = &mut status["properties"];
    fields["version"] = json!({ "type": "string", "description": fields["version"]["description"], "enum": [VERSION] });
    fields["checks"]["additionalProperties"] = if is_varied { json!(true) } else { json!({ "type": "object" }) };

    let mut request = schema_of::<SubscribeRequest>(Contract::Deserialize);
    let fields = &mut request["properties"];
    fields["url"] = url.clone();
    fields["events"]["items"]["enum"] = profile.events.types().collect();
    fill_secret(&mut fields["secret"], profile);

    let mut subscription = answer::<Subscription>();
    let fields = &mut subscription["properties"];
    fields["url"] = url;
    fill_id(&mut fields["id"], "sub_", profile);
    fields[profile.subscriptions.secret_field.as_str()] = json!({
        "description": "The signing secret, once, when the service generated it.",
        "type": "string",
        "x-assumed": "subscriptions.secret_field",
    });

    let mut error = answer::<Envelope<'_>>();
    error["additionalProperties"] = false.into();
    let inner = &mut error["properties"]["error"];
    let has_more = is_varied || !profile.errors.extra.is_empty() || profile.errors.details != ErrorDetails::Off;
    inner["additionalProperties"] = has_more.into();
    inner["properties"]["code"]["enum"] = json!(profile.errors.codes.values().collect::<Vec<_>>());
    fill_id(&mut inner["properties"]["request_id"], "req_", profile);

    let mut schemas = json!({
        "SystemStatus": status,
        "WebhookUrl": url_schema(profile.webhooks.allow_http),
        "SubscribeRequest": request,
        "Subscription": subscription,
        "Hello": hello_schema(profile),
        "Error": error,
    });
    add_events(&mut schemas, profile);
    let request = schemas.get_mut("SubscribeRequest").and_then(Value::as_object_mut);
    if let Some(request) = request.filter(|_| profile.validation.unknown == Unknown::Ignore) {
        request.shift_remove("additionalProperties");
    }
    schemas
}

/// Adds a schema for each event type, and the choice between them.
fn add_events(schemas: &mut Value, profile: &Profile) {
    let mut envelope = answer::<EventEnvelope>();
    fill_id(&mut envelope["properties"]["id"], "evt_", profile);
    let (mut choice, mut mapping) = (Vec::new(), Map::new());
    // Taken, before an event type can be.
    schemas["Event"] = Value::Null;
    for event_type in profile.events.types() {
        let words = event_type.split(['.', '_', '-']).filter_map(|word| word.split_at_checked(1));
        let mut name: String =
            words.map(|(first, rest)| first.to_ascii_uppercase() + rest).chain(["Event".into()]).collect();
        // Some types differ in a separator alone.
        while schemas.get(&name).is_some() {
            name.push('_');
        }
        let mut event = envelope.clone();
        event["title"] = name.as_str().into();
        event["properties"]["type"] = json!({ "type": "string", "enum": [event_type] });
        event["properties"]["data"] = if event_type == WORKFLOW_COMPLETED {
            answer::<WorkflowCompleted>()
        } else {
            let data = profile.events.data.get(event_type).cloned().unwrap_or_default();
            let mut data = shape_of(&data.into(), true);
            data["x-assumed"] = "events.data".into();
            data
        };
        choice.push(reference(&name));
        mapping.insert(event_type.to_owned(), reference(&name)["$ref"].clone());
        schemas[name] = event;
    }
    schemas["Event"] = json!({
        "description": envelope["description"],
        "anyOf": choice,
        "discriminator": { "propertyName": "type", "mapping": mapping },
    });
}

fn answer<T: JsonSchema>() -> Value {
    schema_of::<T>(Contract::Serialize)
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
