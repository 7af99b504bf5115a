//! `GET requests`, `POST requests/wait`, `GET requests/{id}`, `DELETE requests`: the journal's requests, newest first.
//!
//! A waiting call is woken only by requests that may match. It keeps a cursor in the journal and checks each entry once: when it is
//! woken, and at the end to find the nearest requests that did not match.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::api::{
    self, Answer, Bytes, Cleared, Connection, Headers, Integer, List, Nearest, Page, QuotaState, Request, RequestWhole,
    WaitForRequests,
};
use super::call::{Call, Input, PATIENCE, Paging, timeout};
use super::filter::{Filter, checked_count};
use super::scope::{Scope, scope, scope_or_all};
use super::{Control, ControlError};
use crate::contract::error::ErrorKind;
use crate::contract::routes::Operation;
use crate::redact::Redactor;
use crate::state::journal::{Entry, Reason, RequestRecord, Waiter};
use crate::state::quota::QuotaCheck;

pub(super) fn list(control: &Control, input: &Input<api::ListRequests>) -> Result<Page<Request>, ControlError> {
    let query = &input.query;
    let scope = scope(control, input)?;
    let page = Paging::read(query.limit.as_deref(), query.cursor.as_deref())?;
    let status = query.status.as_deref().map(|text| {
        text.parse::<u16>().map_err(|_| {
            ControlError::invalid(format!("status: expected a number such as 422, found `{}`", text.escape_debug()))
        })
    });
    let filters = WaitForRequests {
        operation: query.operation.clone(),
        status: status.transpose()?.map(Integer),
        method: query.method.clone(),
        path: query.path.clone(),
        since: query.since.clone(),
        ..WaitForRequests::default()
    };
    let filter = Filter::read(&filters, &control.journal)?;
    let rows = control.journal.search(page.before, page.limit + 1, |number, entry| match entry {
        Entry::Request(request) if is_of(&scope, request) && filter.differs(number, request).is_empty() => {
            Some((number, row(request, input.redactor())))
        }
        _ => None,
    });
    Ok(page.wrap(rows))
}

fn is_of(scope: &Scope, request: &RequestRecord) -> bool {
    scope.covers(request.workspace.as_ref().map(|workspace| workspace.name()))
}

/// Waits until `count` requests match: 200 with them, or on timeout 408 with the nearest ones and what differs.
pub(super) async fn wait(
    control: Arc<Control>,
    input: Arc<Input<api::WaitRequests>>,
) -> Result<List<Request>, ControlError> {
    let body = &input.body;
    let scope = scope(&control, &input)?;
    let limit = timeout(body.timeout.as_ref(), PATIENCE)?;
    let count = checked_count(body.count)?;
    let filter = Filter::read(body, &control.journal)?;
    let waiter = control.journal.waiter(filter.interest(scope.key()));
    let mut search = Search { scope, next: filter.first_number(), filter, found: Vec::new(), nearest: Vec::new() };
    let enough = tokio::time::timeout(limit, search.until(count, &waiter)).await.is_ok();
    // Requests that cannot match did not wake the waiter; the nearest may be among them.
    if enough || search.catch_up(count, &waiter).await {
        return Ok(List { data: search.found.iter().map(|request| row(request, input.redactor())).collect() });
    }
    let nearest = search.nearest.into_iter().map(|(differs, request)| Nearest {
        request: Some(row(&request, input.redactor())),
        delivery: None,
        differs,
    });
    let message = format!("{} of {count} requests matched within {} s", search.found.len(), limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).with(|error| error.nearest = Some(nearest.collect())))
}

/// A search of the journal that checks each entry once, as it is appended.
struct Search<'a> {
    scope: Scope,
    filter: Filter<'a>,
    /// The number of the next entry to look at.
    next: u64,
    found: Vec<Arc<RequestRecord>>,
    /// The nearest of those that do not match, with what differs.
    nearest: Vec<(Vec<String>, Arc<RequestRecord>)>,
}

impl Search<'_> {
    /// Returns when `count` requests were found; sleeps until the next that may match.
    async fn until(&mut self, count: usize, waiter: &Waiter) {
        while !self.catch_up(count, waiter).await {
            waiter.notified().await;
        }
    }

    /// Checks the new entries of the journal; returns whether `count` requests were found.
    async fn catch_up(&mut self, count: usize, waiter: &Waiter) -> bool {
        /// Most entries checked before yielding to other tasks.
        const PIECE: usize = 256;
        // A later entry wakes the waiter if it may match. Without a fixed end, a busy journal would never be caught up with.
        let end = waiter.journal.next_number();
        while self.next < end {
            let entries = waiter.journal.read(self.next, PIECE);
            let Some((last, _)) = entries.last() else { break };
            let last = *last;
            for (number, entry) in &entries {
                self.next = number + 1;
                if let Entry::Request(request) = entry {
                    self.look_at(*number, request);
                }
                if self.found.len() >= count {
                    return true;
                }
            }
            if last + 1 < end {
                tokio::task::yield_now().await;
            }
        }
        false
    }

    fn look_at(&mut self, number: u64, request: &Arc<RequestRecord>) {
        if !is_of(&self.scope, request) {
            return;
        }
        let differs = self.filter.differs(number, request);
        if differs.is_empty() {
            self.found.push(Arc::clone(request));
            return;
        }
        // Of equally near requests, the newest comes first.
        let place = self.nearest.partition_point(|(known, _)| known.len() < differs.len());
        self.nearest.insert(place, (differs, Arc::clone(request)));
        self.nearest.truncate(5);
    }
}

pub(super) fn show(control: &Control, input: &Input<api::ShowRequest>) -> Result<RequestWhole, ControlError> {
    let request = find(control, input, &input.segment)?;
    Ok(whole(&request, input.redactor()))
}

pub(super) fn clear(control: &Control, input: &Input<api::ClearRequests>) -> Result<Cleared, ControlError> {
    match scope(control, input)?.key() {
        Some(cleared) => control.journal.clear(|name| *name == cleared),
        None => control.journal.clear_all(),
    }
    Ok(Cleared { cleared: true })
}

/// The request with this id, if it belongs to the key that the call names, or the call names none.
pub(super) fn find(control: &Control, call: &Call, id: &str) -> Result<Arc<RequestRecord>, ControlError> {
    let scope = scope_or_all(control, call)?;
    let found = control.journal.search(None, 1, |_, entry| match entry {
        Entry::Request(request) if request.transcript.id() == id && is_of(&scope, request) => Some(Arc::clone(request)),
        _ => None,
    });
    found.into_iter().next().ok_or_else(|| {
        let evicted = control.journal.fill().evicted;
        let hint = if evicted > 0 { format!("; {evicted} older entries were evicted") } else { String::new() };
        let owner = scope.owner();
        ControlError::not_found(format!("there is no request `{}`{owner} in the journal{hint}", id.escape_debug()))
    })
}

pub(super) fn row(request: &RequestRecord, redactor: Redactor<'_>) -> Request {
    let (method, target) = request.transcript.request_line();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    Request {
        id: request.transcript.id().into(),
        at: api::time(request.at),
        workspace: request.workspace.as_ref().map(|workspace| workspace.id().into()),
        key: request.key().map(|key| redactor.key(key).into_owned()),
        method: method.to_owned(),
        path: redactor.text(path).into_owned(),
        query: query.map(|query| redactor.text(query).into_owned()),
        operation: request.operation.map(|operation| operation.name().to_owned()),
        status: request.status,
        broken: request.broken.map(str::to_owned),
        reason: reason_name(&request.reason).to_owned(),
        latency_ms: request.latency.into(),
        generation: request.generation,
        scenario: request.scripted.as_ref().map(|scripted| scripted.scenario.to_string()),
    }
}

pub(super) fn whole(request: &RequestRecord, redactor: Redactor<'_>) -> RequestWhole {
    let arrival = request.arrival;
    let connection = (arrival.connection > 0).then(|| Connection {
        number: arrival.connection,
        sequence: arrival.sequence,
        first_byte_at: arrival.first_byte.map(api::time),
        answered_at: request.written.at().map(api::time),
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
