//! Real answers fit the `OpenAPI` document, under several profiles.

use jsonschema::Validator;
use serde_json::{Value, json};
use wrs_emulator::Emulator;

use crate::support::{Answer, builder, get, hook, send, start_with, started, subscribe, view};

/// Checks answers against the document that the emulator itself serves.
pub(crate) struct Document {
    pub(crate) whole: Value,
}

impl Document {
    pub(crate) async fn of(emulator: &Emulator) -> Self {
        Self { whole: view(emulator, "v1/openapi.json").await }
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
        // References lead into the document, so it travels with the schema.
        let mut whole = json!({ "components": self.whole["components"] });
        for (name, part) in schema.as_object().expect("a schema") {
            whole[name] = part.clone();
        }
        let validator: Validator =
            jsonschema::draft202012::options().should_validate_formats(true).build(&whole).expect("a valid schema");
        let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}: {errors:?} in {value}");
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
}

#[tokio::test]
async fn real_answers_of_announced_endpoints_fit_the_document() {
    for (preset, shape) in
        [("contract", "rfc6749"), ("contract", "envelope"), ("hostile", "rfc6749"), ("hostile", "envelope")]
    {
        let builder = builder().preset(preset).set("preview.enabled=true").set(&format!("oauth.error_shape={shape}"));
        let emulator = started(builder).await;
        let document = Document::of(&emulator).await;
        let key = ("authorization", "Bearer sk_test_local");
        let json = [key, ("content-type", "application/json")];
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let (list, one, cancel) = ("/v1/workflows", "/v1/workflows/{id}", "/v1/workflows/{id}/cancel");
        let made = send(&emulator, "POST", list, &json, r#"{"reference":"r"}"#).await;
        document.check("post", list, &made);
        document.check("post", list, &send(&emulator, "POST", list, &json, r#"{"name":1}"#).await);
        document.check("get", list, &get(&emulator, list).await);
        document.check("get", list, &get(&emulator, &format!("{list}?limit=x")).await);
        document.check("get", list, &send(&emulator, "GET", list, &[], "").await);
        let path = format!("{list}/{}", made.json()["id"].as_str().expect("an id"));
        document.check("get", one, &get(&emulator, &path).await);
        document.check("get", one, &get(&emulator, "/v1/workflows/none").await);
        document.check("patch", one, &send(&emulator, "PATCH", &path, &json, r#"{"name":"a"}"#).await);
        document.check("post", cancel, &send(&emulator, "POST", &format!("{path}/cancel"), &json, "").await);
        document.check("get", "/v1/users", &get(&emulator, "/v1/users").await);
        document.check("get", "/v1/users/{id}", &get(&emulator, "/v1/users/none").await);
        let token = "/v1/oauth/token";
        for body in [
            "grant_type=client_credentials&client_secret=sk_test_a",
            "grant_type=client_credentials&client_secret=wrong",
            "grant_type=x&client_secret=sk_test_a",
        ] {
            document.check("post", token, &send(&emulator, "POST", token, &form, body).await);
        }
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
