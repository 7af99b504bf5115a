//! `GET requests`, `POST requests/wait`, `GET requests/{id}`, `DELETE requests`: the journal's requests, newest first, and their
//! filters.
//!
//! A waiting call is woken only by requests that may match. It keeps a cursor in the journal and checks each entry once; at the end it
//! looks for the nearest requests that did not match.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::call::{Call, Input, Paging, TIMEOUT, key_or_all, scope, scope_or_all, scope_soon, timeout};
use super::endpoint::{DurationInput, Empty, Integer, KeyField, List, Nothing, Page};
use super::render::{Row, Text, body_text, cell, header_text, optional, table, warnings};
use super::reply::Nearest;
use super::{Control, ControlError};
use crate::contract::error::ErrorKind;
use crate::contract::nearest;
use crate::contract::routes::{Operation, ROUTES, plain_path};
use crate::redact::Redactor;
use crate::state::journal::record::{Answer, Bytes, Connection, Headers, QuotaState, Request, RequestWhole, time};
use crate::state::journal::{Entry, Interest, Journal, Reason, RequestInterest, RequestRecord};
use crate::state::quota::QuotaCheck;

/// Which requests are listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RequestsQuery {
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<u16>", extend("default" = 20)))]
    pub(crate) limit: Option<String>,
    /// The `next_cursor` of another page.
    #[cfg_attr(test, schemars(regex(pattern = "^[0-9]{1,18}$"), extend("examples" = ["41"])))]
    pub(crate) cursor: Option<String>,
    #[cfg_attr(test, schemars(extend("enum" = operation_names())))]
    pub(crate) operation: Option<String>,
    /// 100 to 599, or 0 for a broken connection.
    #[cfg_attr(test, schemars(with = "Option<Status>"))]
    pub(crate) status: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<Since>"))]
    pub(crate) since: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
}

/// Which requests are awaited, and how many.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForRequests {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(extend("enum" = operation_names())))]
    pub(crate) operation: Option<String>,
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<Status>"))]
    pub(crate) status: Option<Integer<u16>>,
    /// 1 if absent.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub(crate) count: Option<Integer<usize>>,
    /// If absent, requests already in the journal count as well.
    #[cfg_attr(test, schemars(with = "Option<Since>"))]
    pub(crate) since: Option<String>,
    /// 10s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The status of an answer, or 0 for a broken connection.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Status(
    #[cfg_attr(test, schemars(extend("maximum" = 599, "not" = { "minimum": 1, "maximum": 99 }, "examples" = [200])))]
    u16,
);

/// `now`, or the time from which requests count.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct Since(
    #[cfg_attr(test, schemars(extend("anyOf" = [{ "const": "now" }, { "format": "date-time" }])))] String,
);

/// The journal was cleared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Cleared {
    #[cfg_attr(test, schemars(extend("const" = true)))]
    pub(crate) cleared: bool,
}

impl Request {
    /// The columns of a listing, and with spaces between them a line of the event stream.
    pub(crate) fn columns(&self) -> [String; 7] {
        let status = self.broken.clone().unwrap_or_else(|| self.status.to_string());
        let key = optional(self.key.as_ref());
        [cell(&self.id), cell(&self.at), key, status, cell(&self.method), cell(&self.path), cell(&self.reason)]
    }
}

impl Row for Request {
    fn table(rows: &[Self]) -> String {
        table(["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], rows.iter().map(Self::columns))
    }
}

/// A request and its answer, as on the wire.
impl Text for RequestWhole {
    fn text(&self) -> String {
        let (row, answer) = (&self.row, &self.answer);
        let [id, at, key, status, method, _, reason] = row.columns();
        format!(
            "{method} {}\n{}\n{}\n\n{status}\n{}\n{}\n\nat {at}, {} ms, key {key}, reason {reason}\n{}{}\
             wrs-emulator explain {id} shows why\n",
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
    fn text(&self) -> String {
        "the journal is cleared\n".to_owned()
    }
}

/// The operations of the emulated API.
#[cfg(test)]
fn operation_names() -> Vec<&'static str> {
    crate::contract::routes::ROUTES.iter().map(|route| route.operation.name()).collect()
}

pub(super) fn list(control: &Control, input: &Input<RequestsQuery>) -> Result<Page<Request>, ControlError> {
    let query = &input.query;
    let scope = scope_or_all(control, input)?;
    let page = Paging::read(query.limit.as_deref(), query.cursor.as_deref())?;
    let status = query
        .status
        .as_deref()
        .map(|text| text.parse::<u16>().map_err(|_| ControlError::unexpected("status", "a number such as 422", text)));
    let filter =
        Filter::read(query.operation.as_deref(), status.transpose()?, query.since.as_deref(), &control.journal)?;
    let filter = Filter { method: query.method.as_deref(), path: query.path.as_deref(), ..filter };
    let rows = control.journal.search(page.before, page.limit + 1, |number, entry| match entry {
        Entry::Request(request)
            if scope.covers_request(request, &input.profile.keys) && filter.differs(number, request).is_empty() =>
        {
            Some((number, row(request, input.redactor())))
        }
        _ => None,
    });
    Ok(page.wrap(rows))
}

/// Waits until `count` requests match: 200 with them, or on timeout 408 with the nearest ones and what differs.
pub(super) async fn wait(
    control: Arc<Control>,
    input: Arc<Input<Nothing, WaitForRequests>>,
) -> Result<List<Request>, ControlError> {
    let body = &input.body;
    let scope = scope_soon(&control, key_or_all(&input)?).await?;
    let limit = timeout(body.timeout.as_ref(), TIMEOUT)?;
    let count = checked_count(body.count)?;
    let status = body.status.map(|Integer(status)| status);
    let filter = Filter::read(body.operation.as_deref(), status, body.since.as_deref(), &control.journal)?;
    let filter = Filter { method: body.method.as_deref(), path: body.path.as_deref(), ..filter };
    let reader = control.journal.reader(Interest::Requests(filter.interest(scope.key())));
    let (mut next, mut found) = (filter.first, Vec::new());
    let mut look = || {
        for (number, entry) in control.journal.read(next, usize::MAX) {
            next = number + 1;
            if let Entry::Request(request) = entry
                && scope.covers_request(&request, &input.profile.keys)
                && filter.differs(number, &request).is_empty()
            {
                found.push(request);
            }
        }
        found.len() >= count
    };
    let enough = async {
        while !look() {
            reader.appended().await;
        }
    };
    if tokio::time::timeout(limit, enough).await.is_ok() {
        return Ok(List { data: found.iter().take(count).map(|request| row(request, input.redactor())).collect() });
    }
    // Of equally near requests, the newest comes first.
    let mut others = control.journal.search(None, usize::MAX, |number, entry| match entry {
        Entry::Request(request) if number >= filter.first && scope.covers_request(request, &input.profile.keys) => {
            Some((filter.differs(number, request), Arc::clone(request)))
        }
        _ => None,
    });
    others.retain(|(differs, _)| !differs.is_empty());
    others.sort_by_key(|(differs, _)| differs.len());
    let nearest = others.into_iter().take(5).map(|(differs, request)| Nearest {
        request: Some(row(&request, input.redactor())),
        delivery: None,
        differs,
    });
    let message = format!("{} of {count} requests matched within {} s", found.len(), limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).with(|error| error.nearest = Some(nearest.collect())))
}

pub(super) fn show(control: &Control, input: &Input) -> Result<RequestWhole, ControlError> {
    let request = find(control, input, &input.segment)?;
    Ok(whole(&request, input.redactor()))
}

pub(super) fn clear(control: &Control, input: &Input<Nothing, Empty>) -> Result<Cleared, ControlError> {
    match scope(control, input)?.key() {
        Some(cleared) => control.journal.clear(|entry| entry.is_of(&cleared, &input.profile.keys)),
        None => control.journal.clear_all(),
    }
    Ok(Cleared { cleared: true })
}

/// The request with this id, if it belongs to the key that the call names, or the call names none.
pub(super) fn find(control: &Control, call: &Call, id: &str) -> Result<Arc<RequestRecord>, ControlError> {
    let scope = scope_or_all(control, call)?;
    let found = control.journal.search(None, 1, |_, entry| match entry {
        Entry::Request(request)
            if request.transcript.id() == id && scope.covers_request(request, &call.profile.keys) =>
        {
            Some(Arc::clone(request))
        }
        _ => None,
    });
    found.into_iter().next().ok_or_else(|| {
        let evicted = control.journal.fill().evicted;
        let hint = if evicted > 0 { format!("; {evicted} older entries were evicted") } else { String::new() };
        let whose = scope.of_this_key();
        ControlError::not_found(format!("there is no request `{}`{whose} in the journal{hint}", id.escape_debug()))
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
    }
}

/// Most characters of an error's message in a row.
const MAX_MESSAGE: usize = 240;

/// The message of the error that was answered: in the envelope, or as OAuth has it.
fn error_message(request: &RequestRecord) -> Option<String> {
    #[derive(Deserialize)]
    struct Answered<'a> {
        #[serde(borrow)]
        error: Option<&'a RawValue>,
        error_description: Option<String>,
    }
    #[derive(Deserialize)]
    struct Envelope {
        message: String,
    }
    if request.status < 400 {
        return None;
    }
    let Answered { error, error_description } = serde_json::from_slice(request.transcript.answer_body()).ok()?;
    let message = error_description
        .or_else(|| serde_json::from_str::<Envelope>(error?.get()).ok().map(|envelope| envelope.message))?;
    Some(message.chars().take(MAX_MESSAGE).collect())
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
        answer: Answer {
            status: request.status,
            headers: shown_headers(redactor, request.transcript.answer_headers()),
            body: answer_body(request, redactor),
        },
        quota: request.quota.as_ref().map(quota),
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
    if request.operation == Some(Operation::OauthToken) && !sent.is_empty() {
        return Bytes::Text("… (not shown: it contains a client's secret)".to_owned());
    }
    let may_hold_secret = || sent.windows(6).any(|window| window.eq_ignore_ascii_case(b"secret"));
    let is_object = || serde_json::from_slice::<Map<String, Value>>(sent).is_ok();
    if request.operation == Some(Operation::EventsSubscribe) && may_hold_secret() && !is_object() {
        return Bytes::Text("… (not shown: it is not a JSON object and may contain a secret)".to_owned());
    }
    shown_body(redactor, sent)
}

/// The answer's body; a secret that it carried was shown once, to the client, and is not shown again.
fn answer_body(request: &RequestRecord, redactor: Redactor<'_>) -> Bytes {
    let issued = request.operation == Some(Operation::OauthToken) && request.status == 200;
    let hides = issued || matches!(request.reason, Reason::Subscribed { .. });
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
        Reason::Announced(_) => "announced",
        Reason::MethodNotAllowed(_) => "method_not_allowed",
        Reason::Refused(kind, _) => kind.name(),
        Reason::Scripted => "scripted",
        Reason::Panicked(_) => "panicked",
    }
}

/// The filters of a call; `None` matches everything.
#[derive(Debug)]
struct Filter<'a> {
    operation: Option<Operation>,
    status: Option<u16>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    since: Option<Timestamp>,
    /// The journal number from which requests match, for `now`: with a frozen clock, time could not separate requests before and after
    /// the call.
    first: u64,
}

impl Filter<'_> {
    /// Reads what filters have in common in a query and in a body; `now` means the end of this journal.
    fn read(
        operation: Option<&str>,
        status: Option<u16>,
        since: Option<&str>,
        journal: &Journal,
    ) -> Result<Self, ControlError> {
        let operation = operation.map(operation_named).transpose().map_err(ControlError::invalid)?;
        if let Some(status) = status.filter(|status| *status != 0 && !(100..=599).contains(status)) {
            let message = format!("status: expected 100 to 599, or 0 for a broken connection, found {status}");
            return Err(ControlError::invalid(message));
        }
        let first = if since == Some("now") { journal.next_number() } else { 0 };
        let since = since.filter(|since| *since != "now").map(|text| {
            let expected = "`now` or a timestamp such as 2026-01-31T09:30:00Z";
            text.parse().map_err(|_| ControlError::unexpected("since", expected, text))
        });
        Ok(Self { operation, status, method: None, path: None, since: since.transpose()?, first })
    }

    /// What the journal needs to know so that requests that cannot match wake no waiter.
    fn interest(&self, workspace: Option<Arc<str>>) -> RequestInterest {
        RequestInterest {
            workspace,
            operation: self.operation,
            status: self.status,
            path: self.path.map(str::to_owned),
        }
    }

    /// The fields of a request that differ, in words; empty if it matches.
    fn differs(&self, number: u64, request: &RequestRecord) -> Vec<String> {
        let mut differs = Vec::new();
        let mut push = |field: &str, expected: &str, found: &str| {
            differs.push(format!("{field}: expected {expected}, found {}", found.escape_debug()));
        };
        let (method, target) = request.transcript.request_line();
        if let Some(operation) = self.operation.filter(|operation| request.operation != Some(*operation)) {
            push("operation", operation.name(), request.operation.map_or("none", Operation::name));
        }
        if let Some(expected) = self.method.filter(|expected| !method.eq_ignore_ascii_case(expected)) {
            push("method", expected, method);
        }
        let path = plain_path(target.split('?').next().unwrap_or_default());
        if let Some(expected) = self.path.filter(|expected| path != plain_path(expected)) {
            push("path", expected, &path);
        }
        if let Some(expected) = self.status.filter(|expected| request.status != *expected) {
            push("status", &expected.to_string(), &request.status.to_string());
        }
        if let Some(since) = self.since.filter(|since| request.at < *since) {
            push("since", &time(since).0, &time(request.at).0);
        }
        if number < self.first {
            push("since", "after the call", &time(request.at).0);
        }
        differs
    }
}

/// An operation by its name. An unknown one is refused, because it would silently match nothing.
pub(crate) fn operation_named(name: &str) -> Result<Operation, String> {
    Operation::from_name(name).ok_or_else(|| {
        let hint = match nearest(name, ROUTES.iter().map(|route| route.operation.name())) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; for example `{}`", Operation::SystemStatus.name()),
        };
        format!("operation: there is no `{}`{hint}", name.escape_debug())
    })
}

/// A count that a call waits for.
pub(super) fn checked_count(count: Option<Integer<usize>>) -> Result<usize, ControlError> {
    /// The default size of the journal.
    const MAX: usize = 10_000;
    match count.map_or(1, |Integer(count)| count) {
        count @ 1..=MAX => Ok(count),
        count => Err(ControlError::invalid(format!("count: expected 1 to {MAX}, found {count}"))),
    }
}
