//! Saves the state of one key, or of everything, as a snapshot, and loads it. After a load the emulator continues as if it had
//! not stopped. A snapshot does not contain the journal, settled deliveries and running requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};
use url::Url;

use super::deliveries::DeliveryStatus;
use super::{Engine, settle};
use crate::clock::{Instant, SavedClock, Seed, machine};
use crate::contract::keys::workspace_of;
use crate::contract::signature::Tamper;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::scenario::{Restored, RestoredList, SettingPatch};
use crate::state::budget::Budget;
use crate::state::workspace::{
    EventRecord, GlobalState, HookUrl, PlannedDelivery, PlannedEvent, SNAPSHOT_FORMAT, SNAPSHOT_VERSION, SavedDelivery,
    SavedEmission, SavedScenarios, SavedWorkspace, Snapshot, SnapshotProblem, Sources, Workspace,
};

/// How long running tasks may take to end before a snapshot is taken. A busy key may never become idle, and an unanswered attempt
/// is made again after a load.
const PATIENCE: Duration = Duration::from_secs(3);

/// Waits until running tasks have ended, at most for 3 s.
pub async fn settle_for_a_moment(workspaces: &[Arc<Workspace>]) {
    let settled = join_all(workspaces.iter().map(|workspace| settle(workspace)));
    let _ = tokio::time::timeout(PATIENCE, settled).await;
}

impl Engine {
    /// The state of one workspace, or everything.
    pub fn snapshot(&self, only: Option<Arc<Workspace>>) -> Snapshot {
        let mut pending = self.pending();
        let is_whole = only.is_none();
        let workspaces = only.map_or_else(|| self.registry.all(), |one| vec![one]);
        let saved = workspaces.iter().map(|workspace| {
            let deliveries = pending.remove(workspace.name()).unwrap_or_default();
            self.saved(workspace, deliveries)
        });
        let workspaces = saved.collect();
        let clock = self.registry.clock().save();
        let whole = is_whole.then(|| {
            let generation = self.library.load();
            GlobalState {
                seed: self.registry.seed().to_text(),
                anonymous: self.registry.anonymous().lock().sources.save(),
                scenarios: self.library.inline_texts(),
                active: generation.active().names.iter().map(ToString::to_string).collect(),
                active_for: self.age(generation.active().at),
                knobs: raw(&generation.patches().global),
                sinks: self.sinks.scripts(),
            }
        });
        Snapshot { format: SNAPSHOT_FORMAT.to_owned(), version: SNAPSHOT_VERSION, clock, whole, workspaces, key: None }
    }

    fn saved(&self, workspace: &Workspace, deliveries: Vec<SavedDelivery>) -> SavedWorkspace {
        let generation = self.library.load();
        let name = workspace.name();
        let config = generation.config_for(Some(name));
        let own_settings = raw(generation.patches().keys.get(name).map_or(&SettingPatch::default(), AsRef::as_ref));
        let state = workspace.lock();
        let (turns, steps) = state.counters.save(config.activation);
        let (named_turns, named_steps) = state.counters.save(0);
        let emission = |planned: &PlannedEvent| SavedEmission {
            emission: planned.emit.fingerprint,
            at: planned.at,
            leaves: planned.leaves,
        };
        SavedWorkspace {
            key: name.to_string(),
            clock: workspace.clock().save(),
            sources: state.sources.save(),
            quotas: state.used_quotas(name),
            subscriptions: state.subscriptions.iter().cloned().collect(),
            workflows: state.workflows.records.clone(),
            users: state.workflows.users.clone(),
            scenarios: SavedScenarios {
                active: config.active.iter().map(|scenario| scenario.name.to_string()).collect(),
                own: generation.active_by_key().contains_key(name),
                active_for: self.age(config.activated_at),
                began: state.started_at(config.activation),
                turns,
                steps,
                named_turns,
                named_steps,
            },
            knobs: own_settings,
            tokens: self.registry.tokens().of(|key| workspace_of(key, &config.profile.keys) == name.as_ref()),
            planned: state.timeline.planned(config.activation).map(emission).collect(),
            deliveries,
        }
    }

    /// How long ago something was by the emulator's clock, in nanoseconds.
    fn age(&self, at: Instant) -> u64 {
        u64::try_from(self.registry.clock().instant().since(at).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Every delivery that is not settled, by workspace, oldest first.
    fn pending(&self) -> HashMap<Arc<str>, Vec<SavedDelivery>> {
        let mut found: HashMap<_, Vec<SavedDelivery>> = HashMap::new();
        let records = self.deliveries.list(None, usize::MAX, |record| record.status == DeliveryStatus::Pending);
        for (_, record) in records.into_iter().rev().filter(|(_, record)| !record.event.lost) {
            let event = &record.event;
            found.entry(Arc::clone(&event.workspace)).or_default().push(SavedDelivery {
                id: record.planned.id.clone(),
                subscription: record.planned.subscription.clone(),
                url: record.planned.url.to_string(),
                attempts: record.planned.attempts_before.saturating_add(record.made),
                due: record.next.unwrap_or(event.due),
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

    /// Loads a snapshot: validates everything first, then replaces the state. Returns warnings about what could not be restored.
    pub fn load_snapshot(self: &Arc<Self>, snapshot: &Snapshot) -> Result<Vec<String>, SnapshotProblem> {
        let clock = self.registry.clock();
        let shown = match &snapshot.whole {
            Some(_) if snapshot.clock.frozen => snapshot.clock.now,
            Some(_) => machine::wall_time().saturating_add(snapshot.clock.ahead).unwrap_or(Timestamp::MAX),
            None => clock.now().wall,
        };
        let in_range = |clock: &SavedClock, of: &str| clock.check().map_err(|early| problem(format!("{of}: {early}")));
        in_range(&snapshot.clock, "clock")?;
        for saved in &snapshot.workspaces {
            in_range(&saved.clock, "workspaces: clock")?;
        }
        // The time since the snapshot has passed for everything that waits, too.
        let elapsed = Duration::try_from(shown.duration_since(snapshot.clock.now)).unwrap_or_default();
        let whole = snapshot.whole.as_ref().map(|whole| {
            let seed =
                Seed::from_text(&whole.seed).ok_or_else(|| problem("whole.seed: expected 32 bytes as base64"))?;
            let anonymous =
                Sources::restored(&whole.anonymous).map_err(|text| problem(format!("whole.anonymous: {text}")))?;
            Ok((whole, seed, anonymous))
        });
        let whole = whole.transpose()?;
        let budget = self.journal.budget();
        let mut ready: Vec<(_, _, Vec<EventRecord>)> = Vec::new();
        for saved in &snapshot.workspaces {
            let whose = |text: String| {
                let profile = self.profile_for(None);
                problem(format!("workspace of `{}`: {text}", Redactor::new(&profile.keys).key(&saved.key)))
            };
            let workspace = self.registry.restored(saved, elapsed).map_err(whose)?;
            let events =
                saved.deliveries.iter().map(|saved| event(&workspace, saved, budget)).collect::<Result<_, _>>();
            ready.push((workspace, saved, events.map_err(whose)?));
        }
        let restored = self.restored(snapshot, elapsed)?;
        let instant = match &snapshot.whole {
            // Late enough that activations can be as long ago as they were.
            Some(_) => clock.instant().max(snapshot.clock.moment.plus(elapsed)),
            None => clock.instant(),
        };
        self.library.restore(restored, instant).map_err(|found| refused_by(&found))?;

        // From here on nothing fails.
        if let Some((whole, seed, anonymous)) = whole {
            self.clear_all();
            self.registry.set_seed(seed);
            clock.restore(&SavedClock { moment: instant, ..snapshot.clock }, Duration::ZERO);
            self.registry.anonymous().lock().sources = anonymous;
            for (name, statuses) in &whole.sinks {
                self.sinks.script(name, statuses.clone());
            }
        }
        Ok(ready
            .into_iter()
            .flat_map(|(workspace, saved, events)| self.install(&workspace, saved, events, elapsed))
            .collect())
    }

    /// The scenarios and settings of the snapshot, for the library.
    fn restored(&self, snapshot: &Snapshot, elapsed: Duration) -> Result<Restored, SnapshotProblem> {
        let list = |key: Option<&str>, active: Option<(&Vec<String>, u64)>, knobs: &RawValue| {
            let age = |nanos| Duration::from_nanos(nanos).saturating_add(elapsed);
            Ok(RestoredList {
                key: key.map(Arc::from),
                active: active.map(|(names, active_for)| (names.clone(), age(active_for))),
                settings: SettingPatch::from_text(knobs.get()).map_err(|found| refused_by(&found))?,
            })
        };
        let whole =
            snapshot.whole.iter().map(|whole| list(None, Some((&whole.active, whole.active_for)), &whole.knobs));
        let generation = self.library.load();
        let keys = snapshot.workspaces.iter().map(|saved| {
            let scenarios = &saved.scenarios;
            // A key gets its own list if it followed a list of all keys that differs from this emulator's.
            let own_names = generation.active().names.iter().map(AsRef::as_ref);
            let follows = snapshot.whole.is_some() || own_names.eq(scenarios.active.iter().map(String::as_str));
            let active = (scenarios.own || !follows).then_some((&scenarios.active, scenarios.active_for));
            list(Some(&saved.key), active, &saved.knobs)
        });
        let lists = whole.chain(keys).collect::<Result<_, SnapshotProblem>>()?;
        Ok(Restored { inline: snapshot.whole.as_ref().map(|whole| whole.scenarios.clone()), lists })
    }

    /// Replaces the workspace of a key by a restored one; returns warnings about what could not be restored.
    fn install(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        saved: &SavedWorkspace,
        events: Vec<EventRecord>,
        elapsed: Duration,
    ) -> Vec<String> {
        let name = workspace.name();
        self.clear(name);
        let config = self.config_for(Some(name));
        // Again, as the emulator's clock may have been restored since.
        workspace.clock().restore(&saved.clock, elapsed);
        workspace.lock().restore_scenarios(&saved.scenarios, config.activation);
        for token in &saved.tokens {
            self.registry.tokens().put(token.clone());
        }
        // A request in between may have created a new workspace, which is removed here.
        if let Some(short_lived) = self.registry.replace(workspace, self.registry.clock().now()) {
            // Compared by pointer: other workspaces have the same name.
            self.deliveries.clear(|of| Arc::ptr_eq(of, short_lived.name()));
            self.journal.clear(|entry| entry.workspace().is_some_and(|of| Arc::ptr_eq(of, short_lived.name())));
        }
        let by_print: HashMap<u64, _> = config.emits.iter().map(|emit| (emit.fingerprint, emit)).collect();
        let planned = saved.planned.iter().filter_map(|planned| {
            let emit = Arc::clone(by_print.get(&planned.emission)?);
            Some(PlannedEvent { emit, activation: config.activation, at: planned.at, leaves: planned.leaves })
        });
        let planned: Vec<PlannedEvent> = planned.collect();
        let lost = saved.planned.len() - planned.len();
        let add = |planned: &PlannedEvent| workspace.lock().timeline.add(planned.clone());
        self.note_dropped_emissions(workspace, planned.iter().filter(|planned| !add(planned)).count());
        // Deliveries due at this instant come after its events.
        workspace.agenda().set_next_firing(Some(Instant::default()));
        let mut refused = 0;
        for event in events {
            refused += usize::from(self.hand_over(workspace, Arc::new(event)).is_err());
        }
        self.fire_due(workspace);
        let (id, full) = (workspace.id(), self.journal.budget().full());
        let warnings = [
            (lost, format!("{lost} planned events of {id} are of emissions that have changed since")),
            (refused, format!("{refused} deliveries of {id} are dropped: {full}")),
        ];
        warnings.into_iter().filter(|(count, _)| *count > 0).map(|(_, warning)| warning).collect()
    }
}

/// The changed settings as a snapshot has them.
fn raw(patch: &SettingPatch) -> Box<RawValue> {
    to_raw_value(patch.entries()).expect("JSON always serialises")
}

fn problem(text: impl Into<String>) -> SnapshotProblem {
    SnapshotProblem(text.into())
}

fn refused_by(found: &[Diagnostic]) -> SnapshotProblem {
    let first = found.iter().find(|diagnostic| diagnostic.is_error()).or(found.first());
    problem(first.map_or_else(String::new, Diagnostic::one_line))
}

/// The event of a delivery that is not settled.
fn event(workspace: &Workspace, saved: &SavedDelivery, budget: &Budget) -> Result<EventRecord, String> {
    let url = Url::parse(&saved.url).map_err(|error| format!("delivery {}: url: {error}", saved.id))?;
    let tamper =
        |name: &String| Tamper::from_name(name).ok_or_else(|| format!("delivery {}: tamper: no `{name}`", saved.id));
    let tamper = saved.tamper.as_ref().map(tamper).transpose()?;
    let delivery = PlannedDelivery {
        id: saved.id.clone(),
        subscription: saved.subscription.clone(),
        url: HookUrl::new(&saved.url, Arc::new(url)),
        attempts_before: saved.attempts,
        serial: OnceLock::new(),
    };
    let event = EventRecord {
        id: saved.event.clone(),
        workspace: Arc::clone(workspace.name()),
        event_type: saved.event_type.clone(),
        created_at: saved.created_at,
        handed_at: workspace.clock().now().wall,
        body: saved.body.clone(),
        due: saved.due,
        deliveries: vec![Arc::new(delivery)],
        tamper,
        damage: saved.damage.as_deref().map(Arc::from),
        ..EventRecord::default()
    };
    event.charged(budget).map_err(|full| full.to_string())
}
