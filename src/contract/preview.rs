//! The announced endpoints, workflows, users and OAuth 2.0 client credentials: wire types, and what they accept, as pure functions.
//! The contract shows none of it; every shape here is assumed and served only with the setting `preview.enabled`.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use crate::contract::error::{Error, ErrorKind, FieldProblem, MalformedStatus};
use crate::contract::keys::{KeyRules, LONGEST_KEY, judge};
use crate::contract::named::named;
use crate::contract::rules::{
    ContentTypeRule, Unknown, Validation, is_media_type, json_type, parse_object, quoted, shortened,
};
use crate::util::duration::DurationText;

/// Longest name or reference, in characters.
pub const LONGEST_LABEL: usize = 256;

/// The announced endpoints: workflows and users (contract: shapes not shown).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Preview {
    /// Whether they are served.
    pub enabled: bool,
    /// Entries of a page without `limit`.
    pub page_size: NonZeroU32,
    /// Most entries of a page.
    pub page_limit: NonZeroU32,
    /// How long a created workflow runs.
    pub run_time: DurationText,
}

named! {
    /// The status of a workflow. The contract shows only `completed`.
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum WorkflowStatus {
        /// From its creation on.
        Running = "running",
        /// Its time is over.
        Completed = "completed",
        /// A client cancelled it.
        Cancelled = "cancelled",
    }
}

/// A workflow as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Workflow {
    /// Form `wf_<id>`.
    #[cfg_attr(test, schemars(regex(pattern = r"^wf_.*$")))]
    pub id: String,
    /// A label; null when it has none.
    pub name: Option<String>,
    /// Its status.
    pub status: WorkflowStatus,
    /// The reference that it is about; null when it has none.
    pub reference: Option<String>,
    /// ISO 8601 UTC timestamp.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub created_at: String,
    /// ISO 8601 UTC timestamp of the last change; completion counts as one.
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub updated_at: String,
}

/// The checked body of `POST /v1/workflows` or `PATCH /v1/workflows/{id}`: each field is absent, null or a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowFields {
    pub name: Option<Option<String>>,
    pub reference: Option<Option<String>>,
}

pub fn parse_workflow(
    body: &[u8],
    validation: &Validation,
    malformed_status: MalformedStatus,
) -> Result<WorkflowFields, Error> {
    let fields = parse_object(body, malformed_status)?;
    let mut problems = Vec::new();
    let mut read = |name: &'static str| {
        label(&fields, name).map_err(|reason| problems.push(FieldProblem::new(name, reason))).unwrap_or_default()
    };
    let checked = WorkflowFields { name: read("name"), reference: read("reference") };
    if validation.unknown == Unknown::Reject {
        for name in fields.keys().filter(|name| !["name", "reference"].contains(&name.as_str())) {
            problems.push(FieldProblem::new(shortened(name), "is not a known field"));
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(Error::validation(problems)) }
}

#[allow(clippy::option_option, reason = "a field that is absent stays, one that is null is emptied")]
fn label(fields: &Map<String, Value>, name: &str) -> Result<Option<Option<String>>, String> {
    match fields.get(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::String(text)) if text.is_empty() => Err("must not be empty".to_owned()),
        Some(Value::String(text)) if text.chars().nth(LONGEST_LABEL).is_some() => {
            Err(format!("must have at most {LONGEST_LABEL} characters"))
        }
        Some(Value::String(text)) => Ok(Some(Some(text.clone()))),
        Some(other) => Err(format!("must be a string, found {}", json_type(other))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub limit: usize,
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowQuery {
    pub page: Page,
    pub status: Option<WorkflowStatus>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
}

/// Reads the query of `GET /v1/workflows`. The last of several values wins.
pub fn parse_workflow_query(
    query: Option<&str>,
    validation: &Validation,
    preview: &Preview,
) -> Result<WorkflowQuery, Error> {
    let mut query = Query::read(query, &["limit", "cursor", "status", "created_after", "created_before"], validation);
    let status = query.take("status", |text| {
        WorkflowStatus::from_name(text)
            .ok_or_else(|| format!("must be running, completed or cancelled, found {}", quoted(text)))
    });
    let instant = |text: &str| {
        text.parse::<Timestamp>().map_err(|_| format!("must be an ISO 8601 timestamp, found {}", quoted(text)))
    };
    let (created_after, created_before) = (query.take("created_after", instant), query.take("created_before", instant));
    let page = query.page(preview);
    query.finish(WorkflowQuery { page, status, created_after, created_before })
}

pub fn parse_user_query(query: Option<&str>, validation: &Validation, preview: &Preview) -> Result<Page, Error> {
    let mut query = Query::read(query, &["limit", "cursor"], validation);
    let page = query.page(preview);
    query.finish(page)
}

pub fn bad_cursor(cursor: &str) -> Error {
    let reason = format!("must be the next_cursor of another page, found {}", quoted(cursor));
    Error::validation(vec![FieldProblem::new("cursor", reason)])
}

struct Query {
    values: Vec<(String, String)>,
    problems: Vec<FieldProblem>,
}

impl Query {
    fn read(query: Option<&str>, known: &[&str], validation: &Validation) -> Self {
        let (mut values, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if known.contains(&&*name) {
                values.push((name.into_owned(), value.into_owned()));
            } else if validation.unknown == Unknown::Reject {
                problems.push(FieldProblem::new(shortened(&name), "is not a known query parameter"));
            }
        }
        Self { values, problems }
    }

    fn take<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let (_, text) = self.values.iter().rev().find(|(known, _)| known == name)?;
        read(text).map_err(|reason| self.problems.push(FieldProblem::new(name, reason))).ok()
    }

    fn page(&mut self, preview: &Preview) -> Page {
        let most = preview.page_limit.get();
        let limit = self.take("limit", |text| match text.parse::<u32>() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(format!("must be a number from 1 to {most}, found {}", quoted(text))),
        });
        let limit = limit.unwrap_or(preview.page_size.get().min(most));
        Page {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            cursor: self.take("cursor", |text| Ok(text.to_owned())),
        }
    }

    fn finish<T>(self, checked: T) -> Result<T, Error> {
        if self.problems.is_empty() { Ok(checked) } else { Err(Error::validation(self.problems)) }
    }
}

/// OAuth 2.0 client credentials (contract: announced, endpoints and lifetimes not shown).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Oauth {
    /// How long an access token is valid.
    pub token_lifetime: DurationText,
    /// The form of the token endpoint's errors.
    pub error_shape: OauthErrorShape,
}

/// The form of the token endpoint's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OauthErrorShape {
    /// `{error, error_description}`.
    Rfc6749,
    /// The envelope of every other error.
    Envelope,
}

/// Why no token was issued (RFC 6749 §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthProblem {
    pub code: &'static str,
    pub text: &'static str,
}

impl OauthProblem {
    const fn client(text: &'static str) -> Self {
        Self { code: "invalid_client", text }
    }

    /// The problem as an error of the API: 401 for the client, 422 for the rest.
    pub fn error(&self) -> Error {
        let is_client = self.code == "invalid_client";
        Error::new(if is_client { ErrorKind::Unauthorized } else { ErrorKind::ValidationError }, self.text)
    }

    /// The status, and the body in the form of the RFC; `None` where the shape is the API's own envelope.
    pub fn body(&self, shape: OauthErrorShape) -> Option<(u16, Value)> {
        let status = if self.code == "invalid_client" { 401 } else { 400 };
        let body = json!({ "error": self.code, "error_description": self.text });
        (shape == OauthErrorShape::Rfc6749).then_some((status, body))
    }
}

/// The key that a token request authenticates with: `client_secret` in the body, or the password of HTTP Basic.
pub fn parse_token_request(
    headers: &HeaderMap,
    body: &[u8],
    validation: &Validation,
    keys: KeyRules<'_>,
) -> Result<String, OauthProblem> {
    let wrong = |text| Err(OauthProblem { code: "invalid_request", text });
    if validation.content_type == ContentTypeRule::Require
        && !is_media_type(headers, "application/x-www-form-urlencoded")
    {
        return wrong("Content-Type: must be application/x-www-form-urlencoded");
    }
    let (mut grant, mut secret) = (None, None);
    for (name, value) in form_urlencoded::parse(body) {
        match &*name {
            "grant_type" if grant.is_some() => return wrong("grant_type: sent twice"),
            "client_secret" if secret.is_some() => return wrong("client_secret: sent twice"),
            "grant_type" => grant = Some(value),
            "client_secret" => secret = Some(value.into_owned()),
            _ => {}
        }
    }
    let key = match (secret, basic_secret(headers)?) {
        (Some(_), Some(_)) => return wrong("client_secret: sent in the body and by HTTP Basic"),
        (None, None) => return Err(OauthProblem::client("client_secret: missing; send an API key")),
        (key, basic) => key.or(basic).unwrap_or_default(),
    };
    match grant.as_deref() {
        None => return wrong("grant_type: is required"),
        Some("client_credentials") => {}
        Some(_) => {
            let text = "grant_type: only client_credentials is supported";
            return Err(OauthProblem { code: "unsupported_grant_type", text });
        }
    }
    let is_text = key.len() <= LONGEST_KEY && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_text || judge(&key, keys).is_err() {
        return Err(OauthProblem::client("client_secret: is not a valid API key"));
    }
    Ok(key)
}

/// The password of HTTP Basic, form-decoded as the RFC requires (§2.3.1).
fn basic_secret(headers: &HeaderMap) -> Result<Option<String>, OauthProblem> {
    fn decoded(value: &HeaderValue) -> Option<String> {
        let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
        let text = STANDARD.decode(text.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let secret = std::str::from_utf8(&text).ok()?.split_once(':')?.1.replace('+', " ");
        Some(percent_decode_str(&secret).decode_utf8().ok()?.into_owned())
    }
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let secret = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => decoded(value),
        _ => None,
    };
    secret.map(Some).ok_or(OauthProblem::client("Authorization: must be one HTTP Basic header"))
}

#[cfg(test)]
mod tests {
    use hyper::header::CONTENT_TYPE;

    use super::*;
    use crate::contract::error::Errors;
    use crate::contract::section;
    use crate::contract::types::Environment;

    fn parse(body: &[u8]) -> Result<WorkflowFields, Error> {
        parse_workflow(body, &section("validation"), section::<Errors>("errors").malformed_json_status)
    }

    fn parse_query(query: &str) -> Result<WorkflowQuery, Error> {
        parse_workflow_query(Some(query), &section("validation"), &section("preview"))
    }

    #[test]
    fn every_wrong_field_and_parameter_is_reported() {
        let changed = WorkflowFields { name: Some(None), reference: Some(Some("r".to_owned())) };
        assert_eq!(parse(br#"{"name":null,"reference":"r","more":1}"#), Ok(changed));
        let error = parse(br#"{"name":3,"reference":""}"#).expect_err("both are wrong");
        assert_eq!(error.message, "name: must be a string, found a number; reference: must not be empty");
        for (length, is_valid) in [(LONGEST_LABEL, true), (LONGEST_LABEL + 1, false)] {
            assert_eq!(parse(format!("{{\"name\":\"{}\"}}", "é".repeat(length)).as_bytes()).is_ok(), is_valid);
        }
        assert_eq!(parse_query("limit=x&limit=100&other=1").map(|query| query.page.limit), Ok(100));
        let error = parse_query("limit=0&status=done&created_after=today").expect_err("all three are wrong");
        assert_eq!(error.problems.len(), 3, "{}", error.message);
        assert!(parse_query("created_before=2026-01-31T09:30:00%2B01:00&status=running").is_ok());
    }

    fn read(authorization: Option<&str>, body: &str) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"));
        if let Some(text) = authorization {
            let value = format!("Basic {}", STANDARD.encode(text));
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).expect("a header value"));
        }
        let keys = KeyRules { environment: Environment::Sandbox, keys: &section("keys") };
        parse_token_request(&headers, body.as_bytes(), &section("validation"), keys).map_err(|problem| problem.code)
    }

    #[test]
    fn clients_show_a_key_once_and_ask_for_the_one_grant() {
        let key = Ok("sk_test_a".to_owned());
        assert_eq!(read(None, "grant_type=client_credentials&client_id=x&client_secret=sk_test_a"), key);
        assert_eq!(read(Some("x:sk%5Ftest_a"), "grant_type=client_credentials"), key);
        for (basic, body, code) in [
            (Some("x:sk_test_a"), "grant_type=client_credentials&client_secret=sk_test_a", "invalid_request"),
            (None, "client_secret=sk_test_a", "invalid_request"),
            (None, "grant_type=client_credentials&grant_type=x&client_secret=sk_test_a", "invalid_request"),
            (None, "grant_type=password&client_secret=sk_test_a", "unsupported_grant_type"),
            (None, "grant_type=client_credentials", "invalid_client"),
            (None, "grant_type=client_credentials&client_secret=sk_live_a", "invalid_client"),
            (Some("no colon"), "grant_type=client_credentials", "invalid_client"),
        ] {
            assert_eq!(read(basic, body), Err(code), "{basic:?} {body}");
        }
    }
}
