//! What each active scenario rule makes of a request in the journal: the trace behind `explain req_…`.
//!
//! It is worked out when somebody asks, from what the journal kept and the scenarios and settings that answered the request, with
//! the counters as they are now; answering requests costs next to nothing for it. Nothing is counted.

use hyper::Method;

use super::{Control, api};
use crate::journal::{Reason, RequestRecord};
use crate::scenario::{EffectiveConfig, RequestView, RuleTrace};

/// What must be known to read the trace rightly.
pub(super) const RULES_NOTE: &str = "recomputed with the scenarios and settings that answered the request, but with the current counters, new \
     random numbers and the first 64 KiB of its body, so it may differ from what happened then";
/// What is said in place of a trace.
pub(super) const RULES_GONE: &str = "what each rule did cannot be worked out any more: the scenarios and settings that answered this request \
     have been replaced too often since to be kept";

/// The trace of a request.
pub(super) enum Rules {
    /// No rule was active for the request, or it never came as far as the rules.
    None,
    /// What answered it is not kept any more.
    Gone,
    /// Every rule up to the one that decides.
    Traced(Vec<api::RuleTrace>),
}

pub(super) fn rules_of(control: &Control, request: &RequestRecord) -> Rules {
    let is_early = matches!(request.reason, Reason::Unauthorized { .. } | Reason::RateLimited | Reason::Refused(..));
    if request.operation.is_none() || is_early {
        return Rules::None;
    }
    let config = request.config.upgrade().and_then(|config| config.downcast::<EffectiveConfig>().ok());
    let Some(config) = config else { return Rules::Gone };
    let (method, target) = request.transcript.request_line();
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return Rules::None };
    if config.rules.is_empty() {
        return Rules::None;
    }
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let headers = request.transcript.header_map();
    let view = RequestView {
        operation: request.operation,
        method: &method,
        path,
        query,
        headers: &headers,
        body: request.transcript.body(),
        key: request.key(),
        keys: &config.profile.keys,
    };
    let workspace = request.workspace.clone().unwrap_or_else(|| control.registry.anonymous());
    let (mut counters, met_at) = {
        let state = workspace.lock();
        (state.counters().clone(), state.began(config.activation).unwrap_or(config.activated_at))
    };
    counters.begin(config.activation);
    let traced = config.rules.trace(&view, &counters, request.instant.since(met_at));
    let shown = |RuleTrace { scenario, rule, applied, outcome }| api::RuleTrace { scenario, rule, applied, outcome };
    Rules::Traced(traced.into_iter().map(shown).collect())
}
