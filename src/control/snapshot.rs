//! `GET snapshot`, `PUT snapshot`: the state of one key, or everything, as a document, and back. Going on after a load is as never
//! having stopped; what is not in it is the journal, deliveries that are settled, and requests under way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hyper::StatusCode;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

use super::advance::settle;
use super::notice::note;
use super::scope::{Scope, scope, scope_or_all};
use super::{Call, Control, ControlError, Reply, api};
use crate::clock::{Moment, Now, SavedClock, Seed, machine};
use crate::contract::keys::workspace_of;
use crate::contract::signature::Tamper;
use crate::diagnostic::Diagnostic;
use crate::http::answer::{JSON, answer_in_pieces};
use crate::memory::Pieces;
use crate::redact::Redactor;
use crate::scenario::{KnobPatch, Restored, RestoredKey, RestoredWhole, Setup};
use crate::snapshot::{
    FORMAT, Nanos, SavedDelivery, SavedEmission, SavedToken, SavedWorkspace, Snapshot, VERSION, Whole, within,
};
use crate::webhook::book::DeliveryStatus;
use crate::webhook::deliver::hand_over;
use crate::webhook::emitter::Planned;
use crate::workspace::{Alias, EventRecord, Origin, PlannedDelivery, Workspace, restore_clock, save_clock};

/// Most bytes of a snapshot that is loaded over HTTP: some twenty thousand keys with a subscription each.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Most bytes of memory that such a snapshot may take, about.
pub(crate) const MOST_MEMORY: usize = 112 * 1024 * 1024;
/// Most keys that the line of the log names.
const MOST_NAMED: usize = 5;
/// How long what is under way may take to end before a snapshot is taken. A key that is busy all the time never has an end, and
/// an attempt without an answer is made again after a load.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why a snapshot cannot be loaded. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotProblem(String);

fn problem(text: impl Into<String>) -> SnapshotProblem {
    SnapshotProblem(text.into())
}

pub(super) async fn save(control: &Arc<Control>, call: &Call) -> Result<Reply, ControlError> {
    let scope = scope(control, call)?;
    settle_for_a_moment(&scope.workspaces(control)).await;
    let saving = Arc::clone(control);
    let pieces = control.blocking.run(move || written(&take(&saving, &scope)));
    Ok(Reply::of(answer_in_pieces(StatusCode::OK, JSON, pieces.await)))
}

/// Lets what is under way end, and waits no longer for a key that never rests.
pub async fn settle_for_a_moment(workspaces: &[Arc<Workspace>]) {
    let settled = join_all(workspaces.iter().map(|workspace| settle(workspace)));
    let _ = tokio::time::timeout(PATIENCE, settled).await;
}

pub(super) fn load(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    let scope = scope_or_all(control, call)?;
    let snapshot = within(MOST_MEMORY, || read(&call.body)).map_err(refused)?;
    if let Scope::One(workspace) = scope {
        let only = snapshot.whole.is_none() && snapshot.workspaces.len() == 1;
        if !only || snapshot.workspaces[0].key != **workspace.name() {
            let message =
                format!("the snapshot is not one of the key `{}` alone", call.redactor().key(workspace.name()));
            return Err(ControlError::invalid(message));
        }
    }
    let (loaded, warnings) = put_in_place(control, &snapshot).map_err(refused)?;
    let keys: Vec<_> =
        snapshot.workspaces.iter().take(MOST_NAMED).map(|saved| call.redactor().key(&saved.key)).collect();
    let more = if loaded > keys.len() { format!(" and {} more", loaded - keys.len()) } else { String::new() };
    let whole = if snapshot.whole.is_some() { "everything, with " } else { "" };
    note(control, None, format!("snapshot loaded: {whole}{}{more}", keys.join(", ")), false);
    let generation = control.library.load().number;
    Ok(Reply::masked(&api::Loaded { loaded, generation, warnings }))
}

fn refused(SnapshotProblem(text): SnapshotProblem) -> ControlError {
    ControlError::invalid(text)
}

/// Everything, as a document in pieces.
pub fn take_snapshot(control: &Control) -> Vec<Bytes> {
    written(&take(control, &Scope::All))
}

fn written(snapshot: &Snapshot) -> Vec<Bytes> {
    let mut pieces = Pieces::default();
    serde_json::to_writer(&mut pieces, snapshot).expect("strings and numbers always serialise");
    pieces.finish()
}

/// Loads a document that [`take_snapshot`] or `GET snapshot` gave; says what could not be put in place.
pub fn load_snapshot(control: &Control, bytes: &[u8]) -> Result<Vec<String>, SnapshotProblem> {
    put_in_place(control, &read(bytes)?).map(|(_, warnings)| warnings)
}

/// What says whether the rest can be read.
#[derive(Deserialize)]
struct Header<'t> {
    #[serde(borrow)]
    format: Option<&'t RawValue>,
    #[serde(borrow)]
    version: Option<&'t RawValue>,
}

fn read(bytes: &[u8]) -> Result<Snapshot, SnapshotProblem> {
    let no_snapshot = || problem(format!("expected a snapshot (`format` is `{FORMAT}`)"));
    let header: Header = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => no_snapshot(),
        _ => problem(format!("the snapshot is not JSON: {error}")),
    })?;
    let text = |value: Option<&RawValue>| value.map_or("null", RawValue::get).to_owned();
    if serde_json::from_str::<String>(&text(header.format)).ok().as_deref() != Some(FORMAT) {
        return Err(no_snapshot());
    }
    let version: String = text(header.version).chars().take(40).collect();
    if version != VERSION.to_string() {
        let message = format!(
            "the snapshot has version {version}, and this emulator reads version {VERSION}; take it again with this one"
        );
        return Err(problem(message));
    }
    serde_json::from_slice(bytes).map_err(|error| problem(format!("the snapshot cannot be read: {error}")))
}

fn take(control: &Control, scope: &Scope) -> Snapshot {
    let mut pending = pending(control);
    let workspaces = scope.workspaces(control);
    let saved = workspaces.iter().map(|workspace| {
        let deliveries = pending.remove(workspace.name()).unwrap_or_default();
        saved(control, workspace, deliveries)
    });
    let workspaces = saved.collect();
    let clock = save_clock(control.registry.clock().save());
    let whole = matches!(scope, Scope::All).then(|| {
        let generation = control.library.load();
        Whole {
            seed: control.registry.seed().to_text(),
            anonymous: control.registry.anonymous().lock().save_sources(),
            scenarios: control.library.inline_texts(),
            active: generation.active().names.iter().map(ToString::to_string).collect(),
            active_for: age(control, generation.active().at),
            knobs: generation.patches().global.entries().clone(),
            sinks: control.sinks.scripts(),
        }
    });
    Snapshot { format: FORMAT.to_owned(), version: VERSION, clock, whole, workspaces, key: None }
}

fn saved(control: &Control, workspace: &Arc<Workspace>, deliveries: Vec<SavedDelivery>) -> SavedWorkspace {
    let generation = control.library.load();
    let name = workspace.name();
    let setup = generation.setup_for(Some(name));
    let mut saved = workspace.save(setup.activation);
    saved.scenarios.active = setup.active.iter().map(|scenario| scenario.name.to_string()).collect();
    saved.scenarios.active_for = age(control, setup.activated_at);
    saved.scenarios.own = generation.active_by_key().contains_key(name);
    saved.knobs = generation.patches().keys.get(name).map(|patch| patch.entries().clone()).unwrap_or_default();
    let tokens = control.registry.tokens().of(|key| workspace_of(key, &setup.profile.keys) == name.as_ref());
    let token = |(token, alias): (Arc<str>, Alias)| SavedToken {
        token: token.to_string(),
        key: alias.key.to_string(),
        expires: alias.expires.nanos(),
    };
    saved.tokens = tokens.into_iter().map(token).collect();
    let emission = |planned: Planned| SavedEmission {
        emission: planned.emit.fingerprint,
        at: planned.at.nanos(),
        leaves: planned.leaves.map(Moment::nanos),
    };
    saved.planned = control.emitter.planned(workspace).into_iter().map(emission).collect();
    saved.deliveries = deliveries;
    saved
}

/// How long ago something was by the emulator's clock.
fn age(control: &Control, at: Moment) -> Nanos {
    u64::try_from(control.registry.clock().moment().since(at).as_nanos()).unwrap_or(u64::MAX)
}

/// Every delivery that is not settled, by workspace, oldest first.
fn pending(control: &Control) -> HashMap<Arc<str>, Vec<SavedDelivery>> {
    let mut found: HashMap<_, Vec<SavedDelivery>> = HashMap::new();
    let records = control.book.list(None, usize::MAX, |record| record.status == DeliveryStatus::Pending);
    for (_, record) in records.into_iter().rev().filter(|(_, record)| !record.event.lost) {
        let event = &record.event;
        found.entry(Arc::clone(&event.workspace)).or_default().push(SavedDelivery {
            id: record.planned.id.clone(),
            subscription: record.planned.subscription.clone(),
            url: record.planned.url.to_string(),
            attempts: record.planned.attempts_before.saturating_add(record.made),
            due: record.next.unwrap_or(event.due).nanos(),
            event: event.id.clone(),
            event_type: event.event_type.clone(),
            created_at: event.created_at,
            body: event.body.clone(),
            tamper: event.tamper.map(|tamper| tamper.name().to_owned()),
            damage: event.damage.as_deref().map(str::to_owned),
        });
    }
    found
}

/// A workspace that is read whole and waits to be put in place.
struct Ready<'s> {
    workspace: Arc<Workspace>,
    saved: &'s SavedWorkspace,
    events: Vec<EventRecord>,
}

/// Loads a snapshot: everything is read and checked first, then put in place. Gives how many workspaces were, and what could not
/// be.
fn put_in_place(control: &Control, snapshot: &Snapshot) -> Result<(usize, Vec<String>), SnapshotProblem> {
    let clock = control.registry.clock();
    let shown = match &snapshot.whole {
        Some(_) if snapshot.clock.frozen => snapshot.clock.now,
        Some(_) => machine::wall_time().saturating_add(snapshot.clock.ahead).unwrap_or(Timestamp::MAX),
        None => clock.now().wall,
    };
    // What has passed since then has passed for everything that waits.
    let elapsed = Duration::try_from(shown.duration_since(snapshot.clock.now)).unwrap_or_default();
    let seed = snapshot
        .whole
        .as_ref()
        .map(|whole| Seed::from_text(&whole.seed).ok_or_else(|| problem("whole.seed: expected 32 bytes as base64")));
    let seed = seed.transpose()?;
    if let Some(whole) = &snapshot.whole {
        let checked = control.registry.check_sources(&whole.anonymous);
        checked.map_err(|text| problem(format!("whole.anonymous: {text}")))?;
    }
    let mut ready = Vec::new();
    for saved in &snapshot.workspaces {
        let whose = |text: String| {
            let profile = control.profile();
            problem(format!("workspace of `{}`: {text}", Redactor::new(&profile.keys).key(&saved.key)))
        };
        let workspace = control.registry.restored(saved, elapsed).map_err(whose)?;
        let events = saved.deliveries.iter().map(|saved| event(&workspace, saved)).collect::<Result<_, _>>();
        ready.push(Ready { workspace, saved, events: events.map_err(whose)? });
    }
    let restored = restored(control, snapshot, elapsed)?;
    let moment = match &snapshot.whole {
        // Activations lie as far back as they did, which is later than the start.
        Some(_) => clock.moment().max(Moment::from_nanos(snapshot.clock.moment).plus(elapsed)),
        None => clock.moment(),
    };
    control.library.restore(restored, moment).map_err(|found| told(&found))?;

    // From here on nothing fails.
    if let (Some(whole), Some(seed)) = (&snapshot.whole, seed) {
        clear_all(control);
        control.registry.set_seed(seed);
        let saved = restore_clock(&snapshot.clock);
        clock.restore(SavedClock { now: Now { moment, ..saved.now }, ..saved }, Duration::ZERO);
        let _ = control.registry.anonymous().lock().restore_sources(&whole.anonymous);
        for (name, statuses) in &whole.sinks {
            control.sinks.script(name, statuses.clone());
        }
    }
    let count = ready.len();
    let warnings = ready.into_iter().flat_map(|ready| install(control, ready, elapsed)).collect();
    Ok((count, warnings))
}

/// What the library has to have for the snapshot.
fn restored(control: &Control, snapshot: &Snapshot, elapsed: Duration) -> Result<Restored, SnapshotProblem> {
    let knobs = |knobs: &Map<String, Value>| {
        KnobPatch::from_text(&Value::Object(knobs.clone()).to_string()).map_err(|found| told(&found))
    };
    let whole = match &snapshot.whole {
        None => None,
        Some(whole) => {
            let (inline, active) = (whole.scenarios.clone(), whole.active.clone());
            let active_for = Duration::from_nanos(whole.active_for).saturating_add(elapsed);
            Some(RestoredWhole { inline, active, active_for, knobs: knobs(&whole.knobs)? })
        }
    };
    let generation = control.library.load();
    let mut keys = Vec::new();
    for saved in &snapshot.workspaces {
        let scenarios = &saved.scenarios;
        // A key that followed a list of all keys which is not that of this emulator gets one of its own.
        let follows = match &snapshot.whole {
            Some(_) => true,
            None => generation.active().names.iter().map(AsRef::as_ref).eq(scenarios.active.iter().map(String::as_str)),
        };
        let age = Duration::from_nanos(scenarios.active_for).saturating_add(elapsed);
        let active = (scenarios.own || !follows).then(|| (scenarios.active.clone(), age));
        keys.push(RestoredKey { name: Arc::from(saved.key.as_str()), active, knobs: knobs(&saved.knobs)? });
    }
    Ok(Restored { whole, keys })
}

fn told(found: &[Diagnostic]) -> SnapshotProblem {
    let first = found.iter().find(|diagnostic| diagnostic.is_error()).or(found.first());
    problem(first.map_or_else(String::new, Diagnostic::one_line))
}

/// An event with its one delivery that is not settled.
fn event(workspace: &Workspace, saved: &SavedDelivery) -> Result<EventRecord, String> {
    let target = Url::parse(&saved.url).map_err(|error| format!("delivery {}: url: {error}", saved.id))?;
    let tamper = match &saved.tamper {
        None => None,
        Some(name) => {
            Some(Tamper::from_name(name).ok_or_else(|| format!("delivery {}: tamper: no `{name}`", saved.id))?)
        }
    };
    let delivery = PlannedDelivery {
        id: saved.id.clone(),
        subscription: saved.subscription.clone(),
        url: Arc::from(saved.url.as_str()),
        target: Arc::new(target),
        attempts_before: saved.attempts,
    };
    Ok(EventRecord {
        id: saved.event.clone(),
        workspace: Arc::clone(workspace.name()),
        event_type: saved.event_type.clone(),
        created_at: saved.created_at,
        handed_at: workspace.clock().now().wall,
        body: saved.body.clone(),
        due: Moment::from_nanos(saved.due),
        deliveries: vec![Arc::new(delivery)],
        skipped: Vec::new(),
        tamper,
        lost: false,
        damage: saved.damage.as_deref().map(Arc::from),
        origin: Origin::default(),
        warnings: Vec::new(),
    })
}

/// Forgets every workspace, and with them what they left in journal and book.
fn clear_all(control: &Control) {
    control.registry.forget_all();
    control.registry.tokens().forget(|_| true);
    control.book.clear(None);
    control.journal.clear(None);
    control.sinks.clear();
}

/// Puts one workspace in place of the one of its key; tells what of it has no place any more.
fn install(control: &Control, ready: Ready<'_>, elapsed: Duration) -> Vec<String> {
    let Ready { workspace, saved, events } = ready;
    let name = workspace.name();
    let setup: Arc<Setup> = Arc::clone(control.library.load().setup_for(Some(name)));
    control.registry.tokens().forget(|key| workspace_of(key, &setup.profile.keys) == name.as_ref());
    // It leaves before its traces are cleared, so that none comes late.
    control.registry.forget(name);
    control.book.clear(Some(name));
    control.journal.clear(Some(name));
    // Read again: the emulator's clock may have been put elsewhere since.
    workspace.clock().restore(restore_clock(&saved.clock), elapsed);
    workspace.lock().restore_scenarios(&saved.scenarios, setup.activation);
    for token in &saved.tokens {
        let alias = Alias { key: Arc::from(token.key.as_str()), expires: Moment::from_nanos(token.expires) };
        control.registry.tokens().put(Arc::from(token.token.as_str()), alias);
    }
    // A request that came meanwhile found a fresh workspace, which lived for a moment.
    if let Some(short_lived) = control.registry.replace(&workspace, control.registry.clock().now()) {
        control.book.clear_of(&short_lived);
        control.journal.clear_of(&short_lived);
    }
    let by_print: BTreeMap<u64, _> = setup.emits.iter().map(|emit| (emit.fingerprint, emit)).collect();
    let planned = saved.planned.iter().filter_map(|planned| {
        let emit = Arc::clone(by_print.get(&planned.emission)?);
        let (at, leaves) = (Moment::from_nanos(planned.at), planned.leaves.map(Moment::from_nanos));
        Some(Planned { emit, activation: setup.activation, at, leaves })
    });
    let planned: Vec<Planned> = planned.collect();
    let lost = saved.planned.len() - planned.len();
    control.emitter.restore(&workspace, planned);
    let mut refused = 0;
    for event in events {
        refused += usize::from(hand_over(&control.journal, &control.book, &workspace, Arc::new(event)).is_err());
    }
    control.emissions.look(&workspace);
    let id = workspace.id();
    let warnings = [
        (lost, format!("{lost} planned events of {id} are of emissions that have changed since")),
        (refused, format!("{refused} deliveries of {id} are dropped: too many are pending")),
    ];
    warnings.into_iter().filter(|(count, _)| *count > 0).map(|(_, warning)| warning).collect()
}
