//! The part of the `OpenAPI` document that describes announced endpoints, there while the preview is on. All of it is
//! assumed and marked so.

use serde_json::{Map, Value, json};

use crate::contract::api_shape::{ApiShape, schema_of};
use crate::contract::oauth::OauthErrorShape;
use crate::contract::preview::{LONGEST_LABEL, WorkflowStatus};
use crate::contract::routes::{Operation, Route};
use crate::contract::rules::Unknown;

/// The name of the schema that an announced operation answers with.
pub(super) fn answer_schema(operation: Operation) -> &'static str {
    match operation {
        Operation::WorkflowsList => "WorkflowList",
        Operation::UsersList => "UserList",
        Operation::UsersRead => "User",
        Operation::OauthToken => "Token",
        _ => "Workflow",
    }
}

/// What an announced operation has beyond its answers.
pub(super) fn describe(route: &Route, operation: &mut Value, shape: &ApiShape<'_>) {
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema });
    let body =
        |kind: &str, schema: &str| json!({ kind: { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
    operation["x-assumed"] = "preview.enabled".into();
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    if matches!(route.operation, Operation::WorkflowsList | Operation::UsersList) {
        let (most, default) = (shape.preview.page_limit, shape.preview.page_size.min(shape.preview.page_limit));
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
pub(super) fn add_schemas(schemas: &mut Map<String, Value>, shape: &ApiShape<'_>) {
    let label = |text: &str| json!({ "description": text, "type": ["string", "null"], "minLength": 1, "maxLength": LONGEST_LABEL });
    let mut fields = json!({
        "type": "object",
        "properties": { "name": label("A label."), "reference": label("The reference that it is about.") },
    });
    if shape.validation.unknown == Unknown::Reject {
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
pub(super) fn oauth_error(shape: &ApiShape<'_>) -> &'static str {
    match shape.oauth.error_shape {
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
