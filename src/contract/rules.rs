//! What each operation accepts, as pure functions: query parameters and bodies in, a checked request or every problem out.

use hyper::header::{CONTENT_TYPE, HeaderMap};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use crate::contract::error::{Error, FieldProblem, MalformedStatus};
use crate::contract::nearest;
use crate::contract::signature::{KeyReading, Scheme, SigningKey};
use crate::contract::types::{Events, SubscribeRequest};
use crate::contract::webhook_url::check_webhook_url;

/// How strictly requests are read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Unknown body fields and query parameters.
    pub unknown: Unknown,
    /// Whether `include_checks` takes more spellings than `true` and `false`.
    pub lenient_booleans: bool,
    /// Whether a POST must declare JSON.
    pub content_type: ContentTypeRule,
}

/// What happens to unknown body fields and query parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// They are ignored.
    Ignore,
    /// They lead to a 422.
    Reject,
}

/// Whether a POST's `Content-Type` matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContentTypeRule {
    /// It must be `application/json`.
    Require,
    /// It is ignored.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// Whether dependency details are requested; false when the parameter is absent.
    pub include_checks: bool,
}

/// Reads the query of `GET /v1/system/status`. The last of several values wins; names and values are percent-decoded.
pub fn parse_status_query(query: Option<&str>, validation: &Validation) -> Result<StatusQuery, Error> {
    let mut include_checks = Ok(false);
    let mut problems = Vec::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if name == "include_checks" {
            include_checks = parse_boolean(&value, validation.lenient_booleans).ok_or_else(|| {
                FieldProblem::new("include_checks", format!("must be true or false, found {}", quoted(&value)))
            });
        } else if validation.unknown == Unknown::Reject {
            problems.push(FieldProblem::new(shortened(&name), "is not a known query parameter"));
        }
    }
    match include_checks {
        Ok(include_checks) if problems.is_empty() => Ok(StatusQuery { include_checks }),
        Ok(_) => Err(Error::validation(problems)),
        Err(problem) => {
            problems.insert(0, problem);
            Err(Error::validation(problems))
        }
    }
}

fn parse_boolean(text: &str, lenient: bool) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ if !lenient => None,
        _ => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        },
    }
}

/// Checks the `Content-Type` of a request with a JSON body.
pub fn check_content_type(headers: &HeaderMap, validation: &Validation) -> Result<(), Error> {
    if validation.content_type == ContentTypeRule::Ignore {
        return Ok(());
    }
    let reason = match headers.get_all(CONTENT_TYPE).iter().count() {
        0 => "must be application/json; the header is missing",
        1 if is_media_type(headers, "application/json") => return Ok(()),
        1 => "must be application/json",
        _ => "must be sent once",
    };
    Err(Error::validation(vec![FieldProblem::new("Content-Type", reason)]))
}

/// Whether the one `Content-Type` header names this type, with any parameters.
pub(super) fn is_media_type(headers: &HeaderMap, media_type: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
}

/// What decides whether a subscribe request is valid.
#[derive(Clone, Debug)]
pub struct SubscribeRules<'p> {
    pub validation: &'p Validation,
    pub malformed_json_status: MalformedStatus,
    pub events: &'p Events,
    pub allow_http: bool,
    pub schemes: Vec<Scheme>,
    pub secret_key: KeyReading,
}

/// A subscribe request that passed every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedSubscribe {
    pub request: SubscribeRequest,
    /// The URL in the form used for comparison and dialling.
    pub url: Url,
}

/// Reads the body of `POST /v1/events/subscribe` and reports every field at fault.
pub fn parse_subscribe(body: &[u8], rules: &SubscribeRules<'_>) -> Result<CheckedSubscribe, Error> {
    check_subscribe(&parse_object(body, rules.malformed_json_status)?, rules)
}

/// Checks the fields of a subscribe request, and reports every one at fault.
pub fn check_subscribe(fields: &Map<String, Value>, rules: &SubscribeRules<'_>) -> Result<CheckedSubscribe, Error> {
    let mut problems = Vec::new();
    let url =
        url_field(fields, rules.allow_http).map_err(|reason| problems.push(FieldProblem::new("url", reason))).ok();
    let events = events_field(fields, rules.events, &mut problems);
    let secret = secret_field(fields, rules).map_err(|reason| problems.push(FieldProblem::new("secret", reason)));
    let description =
        text_field(fields, "description").map_err(|reason| problems.push(FieldProblem::new("description", reason)));
    if rules.validation.unknown == Unknown::Reject {
        for name in unknown_fields(fields) {
            problems.push(FieldProblem::new(shortened(name), "is not a known field"));
        }
    }
    match (url, secret, description) {
        (Some((text, url)), Ok(secret), Ok(description)) if problems.is_empty() => {
            Ok(CheckedSubscribe { request: SubscribeRequest { url: text, events, secret, description }, url })
        }
        _ => Err(Error::validation(problems)),
    }
}

fn unknown_fields(fields: &Map<String, Value>) -> impl Iterator<Item = &str> {
    fields.keys().map(String::as_str).filter(|name| !["url", "events", "secret", "description"].contains(name))
}

/// The problem that the field `name` is missing; an unknown field with a similar name is most likely meant to be it.
fn required(name: &str, fields: &Map<String, Value>) -> String {
    // A body may hold tens of thousands of fields, and some as long as the body.
    let near = nearest(name, unknown_fields(fields).take(100).filter(|field| field.len() <= 64));
    near.map_or_else(
        || "is required".to_owned(),
        |field| format!("is required; there is a field `{}`, did you mean `{name}`?", shortened(field)),
    )
}

/// The JSON object that a body holds. The last of duplicate keys wins.
pub(super) fn parse_object(body: &[u8], malformed_status: MalformedStatus) -> Result<Map<String, Value>, Error> {
    let malformed = |reason: String| Error {
        status: malformed_status.into(),
        ..Error::validation(vec![FieldProblem::new("body", reason)])
    };
    if body.trim_ascii().is_empty() {
        return Err(malformed("is empty; expected a JSON object".to_owned()));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            let reason = format!("must be a JSON object, found {}", json_type(&other));
            Err(Error::validation(vec![FieldProblem::new("body", reason)]))
        }
        Err(error) => Err(malformed(format!("is not valid JSON: {error}"))),
    }
}

fn url_field(fields: &Map<String, Value>, allow_http: bool) -> Result<(String, Url), String> {
    match fields.get("url") {
        None => Err(required("url", fields)),
        Some(Value::Null) => Err("is required".to_owned()),
        Some(Value::String(text)) => {
            let url = check_webhook_url(text, allow_http)?;
            Ok((text.clone(), url))
        }
        Some(other) => Err(format!("must be a string, found {}", json_type(other))),
    }
}

fn events_field(fields: &Map<String, Value>, known: &Events, problems: &mut Vec<FieldProblem>) -> Vec<String> {
    let mut events: Vec<String> = Vec::new();
    match fields.get("events") {
        None => problems.push(FieldProblem::new("events", required("events", fields))),
        Some(Value::Null) => problems.push(FieldProblem::new("events", "is required")),
        Some(Value::Array(entries)) if entries.is_empty() => {
            problems.push(FieldProblem::new("events", "must not be empty"));
        }
        Some(Value::Array(entries)) => {
            let before = problems.len();
            for (at, entry) in entries.iter().enumerate() {
                // A body may hold tens of thousands of wrong entries; ten show the point.
                if problems.len() - before >= 10 {
                    problems.push(FieldProblem::new("events", "further entries were not checked"));
                    break;
                }
                match entry.as_str() {
                    Some(event) if events.iter().any(|known| known == event) => {}
                    Some(event) if known.types().any(|known| known == event) => events.push(event.to_owned()),
                    Some(event) => {
                        problems.push(FieldProblem::new(format!("events[{at}]"), unsupported(event, known)));
                    }
                    None => problems.push(FieldProblem::new(
                        format!("events[{at}]"),
                        format!("must be a string, found {}", json_type(entry)),
                    )),
                }
            }
        }
        Some(other) => {
            problems
                .push(FieldProblem::new("events", format!("must be a list of strings, found {}", json_type(other))));
        }
    }
    events
}

/// Why an event type is refused, with the one that was most likely meant and all that are supported.
pub fn unsupported(event_type: &str, events: &Events) -> String {
    let supported: Vec<&str> = events.types().collect();
    let near = nearest(event_type, events.types());
    let meant = near.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    format!("unsupported event type {}; {meant}supported: {}", quoted(event_type), supported.join(", "))
}

fn secret_field(fields: &Map<String, Value>, rules: &SubscribeRules<'_>) -> Result<Option<String>, String> {
    let Some(secret) = text_field(fields, "secret")? else { return Ok(None) };
    if secret.is_empty() {
        return Err("must not be empty; leave it out to have one generated".to_owned());
    }
    for scheme in &rules.schemes {
        SigningKey::read(&secret, scheme, rules.secret_key).map_err(|problem| problem.to_string())?;
    }
    Ok(Some(secret))
}

/// An optional text field; null means absent.
pub(super) fn text_field(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("must be a string, found {}", json_type(other))),
    }
}

/// The JSON type of a value with its article, as error messages use it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A client's text in quotes, control bytes escaped, cut where it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(text))
}

pub(super) fn shortened(text: &str) -> String {
    const SHOWN: usize = 64;
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::error::Errors;
    use crate::contract::section;
    use crate::contract::signature::{CustomScheme, SchemeName};

    fn subscribe(body: &[u8]) -> Result<CheckedSubscribe, Error> {
        let rules = SubscribeRules {
            validation: &section("validation"),
            malformed_json_status: section::<Errors>("errors").malformed_json_status,
            events: &section("events"),
            allow_http: false,
            schemes: vec![Scheme::new(SchemeName::Standard, &CustomScheme::default())],
            secret_key: KeyReading::Auto,
        };
        parse_subscribe(body, &rules)
    }

    #[test]
    fn include_checks_is_exactly_true_or_false() {
        for (query, expected) in [
            (None, Some(false)),
            (Some(""), Some(false)),
            (Some("include_checks=true"), Some(true)),
            (Some("include_checks=false"), Some(false)),
            (Some("include%5Fchecks=tr%75e"), Some(true)),
            (Some("include_checks=x&include_checks=true"), Some(true)),
            (Some("include_checks=true&include_checks=x"), None),
            (Some("include_checks"), None),
            (Some("include_checks="), None),
            (Some("include_checks=True"), None),
            (Some("include_checks=1"), None),
            (Some("include_checks=true+"), None),
            (Some("other=1&%FF=%FE"), Some(false)),
        ] {
            let found = parse_status_query(query, &section("validation")).ok().map(|query| query.include_checks);
            assert_eq!(found, expected, "{query:?}");
        }
        let lenient = Validation { lenient_booleans: true, ..section("validation") };
        let found = parse_status_query(Some("include_checks=YES"), &lenient);
        assert_eq!(found, Ok(StatusQuery { include_checks: true }));
    }

    #[test]
    fn a_body_reports_every_field_at_fault() {
        for (body, message) in [
            ("", "body: is empty; expected a JSON object"),
            (" \n", "body: is empty; expected a JSON object"),
            ("[]", "body: must be a JSON object, found a list"),
            ("null", "body: must be a JSON object, found null"),
            ("{}", "url: is required; events: is required"),
            (
                r#"{"url":1,"events":{},"secret":2,"description":[]}"#,
                "url: must be a string, found a number; events: must be a list of strings, found an object; secret: must be a string, found a number; description: must be a string, found a list",
            ),
            (r#"{"url":"https://a.b","events":[]}"#, "events: must not be empty"),
            (
                r#"{"url":"https://a.b","events":["x",3]}"#,
                "events[0]: unsupported event type \"x\"; supported: workflow.completed, reference.matched; events[1]: must be a string, found a number",
            ),
            (
                r#"{"url":"https://a.b","event":["workflow.completed"],"more":1}"#,
                "events: is required; there is a field `event`, did you mean `events`?",
            ),
            (
                r#"{"uri":"https://a.b","events":["workflow.completed"]}"#,
                "url: is required; there is a field `uri`, did you mean `url`?",
            ),
            (r#"{"url":"https://a.b","types":1,"events":null,"event":2}"#, "events: is required"),
            (r#"{"url":"https://a.b","types":1,"description":"x"}"#, "events: is required"),
            (
                r#"{"url":"https://a.b","events":["workflow.complete"]}"#,
                "events[0]: unsupported event type \"workflow.complete\"; did you mean `workflow.completed`? supported: workflow.completed, reference.matched",
            ),
            (
                r#"{"url":"https://a.b","events":["workflow.completed"],"secret":""}"#,
                "secret: must not be empty; leave it out to have one generated",
            ),
        ] {
            let error = subscribe(body.as_bytes()).expect_err(body);
            assert_eq!((error.status, error.message.as_str()), (422, message), "{body}");
        }
        let error = subscribe(b"{\"url\":").expect_err("the body is cut off");
        assert!(error.message.starts_with("body: is not valid JSON: EOF"), "{}", error.message);
    }
}
