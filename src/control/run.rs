//! `GET run`: what happened so far and the present state, as one document for the page, for files and for reports.
//!
//! It adds nothing of its own: each record is made by the same function as for the call that returns it. Records are masked
//! and written one by one, newest first over all kinds, until the document is full; what is older is counted.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use serde::Serialize;

use super::api::{
    self, Clock, EmulatorFacts, Findings, Json, KeyState, NextCursors, Omitted, RUN_FORMAT, RUN_VERSION, Run, RunQuery,
    RunRequest, RunScenario, Verification,
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
use crate::engine::deliveries::DeliveryRecord;
use crate::http::answer::answer;
use crate::journal::{Entry, Notice, RequestRecord};
use crate::redact::Redactor;
use crate::scenario::Generation;
use crate::ui;
use crate::workspace::{EventRecord, Workspace};

/// Most bytes of a document.
pub(crate) const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Of these, kept free for what a report adds.
const RESERVED: usize = 64 * 1024;
/// Most bytes of one record; a larger one is left out, so that it does not take the place of all others.
const LARGEST_RECORD: usize = MOST_BYTES / 2;
/// Most bytes for each of these: all problems, all evidence, all scenarios, all keys and all subscriptions.
const PROBLEM_BYTES: usize = 1024 * 1024;
const EVIDENCE_BYTES: usize = 512 * 1024;
const SCENARIO_BYTES: usize = 2 * 1024 * 1024;
const KEY_BYTES: usize = 512 * 1024;

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    Ok(Reply::plain(&asked(control, call)?))
}

/// The document within a page, to be saved: nobody needs it opened on the address of the emulator.
pub(super) fn report(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    let run = asked(control, call)?;
    let json = serde_json::to_string(&run).expect("texts and numbers always serialise");
    drop(run);
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = answer(StatusCode::OK, html, ui::report(&json));
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
    let generation = control.library.load();
    let mover = control.mover(scope.0.clone());
    let name = scope.key();
    let mut omitted = Omitted {
        evicted_entries: control.journal.fill().evicted,
        evicted_deliveries: control.deliveries.forgotten(),
        ..Omitted::default()
    };
    let verification = verification(control, scope, &mut omitted, redactor);
    // Judging reads every record, so a call for a part of the document, as the page makes all the time, does without it.
    let findings = limit.is_none().then(|| findings(control, scope, &mut omitted, redactor));
    let due = {
        let (due, more) = due(control, scope, redactor);
        omitted.due = more;
        due
    };
    let keys = keys(control, scope, &generation, &history, redactor);
    let (keys, left_out) = fitting(keys, KEY_BYTES, redactor);
    omitted.keys = left_out;
    let (subscriptions, left_out) = fitting(subscriptions::all_of(control, scope, redactor), KEY_BYTES, redactor);
    omitted.subscriptions = left_out;
    let (mut progress, left_out) = progress(control, scope, &generation, redactor);
    omitted.progress = left_out;
    let all = generation.names().into_iter().map(|name| RunScenario {
        scenario: scenarios::whole(&generation, &name),
        progress: progress.remove(&name).unwrap_or_default(),
    });
    let (scenarios, left_out) = fitting(all.collect(), SCENARIO_BYTES, redactor);
    omitted.scenarios = left_out;
    let now = mover.clock().now();
    let mut run = Run {
        format: RUN_FORMAT.to_owned(),
        version: RUN_VERSION,
        emulator: facts(control, &generation, redactor),
        recorded_at: api::time(now.wall),
        key: name.as_deref().map(|name| redactor.key(name).into_owned()),
        exec: None,
        viewing: None,
        last_event_id: control.texts.id(history.next - 1),
        verification: Json::of(&redactor.shown(&verification)),
        findings,
        clock: clock::shown(&mover, now, redactor),
        due,
        keys,
        requests: Vec::new(),
        deliveries: Vec::new(),
        events: Vec::new(),
        notices: Vec::new(),
        subscriptions,
        scenarios,
        profile: Json::of(&redactor.shown(&profile::settings(control, name.as_deref()))),
        assumptions: Json::of(&redactor.shown(&profile::assumed(control, name.as_deref()))),
        omitted,
        next_cursor: NextCursors::default(),
    };
    add_records(&mut run, control, scope, history, limit.unwrap_or(usize::MAX), redactor);
    run
}

/// The problems, of each kind the oldest, as many as fit.
fn verification(control: &Control, scope: &Scope, omitted: &mut Omitted, redactor: Redactor<'_>) -> Verification {
    let mut found = judge(control, scope, redactor);
    let mut room = PROBLEM_BYTES;
    omitted.problems = fit(&mut found.unmatched, &mut room, redactor)
        + fit(&mut found.undelivered, &mut room, redactor)
        + fit(&mut found.forged, &mut room, redactor)
        + fit(&mut found.unfinished, &mut room, redactor);
    found
}

/// What the traffic shows, each finding with as much of its evidence as fits.
fn findings(control: &Control, scope: &Scope, omitted: &mut Omitted, redactor: Redactor<'_>) -> Json<Findings> {
    let mut found = findings::judge(control, scope);
    let mut room = EVIDENCE_BYTES;
    omitted.evidence = found.data.iter_mut().map(|finding| fit(&mut finding.evidence, &mut room, redactor)).sum();
    Json::of(&redactor.shown(&found))
}

/// Keeps the first of these items, as many as fit, and counts the others.
fn fit<T: Serialize>(items: &mut Vec<T>, room: &mut usize, redactor: Redactor<'_>) -> usize {
    let fits = |item: &&T| {
        let size = Json::<T>::of(&redactor.shown(item)).len();
        let fits = size <= *room;
        *room = room.saturating_sub(size);
        fits
    };
    let (before, kept) = (items.len(), items.iter().take_while(fits).count());
    items.truncate(kept);
    before - kept
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

/// The first of these items, masked, as many as fit, and how many do not.
fn fitting<T: Serialize>(items: Vec<T>, mut room: usize, redactor: Redactor<'_>) -> (Vec<Json<T>>, usize) {
    let count = items.len();
    let masked = items.into_iter().map(|item| Json::of(&redactor.shown(&item)));
    let fits = |item: &Json<T>| {
        let fits = item.len() <= room;
        room = room.saturating_sub(item.len());
        fits
    };
    let kept: Vec<Json<T>> = masked.take_while(fits).collect();
    let omitted = count - kept.len();
    (kept, omitted)
}

/// The journal's entries of a scope by kind, each newest first with its number.
struct History {
    /// The number of the next entry.
    next: u64,
    requests: Vec<(u64, Arc<RequestRecord>)>,
    events: Vec<(u64, Arc<EventRecord>)>,
    notices: Vec<(u64, Arc<Notice>)>,
    /// The number of the newest attempt at each delivery.
    attempted: HashMap<String, u64>,
}

impl History {
    /// Copies handles, a few entries at a time, so that nobody waits long for the journal's lock.
    fn read(control: &Control, scope: &Scope) -> Self {
        let next = control.journal.next_number();
        let mut history =
            Self { next, requests: Vec::new(), events: Vec::new(), notices: Vec::new(), attempted: HashMap::new() };
        control.journal.search(Some(next), usize::MAX, |number, entry| {
            if !scope.covers(entry.workspace()) {
                return None;
            }
            match entry {
                Entry::Request(request) => history.requests.push((number, Arc::clone(request))),
                Entry::Event(event) => history.events.push((number, Arc::clone(event))),
                Entry::Notice(notice) => history.notices.push((number, Arc::clone(notice))),
                Entry::Attempt(attempt) => {
                    history.attempted.entry(attempt.delivery.id.clone()).or_insert(number);
                }
                Entry::Gone => {}
            }
            None::<()>
        });
        history
    }
}

/// Deliveries of a scope, newest first, each with its serial number and its place among the journal's entries. A few are copied at a
/// time.
fn deliveries_of<'a>(
    control: &'a Control,
    scope: &'a Scope,
    attempted: &'a HashMap<String, u64>,
) -> impl Iterator<Item = (u64, u64, DeliveryRecord)> + 'a {
    const PIECE: usize = 256;
    let mut before = None;
    let pieces = std::iter::from_fn(move || {
        let piece = control.deliveries.list(before, PIECE, |_| true);
        before = Some(piece.last()?.0);
        Some(piece)
    });
    let mut newest = u64::MAX;
    pieces.flatten().filter(|(_, delivery)| scope.covers(Some(&delivery.event.workspace))).map(
        move |(serial, delivery)| {
            // One whose first attempt is yet to come is as new as can be. A place is never above the one before, as the list is cut
            // off at one point.
            let place =
                if delivery.made == 0 { u64::MAX } else { attempted.get(&delivery.planned.id).copied().unwrap_or(0) };
            newest = newest.min(place);
            (newest, serial, delivery)
        },
    )
}

/// Adds records to the document, the newest of all kinds first, until it is full or each kind has `limit` of them.
fn add_records(
    run: &mut Run,
    control: &Control,
    scope: &Scope,
    history: History,
    limit: usize,
    redactor: Redactor<'_>,
) {
    let fixed = serde_json::to_vec(run).map_or(MOST_BYTES, |bytes| bytes.len());
    let mut room = Room { left: MOST_BYTES.saturating_sub(RESERVED + fixed), is_full: false };
    let total = (
        history.requests.len(),
        control.deliveries.count(|delivery| scope.covers(Some(&delivery.event.workspace))),
        history.events.len(),
        history.notices.len(),
    );
    let mut requests = history.requests.into_iter().take(limit).peekable();
    let mut events = history.events.into_iter().take(limit).peekable();
    let mut notices = history.notices.into_iter().take(limit).peekable();
    let mut deliveries = deliveries_of(control, scope, &history.attempted).take(limit).peekable();
    let mut last = (None, None);
    while !room.is_full {
        let places = [
            requests.peek().map(|(place, _)| *place),
            deliveries.peek().map(|(place, ..)| *place),
            events.peek().map(|(place, _)| *place),
            notices.peek().map(|(place, _)| *place),
        ];
        let Some(newest) = places.iter().flatten().max() else { break };
        let kind = places.iter().position(|place| place.as_ref() == Some(newest));
        match kind {
            Some(0) => {
                let Some((number, record)) = requests.next() else { break };
                let request = requests::whole(&record, redactor);
                let explanation = explain::of_request(control, &record, redactor);
                let is_added = room.add(&mut run.requests, &RunRequest { request, explanation }, redactor);
                last.0 = if is_added { Some(number) } else { last.0 };
            }
            Some(1) => {
                let Some((_, serial, record)) = deliveries.next() else { break };
                let is_added =
                    room.add(&mut run.deliveries, &deliveries::whole(&record, &control.registry, redactor), redactor);
                last.1 = if is_added { Some(serial) } else { last.1 };
            }
            Some(2) => {
                let Some((_, record)) = events.next() else { break };
                room.add(&mut run.events, &events::shown(&record, &control.registry, redactor), redactor);
            }
            _ => {
                let Some((_, record)) = notices.next() else { break };
                room.add(&mut run.notices, &stream::shown(&record), redactor);
            }
        }
    }
    let omitted = &mut run.omitted;
    omitted.requests = total.0 - run.requests.len();
    // Deliveries may have been added or evicted since they were counted.
    omitted.deliveries = total.1.saturating_sub(run.deliveries.len());
    omitted.events = total.2 - run.events.len();
    omitted.notices = total.3 - run.notices.len();
    let cursor = |omitted: usize, last: Option<u64>| last.filter(|_| omitted > 0).map(|number| number.to_string());
    run.next_cursor =
        NextCursors { requests: cursor(omitted.requests, last.0), deliveries: cursor(omitted.deliveries, last.1) };
}

/// The bytes that are left for records.
struct Room {
    left: usize,
    is_full: bool,
}

impl Room {
    /// Adds a record, unless it does not fit; then nothing older is added either, except that a record that is too large by itself is
    /// skipped.
    fn add<T: Serialize>(&mut self, list: &mut Vec<Json<T>>, record: &T, redactor: Redactor<'_>) -> bool {
        let json = Json::of(&redactor.shown(record));
        let size = json.len() + 1;
        if size > LARGEST_RECORD {
            return false;
        }
        self.is_full = size > self.left;
        if !self.is_full {
            self.left -= size;
            list.push(json);
        }
        !self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_their_room_and_the_rest_is_counted() {
        let texts = |count: usize| vec!["x".repeat(8); count];
        let (mut first, mut second, mut third, mut room) = (texts(3), texts(3), texts(3), 45);
        let omitted = [&mut first, &mut second, &mut third].map(|list| fit(list, &mut room, Redactor::default()));
        assert_eq!((omitted, first.len(), second.len(), third.len()), ([0, 2, 3], 3, 1, 0));
    }
}
