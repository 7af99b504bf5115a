//! `GET run`: what happened so far and the present state, as one document for the page, for files and for reports.
//!
//! It adds nothing of its own: each record is made by the same function as for the call that returns it. Of each kind it has the
//! newest records; the others are counted.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::api::{
    self, Clock, EmulatorFacts, KeyState, NextCursors, Omitted, RUN_FORMAT, RUN_VERSION, Run, RunQuery, RunRequest,
    RunScenario,
};
use super::call::Call;
use super::due::due;
use super::progress::progress;
use super::scope::{Scope, scope_or_all};
use super::verification::judge;
use super::{
    Control, ControlError, Reply, clock, deliveries, events, explain, findings, profile, requests, scenarios, stream,
    subscriptions,
};
use crate::http::answer::answer;
use crate::redact::Redactor;
use crate::scenario::Generation;
use crate::state::engine::deliveries::DeliveryRecord;
use crate::state::journal::{Entry, Notice, RequestRecord};
use crate::state::workspace::{EventRecord, Workspace};
use crate::ui;

/// Most records of each kind, unless the call limits them.
pub(crate) const MOST_RECORDS: usize = 2_000;
/// Once the requests, deliveries or events have this many bytes, no older one is added.
pub(crate) const MOST_BYTES: usize = 8 * 1024 * 1024;

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    Ok(Reply::masked(&asked(control, call)?))
}

/// The document within a page, to be saved: nobody needs it opened on the address of the emulator.
pub(super) fn report(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    let document = call.redactor().shown(&asked(control, call)?).to_string();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = answer(StatusCode::OK, html, ui::report(&document));
    let disposition = HeaderValue::from_static("attachment; filename=\"report.html\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(Reply::of(response))
}

/// The document that a call asks for.
fn asked(control: &Control, call: &Call) -> Result<Run, ControlError> {
    let query: RunQuery = call.query_as()?;
    let scope = scope_or_all(control, call)?;
    let limit = query.limit.as_deref().map(|text| {
        text.parse().ok().filter(|limit| *limit <= 100_000).ok_or_else(|| {
            ControlError::invalid(format!("limit: expected 0 to 100000, found `{}`", text.escape_debug()))
        })
    });
    Ok(run(control, &scope, limit.transpose()?, call.redactor()))
}

/// The document with at most `limit` records of each kind.
fn run(control: &Control, scope: &Scope, limit: Option<usize>, redactor: Redactor<'_>) -> Run {
    // Read first, so that a viewer who then follows the stream misses nothing; what comes twice can be recognised by its id.
    let history = History::read(control, scope);
    let most = limit.unwrap_or(MOST_RECORDS);
    let generation = control.library.load();
    let mover = control.mover(scope.0.clone());
    let name = scope.key();
    // Judging reads every record, so a call for a part of the document, as the page makes all the time, does without it.
    let findings = limit.is_none().then(|| findings::judge(control, scope));
    let (due, due_later) = due(control, scope, redactor);
    let (mut keys, mut subscriptions) =
        (keys(control, scope, &generation, &history, redactor), subscriptions::all_of(control, scope, redactor));
    let (mut progress, progress_omitted) = progress(control, scope, &generation, redactor);
    let mut names = generation.names();
    let in_scope = |delivery: &DeliveryRecord| scope.covers(Some(&delivery.event.workspace));
    let found = control.deliveries.list(None, most, in_scope);
    let requests = newest(&history.requests, most, |(_, request)| request.bytes());
    let deliveries = newest(&found, most, |(_, delivery)| {
        delivery.attempts.iter().map(|attempt| attempt.bytes() + 2 * attempt.body.len()).sum()
    });
    let events = newest(&history.events, most, |event| event.body.len());
    let notices = newest(&history.notices, most, |_| 0);
    let omitted = Omitted {
        requests: history.requests.len() - requests.len(),
        // Deliveries may have been evicted since they were listed.
        deliveries: control.deliveries.count(in_scope).saturating_sub(deliveries.len()),
        events: history.events.len() - events.len(),
        notices: history.notices.len() - notices.len(),
        keys: shorten(&mut keys),
        subscriptions: shorten(&mut subscriptions),
        scenarios: shorten(&mut names),
        progress: progress_omitted,
        due: due_later,
        evicted_entries: control.journal.fill().evicted,
        evicted_deliveries: control.deliveries.forgotten(),
    };
    let cursor = |omitted: usize, last: Option<u64>| last.filter(|_| omitted > 0).map(|number| number.to_string());
    let next_cursor = NextCursors {
        requests: cursor(omitted.requests, requests.last().map(|(number, _)| *number)),
        deliveries: cursor(omitted.deliveries, deliveries.last().map(|(serial, _)| *serial)),
    };
    let request = |(_, record): &(u64, Arc<RequestRecord>)| RunRequest {
        request: requests::whole(record, redactor),
        explanation: explain::of_request(control, record, redactor),
    };
    let scenario = |name: Arc<str>| RunScenario {
        scenario: scenarios::whole(&generation, &name),
        progress: progress.remove(&name).unwrap_or_default(),
    };
    let registry = &control.registry;
    let now = mover.clock().now();
    Run {
        format: RUN_FORMAT.to_owned(),
        version: RUN_VERSION,
        emulator: facts(control, &generation, redactor),
        recorded_at: api::time(now.wall),
        key: name.as_deref().map(|name| redactor.key(name).into_owned()),
        exec: None,
        viewing: None,
        last_event_id: control.texts.id(history.next - 1),
        verification: judge(control, scope, redactor),
        findings,
        clock: clock::shown(&mover, now, redactor),
        due,
        keys,
        requests: requests.iter().map(request).collect(),
        deliveries: deliveries.iter().map(|(_, record)| deliveries::whole(record, registry, redactor)).collect(),
        events: events.iter().map(|record| events::shown(record, registry, redactor)).collect(),
        notices: notices.iter().map(|notice| stream::shown(notice)).collect(),
        subscriptions,
        scenarios: names.into_iter().map(scenario).collect(),
        profile: profile::settings(control, name.as_deref()),
        assumptions: profile::assumed(control, name.as_deref()),
        omitted,
        next_cursor,
    }
}

/// The first of these records that a document has room for.
fn newest<T>(records: &[T], most: usize, bytes: impl Fn(&T) -> usize) -> &[T] {
    let mut all = 0;
    let has_room = |record: &&T| {
        let before = all;
        all += bytes(record);
        before < MOST_BYTES
    };
    let count = records.iter().take(most).take_while(has_room).count();
    &records[..count]
}

/// Leaves out what is beyond the most records of a kind, and returns how many these are.
fn shorten<T>(records: &mut Vec<T>) -> usize {
    records.split_off(records.len().min(MOST_RECORDS)).len()
}

fn facts(control: &Control, generation: &Generation, redactor: Redactor<'_>) -> EmulatorFacts {
    let folder = |path: &std::path::PathBuf| redactor.text(&path.display().to_string()).into_owned();
    EmulatorFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: control.start.seed,
        generation: generation.number,
        started_at: api::time(control.start.at),
        base_url: control.start.base_url.clone(),
        control_url: control.start.control_url.clone(),
        control: control.access.requires_token(),
        scenario_folders: control.scenario_folders.paths().map(folder).collect(),
    }
}

/// The keys of a scope, by name.
fn keys(
    control: &Control,
    scope: &Scope,
    generation: &Generation,
    history: &History,
    redactor: Redactor<'_>,
) -> Vec<KeyState> {
    let mut requests: HashMap<&Arc<str>, usize> = HashMap::new();
    for (_, request) in &history.requests {
        if let Some(workspace) = &request.workspace {
            *requests.entry(workspace.name()).or_default() += 1;
        }
    }
    let own_clock = |workspace: &Arc<Workspace>| -> Option<Clock> {
        let mover = control.mover(Some(Arc::clone(workspace)));
        (!workspace.clock().follows()).then(|| clock::shown(&mover, mover.clock().now(), redactor))
    };
    let key = |workspace: &Arc<Workspace>| {
        let config = generation.config_for(Some(workspace.name()));
        let (quota, subscriptions) = {
            let state = workspace.lock();
            (state.quota(&config.profile, workspace.clock().now()), state.subscriptions.iter().count())
        };
        KeyState {
            key: redactor.key(workspace.name()).into_owned(),
            workspace: workspace.id().into(),
            quota: quota.as_ref().map(requests::quota),
            requests: requests.get(workspace.name()).copied().unwrap_or_default(),
            subscriptions,
            scenarios: config.active.iter().map(|scenario| scenario.name.to_string()).collect(),
            clock: own_clock(workspace),
        }
    };
    let mut workspaces = scope.workspaces(control);
    workspaces.sort_by(|a, b| a.name().cmp(b.name()));
    workspaces.iter().map(key).collect()
}

/// The journal's entries of a scope by kind, newest first.
struct History {
    /// The number of the next entry.
    next: u64,
    requests: Vec<(u64, Arc<RequestRecord>)>,
    events: Vec<Arc<EventRecord>>,
    notices: Vec<Arc<Notice>>,
}

impl History {
    fn read(control: &Control, scope: &Scope) -> Self {
        let next = control.journal.next_number();
        let mut history = Self { next, requests: Vec::new(), events: Vec::new(), notices: Vec::new() };
        control.journal.search(Some(next), usize::MAX, |number, entry| {
            match entry {
                _ if !scope.covers(entry.workspace()) => {}
                Entry::Request(request) => history.requests.push((number, Arc::clone(request))),
                Entry::Event(event) => history.events.push(Arc::clone(event)),
                Entry::Notice(notice) => history.notices.push(Arc::clone(notice)),
                Entry::Attempt(_) | Entry::Gone => {}
            }
            None::<()>
        });
        history
    }
}
