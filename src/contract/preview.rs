//! The announced endpoints, workflows, users and OAuth 2.0 client credentials: wire types and their validation, as pure functions.
//! The contract shows none of it; every shape here is assumed and served only with the setting `preview.enabled`.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::form_urlencoded;

use crate::contract::error::{Error, ErrorKind, FieldProblem};
use crate::contract::keys::{KeyRules, MAX_KEY, check_key};
use crate::contract::named::named;
use crate::contract::rules::{
    ContentTypeRule, Problems, Query, Validation, is_media_type, json_type, parse_object, quoted,
};
use crate::contract::setting::settings;
use crate::util::duration::DurationText;

/// Longest name or reference, in characters.
pub const MAX_LABEL: usize = 256;

settings! {
    /// The announced endpoints.
    pub struct Preview {
        /// True if they are served, in shapes that are wholly assumed (`--preview`).
        pub enabled: bool = false {
            contract: "workflows, users and OAuth are announced; methods and payloads are not shown",
            assumed: "not served: 404; with --preview in assumed shapes",
            observed_by: "GET /v1/workflows",
        },
        /// Entries of a page unless `limit` says otherwise.
        pub page_size: NonZeroU32 = 20 {
            contract: "a resource list is announced; paging is not shown",
            assumed: "20 entries",
            observed_by: "not by calls: a list longer than a page would be needed",
        },
        /// The most entries that `limit` may ask for.
        pub page_limit: NonZeroU32 = 100 {
            contract: "a resource list is announced; paging is not shown",
            assumed: "at most 100",
            values: "an integer from 1 to 4294967295, such as 20",
            observed_by: "not by calls: a long list would be needed",
        },
        /// How long a created workflow runs, by the workspace's clock.
        pub run_time: DurationText = "5s" {
            contract: "workflow.completed exists; when a workflow completes is not shown",
            assumed: "5 seconds after it was created",
            observed_by: "not by calls: a workflow would have to be created",
        },
    }
}

named! {
    /// The status of a workflow. The contract shows only `completed`.
    #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workflow {
    /// Form `wf_<id>`.
    #[schemars(regex(pattern = r"^wf_.*$"))]
    pub id: String,
    /// A label; null when it has none.
    pub name: Option<String>,
    /// Its status.
    pub status: WorkflowStatus,
    /// The reference that it is about; null when it has none.
    pub reference: Option<String>,
    /// ISO 8601 UTC timestamp.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// ISO 8601 UTC timestamp of the last change; completion counts as one.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}

/// The body of `POST /v1/workflows` or `PATCH /v1/workflows/{id}`: each field is absent, null or a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WorkflowFields {
    /// A label.
    #[schemars(with = "Option<String>", length(min = 1, max = MAX_LABEL), extend("examples" = ["Nightly import"]))]
    pub name: Option<Option<String>>,
    /// The reference that it is about.
    #[schemars(with = "Option<String>", length(min = 1, max = MAX_LABEL), extend("examples" = ["ref-42"]))]
    pub reference: Option<Option<String>>,
}

pub fn parse_workflow(body: &[u8], validation: &Validation, malformed_status: u16) -> Result<WorkflowFields, Error> {
    let fields = parse_object(body, malformed_status)?;
    let mut problems = Problems::default();
    let mut read = |name: &str| fields.get(name).and_then(|value| problems.take(name, label(value)));
    let checked = WorkflowFields { name: read("name"), reference: read("reference") };
    let names = fields.keys().map(String::as_str);
    problems.check_names(names, &["name", "reference"], validation, "is not a known field");
    problems.finish(Some(checked))
}

fn label(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.is_empty() => Err("must not be empty".to_owned()),
        Value::String(text) if text.chars().nth(MAX_LABEL).is_some() => {
            Err(format!("must have at most {MAX_LABEL} characters"))
        }
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(format!("must be a string, found {}", json_type(other))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct Page {
    /// The most entries of the page.
    #[schemars(range(min = 1))]
    pub limit: usize,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct WorkflowQuery {
    #[schemars(flatten)]
    pub page: Page,
    /// Only workflows with this status.
    #[schemars(with = "WorkflowStatus")]
    pub status: Option<WorkflowStatus>,
    /// Only workflows created later.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_after: Option<Timestamp>,
    /// Only workflows created earlier.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created_before: Option<Timestamp>,
}

/// A page of a list as it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listing<T> {
    pub data: Vec<T>,
    pub has_more: bool,
    pub next_cursor: Option<String>,
}

pub fn parse_workflow_query(
    query: Option<&str>,
    validation: &Validation,
    preview: &Preview,
) -> Result<WorkflowQuery, Error> {
    let mut query = Query::read(query);
    let status = query.take("status", |text| {
        WorkflowStatus::from_name(text)
            .ok_or_else(|| format!("must be running, completed or cancelled, found {}", quoted(text)))
    });
    let instant = |text: &str| {
        text.parse::<Timestamp>().map_err(|_| format!("must be an ISO 8601 timestamp, found {}", quoted(text)))
    };
    let (created_after, created_before) = (query.take("created_after", instant), query.take("created_before", instant));
    let page = page(&mut query, preview);
    let known = ["limit", "cursor", "status", "created_after", "created_before"];
    query.finish(&known, validation, WorkflowQuery { page, status, created_after, created_before })
}

pub fn parse_user_query(query: Option<&str>, validation: &Validation, preview: &Preview) -> Result<Page, Error> {
    let mut query = Query::read(query);
    let page = page(&mut query, preview);
    query.finish(&["limit", "cursor"], validation, page)
}

fn page(query: &mut Query<'_>, preview: &Preview) -> Page {
    let most = preview.page_limit.get();
    let limit = query.take("limit", |text| match text.parse::<u32>() {
        Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(format!("must be a number from 1 to {most}, found {}", quoted(text))),
    });
    let limit = limit.unwrap_or(preview.page_size.get().min(most));
    Page {
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        cursor: query.take("cursor", |text| Ok(text.to_owned())),
    }
}

pub fn bad_cursor(cursor: &str) -> Error {
    let reason = format!("must be the next_cursor of another page, found {}", quoted(cursor));
    Error::validation(vec![FieldProblem::new("cursor", reason)])
}

settings! {
    /// OAuth 2.0 client credentials, part of the preview.
    pub struct Oauth {
        /// How long an access token is valid, by the emulator's clock.
        pub token_lifetime: DurationText = "1h" {
            contract: "OAuth 2.0 client credentials are announced; token lifetimes are not shown",
            assumed: "1 hour",
            observed_by: "not by calls: a token would have to be issued",
        },
        /// The form of the token endpoint's errors.
        pub error_shape: OauthErrorShape = "rfc6749" {
            contract: "OAuth 2.0 client credentials are announced; their endpoints are not shown",
            assumed: "errors of the token endpoint follow RFC 6749",
            observed_by: "a token request without credentials, if workflows are served",
        },
    }
}

/// The form of the token endpoint's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OauthErrorShape {
    /// `{error, error_description}`.
    Rfc6749,
    /// The envelope of every other error.
    Envelope,
}

/// An access token as it is answered (RFC 6749 §5.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Token<'t> {
    pub access_token: &'t str,
    #[schemars(extend("enum" = ["Bearer"]))]
    pub token_type: &'static str,
    /// Seconds.
    pub expires_in: u64,
}

/// Why no token was issued (RFC 6749 §5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "OauthError")]
pub struct OauthProblem {
    #[schemars(extend("enum" = ["invalid_request", "invalid_client", "unsupported_grant_type"]))]
    #[serde(rename = "error")]
    pub code: &'static str,
    #[serde(rename = "error_description")]
    pub text: &'static str,
}

impl OauthProblem {
    const fn client(text: &'static str) -> Self {
        Self { code: "invalid_client", text }
    }

    pub fn error(&self) -> Error {
        let is_client = self.code == "invalid_client";
        Error::new(if is_client { ErrorKind::Unauthorized } else { ErrorKind::ValidationError }, self.text)
    }

    /// The status, and the body in the form of the RFC; `None` where the shape is the API's own envelope.
    pub fn body(&self, shape: OauthErrorShape) -> Option<(u16, &Self)> {
        let status = if self.code == "invalid_client" { 401 } else { 400 };
        (shape == OauthErrorShape::Rfc6749).then_some((status, self))
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
    let is_text = key.len() <= MAX_KEY && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_text || check_key(&key, keys).is_err() {
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
