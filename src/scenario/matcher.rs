//! Value matchers: what a request must look like for a rule to apply. Pure; all conditions must hold.
//!
//! A text (query, header, path, method, key) is compared as text; a place in the body as JSON. What is absent satisfies
//! nothing but `present = false` and `not`. Knows nothing of TOML, files or counters.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use regex::Regex;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::contract::keys::Keys;
use crate::contract::routes::{Operation, ROUTES};
use crate::redact::{Redactor, is_credential_header, is_secret_field};
use crate::util::wording::{any_of, shorten};

/// Maximum bytes of a value that an explanation shows the beginning of. Masking a longer one would hold up the request.
const MAX_SHOWN: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    pub operation: Option<Operation>,
    pub method: &'a Method,
    pub path: &'a str,
    /// The query without its question mark.
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// The API key, if it is valid.
    pub key: Option<&'a str>,
    pub keys: &'a Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Method,
    Path,
    /// A query parameter, decoded; the last of several.
    Query(Box<str>),
    /// A header; several of one name are joined by `, `.
    Header(HeaderName),
    /// The place in a JSON body that a pointer (RFC 6901) names.
    Body(Box<str>),
    Key,
}

#[derive(Clone, Debug)]
pub struct Condition {
    pub subject: Subject,
    pub tests: Vec<Test>,
}

#[derive(Clone, Debug)]
pub enum Test {
    Equals(Literal),
    /// Text: holds this part. A JSON list: has this entry. A JSON object: has this key.
    Contains(Literal),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Matches(Regex),
    /// Matches the glob: `*` is any text without a slash, `**` any text, `?` one character, `{name}` one segment.
    Glob(Box<str>, Regex),
    OneOf(Vec<Literal>),
    Present(bool),
    Not(Vec<Test>),
    Lt(f64),
    Gt(f64),
}

/// A value given in a scenario, with its form as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    pub json: Value,
    /// As query parameters and headers carry it.
    pub text: Box<str>,
}

impl Literal {
    pub fn new(json: Value) -> Self {
        let text = match &json {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        Self { json, text }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Found<'a> {
    Absent,
    Text(Cow<'a, str>),
    Json(&'a Value),
}

/// A request as conditions read it: body and query are parsed once, and only if a condition looks at them.
pub(crate) struct ParsedRequest<'a> {
    pub(crate) view: &'a RequestView<'a>,
    body: OnceCell<Option<Value>>,
    query: OnceCell<Vec<(Cow<'a, str>, Cow<'a, str>)>>,
}

impl<'a> ParsedRequest<'a> {
    pub(crate) fn new(view: &'a RequestView<'a>) -> Self {
        Self { view, body: OnceCell::new(), query: OnceCell::new() }
    }

    pub(crate) fn body(&self) -> Option<&Value> {
        self.body.get_or_init(|| serde_json::from_slice(self.view.body).ok()).as_ref()
    }

    /// The query's parameters, decoded, in their order.
    pub(crate) fn query(&self) -> &[(Cow<'a, str>, Cow<'a, str>)] {
        let view = self.view;
        self.query.get_or_init(|| form_urlencoded::parse(view.query.unwrap_or_default().as_bytes()).collect())
    }

    pub(crate) fn find(&self, subject: &Subject) -> Found<'_> {
        let text = |text: Option<&'a str>| text.map_or(Found::Absent, |text| Found::Text(Cow::Borrowed(text)));
        match subject {
            Subject::Method => text(Some(self.view.method.as_str())),
            Subject::Path => text(Some(self.view.path)),
            Subject::Key => text(self.view.key),
            Subject::Query(name) => {
                let last = self.query().iter().rev().find(|(known, _)| *known == **name);
                last.map_or(Found::Absent, |(_, value)| Found::Text(Cow::Borrowed(value)))
            }
            Subject::Header(name) => {
                let mut values =
                    self.view.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
                match (values.next(), values.next()) {
                    (None, _) => Found::Absent,
                    (Some(one), None) => Found::Text(one),
                    (Some(first), Some(second)) => {
                        let all: Vec<_> = [first, second].into_iter().chain(values).collect();
                        Found::Text(Cow::Owned(all.join(", ")))
                    }
                }
            }
            Subject::Body(pointer) => {
                self.body().and_then(|body| body.pointer(pointer)).map_or(Found::Absent, Found::Json)
            }
        }
    }
}

impl Condition {
    pub(crate) fn holds(&self, request: &ParsedRequest<'_>) -> bool {
        let found = request.find(&self.subject);
        self.tests.iter().all(|test| test.holds(&found))
    }

    /// Why the condition does not hold, in words; `None` if it does.
    pub(crate) fn failure(&self, request: &ParsedRequest<'_>) -> Option<String> {
        let found = request.find(&self.subject);
        let failed = self.tests.iter().find(|test| !test.holds(&found))?;
        let redactor = Redactor::new(request.view.keys);
        let is = match (&self.subject, &found) {
            (_, Found::Absent) => "is absent".to_owned(),
            (_, found) if !found.is_short() => "is too long to be shown".to_owned(),
            (Subject::Key, Found::Text(text)) => format!("is {}", redactor.key(text)),
            // Masked before it is cut: half a credential would not be recognised.
            (_, Found::Text(text)) => {
                format!("is {}", beginning(&format!("\"{}\"", redactor.text(text).escape_debug())))
            }
            (_, Found::Json(value)) => {
                let mut value = (*value).clone();
                redactor.value(&mut value);
                format!("is {}", beginning(&value.to_string()))
            }
        };
        Some(match (&self.subject, failed) {
            (Subject::Key, _) => format!("the key {is}; expected {}", redactor.text(&failed.to_string())),
            (Subject::Header(name), _) if is_credential_header(name.as_str()) => format!("{} is another", self.subject),
            (subject, _) if subject.names_secret() && !matches!(found, Found::Absent) => {
                format!("{subject} is not shown, because it may hold a secret; expected {failed}")
            }
            _ => format!("{} {is}; expected {failed}", self.subject),
        })
    }

    /// The text that the subject must equal, if the condition demands one.
    pub(crate) fn exact(&self) -> Option<&str> {
        self.tests.iter().find_map(|test| match (test, &self.subject) {
            // A number in a body equals another with the same value, so only texts are looked up there.
            (Test::Equals(literal), Subject::Body(_)) => literal.json.as_str(),
            (Test::Equals(literal), _) => Some(&*literal.text),
            _ => None,
        })
    }
}

impl Test {
    pub(crate) fn holds(&self, found: &Found<'_>) -> bool {
        match (self, found) {
            (Self::Present(expected), found) => *expected != matches!(found, Found::Absent),
            (Self::Not(tests), found) => !tests.iter().all(|test| test.holds(found)),
            (_, Found::Absent) => false,
            (Self::Equals(literal), found) => literal.equals(found),
            (Self::OneOf(literals), found) => literals.iter().any(|literal| literal.equals(found)),
            (Self::Contains(literal), Found::Json(Value::Array(values))) => {
                values.iter().any(|value| same(value, &literal.json))
            }
            (Self::Contains(literal), Found::Json(Value::Object(fields))) => fields.contains_key(&*literal.text),
            (Self::Lt(bound), found) => found.number().is_some_and(|number| number < *bound),
            (Self::Gt(bound), found) => found.number().is_some_and(|number| number > *bound),
            (test, found) => found.text().is_some_and(|text| match test {
                Self::Contains(literal) => text.contains(&*literal.text),
                Self::StartsWith(start) => text.starts_with(&**start),
                Self::EndsWith(end) => text.ends_with(&**end),
                Self::Matches(pattern) | Self::Glob(_, pattern) => pattern.is_match(text),
                _ => false,
            }),
        }
    }
}

impl Literal {
    fn equals(&self, found: &Found<'_>) -> bool {
        match found {
            Found::Absent => false,
            Found::Text(text) => **text == *self.text,
            Found::Json(value) => same(value, &self.json),
        }
    }
}

impl Found<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// True if it can be masked and shown at little cost.
    fn is_short(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text.len() <= MAX_SHOWN,
            Self::Json(value) => take_bytes(value, MAX_SHOWN).is_some(),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Json(Value::Number(number)) => number.as_f64(),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

/// The bytes left of this limit once a value is written; `None` if the value is longer. A long value is not read to its end.
fn take_bytes(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Value::String(text) => left.checked_sub(text.len()),
        Value::Array(values) => values.iter().try_fold(left, |left, value| take_bytes(value, left)),
        Value::Object(fields) => {
            fields.iter().try_fold(left, |left, (name, value)| take_bytes(value, left.checked_sub(name.len())?))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(left),
    }
}

/// Equality in which `1` is `1.0`, at any depth: TOML and JSON writers differ there without meaning to.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.eq(&b)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => left == right,
    }
}

impl Subject {
    /// True if the value here is a secret by its name.
    fn names_secret(&self) -> bool {
        match self {
            Self::Query(name) => is_secret_field(name),
            Self::Body(pointer) => pointer.rsplit('/').next().is_some_and(is_secret_field),
            _ => false,
        }
    }
}

/// The beginning of a value, for a message.
fn beginning(text: &str) -> Cow<'_, str> {
    shorten(text, 80)
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method => f.write_str("method"),
            Self::Path => f.write_str("path"),
            Self::Query(name) => write!(f, "query.{}", name.escape_debug()),
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Body(pointer) => write!(f, "body.\"{}\"", pointer.escape_debug()),
            Self::Key => f.write_str("key"),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&beginning(&self.json.to_string()))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(literal) => write!(f, "{literal}"),
            Self::Contains(literal) => write!(f, "something that contains {literal}"),
            Self::StartsWith(text) => write!(f, "something that starts with \"{}\"", text.escape_debug()),
            Self::EndsWith(text) => write!(f, "something that ends with \"{}\"", text.escape_debug()),
            Self::Matches(pattern) => write!(f, "something that matches /{}/", pattern.as_str().escape_debug()),
            Self::Glob(glob, _) => write!(f, "something like `{}`", glob.escape_debug()),
            Self::OneOf(literals) => {
                let shown: Vec<_> = literals.iter().take(5).map(ToString::to_string).collect();
                write!(f, "one of {}{}", shown.join(", "), if literals.len() > 5 { ", …" } else { "" })
            }
            Self::Present(true) => f.write_str("anything"),
            Self::Present(false) => f.write_str("nothing"),
            Self::Not(tests) => {
                let shown: Vec<_> = tests.iter().map(ToString::to_string).collect();
                write!(f, "not {}", shown.join(" and "))
            }
            Self::Lt(bound) => write!(f, "a number less than {bound}"),
            Self::Gt(bound) => write!(f, "a number greater than {bound}"),
        }
    }
}

/// Everything that a rule's `when`, or an emission's `on`, demands of a request.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// One of these operations; any request if empty.
    pub operations: Vec<Operation>,
    pub conditions: Vec<Condition>,
    /// The step at which the story must be.
    pub step: Option<Arc<str>>,
    /// True if a path that no endpoint has needs a valid key; below `/v1/` it does unless this says otherwise.
    pub authenticated: Option<bool>,
    /// True if no endpoint has a path like this.
    pub no_endpoint: bool,
}

impl When {
    pub(crate) fn holds(&self, request: &ParsedRequest<'_>) -> bool {
        self.asks_for(request.view.operation) && self.conditions.iter().all(|condition| condition.holds(request))
    }

    /// The first condition that does not hold, in words; `None` if all do.
    pub(crate) fn failure(&self, request: &ParsedRequest<'_>) -> Option<String> {
        let of_operation = self.operation_failure(request.view.operation);
        of_operation.or_else(|| self.conditions.iter().find_map(|condition| condition.failure(request)))
    }

    /// Why a request of this operation cannot match, in words; `None` if it can.
    pub(crate) fn operation_failure(&self, operation: Option<Operation>) -> Option<String> {
        if self.asks_for(operation) {
            return None;
        }
        let quoted = |operation: &Operation| format!("`{}`", operation.name());
        let expected: Vec<_> = self.operations.iter().map(quoted).collect();
        let is = operation.as_ref().map_or("none".to_owned(), quoted);
        Some(format!("operation is {is}; expected {}", any_of(&expected)))
    }

    /// Its conditions as texts that can be compared: one that has all those of another matches nothing that the other does not.
    pub(crate) fn demands(&self) -> BTreeSet<String> {
        self.conditions.iter().map(|condition| format!("{condition:?}")).collect()
    }

    /// True if it asks for no operation that the other does not ask for.
    pub(crate) fn has_every_operation_of(&self, other: &Self) -> bool {
        let (wide, narrow) = (&self.operations, &other.operations);
        wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|operation| wide.contains(operation)))
    }

    /// True if it names a path that no endpoint has.
    pub(crate) fn is_without_endpoint(&self) -> bool {
        let mut paths = self.conditions.iter().filter(|condition| condition.subject == Subject::Path).peekable();
        let has = |path: &str, condition: &Condition| {
            condition.tests.iter().all(|test| test.holds(&Found::Text(Cow::Borrowed(path))))
        };
        paths.peek().is_some() && {
            let paths: Vec<&Condition> = paths.collect();
            !ROUTES.iter().any(|route| paths.iter().all(|condition| has(route.path, condition)))
        }
    }

    /// True if the request has its method and path, whatever else it asks for.
    pub(crate) fn has_route_of(&self, request: &ParsedRequest<'_>) -> bool {
        let is_route = |condition: &&Condition| matches!(condition.subject, Subject::Method | Subject::Path);
        self.conditions.iter().filter(is_route).all(|condition| condition.holds(request))
    }

    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        let globs = self.conditions.iter().flat_map(|condition| &condition.tests);
        globs.into_iter().any(|test| matches!(test, Test::Glob(_, pattern) if pattern.capture_names().flatten().any(|known| known == name)))
    }

    /// The parameters of the path, percent-decoded.
    pub fn parameters(&self, path: &str) -> Map<String, Value> {
        let mut parameters = Map::new();
        let tests = self.conditions.iter().filter(|condition| condition.subject == Subject::Path);
        for test in tests.flat_map(|condition| &condition.tests) {
            let Test::Glob(_, pattern) = test else { continue };
            let Some(found) = pattern.captures(path) else { continue };
            for name in pattern.capture_names().flatten() {
                let value = percent_decode_str(found.name(name).map_or("", |part| part.as_str())).decode_utf8_lossy();
                parameters.insert(name.to_owned(), value.into());
            }
        }
        parameters
    }

    pub(crate) fn asks_for(&self, operation: Option<Operation>) -> bool {
        self.operations.is_empty() || operation.is_some_and(|operation| self.operations.contains(&operation))
    }
}

/// The text of a path with parameters, such as `/v1/references/{id}`, or with wildcards, as a regular expression. A parameter becomes a
/// group of its name.
pub(crate) fn glob_pattern(glob: &str) -> String {
    let mut pattern = String::from("^");
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        let (piece, length) = match first {
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            '{' if parameter(rest).is_some() => {
                let name = parameter(rest).unwrap_or_default();
                (format!("(?P<{name}>[^/]+)"), name.len() + 2)
            }
            other => (regex::escape(other.encode_utf8(&mut [0; 4])), other.len_utf8()),
        };
        pattern.push_str(&piece);
        rest = &rest[length..];
    }
    pattern.push('$');
    pattern
}

/// The name at the beginning of `{name}…`.
pub(crate) fn parameter(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn literal(json: Value) -> Literal {
        Literal::new(json)
    }

    fn check(test: &Test, found: &Found<'_>, expected: bool) {
        assert_eq!(test.holds(found), expected, "{test} on {found:?}");
    }

    #[test]
    fn texts_and_json_are_compared_as_what_they_are() {
        let text = |text: &'static str| Found::Text(Cow::Borrowed(text));
        let (five, half, list) = (json!(5), json!(5.0), json!(["a", {"b": 1}]));
        check(&Test::Equals(literal(json!(5))), &text("5"), true);
        check(&Test::Equals(literal(json!("5"))), &Found::Json(&five), false);
        check(&Test::Equals(literal(json!(5))), &Found::Json(&half), true);
        check(&Test::Equals(literal(json!(["a", {"b": 1.0}]))), &Found::Json(&list), true);
        check(&Test::Equals(literal(json!(true))), &text("true"), true);
        check(&Test::Contains(literal(json!({"b": 1}))), &Found::Json(&list), true);
        check(&Test::Contains(literal(json!("a"))), &Found::Json(&json!({"a": null})), true);
        check(&Test::Contains(literal(json!("bc"))), &text("abcd"), true);
        check(&Test::StartsWith("ab".into()), &Found::Json(&json!("abc")), true);
        check(&Test::StartsWith("5".into()), &Found::Json(&five), false);
        check(&Test::EndsWith("cd".into()), &text("abcd"), true);
        check(&Test::Lt(6.0), &text(" 5 "), true);
        check(&Test::Gt(5.0), &Found::Json(&five), false);
        check(&Test::Gt(5.0), &text("NaN"), false);
        check(&Test::Gt(-3.0), &text("-4"), false);
        check(&Test::Matches(Regex::new("5").expect("a pattern")), &Found::Json(&five), false);
        check(&Test::OneOf(vec![literal(json!(1)), literal(json!("a"))]), &text("a"), true);
    }

    #[test]
    fn absence_satisfies_only_present_false_and_not() {
        for (test, expected) in [
            (Test::Present(false), true),
            (Test::Present(true), false),
            (Test::Equals(literal(json!(null))), false),
            (Test::Lt(1.0), false),
            (Test::Not(vec![Test::Equals(literal(json!("a")))]), true),
            (Test::Not(vec![Test::Present(false)]), false),
        ] {
            check(&test, &Found::Absent, expected);
        }
    }

    #[test]
    fn globs_keep_to_a_segment_unless_doubled() {
        for (glob, path, expected) in [
            ("/v1/*", "/v1/hello", true),
            ("/v1/*", "/v1/system/status", false),
            ("/v1/**", "/v1/system/status", true),
            ("/v?/hello", "/v1/hello", true),
            ("/v1/h.llo", "/v1/hello", false),
            ("**", "", true),
        ] {
            let pattern = Regex::new(&glob_pattern(glob)).expect("globs become valid patterns");
            assert_eq!(pattern.is_match(path), expected, "{glob} on {path}");
        }
    }

    #[test]
    fn values_differ_by_length_key_and_depth() {
        for (one, other, expected) in [
            (json!([1, 2]), json!([1]), false),
            (json!([[1], 2.0]), json!([[1.0], 2]), true),
            (json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), false),
            (json!({ "a": 1 }), json!({ "b": 1 }), false),
            (json!({ "a": 1, "b": [2] }), json!({ "b": [2.0], "a": 1.0 }), true),
            (json!(5), json!(6.0), false),
            // Beyond a double's precision whole numbers are compared as such.
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
            (json!("5"), json!(5), false),
        ] {
            assert_eq!(same(&one, &other), expected, "{one} and {other}");
            assert_eq!(same(&other, &one), expected, "{other} and {one}");
        }
    }

    /// Checks why a condition on this subject fails for a request with secrets in its query, its body and its headers.
    fn check_failure(subject: Subject, expected: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in [("authorization", "Bearer sk_test_hidden"), ("cookie", "a=hidden"), ("x-shown", "seen")] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let view = RequestView {
            operation: None,
            method: &Method::POST,
            path: "/v1/events/subscribe",
            query: Some("token=hidden"),
            headers: &headers,
            body: br#"{"url":"https://a.example","secret":"whsec_hidden","hook":{"secret":"hidden"},"list":[1]}"#,
            key: Some("sk_live_hidden_1234"),
            keys: &crate::settings::Profile::default().keys,
        };
        let condition = Condition { subject, tests: vec![Test::Equals(literal(json!("x")))] };
        let failure = condition.failure(&ParsedRequest::new(&view)).expect("it does not hold");
        assert!(failure.starts_with(expected) && !failure.contains("hidden"), "{failure}");
    }

    #[test]
    fn a_failure_shows_what_is_there_but_no_secret() {
        let body = |pointer: &str| Subject::Body(pointer.into());
        let header = |name: &str| Subject::Header(name.parse().expect("a name"));
        check_failure(body("/url"), "body.\"/url\" is \"https://a.example\"; expected \"x\"");
        check_failure(body("/list"), "body.\"/list\" is [1]; expected \"x\"");
        check_failure(body("/none/secret"), "body.\"/none/secret\" is absent; expected \"x\"");
        check_failure(header("x-shown"), "header.x-shown is \"seen\"; expected \"x\"");
        check_failure(body("/secret"), "body.\"/secret\" is not shown, because it may hold a secret; expected \"x\"");
        check_failure(body("/hook"), "body.\"/hook\" is {");
        check_failure(header("authorization"), "header.authorization is another");
        check_failure(header("cookie"), "header.cookie is another");
        check_failure(Subject::Query("token".into()), "query.token is not shown");
        check_failure(Subject::Key, "the key is sk_live_…1234; expected \"x\"");
    }
}
