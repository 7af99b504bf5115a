//! Templates in replies and patches: the request as facts, and the rendered forms.
//!
//! Time and chance are arguments; what a template may use and its bounds are `template`'s business.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::RequestView;
use super::action::{Patch, Reply, ReplyBody};
use super::matcher::Reading;
use crate::clock::Random;
use crate::contract::keys::shown;
use crate::template::{TemplateProblem, render_noting};

/// Longest text body of a request that templates see, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// What templates know of a request, as `request`: `method`, `path`, `operation`, `query.NAME`, `headers.NAME` (lower
/// case, `-` as `_` too), `body` (JSON, or text), `key` (a live one masked).
pub fn request_facts(view: &RequestView<'_>) -> Map<String, Value> {
    let reading = Reading::new(view);
    let query: Map<String, Value> =
        reading.query().iter().map(|(name, value)| (name.to_string(), Value::from(value.as_ref()))).collect();
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
    let body = reading
        .body()
        .cloned()
        .unwrap_or_else(|| Value::from(String::from_utf8_lossy(&view.body[..view.body.len().min(LONGEST_TEXT)])));
    let mut request = json!({
        "method": view.method.as_str(),
        "path": view.path,
        "query": query,
        "headers": headers,
        "body": body,
    });
    // What a request does not have is missing, and not null.
    if let Some(operation) = view.operation {
        request["operation"] = operation.name().into();
    }
    if let Some(key) = view.key {
        request["key"] = shown(key, view.keys).into();
    }
    Map::from_iter([("request".to_owned(), request)])
}

/// A reply with its message and body rendered, and the parts of the request that its templates name in vain.
pub fn render_reply(
    reply: &Reply,
    view: &RequestView<'_>,
    wall: Timestamp,
    random: &mut Random,
) -> Result<(Reply, Vec<String>), TemplateProblem> {
    let mut values = Map::new();
    if let Some(message) = &reply.message {
        values.insert("message".to_owned(), message.clone().into());
    }
    if let Some(body) = &reply.body {
        let value = match body {
            ReplyBody::Json(value) => value.clone(),
            ReplyBody::Text(text) => text.clone().into(),
        };
        values.insert("body".to_owned(), value);
    }
    if values.is_empty() {
        return Ok((reply.clone(), Vec::new()));
    }
    let (mut rendered, missing) = render_noting(&values, &facts_if_needed(&values, view), wall, random)?;
    let message = rendered.remove("message").and_then(|message| message.as_str().map(str::to_owned));
    let body = match (&reply.body, rendered.remove("body")) {
        (Some(ReplyBody::Text(_)), Some(Value::String(text))) => Some(ReplyBody::Text(text)),
        (_, value) => value.map(ReplyBody::Json),
    };
    Ok((Reply { message, body, ..reply.clone() }, missing))
}

/// The same for the values of a patch.
pub fn render_patch(
    patch: &Patch,
    view: &RequestView<'_>,
    wall: Timestamp,
    random: &mut Random,
) -> Result<(Patch, Vec<String>), TemplateProblem> {
    let (merge, missing) = render_noting(&patch.merge, &facts_if_needed(&patch.merge, view), wall, random)?;
    Ok((Patch { merge, remove: patch.remove.clone() }, missing))
}

/// The facts, unless no value can use them: making them reads the whole request.
fn facts_if_needed(values: &Map<String, Value>, view: &RequestView<'_>) -> Map<String, Value> {
    fn mentions(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains("request"),
            Value::Array(values) => values.iter().any(mentions),
            Value::Object(values) => values.values().any(mentions),
            _ => false,
        }
    }
    if values.values().any(mentions) { request_facts(view) } else { Map::new() }
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};

    use super::*;
    use crate::clock::Seed;
    use crate::scenario::{Action, check_text};

    fn with_view<T>(look: impl FnOnce(&RequestView<'_>) -> T) -> T {
        let mut headers = HeaderMap::new();
        headers.insert("x-trace-id", HeaderValue::from_static("t1"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer sk_test_abcdefgh"));
        look(&RequestView {
            operation: None,
            method: &Method::POST,
            path: "/v1/events/subscribe",
            query: Some("a=1&a=2"),
            headers: &headers,
            body: br#"{"url": "https://a.example", "events": ["x"]}"#,
            key: Some("sk_test_abcdefgh"),
            keys: &crate::contract::profile::Profile::default().keys,
        })
    }

    /// Renders the reply of a rule; shows its message and body, or the problem.
    fn rendered(reply: &str) -> String {
        let (scenario, problems) = check_text("test", &format!("[[rule]]\nreply = {reply}\n"));
        let scenario = scenario.unwrap_or_else(|| panic!("{problems:?}"));
        let Action::Reply(reply) = &scenario.rules[0].sequence.steps()[0].action else { panic!("it is a reply") };
        let random = &mut Seed::from_number(1).source("test");
        match with_view(|view| render_reply(reply, view, Timestamp::UNIX_EPOCH, random)).map(|(reply, _)| reply) {
            Err(problem) => format!("problem: {problem}"),
            Ok(Reply { message, body: None, .. }) => message.unwrap_or_default(),
            Ok(Reply { body: Some(ReplyBody::Text(text)), .. }) => text,
            Ok(Reply { body: Some(ReplyBody::Json(value)), .. }) => value.to_string(),
        }
    }

    #[test]
    fn replies_see_the_request_and_never_its_authorization() {
        for (reply, expected) in [
            ("{ status = 422, message = 'url: {{ request.body.url }} is taken' }", "url: https://a.example is taken"),
            ("{ status = 200, body = '{{ request.method }} {{ request.query.a }} {{ now_unix }}' }", "POST 2 0"),
            ("{ status = 200, body = { id = '{{ request.headers.x_trace_id }}', n = 1 } }", r#"{"id":"t1","n":1}"#),
            ("{ status = 200, body = 'no template' }", "no template"),
            ("{ status = 200, body = '{{ request.key }}' }", "sk_test_abcdefgh"),
        ] {
            assert_eq!(rendered(reply), expected, "{reply}");
        }
        assert!(!rendered("{ status = 200, body = '{{ request }}' }").contains("Bearer"));
        assert_eq!(rendered("{ status = 200, body = '[{{ request.nothing }}{{ request.operation }}]' }"), "[]");
    }

    #[test]
    fn patches_are_rendered_too() {
        let (scenario, _) = check_text("test", "[[rule]]\npatch = { echo = '{{ request.path }}' }\n");
        let scenario = scenario.expect("it is valid");
        let Action::Patch(patch) = &scenario.rules[0].sequence.steps()[0].action else { panic!("it is a patch") };
        let random = &mut Seed::from_number(1).source("test");
        let patch = with_view(|view| render_patch(patch, view, Timestamp::UNIX_EPOCH, random));
        assert_eq!(patch.map(|patch| patch.0.merge["echo"].clone()), Ok(json!("/v1/events/subscribe")));
    }
}
