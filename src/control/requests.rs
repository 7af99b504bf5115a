//! `GET requests`, `POST requests/wait`, `GET requests/{id}`, `DELETE requests`: the journal's requests, newest first.
//!
//! A call that waits is woken by what may fit, and by nothing else. It keeps a cursor of its own in the journal and looks at
//! each entry once: when it was woken, and at the end for the nearest of what did not fit.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::call::KeyField;
use super::duration::timeout;
use super::filter::{Filter, FilterText, checked_count};
use super::paging::Page;
use super::scope::{Scope, scope, scope_or_all};
use super::view::{request_row, request_whole};
use super::whole::Whole;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::error::ErrorKind;
use crate::journal::{Entry, Lookout, RequestRecord};

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["limit", "cursor", "operation", "status", "since", "method", "path"])?;
    let scope = scope(control, call)?;
    let page = Page::read(call)?;
    let status = match call.query("status") {
        None => None,
        Some(text) => Some(text.parse::<u16>().map_err(|_| {
            ControlError::invalid(format!("status: expected a number such as 422, found `{}`", text.escape_debug()))
        })?),
    };
    let text = FilterText {
        operation: call.query("operation"),
        status,
        method: call.query("method"),
        path: call.query("path"),
        since: call.query("since"),
    };
    let filter = Filter::read(text, &control.journal)?;
    let rows = control.journal.search(page.before, page.limit + 1, |number, entry| match entry {
        Entry::Request(request) if is_of(&scope, request) && filter.fits(number, request) => {
            Some((number, request_row(request, call.redactor())))
        }
        _ => None,
    });
    Ok(ok(page.wrap(rows)))
}

/// Whether a request belongs to whom the call means.
fn is_of(scope: &Scope, request: &RequestRecord) -> bool {
    scope.covers(request.workspace.as_ref().map(|workspace| workspace.name()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    #[serde(default, rename = "key")]
    _key: KeyField,
    operation: Option<String>,
    method: Option<String>,
    path: Option<String>,
    status: Option<Whole<u16>>,
    count: Option<Whole<usize>>,
    /// `now` or a timestamp; left out, what the journal holds already counts.
    since: Option<String>,
    timeout: Option<String>,
}

/// Waits until `count` requests fit: 200 with them, or 408 with the nearest ones and what differed.
pub(super) async fn wait(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Wait = call.json()?;
    let scope = scope(control, call)?;
    let limit = timeout(wish.timeout.as_deref(), "10s")?;
    let count = checked_count(wish.count)?;
    let text = FilterText {
        operation: wish.operation,
        status: wish.status.map(|Whole(status)| status),
        method: wish.method,
        path: wish.path,
        since: wish.since,
    };
    let filter = Filter::read(text, &control.journal)?;
    let workspace = match &scope {
        Scope::All => None,
        Scope::One(workspace) => Some(&**workspace.name()),
    };
    let lookout = control.journal.lookout(filter.interest(workspace));
    let mut search = Search { scope, next: filter.first_number(), filter, found: Vec::new(), nearest: Vec::new() };
    let enough = tokio::time::timeout(limit, search.until(count, &lookout)).await.is_ok();
    // What came meanwhile woke nobody, and may be near.
    if enough || search.catch_up(count, &lookout).await {
        let rows: Vec<_> = search.found.iter().map(|request| request_row(request, call.redactor())).collect();
        return Ok(ok(json!({ "data": rows })));
    }
    let nearest: Value = search
        .nearest
        .iter()
        .map(|(differs, request)| json!({ "request": request_row(request, call.redactor()), "differs": differs }))
        .collect();
    let message = format!("{} of {count} requests fitted within {} s", search.found.len(), limit.as_secs_f64());
    Err(ControlError::new(ErrorKind::RequestTimeout, message).beside("nearest", nearest))
}

/// A look-out over the journal: each entry is looked at once, as it comes.
struct Search {
    scope: Scope,
    filter: Filter,
    /// The number of the next entry to look at.
    next: u64,
    found: Vec<Arc<RequestRecord>>,
    /// The best of those that do not fit, with what differs.
    nearest: Vec<(Vec<String>, Arc<RequestRecord>)>,
}

impl Search {
    /// Returns when `count` requests were found; until then it sleeps between those that may fit.
    async fn until(&mut self, count: usize, lookout: &Lookout) {
        while !self.catch_up(count, lookout).await {
            lookout.told().await;
        }
    }

    /// Looks at what the journal has and was not looked at yet, as far as needed; whether `count` requests were found.
    async fn catch_up(&mut self, count: usize, lookout: &Lookout) -> bool {
        /// Most entries looked at before others get their turn.
        const PIECE: usize = 256;
        // What comes meanwhile wakes by itself if it may fit; else a busy journal would never be caught up with.
        let end = lookout.journal().next_number();
        while self.next < end {
            let entries = lookout.journal().read(self.next, PIECE);
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
        if self.filter.fits(number, request) {
            self.found.push(Arc::clone(request));
            return;
        }
        let differs = self.filter.differs(number, request);
        // Of those equally near the newest is the most telling.
        let place = self.nearest.partition_point(|(known, _)| known.len() < differs.len());
        self.nearest.insert(place, (differs, Arc::clone(request)));
        self.nearest.truncate(5);
    }
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let request = find(control, call, &call.segment)?;
    Ok(ok(request_whole(&request, call.redactor())))
}

pub(super) fn clear(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    call.no_body()?;
    match scope(control, call)? {
        Scope::All => control.journal.clear(None),
        Scope::One(workspace) => control.journal.clear(Some(workspace.name())),
    }
    Ok(ok(json!({ "cleared": true })))
}

/// The request with this id, unless the call names a key that it is not of.
pub(super) fn find(control: &Control, call: &Call, id: &str) -> Result<Arc<RequestRecord>, ControlError> {
    let scope = scope_or_all(control, call)?;
    let found = control.journal.search(None, 1, |_, entry| match entry {
        Entry::Request(request) if request.transcript.id() == id && is_of(&scope, request) => Some(Arc::clone(request)),
        _ => None,
    });
    found.into_iter().next().ok_or_else(|| {
        let evicted = control.journal.fill().evicted;
        let hint = if evicted > 0 { format!("; {evicted} older entries have left the journal") } else { String::new() };
        let owner = scope.owner();
        ControlError::not_found(format!("there is no request `{}`{owner} in the journal{hint}", id.escape_debug()))
    })
}
