//! Real answers fit the `OpenAPI` document, under several profiles.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};
use wrs_emulator::Emulator;
use wrs_emulator::settings::Profile;
use wrs_emulator::settings::api_document::document;

use crate::support::{Answer, KEY, fire, get, hook, send, start_with, subscribe, view};

/// Checks answers against the document that the emulator itself serves.
pub(crate) struct Document {
    whole: Value,
    /// One is made in milliseconds, and a test asks thousands of times.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Document {
    pub(crate) fn new(whole: Value) -> Self {
        Self { whole, validators: Mutex::default() }
    }

    pub(crate) async fn of(emulator: &Emulator) -> Self {
        Self::new(view(emulator, "v1/openapi.json").await)
    }

    /// That of a profile, made once: each subscription of each test is checked by it.
    pub(crate) fn of_profile(profile: &Profile) -> Arc<Self> {
        static MADE: LazyLock<Mutex<HashMap<String, Arc<Document>>>> = LazyLock::new(Mutex::default);
        let mut made = MADE.lock().expect("no test panics with the lock");
        Arc::clone(made.entry(format!("{profile:?}")).or_insert_with(|| Arc::new(Self::new(document(profile)))))
    }

    /// A request that was accepted, and its answer.
    pub(crate) fn check_call(&self, method: &str, path: &str, body: &Value, answer: &Answer) {
        let content = &self.whole["paths"][path][method]["requestBody"]["content"]["application/json"];
        self.fits(&content["schema"], body, path);
        self.check(method, path, answer);
    }

    pub(crate) fn check(&self, method: &str, path: &str, answer: &Answer) {
        let response = self.resolve(&self.whole["paths"][path][method]["responses"][answer.status.to_string()]);
        assert!(response.is_object(), "{method} {path}: status {} is not in the document", answer.status);
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let header = self.resolve(header);
            let value = answer.header(name).unwrap_or_else(|| panic!("{method} {path} {}: no {name}", answer.status));
            let value = if header["schema"]["type"] == "integer" {
                json!(value.parse::<i64>().expect("a number"))
            } else {
                json!(value)
            };
            self.fits(&header["schema"], &value, name);
        }
        self.fits(&response["content"]["application/json"]["schema"], &answer.json(), path);
    }

    /// The document names each field of the answer.
    fn names_fields(&self, schema: &str, object: &Value) {
        let named = self.whole["components"]["schemas"][schema]["properties"].as_object().expect("fields");
        for name in object.as_object().expect("an object").keys() {
            assert!(named.contains_key(name), "{schema} has no `{name}`");
        }
    }

    /// A delivered event.
    pub(crate) fn check_event(&self, envelope: &Value) {
        self.fits(&self.whole["components"]["schemas"]["Event"], envelope, "event");
    }

    fn resolve<'d>(&'d self, value: &'d Value) -> &'d Value {
        match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => self.whole.pointer(pointer).expect("the reference leads somewhere"),
            None => value,
        }
    }

    pub(crate) fn fits(&self, schema: &Value, value: &Value, what: &str) {
        let errors: Vec<String> = self.validator(schema).iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}: {errors:?} in {value}");
    }

    fn is_valid(&self, schema: &Value, value: &Value) -> bool {
        self.validator(schema).is_valid(value)
    }

    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().expect("no test panics with the lock");
        Arc::clone(validators.entry(schema.to_string()).or_insert_with(|| Arc::new(self.new_validator(schema))))
    }

    fn new_validator(&self, schema: &Value) -> Validator {
        // References lead into the document, so it travels with the schema.
        let mut whole = json!({ "components": self.whole["components"] });
        for (name, part) in schema.as_object().expect("a schema") {
            whole[name] = part.clone();
        }
        jsonschema::draft202012::options().should_validate_formats(true).build(&whole).expect("a valid schema")
    }

    /// Each operation has a name that is an identifier, a known tag, a summary and a description; examples are valid. Returns how many
    /// examples there are.
    fn check_operations(&self) -> usize {
        let mut examples = 0;
        let tags: Vec<&Value> = self.whole["tags"].as_array().expect("tags").iter().map(|tag| &tag["name"]).collect();
        let mut names = BTreeSet::new();
        for (path, operations) in self.whole["paths"].as_object().expect("paths") {
            for (method, operation) in operations.as_object().expect("operations") {
                assert_ne!(method, "head", "{path}");
                let name = operation["operationId"].as_str().expect("a name");
                assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
                assert!(names.insert(name), "{name} occurs twice");
                assert!(
                    operation["tags"].as_array().is_some_and(|own| own.len() == 1 && tags.contains(&&own[0])),
                    "{name}"
                );
                for text in ["summary", "description"] {
                    assert!(operation[text].as_str().is_some_and(|text| text.len() > 5), "{name} has no {text}");
                }
                let bodies = [&operation["requestBody"]].into_iter();
                let answers = operation["responses"].as_object().expect("answers").values();
                let contents = bodies.chain(answers).map(|body| self.resolve(body)["content"].as_object());
                let contents = contents.flatten().flat_map(serde_json::Map::values);
                for place in contents.chain(operation["parameters"].as_array().into_iter().flatten()) {
                    if !place["example"].is_null() {
                        self.fits(&place["schema"], &place["example"], name);
                        examples += 1;
                    }
                }
            }
        }
        examples
    }
}

const PROFILES: &[&[&str]] = &[
    &[],
    &["ids.style=uuid", "time.precision=seconds", "subscriptions.secret_field=signing_secret"],
    &[
        "ids.style=counter",
        "errors.details=list",
        "rate_limit.reset=epoch",
        "rate_limit.ietf=true",
        "rate_limit.retry_after=seconds",
    ],
    &[
        "errors.details=map",
        "errors.codes.unauthorized=no_key",
        "errors.extra.docs=\"x\"",
        "time.precision=microseconds",
        "rate_limit.retry_after=date",
    ],
    &["variation.unknown_fields=true", "variation.key_order=shuffled"],
    &["ids.style=longest", "ids.request_header=X-Request-Id", "time.precision=mixed", "errors.details=map"],
];

#[tokio::test]
async fn real_answers_fit_the_document() {
    for settings in PROFILES {
        let settings: Vec<&str> = settings.iter().copied().chain(["rate_limit.requests=6"]).collect();
        let emulator = start_with(&settings).await;
        let document = Document::of(&emulator).await;
        let status = "/v1/system/status";
        let subscribing = "/v1/events/subscribe";
        let hook = hook("https://x.example");
        document.check("get", status, &get(&emulator, status).await);
        document.check("get", status, &get(&emulator, &format!("{status}?include_checks=true")).await);
        document.check("get", status, &get(&emulator, &format!("{status}?include_checks=x")).await);
        document.check("get", status, &send(&emulator, "GET", status, &[], "").await);
        document.check("post", subscribing, &subscribe(&emulator, &hook).await);
        document.check("post", subscribing, &subscribe(&emulator, &hook).await);
        document.check("post", subscribing, &subscribe(&emulator, &json!({ "url": "x" })).await);
        let limited = get(&emulator, status).await;
        assert_eq!(limited.status, 429);
        document.check("get", status, &limited);
        document.check("get", "/v1/hello", &send(&emulator, "GET", "/v1/hello", &[], "").await);
    }
    let emulator = start_with(&["subscriptions.secret_field=signing_secret"]).await;
    let document = Document::of(&emulator).await;
    document.names_fields("SystemStatus", &get(&emulator, "/v1/system/status?include_checks=true").await.json());
    document.names_fields("Subscription", &subscribe(&emulator, &hook("https://x.example")).await.json());
}

/// An event of each type, with the usual data, fits the choice between them, and no other type or data does.
// proves EVENT_TYPES MATCHED EVENT_DATA COMPLETED_ID COMPLETED_STATUS
#[tokio::test]
async fn delivered_events_fit_the_schema_of_their_type() {
    let extra = ["events.extra=[\"_\", \"a.b\", \"a_b\"]", "events.data.a_b={ n = 1, at = { id = \"{{ ulid() }}\" } }"];
    let emulator = start_with(&extra).await;
    let document = Document::of(&emulator).await;
    let types = ["workflow.completed", "reference.matched", "_", "a.b", "a_b"];
    subscribe(&emulator, &json!({ "url": "https://app.sink.localhost/hooks", "events": types })).await;
    for event_type in types {
        fire(&emulator, &json!({ "key": KEY, "type": event_type })).await;
    }
    let received = view(&emulator, "sink/app").await["data"].clone();
    let bodies = received.as_array().expect("a list").iter().map(|receipt| receipt["body"].as_str().expect("text"));
    let events: Vec<Value> = bodies.map(|body| serde_json::from_str(body).expect("JSON")).collect();
    assert_eq!(events.iter().map(|event| event["type"].as_str().expect("text")).collect::<Vec<_>>(), types);
    for event in &events {
        document.check_event(event);
        document.names_fields("WorkflowCompletedEvent", event);
    }
    let schema = &document.whole["components"]["schemas"]["Event"];
    assert_eq!(schema["discriminator"]["mapping"].as_object().expect("types").len(), types.len());
    for (event, wrong) in [
        (0, json!({ "type": "workflow.failed" })),
        (0, json!({ "data": {} })),
        (0, json!({ "data": { "workflow_id": "42", "status": "completed" } })),
        (0, json!({ "data": { "workflow_id": "wf_42", "status": "failed" } })),
        (1, json!({ "data": { "workflow_id": "wf_42", "status": "completed" } })),
        (4, json!({ "data": { "n": 1, "at": {} } })),
    ] {
        let mut event = events[event].clone();
        event.as_object_mut().expect("an object").extend(wrong.as_object().expect("an object").clone());
        assert!(!document.is_valid(schema, &event), "{event}");
    }
}

/// The file also goes through the generated clients and Prism, in the nightly build.
#[tokio::test]
async fn every_accepted_url_and_secret_is_valid_by_the_document_and_what_it_refuses_is_refused() {
    let accepted: Value = serde_json::from_str(include_str!("../generators/accepted.json")).expect("it is JSON");
    let list = |name: &str| -> Vec<Value> { accepted[name].as_array().expect("a list").clone() };
    let emulator = start_with(&["rate_limit.enabled=false"]).await;
    let longest = json!(format!("https://a.example/{}", "x".repeat(2030)));
    for url in list("urls").into_iter().chain([longest]) {
        let answer = subscribe(&emulator, &json!({ "url": url, "events": ["workflow.completed"] })).await;
        assert_eq!(answer.status, 200, "{url}: {answer:?}");
    }
    let secrets = list("secrets");
    for readings in [&[][..], &["webhooks.secret_key=utf8"], &["webhooks.scheme=[\"standard\", \"github\"]"]] {
        let emulator = start_with(&[&["rate_limit.enabled=false"], readings].concat()).await;
        let document = Document::of(&emulator).await;
        let schema = &document.whole["components"]["schemas"]["SubscribeRequest"]["properties"]["secret"];
        for secret in secrets.iter().cloned().chain(["whsec_", "whsec_?", "whsec_YR==", ""].map(Value::from)) {
            let mut body = hook("https://app.example.com");
            body["secret"] = secret.clone();
            let is_taken = subscribe(&emulator, &body).await.status == 200;
            assert_eq!(document.is_valid(schema, &secret), is_taken, "{readings:?}: {secret}");
        }
    }
}

/// Forms that stop generators of clients, in both documents.
#[tokio::test]
async fn the_documents_have_only_forms_that_generators_know() {
    fn check(value: &Value, place: &str) {
        match value {
            Value::Object(fields) => {
                let format = fields.get("format").and_then(Value::as_str);
                assert!(format.is_none_or(|format| ["date-time", "uri"].contains(&format)), "{place}: {format:?}");
                assert!(!fields.contains_key("const"), "{place}: const");
                assert!(!(fields.contains_key("enum") && fields.contains_key("pattern")), "{place}: enum and pattern");
                for (name, inner) in fields {
                    let is_named = place.ends_with("/properties");
                    // With a discriminator, openapi-generator makes a union of `oneOf`, and one interface with mixed fields of `anyOf`.
                    let choice = if fields.contains_key("discriminator") { "anyOf" } else { "oneOf" };
                    assert!(is_named || name != choice, "{place}: {choice}");
                    if is_named || ["items", "schema"].contains(&name.as_str()) {
                        assert!(inner.is_object(), "{place}/{name}: {inner} is not a schema with a type");
                    }
                    if !["example", "examples"].contains(&name.as_str()) {
                        check(inner, &format!("{place}/{name}"));
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, place)),
            _ => {}
        }
    }
    let mut documents = Vec::new();
    for settings in PROFILES {
        let emulator = start_with(settings).await;
        // Examples of a parameter, a body, three successes and the 18 errors, in the document that is written by hand.
        documents.push((23, Document::of(&emulator).await));
        if settings.is_empty() {
            // No setting changes this one.
            documents.push((2, Document::new(view(&emulator, "openapi.json").await)));
        }
    }
    for (examples, document) in documents {
        check(&document.whole["components"], "components");
        check(&document.whole["paths"], "paths");
        assert!(document.check_operations() >= examples, "examples are missing");
    }
}

#[tokio::test]
async fn assumed_parts_are_marked_with_their_setting() {
    let emulator = start_with(&[]).await;
    let text = view(&emulator, "v1/openapi.json").await;
    for pointer in [
        "/components/schemas/SystemStatus/properties/checks/x-assumed",
        "/components/schemas/Subscription/properties/secret/x-assumed",
        "/components/schemas/Hello/x-assumed",
        "/components/headers/Limit/x-assumed",
        "/webhooks/event/post/x-assumed",
    ] {
        assert!(text.pointer(pointer).is_some_and(Value::is_string), "{pointer}");
    }
    assert_eq!(text.pointer("/components/schemas/SystemStatus/properties/ok/x-assumed"), None);
    assert_eq!(text["openapi"], "3.1.0");
}
