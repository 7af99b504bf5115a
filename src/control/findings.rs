//! `GET findings`: what the traffic shows about the client and its receivers, judged by the rules of `review::findings`.

use std::sync::Arc;

use super::api::{self, Findings};
use super::call::Input;
use super::scope::{Scope, scope_or_all};
use super::{Control, ControlError};
use crate::clock::ClockMode;
use crate::journal::Entry;
use crate::review::findings::{self, Traffic};

pub(super) fn show(control: &Control, input: &Input<api::ShowFindings>) -> Result<Findings, ControlError> {
    Ok(judge(control, &scope_or_all(control, input)?))
}

/// The findings about a scope, the worst first.
pub(super) fn judge(control: &Control, scope: &Scope) -> Findings {
    let clock = scope.0.as_ref().map_or_else(|| control.registry.clock(), |workspace| workspace.clock());
    let mut requests = control.journal.search(None, usize::MAX, |_, entry| match entry {
        // A request without a valid key may be of the client in question.
        Entry::Request(request) => {
            let is_of = request.workspace.as_ref().is_none_or(|workspace| scope.covers(Some(workspace.name())));
            is_of.then(|| Arc::clone(request))
        }
        _ => None,
    });
    requests.reverse();
    let found = control.deliveries.list(None, usize::MAX, |delivery| scope.covers(Some(&delivery.event.workspace)));
    let deliveries: Vec<_> = found.into_iter().rev().map(|(_, delivery)| delivery).collect();
    let profile = control.profile_for(scope.key().as_deref());
    let clock_runs = clock.mode() == ClockMode::Real;
    let traffic = Traffic { requests: &requests, deliveries: &deliveries, profile: &profile, clock_runs };
    Findings { forgotten_entries: control.journal.fill().evicted, ..findings::judge(&traffic) }
}
