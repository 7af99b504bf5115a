//! Templates in replies and patches: the request as facts, and the rendered forms.
//!
//! Time and chance are arguments; what a template may use, and its bounds, are defined by `template`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::action::{Action, Patch, ReplyBody, ScriptedReply};
use super::matcher::{ParsedRequest, RequestView, When};
use crate::clock::Random;
use crate::contract::keys::mask_key;
use crate::scenario::template::{Gap, is_template, render_map, template_bytes};

/// Longest text body of a request that templates see, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The parts of a request that templates see as `request`: `method`, `path`, `operation`, `query.NAME`, `headers.NAME` (lower
/// case, `-` as `_` too), `body` (JSON, or text), `key` (a live one masked), `params.NAME` (of the path that the rule names).
pub fn request_facts(view: &RequestView<'_>, when: &When) -> Map<String, Value> {
    let parsed = ParsedRequest::new(view);
    let query: Map<String, Value> =
        parsed.query().iter().map(|(name, value)| (name.to_string(), Value::from(value.as_ref()))).collect();
    let mut headers = Map::new();
    for (name, value) in view.headers {
        // The key must not travel into an answer by way of a template.
        if *name == hyper::header::AUTHORIZATION {
            continue;
        }
        let value = Value::from(String::from_utf8_lossy(value.as_bytes()));
        headers.insert(name.as_str().replace('-', "_"), value.clone());
        headers.insert(name.as_str().to_owned(), value);
    }
    let body = parsed
        .body()
        .cloned()
        .unwrap_or_else(|| Value::from(String::from_utf8_lossy(&view.body[..view.body.len().min(MAX_TEXT)])));
    let mut request = json!({
        "method": view.method.as_str(),
        "path": view.path,
        "params": when.parameters(view.path),
        "query": query,
        "headers": headers,
        "body": body,
    });
    // A part that a request does not have is missing, and not null.
    if let Some(operation) = view.operation {
        request["operation"] = operation.name().into();
    }
    if let Some(key) = view.key {
        request["key"] = mask_key(key, view.keys).into();
    }
    Map::from_iter([("request".to_owned(), request)])
}

impl Action {
    pub(super) fn has_templates(&self) -> bool {
        match self {
            Self::Reply(reply) => reply.template_bytes() > 0,
            Self::Patch(patch) => patch.template_bytes() > 0,
            Self::Pass | Self::Fault(_) => false,
        }
    }
}

/// An action with its templates rendered, and what gave an empty string instead of a value.
type Rendered<T> = Result<(T, Vec<Gap>), String>;

pub trait Templated: Sized {
    /// How long its templates are together.
    fn template_bytes(&self) -> usize;

    fn rendered(&self, facts: &Map<String, Value>, wall: Timestamp, random: Random) -> Rendered<Self>;
}

impl Templated for ScriptedReply {
    fn template_bytes(&self) -> usize {
        if !self.templates {
            return 0;
        }
        let body = match &self.body {
            Some(ReplyBody::Text(body)) => text_bytes(&String::from_utf8_lossy(body)),
            Some(ReplyBody::Json(body, _)) => template_bytes(body),
            None => 0,
        };
        body + self.message.as_deref().map_or(0, text_bytes)
    }

    fn rendered(&self, facts: &Map<String, Value>, wall: Timestamp, random: Random) -> Rendered<Self> {
        let body = self.body.as_ref().map(|body| match body {
            ReplyBody::Json(value, _) => value.clone(),
            ReplyBody::Text(text) => String::from_utf8_lossy(text).into(),
        });
        let parts = [("message", self.message.as_deref().map(Value::from)), ("body", body)];
        let values = parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        let (mut rendered, gaps) = render_map(&values, facts, wall, || random)?;
        let message = rendered.remove("message").and_then(|message| message.as_str().map(str::to_owned));
        let body = match (&self.body, rendered.remove("body")) {
            (Some(ReplyBody::Text(_)), Some(Value::String(text))) => Some(ReplyBody::Text(text.into())),
            (_, value) => value.map(ReplyBody::json),
        };
        Ok((Self { message, body, ..self.clone() }, gaps))
    }
}

impl Templated for Patch {
    fn template_bytes(&self) -> usize {
        self.merge.values().map(template_bytes).sum()
    }

    fn rendered(&self, facts: &Map<String, Value>, wall: Timestamp, random: Random) -> Rendered<Self> {
        let (merge, gaps) = render_map(&self.merge, facts, wall, || random)?;
        Ok((Self { merge, remove: self.remove.clone() }, gaps))
    }
}

fn text_bytes(text: &str) -> usize {
    if is_template(text) { text.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};

    use super::*;
    use crate::clock::Seed;

    #[test]
    fn replies_see_the_request_and_never_its_authorization() {
        let mut headers = HeaderMap::new();
        headers.insert("x-trace-id", HeaderValue::from_static("t1"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk_test_abcdefgh"));
        let view = RequestView {
            operation: None,
            method: &Method::POST,
            path: "/v1/events/subscribe",
            query: Some("a=1&a=2"),
            headers: &headers,
            body: b"",
            key: Some("sk_test_abcdefgh"),
            keys: &crate::settings::Profile::default().keys,
        };
        let facts = request_facts(&view, &When::default());
        for (body, expected) in [
            ("{{ request.method }} {{ request.query.a }} {{ now_unix }}", "POST 2 0"),
            ("{{ request.headers.x_trace_id }}{{ request.headers['x-trace-id'] }}", "t1t1"),
            ("{{ request.key }}", "sk_test_abcdefgh"),
            ("[{{ request.nothing }}{{ request.operation }}{{ request.headers.authorization }}]", "[]"),
        ] {
            let body = Map::from_iter([("body".to_owned(), body.into())]);
            let random = Seed::from_number(1).source("test");
            let (rendered, _) = render_map(&body, &facts, Timestamp::UNIX_EPOCH, || random).expect("it is rendered");
            assert_eq!(rendered["body"], expected);
        }
    }
}
