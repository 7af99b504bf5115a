//! The next events in each workspace: attempts, events that scenarios planned, and other timers. Part of the run document.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Control;
use super::context::KeyScope;
use super::fields::{Due, DueKind};
use crate::clock::{Instant, Now};
use crate::redact::Redactor;
use crate::scenario::Emit;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::record::time;
use crate::state::workspace::{PlannedEvent, Workspace};

/// Maximum number of entries shown, the earliest.
const MAX_DUE: usize = 50;

/// The earliest entries due in a scope, and how many were left out.
pub(super) fn due(control: &Control, scope: &KeyScope, redactor: Redactor<'_>) -> (Vec<Due>, usize) {
    let (mut due, mut count, workspaces) = deliveries_due(control, scope, redactor, &|_| true, &|_| true);
    for (workspace, now, emission) in workspaces.into_values() {
        let attempt = workspace.with_queue(|queue| queue.next_due());
        let first = attempt.into_iter().chain(emission).min();
        let timer = workspace.agenda().next_due().filter(|due| *due > now.instant);
        if let Some(at) = timer.filter(|at| first.is_none_or(|first| *at < first)) {
            count += 1;
            due.push(entry(&workspace, now, at, DueKind::Timer, "a delayed answer".to_owned(), redactor));
        }
        keep_earliest(&mut due, 2 * MAX_DUE);
    }
    keep_earliest(&mut due, 0);
    let omitted = count - due.len();
    (due.into_iter().map(|(_, due)| due).collect(), omitted)
}

/// The next event, and the time until then.
type TimedDue = (Duration, Due);

/// Sorts them and keeps the earliest, once there are so many.
fn keep_earliest(due: &mut Vec<TimedDue>, many: usize) {
    if due.len() >= many {
        // Stable, so that what one workspace plans for an instant stays in order; workspaces are compared by id.
        due.sort_by(|(a_wait, a), (b_wait, b)| (a_wait, &a.workspace.0).cmp(&(b_wait, &b.workspace.0)));
        due.truncate(MAX_DUE);
    }
}

/// Workspaces by name, each with its time and when the first of its emissions that are meant is due.
type Workspaces = HashMap<Arc<str>, (Arc<Workspace>, Now, Option<Instant>)>;

/// The earliest planned events, rotations and timed emissions that are meant, and attempts at the deliveries that are meant; how many
/// there are in all; and the workspaces of the scope.
fn deliveries_due(
    control: &Control,
    scope: &KeyScope,
    redactor: Redactor<'_>,
    is_emitted: &dyn Fn(&Emit) -> bool,
    is_meant: &dyn Fn(&DeliveryRecord) -> bool,
) -> (Vec<TimedDue>, usize, Workspaces) {
    let mut workspaces = Workspaces::new();
    let (mut found, mut count) = (Vec::new(), 0);
    for workspace in scope.workspaces(&control.engine) {
        let now = workspace.clock().now();
        let mut ahead = control.engine.timed_ahead(&workspace, is_emitted);
        let state = workspace.lock();
        let planned = || state.timeline.all().filter(|planned| is_emitted(&planned.emit));
        count += ahead.len() + planned().count();
        // There may be a hundred thousand, the earliest first.
        ahead.extend(planned().take(MAX_DUE).map(|PlannedEvent { at, emit, .. }| (*at, Arc::clone(emit))));
        drop(state);
        ahead.sort_by_key(|(at, _)| *at);
        let first = ahead.first().map(|(at, _)| *at);
        for (at, emit) in ahead.into_iter().take(MAX_DUE) {
            let message = format!("{} of scenario `{}`: {}", emit.label, emit.scenario, emit.what());
            let kind = if emit.event().is_some() { DueKind::Event } else { DueKind::Rotation };
            let (wait, due) = entry(&workspace, now, at, kind, message, redactor);
            found.push((wait, Due { scenario: Some(emit.scenario.to_string()), ..due }));
        }
        keep_earliest(&mut found, 2 * MAX_DUE);
        workspaces.insert(Arc::clone(workspace.name()), (workspace, now, first));
    }
    let in_scope = |delivery: &DeliveryRecord| workspaces.contains_key(&delivery.event.workspace);
    let pending = control
        .engine
        .deliveries
        .list(None, usize::MAX, |delivery| delivery.next.is_some() && in_scope(delivery) && is_meant(delivery));
    let attempt = |(_, delivery): (u64, DeliveryRecord)| {
        let (workspace, now, _) = workspaces.get(&delivery.event.workspace)?;
        Some((delivery.next?.since(now.instant), delivery.next?, workspace, *now, delivery))
    };
    let mut attempts: Vec<_> = pending.into_iter().rev().filter_map(attempt).collect();
    count += attempts.len();
    attempts.sort_by_key(|(wait, ..)| *wait);
    for (_, at, workspace, now, delivery) in attempts.into_iter().take(MAX_DUE) {
        let (event, number) = (&delivery.event.event_type, delivery.attempts_made() + 1);
        let message = format!("attempt {number} to deliver {event} to {}", delivery.planned.url);
        let (wait, due) = entry(workspace, now, at, DueKind::Attempt, message, redactor);
        found.push((wait, Due { delivery: Some(delivery.planned.id.as_str().into()), ..due }));
    }
    (found, count, workspaces)
}

/// Entries that will deliver without another call: planned events and timed emissions of these types, and attempts at the deliveries that are
/// meant. Some of it, the earliest first; nothing only if there is nothing.
pub(super) fn yet_to_deliver(
    control: &Control,
    scope: &KeyScope,
    redactor: Redactor<'_>,
    is_type: &dyn Fn(&str) -> bool,
    is_meant: &dyn Fn(&DeliveryRecord) -> bool,
) -> Vec<Due> {
    let is_emitted = |emit: &Emit| emit.event().is_some_and(is_type);
    let (mut found, ..) = deliveries_due(control, scope, redactor, &is_emitted, is_meant);
    found.sort_by_key(|(wait, _)| *wait);
    found.into_iter().map(|(_, due)| due).collect()
}

/// Something due, with the time until then.
fn entry(
    workspace: &Workspace,
    now: Now,
    at: Instant,
    what: DueKind,
    message: String,
    redactor: Redactor<'_>,
) -> TimedDue {
    let wait = at.since(now.instant);
    let due = Due {
        at: time(now.wall.saturating_add(wait).unwrap_or(now.wall)),
        in_ms: wait.into(),
        what,
        workspace: workspace.id().into(),
        key: redactor.key(workspace.name()).into_owned(),
        delivery: None,
        scenario: None,
        message: redactor.text(&message).into_owned(),
    };
    (wait, due)
}
