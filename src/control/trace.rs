//! What each active scenario rule makes of a request in the journal: the trace behind `explain req_…`.
//!
//! It is worked out when somebody asks, from what the journal kept and with the counters as they stand then; answering
//! requests costs nothing for it. Nothing is counted.

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderMap;

use super::Control;
use crate::http::exchange::SCENARIO;
use crate::journal::{Reason, RequestRecord};
use crate::scenario::{Generation, RequestView, RuleTrace, Setup};

/// What must be known to read the trace rightly.
pub(super) const RULES_NOTE: &str = "what each would do with the same request now, not what it did then: counters and files are those \
     of now, chances are drawn anew, and a body ends after 64 KiB";

/// The trace of every rule up to the one that would decide; `None` if no scenario rule is active for the request, or it never
/// came as far as the rules.
pub(super) fn rules_of(control: &Control, request: &RequestRecord) -> Option<Vec<RuleTrace>> {
    request.operation?;
    if matches!(request.reason, Reason::Unauthorized(_) | Reason::RateLimited | Reason::Refused(..)) {
        return None;
    }
    let headers = request.transcript.header_map();
    let generation = control.library.load();
    let setup = setup_of(&generation, &headers, request)?;
    if setup.rules.is_empty() {
        return None;
    }
    let (method, target) = request.transcript.request_line();
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let view = RequestView {
        operation: request.operation,
        method: &method,
        path,
        query,
        headers: &headers,
        body: request.transcript.body(),
        key: request.key(),
        keys: &setup.profile.keys,
    };
    let workspace = request.workspace.clone().unwrap_or_else(|| control.registry.anonymous());
    let (mut turns, met_at) = {
        let state = workspace.lock();
        (state.turns().clone(), state.began(setup.activation).unwrap_or(setup.activated_at))
    };
    turns.begin(setup.activation);
    let since_activation = workspace.clock().moment().since(met_at);
    Some(setup.rules.trace(&view, &turns, since_activation))
}

/// The setup that would answer the request now.
fn setup_of(generation: &Generation, headers: &HeaderMap, request: &RequestRecord) -> Option<Arc<Setup>> {
    let name = request.workspace.as_ref().map(|workspace| workspace.name().as_ref());
    let Some(wanted) = headers.get(SCENARIO) else {
        return Some(Arc::clone(generation.setup_for(name)));
    };
    let names = wanted.to_str().ok()?.split(',').map(str::trim).filter(|name| !name.is_empty());
    generation.setup_named(name, &names.collect::<Vec<_>>()).ok()
}
