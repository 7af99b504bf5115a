//! `GET requests`, `GET requests/{id}`, `DELETE requests`: the journal's requests, newest first.

use std::borrow::Cow;
use std::sync::Arc;

use clap::{Args, value_parser};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ControlError;
use super::call::{Body, Call, ControlCall, Query, Tag};
use super::command::CallCommand;
use super::context::{Context, KeyScope, Paging, RECENT};
use super::fields::{KeyFilter, KeyOrSample, NoFields, Page, Since};
use super::render::{TableRow, Text, body_text, cell, header_text, optional, table, warnings};
use super::request_filter::{AnswerStatus, RequestFilter, operation_names};
use crate::advice::{Advice, Audience};
use crate::contract::routes::{Operation, plain_path};
use crate::redact::Redactor;
use crate::state::journal::record::{AnswerView, Bytes, Connection, Headers, QuotaState, Request, RequestWhole, time};
use crate::state::journal::{Entry, Reason, RequestRecord};
use crate::state::quota::QuotaCheck;
use crate::util::wording::{quoted, shorten};

/// List requests, newest first.
///
/// A page of the journal. Each parameter narrows the list; pass `next_cursor` as `cursor` for the next page.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ListRequests {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
    /// Only this operation, such as system.status.
    #[arg(long)]
    #[schemars(extend("enum" = operation_names()))]
    pub(crate) operation: Option<String>,
    /// Only answers with this status; 0 is a broken connection.
    #[arg(long, value_parser = value_parser!(u16).range(0..=599))]
    #[schemars(with = "Option<AnswerStatus>")]
    pub(crate) status: Option<u16>,
    /// Only this method.
    #[arg(long)]
    pub(crate) method: Option<String>,
    /// Only this path.
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only from this time on: a timestamp, or `now`.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// At most this many; fewer if they are large.
    #[arg(long, default_value = "20", value_parser = value_parser!(u16).range(1..=1000))]
    #[schemars(range(min = 1, max = 1000), extend("default" = 20))]
    pub(crate) limit: Option<u16>,
    /// Continue after another page: its `next_cursor`.
    #[arg(long)]
    #[schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"]))]
    pub(crate) cursor: Option<String>,
}

impl ControlCall for Query<ListRequests> {
    type Answer = Page<Request>;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::REQUESTS, "GET requests", list)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &[
            "requests list --operation events.subscribe --status 422",
            "requests list --key sk_test_mine --limit 100 --json",
            "requests list --follow",
        ];
        let group = &["requests --status 404", "requests show req_01k...", "requests export --har requests.har"];
        let command = CallCommand::new("requests list", examples, |query| Self { query }.sent()).follows("request");
        vec![command.leads("List, show, wait for and export requests", group)]
    }
}

/// Show one request and its answer in full.
///
/// The request with its headers and body, the answer with its own, and the rule that decided; with `warnings` where a template named an
/// absent or unusable part.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ShowRequest {
    #[command(flatten)]
    pub(crate) path: RequestPath,
    #[command(flatten)]
    pub(crate) query: NoFields,
}

#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct RequestPath {
    /// Its id.
    #[schemars(length(min = 1), extend("examples" = ["req_01kg9tbs8075j3q2a1zqxhg4v6"]))]
    pub(crate) id: String,
}

impl ControlCall for ShowRequest {
    type Answer = RequestWhole;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::REQUESTS, "GET requests/{id}", |Self { path, query }, cx| {
            Ok(whole(&*find(cx, &query.key.scope(&cx.engine)?, &path.id)?, cx.redactor()))
        })
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &["requests show req_01k...", "requests show req_01k... --json"];
        vec![CallCommand::new("requests show", examples, |request: Self| request.sent())]
    }
}

/// Clear the journal.
///
/// Deletes the requests of the key, or with `*` all of them.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClearRequests {
    #[serde(default)]
    pub(crate) key: KeyOrSample,
}

impl ControlCall for Body<ClearRequests> {
    type Answer = Cleared;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::REQUESTS, "DELETE requests", clear)
    }
}

/// The journal was cleared.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Cleared {
    #[schemars(extend("const" = true))]
    pub(crate) cleared: bool,
}

impl Request {
    /// The columns of a listing, and with spaces between them a line of the event stream.
    pub(crate) fn columns(&self) -> [String; 7] {
        let status = self.status_text();
        let key = optional(self.key.as_ref());
        [cell(&self.id), cell(&self.at), key, status, cell(&self.method), cell(&self.path), cell(&self.reason)]
    }
}

impl TableRow for Request {
    fn table(rows: &[Self]) -> String {
        table(["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], rows.iter().map(Self::columns))
    }
}

/// A request and its answer, as on the wire.
impl Text for RequestWhole {
    fn text(&self, reader: &Audience) -> String {
        let (row, answer) = (&self.row, &self.answer);
        let [id, at, key, status, method, _, reason] = row.columns();
        // An agent reads it below the explanation.
        let explain = match reader {
            Audience::Agent { .. } => String::new(),
            _ => format!("{}\n", reader.look(&Advice::explain(id))),
        };
        format!(
            "{method} {}\n{}\n{}\n\n{status}\n{}\n{}\n\nat {at}, {} ms, key {key}, reason {reason}\n{}{}\
             {explain}",
            cell(row.target()),
            header_text(&self.headers),
            body_text(&self.body),
            header_text(&answer.headers),
            body_text(&answer.body),
            row.latency_ms,
            self.connection.as_ref().map(Connection::line).unwrap_or_default(),
            warnings(&self.warnings),
        )
    }
}

impl Connection {
    fn line(&self) -> String {
        let begun = match &self.first_byte_at {
            Some(at) => format!("first byte at {at}"),
            None => "sent together with the request before it".to_owned(),
        };
        let answered = self.answered_at.as_ref();
        let answered = answered.map_or_else(|| "answer not written".to_owned(), |at| format!("answered at {at}"));
        format!("request {} on connection {}: {begun}, {answered}\n", self.sequence, self.number)
    }
}

impl Text for Cleared {
    fn text(&self, _: &Audience) -> String {
        "the journal is cleared\n".to_owned()
    }
}

fn list(Query { query: request }: Query<ListRequests>, cx: &Context) -> Result<Page<Request>, ControlError> {
    let scope = request.key.scope(&cx.engine)?;
    let page = Paging::read(request.limit, RECENT, request.cursor.as_deref())?;
    let ListRequests { operation, status, since, method, path, .. } = &request;
    let filter = RequestFilter::read(operation.as_deref(), *status, since.as_ref(), &cx.engine.journal)?;
    let filter = filter.of_target(method.as_deref(), path.as_deref());
    let found = cx.engine.journal.search(page.after, page.limit + 1, |number, entry| match entry {
        Entry::Request(request)
            if scope.covers_request(request, &cx.profile.keys) && filter.differs(number, request).is_empty() =>
        {
            Some((number, Arc::clone(request)))
        }
        _ => None,
    });
    Ok(page.page(found, |request| row(&request, cx.redactor())))
}

fn clear(Body { body: request }: Body<ClearRequests>, cx: &Context) -> Result<Cleared, ControlError> {
    match request.key.scope(&cx.engine)?.key() {
        Some(cleared) => cx.engine.journal.clear(|entry| entry.is_of(&cleared, &cx.profile.keys)),
        None => cx.engine.journal.clear_all(),
    }
    Ok(Cleared { cleared: true })
}

/// The request with this id, if it belongs to the key that the call names, or the call names none.
pub(super) fn find(cx: &Context, scope: &KeyScope, id: &str) -> Result<Arc<RequestRecord>, ControlError> {
    let found = cx.engine.journal.search(None, 1, |_, entry| match entry {
        Entry::Request(request) if request.transcript.id() == id && scope.covers_request(request, &cx.profile.keys) => {
            Some(Arc::clone(request))
        }
        _ => None,
    });
    found.into_iter().next().ok_or_else(|| {
        let evicted = cx.engine.journal.fill().evicted;
        let hint = if evicted > 0 { format!("; {evicted} older entries were evicted") } else { String::new() };
        let whose = scope.of_this_key();
        ControlError::not_found(format!("there is no request `{}`{whose} in the journal{hint}", quoted(id)))
    })
}

pub(super) fn row(request: &RequestRecord, redactor: Redactor<'_>) -> Request {
    let (method, target) = request.transcript.request_line();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    Request {
        id: request.transcript.id().into(),
        at: time(request.at),
        workspace: request.workspace.as_ref().map(|workspace| workspace.id().into()),
        key: request.carried_key(redactor.key_settings()).map(|key| redactor.key(&key).into_owned()),
        method: method.to_owned(),
        path: redactor.text(&plain_path(path)).into_owned(),
        query: query.map(|query| redactor.text(query).into_owned()),
        operation: request.operation.map(|operation| operation.name().to_owned()),
        status: request.status,
        broken: request.broken.map(str::to_owned),
        reason: reason_name(&request.reason).to_owned(),
        error: error_message(request).map(|message| redactor.text(&message).into_owned()),
        latency_ms: request.latency.into(),
        generation: request.generation,
        scenario: request.scripted.as_ref().map(|scripted| scripted.scenario.to_string()),
        incidental: request.is_incidental(),
        quota: request.quota.as_ref().map(quota),
    }
}

/// Maximum characters of an error's message in a row.
const MAX_MESSAGE: usize = 240;

/// The message of the error that was answered.
fn error_message(request: &RequestRecord) -> Option<String> {
    #[derive(Deserialize)]
    struct AnsweredError {
        error: ErrorMessage,
    }
    #[derive(Deserialize)]
    struct ErrorMessage {
        message: String,
    }
    if request.status < 400 {
        return None;
    }
    let answered: AnsweredError = serde_json::from_slice(request.transcript.answer_body()).ok()?;
    Some(shorten(&answered.error.message, MAX_MESSAGE).into_owned())
}

pub(super) fn whole(request: &RequestRecord, redactor: Redactor<'_>) -> RequestWhole {
    let arrival = request.arrival;
    let connection = (arrival.connection > 0).then(|| Connection {
        number: arrival.connection,
        sequence: arrival.sequence,
        first_byte_at: arrival.first_byte.map(time),
        answered_at: request.written.at().map(time),
    });
    RequestWhole {
        row: row(request, redactor),
        headers: shown_headers(redactor, request.transcript.headers()),
        body: request_body(request, redactor),
        answer: AnswerView {
            status: request.status,
            headers: shown_headers(redactor, request.transcript.answer_headers()),
            body: answer_body(request, redactor),
        },
        connection,
        warnings: request.warnings.clone(),
    }
}

/// The quota of a key, after a request or at present.
pub(super) fn quota(quota: &QuotaCheck) -> QuotaState {
    QuotaState {
        limit: quota.limit,
        remaining: quota.remaining,
        window_ms: quota.window.into(),
        opens_in_ms: quota.wait.into(),
        resets_in_ms: quota.reset.into(),
    }
}

/// Headers without the credentials in them.
pub(super) fn shown_headers<'h>(
    redactor: Redactor<'_>,
    headers: impl Iterator<Item = (&'h str, Cow<'h, str>)>,
) -> Headers {
    headers.map(|(name, value)| (name.to_owned(), redactor.header(name, &value).into_owned())).collect()
}

/// A body without the credentials in it.
pub(super) fn shown_body(redactor: Redactor<'_>, body: &[u8]) -> Bytes {
    Bytes::from(&*redactor.body(body))
}

/// The request's body. One that is not JSON may contain a signing secret anywhere, so it is hidden.
fn request_body(request: &RequestRecord, redactor: Redactor<'_>) -> Bytes {
    let sent = request.transcript.body();
    let may_hold_secret = || sent.windows(6).any(|window| window.eq_ignore_ascii_case(b"secret"));
    let is_object = || serde_json::from_slice::<Map<String, Value>>(sent).is_ok();
    if request.operation == Some(Operation::EventsSubscribe) && may_hold_secret() && !is_object() {
        return Bytes::Text("… (not shown: it is not a JSON object and may contain a secret)".to_owned());
    }
    shown_body(redactor, sent)
}

/// The answer's body; a secret that it carried was shown once, to the client, and is not shown again.
fn answer_body(request: &RequestRecord, redactor: Redactor<'_>) -> Bytes {
    let hides = matches!(request.reason, Reason::Subscribed { .. });
    match serde_json::from_slice::<Map<String, Value>>(request.transcript.answer_body()) {
        Ok(mut fields) if hides => {
            const PUBLISHED: [&str; 5] = ["id", "url", "events", "status", "created_at"];
            for (name, value) in &mut fields {
                if !PUBLISHED.contains(&name.as_str()) {
                    *value = Value::String("…".to_owned());
                }
            }
            shown_body(redactor, Value::Object(fields).to_string().as_bytes())
        }
        _ => shown_body(redactor, request.transcript.answer_body()),
    }
}

/// The stable name of the reason for an answer.
pub(super) fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::Answered => "answered",
        Reason::Subscribed { created: true, .. } => "subscription_created",
        Reason::Subscribed { created: false, .. } => "subscription_updated",
        Reason::Unauthorized { .. } => "unauthorized",
        Reason::RateLimited => "rate_limited",
        Reason::Invalid(_) => "invalid",
        Reason::NotFound(_) => "not_found",
        Reason::Announced(..) => "announced",
        Reason::MethodNotAllowed(_) => "method_not_allowed",
        Reason::Refused(kind, _) => kind.name(),
        Reason::Scripted => "scripted",
        Reason::Panicked(_) => "panicked",
        Reason::ClientLeft => "client_left",
    }
}
