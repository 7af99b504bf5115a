//! What happens next in each workspace: attempts, events that scenarios planned, and other timers. Part of the run document.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Control;
use super::call::Scope;
use crate::clock::{Instant, Now};
use crate::redact::Redactor;
use crate::state::journal::record::{DeliveryId, Millis, Time, WorkspaceId, time};
use crate::state::workspace::Workspace;

/// Something that happens once the clock reaches its time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Due {
    /// By the clock of the workspace.
    pub(crate) at: Time,
    pub(crate) in_ms: Millis,
    pub(crate) what: DueKind,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: String,
    /// The delivery to be attempted.
    pub(crate) delivery: Option<DeliveryId>,
    /// The scenario that planned it.
    pub(crate) scenario: Option<String>,
    /// What it is, in words.
    pub(crate) message: String,
}

/// What is due.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum DueKind {
    /// An attempt at a delivery.
    Attempt,
    /// An event that a scenario has planned.
    Event,
    /// Something else that waits for the clock, such as a delayed answer or a scenario's timer.
    Timer,
}

/// Most entries shown, the earliest.
const MOST_DUE: usize = 50;

/// A workspace as it is now, and what waits in it.
struct Waiting {
    workspace: Arc<Workspace>,
    now: Now,
    /// The earliest of what was found.
    first: Option<Instant>,
}

/// The earliest of what is due in a scope, and how many entries were left out.
pub(super) fn due(control: &Control, scope: &Scope, redactor: Redactor<'_>) -> (Vec<Due>, usize) {
    let mut waiting: HashMap<Arc<str>, Waiting> = HashMap::new();
    let (mut found, mut count) = (Vec::new(), 0);
    for workspace in scope.workspaces(control) {
        let now = workspace.clock().now();
        let first = {
            let state = workspace.lock();
            count += state.timeline.count();
            for planned in state.timeline.all().take(MOST_DUE) {
                let message =
                    format!("{} of scenario `{}`: {}", planned.emit.label, planned.emit.scenario, planned.emit.event);
                let scenario = Some(planned.emit.scenario.to_string());
                found.push((
                    planned.at.since(now.instant),
                    entry(&workspace, now, planned.at, DueKind::Event, message, redactor),
                ));
                if let Some((_, due)) = found.last_mut() {
                    due.scenario = scenario;
                }
            }
            state.timeline.next_due()
        };
        waiting.insert(Arc::clone(workspace.name()), Waiting { workspace, now, first });
    }
    attempts(control, &mut waiting, &mut found, &mut count, redactor);
    for Waiting { workspace, now, first } in waiting.values() {
        let timer = workspace.agenda().next_due().filter(|due| *due > now.instant);
        if let Some(due) = timer.filter(|due| first.is_none_or(|first| *due < first)) {
            count += 1;
            let message = "a scenario's timer, a delayed answer or the end of a workflow".to_owned();
            found.push((due.since(now.instant), entry(workspace, *now, due, DueKind::Timer, message, redactor)));
        }
    }
    // Stable, so that what one workspace plans for an instant stays in order; workspaces are compared by id.
    found.sort_by(|(a_wait, a), (b_wait, b)| (a_wait, &a.workspace.0).cmp(&(b_wait, &b.workspace.0)));
    found.truncate(MOST_DUE);
    let omitted = count - found.len();
    (found.into_iter().map(|(_, due)| due).collect(), omitted)
}

/// Adds the attempts that are due first.
fn attempts(
    control: &Control,
    waiting: &mut HashMap<Arc<str>, Waiting>,
    found: &mut Vec<(Duration, Due)>,
    count: &mut usize,
    redactor: Redactor<'_>,
) {
    // Looked at in place: there may be 100,000 pending deliveries.
    let first = RefCell::new((BTreeSet::new(), HashMap::<Arc<str>, Instant>::new()));
    *count += control.deliveries.count(|delivery| {
        let name = &delivery.event.workspace;
        let Some((due, place)) = delivery.next.zip(waiting.get(name)) else { return false };
        let (earliest, by_workspace) = &mut *first.borrow_mut();
        earliest.insert((due.since(place.now.instant), due, delivery.planned.id.clone()));
        if earliest.len() > MOST_DUE {
            earliest.pop_last();
        }
        let known = by_workspace.entry(Arc::clone(name)).or_insert(due);
        *known = due.min(*known);
        true
    });
    let (earliest, by_workspace) = first.into_inner();
    for (wait, at, id) in earliest {
        let Some(delivery) = control.deliveries.get(&id) else { continue };
        let Some(Waiting { workspace, now, .. }) = waiting.get(&delivery.event.workspace) else { continue };
        let number = delivery.made + 1;
        let message = format!("attempt {number} to deliver {} to {}", delivery.event.event_type, delivery.planned.url);
        let due = entry(workspace, *now, at, DueKind::Attempt, message, redactor);
        found.push((wait, Due { delivery: Some(id.into()), ..due }));
    }
    for (name, due) in by_workspace {
        if let Some(place) = waiting.get_mut(&name) {
            place.first = Some(place.first.map_or(due, |first| first.min(due)));
        }
    }
}

fn entry(workspace: &Workspace, now: Now, at: Instant, what: DueKind, message: String, redactor: Redactor<'_>) -> Due {
    let wait = at.since(now.instant);
    Due {
        at: time(now.wall.saturating_add(wait).unwrap_or(now.wall)),
        in_ms: wait.into(),
        what,
        workspace: workspace.id().into(),
        key: redactor.key(workspace.name()).into_owned(),
        delivery: None,
        scenario: None,
        message: redactor.text(&message).into_owned(),
    }
}
