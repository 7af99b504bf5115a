//! `GET requests`, `GET requests/{id}`, `DELETE requests`: the journal's requests, newest first.

use std::sync::Arc;

use serde_json::json;

use super::paging::Page;
use super::scope::{Scope, scope};
use super::view::{request_row, request_whole};
use super::{Call, Control, ControlError, Reply, ok};
use crate::journal::{Entry, RequestRecord};

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key", "limit", "cursor", "operation", "status", "method", "path"])?;
    let scope = scope(control, call.query("key").as_deref())?;
    let page = Page::read(call)?;
    let (operation, method, path) = (call.query("operation"), call.query("method"), call.query("path"));
    let status = match call.query("status") {
        None => None,
        Some(text) => Some(text.parse::<u16>().map_err(|_| {
            ControlError::invalid(format!("status: expected a number such as 422, found `{}`", text.escape_debug()))
        })?),
    };
    let wanted = |request: &RequestRecord| {
        let (known_method, target) = request.transcript.request_line();
        let known_path = target.split('?').next().unwrap_or_default();
        scope.covers(request.workspace.as_ref().map(|workspace| workspace.name()))
            && operation.as_deref().is_none_or(|name| request.operation.is_some_and(|known| known.name() == name))
            && status.is_none_or(|status| request.status == status)
            && method.as_deref().is_none_or(|method| known_method.eq_ignore_ascii_case(method))
            && path.as_deref().is_none_or(|path| known_path == path)
    };
    let rows = control.journal.search(page.before, page.limit + 1, |number, entry| match entry {
        Entry::Request(request) if wanted(request) => Some((number, request_row(request))),
        _ => None,
    });
    Ok(ok(&page.wrap(rows)))
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let request = find(control, &call.segment)?;
    Ok(ok(&request_whole(&request)))
}

pub(super) fn clear(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    match scope(control, call.query("key").as_deref())? {
        Scope::All => control.journal.clear(None),
        Scope::One(workspace) => control.journal.clear(Some(workspace.name())),
    }
    Ok(ok(&json!({ "cleared": true })))
}

/// The request with this id.
pub(super) fn find(control: &Control, id: &str) -> Result<Arc<RequestRecord>, ControlError> {
    let found = control.journal.search(None, 1, |_, entry| match entry {
        Entry::Request(request) if request.transcript.id() == id => Some(Arc::clone(request)),
        _ => None,
    });
    found.into_iter().next().ok_or_else(|| {
        let evicted = control.journal.fill().evicted;
        let hint = if evicted > 0 { format!("; {evicted} older entries have left the journal") } else { String::new() };
        ControlError::not_found(format!("there is no request `{}` in the journal{hint}", id.escape_debug()))
    })
}
