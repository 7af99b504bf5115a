//! Templates in replies and patches: the request as facts, and the rendered forms.
//!
//! Time and chance are arguments; what a template may use, and its bounds, are defined by `template`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::action::{Action, Patch, ReplyBody, ScriptedReply};
use super::matcher::{Reading, RequestView};
use crate::clock::Random;
use crate::contract::keys::shown;
use crate::template::{Gap, TemplateProblem, each_template, is_template, render_map};

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

impl Action {
    pub(super) fn has_templates(&self) -> bool {
        let mut found = false;
        let mut see = |_: &str| found = true;
        match self {
            Self::Reply(reply) => reply.each_template(&mut see),
            Self::Patch(patch) => patch.each_template(&mut see),
            Self::Pass | Self::Fault(_) => {}
        }
        found
    }
}

/// Templates of an action that are longer than this together, with the body they may copy, take long enough to hold up
/// other requests on the thread.
const LARGE: usize = 8 * 1024;

pub trait Templated: Sized {
    fn each_template(&self, see: &mut impl FnMut(&str));

    /// The action with its templates rendered, and what gave an empty string in place of a value.
    fn rendered(&self, inputs: Inputs) -> Result<(Self, Vec<Gap>), TemplateProblem>;
}

/// What rendering needs besides the action; owned, so that any thread can do it.
#[derive(Debug)]
pub struct Inputs {
    facts: Map<String, Value>,
    wall: Timestamp,
    random: Random,
    large: bool,
}

impl Inputs {
    /// What rendering `action` for a request needs; `None` if there is nothing to render.
    pub fn of(
        action: &impl Templated,
        view: &RequestView<'_>,
        wall: Timestamp,
        random: impl FnOnce() -> Random,
    ) -> Option<Self> {
        let (mut bytes, mut mentions_request) = (0, false);
        action.each_template(&mut |text| {
            bytes += text.len();
            mentions_request |= text.contains("request");
        });
        // Making the facts reads the whole request.
        let facts = if mentions_request { request_facts(view) } else { Map::new() };
        (bytes > 0).then(|| Self { facts, wall, random: random(), large: bytes + view.body.len() > LARGE })
    }

    /// Whether rendering may take so long that it belongs on a blocking thread.
    pub fn is_large(&self) -> bool {
        self.large
    }
}

impl Templated for ScriptedReply {
    fn each_template(&self, see: &mut impl FnMut(&str)) {
        let mut text = |text: &str| {
            if is_template(text) {
                see(text);
            }
        };
        self.message.as_deref().map(&mut text);
        match &self.body {
            Some(ReplyBody::Text(body)) => text(body),
            Some(ReplyBody::Json(body, _)) => each_template(body, see),
            None => {}
        }
    }

    fn rendered(&self, inputs: Inputs) -> Result<(Self, Vec<Gap>), TemplateProblem> {
        let mut values = Map::new();
        if let Some(message) = &self.message {
            values.insert("message".to_owned(), message.clone().into());
        }
        if let Some(body) = &self.body {
            let value = match body {
                ReplyBody::Json(value, _) => value.clone(),
                ReplyBody::Text(text) => text.clone().into(),
            };
            values.insert("body".to_owned(), value);
        }
        let (mut rendered, gaps) = render_map(&values, &inputs.facts, inputs.wall, || inputs.random)?;
        let message = rendered.remove("message").and_then(|message| message.as_str().map(str::to_owned));
        let body = match (&self.body, rendered.remove("body")) {
            (Some(ReplyBody::Text(_)), Some(Value::String(text))) => Some(ReplyBody::Text(text)),
            (_, value) => value.map(ReplyBody::json),
        };
        Ok((Self { message, body, ..self.clone() }, gaps))
    }
}

impl Templated for Patch {
    fn each_template(&self, see: &mut impl FnMut(&str)) {
        self.merge.values().for_each(|value| each_template(value, see));
    }

    fn rendered(&self, inputs: Inputs) -> Result<(Self, Vec<Gap>), TemplateProblem> {
        let (merge, gaps) = render_map(&self.merge, &inputs.facts, inputs.wall, || inputs.random)?;
        Ok((Self { merge, remove: self.remove.clone() }, gaps))
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};

    use super::*;
    use crate::clock::Seed;
    use crate::scenario::check_text;

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
            keys: &crate::profile::Profile::default().keys,
        })
    }

    fn inputs(action: &impl Templated) -> Option<Inputs> {
        let random = || Seed::from_number(1).source("test");
        with_view(|view| Inputs::of(action, view, Timestamp::UNIX_EPOCH, random))
    }

    fn as_rendered<T: Templated + Clone>(action: &T) -> Result<T, TemplateProblem> {
        inputs(action)
            .map_or_else(|| Ok(action.clone()), |inputs| action.rendered(inputs).map(|(rendered, _)| rendered))
    }

    fn rendered(reply: &str) -> String {
        let (scenario, problems) = check_text("test", &format!("[[rule]]\nreply = {reply}\n"));
        let scenario = scenario.unwrap_or_else(|| panic!("{problems:?}"));
        let Action::Reply(reply) = &scenario.rules[0].sequence.steps()[0].action else { panic!("it is a reply") };
        match as_rendered(&**reply) {
            Err(problem) => format!("problem: {problem}"),
            Ok(ScriptedReply { message, body: None, .. }) => message.unwrap_or_default(),
            Ok(ScriptedReply { body: Some(ReplyBody::Text(text)), .. }) => text,
            Ok(ScriptedReply { body: Some(ReplyBody::Json(value, _)), .. }) => value.to_string(),
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
        let patch = as_rendered(&**patch);
        assert_eq!(patch.map(|patch| patch.merge["echo"].clone()), Ok(json!("/v1/events/subscribe")));
    }

    #[test]
    fn only_much_text_with_templates_is_large() {
        let large = |merge: Value| {
            let merge = merge.as_object().expect("an object").clone();
            inputs(&Patch { merge, remove: Vec::new() }).map(|inputs| inputs.is_large())
        };
        let (short, long) = ("{{ now }}", "{{ now }}".repeat(LARGE / 9 / 3 + 1));
        assert_eq!(large(json!({ "a": "x".repeat(2 * LARGE) })), None);
        assert_eq!(large(json!({ "a": "x".repeat(2 * LARGE), "b": [short] })), Some(false));
        assert_eq!(large(json!({ "a": [long, long], "b": { "c": long } })), Some(true));
    }
}
