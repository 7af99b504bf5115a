//! The words that descriptions are made of: a call's description, objects, references, the usual parameters.

use serde_json::{Map, Value, json};

/// A call as the document describes it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) summary: &'static str,
    /// The name of the path's variable segment.
    pub(super) segment: &'static str,
    pub(super) queries: Vec<Value>,
    /// The schema of the body; calls that write have one.
    pub(super) body: Option<Value>,
    pub(super) media: &'static str,
    /// The schema of the answer.
    pub(super) answer: Value,
    /// Errors beside those that every call can have.
    pub(super) errors: Vec<(u16, &'static str)>,
    /// Whether the answer is a stream that lasts until the client disconnects.
    pub(super) is_endless: bool,
}

/// A call that answers JSON of this schema.
pub(super) fn call(summary: &'static str, answer: Value) -> Described {
    Described {
        summary,
        segment: "id",
        queries: Vec::new(),
        body: None,
        media: "application/json",
        answer,
        errors: Vec::new(),
        is_endless: false,
    }
}

impl Described {
    pub(super) fn segment(mut self, name: &'static str) -> Self {
        self.segment = name;
        self
    }

    pub(super) fn query(mut self, name: &str, schema: Value) -> Self {
        self.queries.push(json!({ "name": name, "in": "query", "required": false, "schema": schema }));
        self
    }

    /// `limit` and `cursor`.
    pub(super) fn paged(self) -> Self {
        self.query("limit", json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 20 }))
            .query("cursor", json!({ "type": "string", "pattern": "^[0-9]{1,18}$" }))
    }

    pub(super) fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self
    }

    /// A body without fields of its own.
    pub(super) fn empty_body(self) -> Self {
        self.body(object(&json!({})))
    }

    pub(super) fn media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }

    pub(super) fn error(mut self, status: u16, text: &'static str) -> Self {
        self.errors.push((status, text));
        self
    }

    pub(super) fn endless(mut self) -> Self {
        self.is_endless = true;
        self
    }
}

/// An object with exactly these fields; one whose name ends in `?` may be left out.
pub(super) fn object(fields: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, schema) in fields.as_object().into_iter().flatten() {
        let plain = name.trim_end_matches('?');
        if plain == name {
            required.push(plain.to_owned());
        }
        properties.insert(plain.to_owned(), schema.clone());
    }
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

/// A schema of the document.
pub(super) fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub(super) fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

pub(super) fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// An answer `{"data": […]}`.
pub(super) fn data(of: &str) -> Value {
    object(&json!({ "data": list(named(of)) }))
}

/// A page of a listing.
pub(super) fn page(of: &str) -> Value {
    object(&json!({
        "data": list(named(of)),
        "has_more": { "type": "boolean" },
        "next_cursor": { "type": ["string", "null"] },
    }))
}

pub(super) fn text() -> Value {
    json!({ "type": "string" })
}

/// An optional text of a body: null counts as left out.
pub(super) fn wish() -> Value {
    json!({ "type": ["string", "null"] })
}

pub(super) fn id(prefix: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^{prefix}_") })
}

pub(super) fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

pub(super) fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// How long: `250ms`, `5s`, `1m30s`.
pub(super) fn duration() -> Value {
    json!({ "type": ["string", "null"], "description": "A duration such as 250ms, 5s or 1m30s." })
}

/// A number of things to wait for.
pub(super) fn wanted_count() -> Value {
    json!({ "type": ["integer", "null"], "minimum": 1, "maximum": 10_000 })
}

/// A query parameter that says how long to wait.
pub(super) fn wait() -> Value {
    json!({ "type": "string", "description": "A duration such as 5s, at most 300s." })
}
