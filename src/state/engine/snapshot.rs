//! Saves the state of one key, or of everything, as a snapshot, and loads it. After a load the emulator continues as if it had
//! not stopped. A snapshot does not contain the journal, settled deliveries and running requests.

use std::collections::HashMap;
use std::io::{Read, Seek};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::value::{RawValue, to_raw_value};

use super::{Engine, settle};
use crate::clock::{Instant, SavedClock, Seed, machine};
use crate::contract::ids::IdKind;
use crate::contract::keys::check_token;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::scenario::{Restored, RestoredList, without_text};
use crate::settings::SettingPatch;
use crate::state::workspace::{
    EventRecord, PendingDelivery, PlannedEvent, RandomSources, SavedEmission, SavedGlobal, SavedScenarios,
    SavedWorkspace, Snapshot, SnapshotProblem, Workspace,
};

/// How long running tasks may need to end before a snapshot is taken. A busy key may never become idle, and an unanswered attempt
/// is made again after a load.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Waits until running tasks have ended, at most for 3 s.
pub async fn wait_idle_briefly(workspaces: &[Arc<Workspace>]) {
    let settled = join_all(workspaces.iter().map(|workspace| settle(workspace)));
    let _ = tokio::time::timeout(TIMEOUT, settled).await;
}

impl Engine {
    /// The state of one workspace, or everything.
    pub fn snapshot(&self, only: Option<Arc<Workspace>>) -> Snapshot {
        let mut pending = self.pending();
        let is_whole = only.is_none();
        let workspaces = only.map_or_else(|| self.registry.all(), |one| vec![one]);
        let mut saved = |workspace: &Workspace, key: Option<&str>| {
            let deliveries = pending.remove(workspace.name()).unwrap_or_default();
            self.saved(workspace, key, deliveries)
        };
        let workspaces = workspaces.iter().map(|workspace| saved(workspace, Some(workspace.name()))).collect();
        let clock = self.registry.clock().save();
        let whole = is_whole.then(|| {
            let current = self.library.load();
            SavedGlobal {
                seed: self.registry.seed().to_text(),
                anonymous: saved(&self.registry.anonymous(), None),
                scenarios: self.library.inline_texts(),
                active: current.active().names.iter().map(ToString::to_string).collect(),
                active_for: self.age(current.active().at),
                settings: raw(&current.patches().global),
                sinks: self.sinks.scripts(),
            }
        });
        Snapshot::new(clock, whole, workspaces)
    }

    /// One workspace, with the scenarios and settings of this key.
    fn saved(&self, workspace: &Workspace, key: Option<&str>, deliveries: Vec<PendingDelivery>) -> SavedWorkspace {
        let current = self.library.load();
        let name = workspace.name();
        let config = current.config_for(key);
        let own_settings = key.and_then(|key| current.patches().keys.get(key));
        let own_settings = raw(own_settings.map_or(&SettingPatch::default(), AsRef::as_ref));
        let state = workspace.lock();
        let (turns, steps) = state.counters.save(config.activation);
        let (named_turns, named_steps) = state.counters.save(0);
        let emission = |planned: &PlannedEvent| SavedEmission {
            emission: planned.emit.fingerprint,
            at: planned.at,
            leaves: planned.leaves,
        };
        SavedWorkspace {
            key: Arc::clone(name),
            clock: workspace.clock().save(),
            sources: state.sources.save(),
            quota: state.used_quota(),
            subscriptions: state.subscriptions.save(),
            scenarios: SavedScenarios {
                active: config.active.iter().map(|scenario| scenario.name.to_string()).collect(),
                own: key.is_some_and(|key| current.active_by_key().contains_key(key)),
                active_for: self.age(config.activated_at),
                began: state.started_at(config.activation),
                turns,
                steps,
                named_turns,
                named_steps,
            },
            settings: own_settings,
            planned: state.timeline.planned(config.activation).map(emission).collect(),
            deliveries,
        }
    }

    /// How long ago something was by the emulator's clock, in nanoseconds.
    fn age(&self, at: Instant) -> u64 {
        u64::try_from(self.registry.clock().instant().since(at).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Every delivery that is not settled, by workspace, oldest first.
    fn pending(&self) -> HashMap<Arc<str>, Vec<PendingDelivery>> {
        let mut found: HashMap<_, Vec<PendingDelivery>> = HashMap::new();
        self.deliveries.each_pending(|record| {
            let event = &record.event;
            if !event.lost {
                found.entry(Arc::clone(&event.workspace)).or_default().push(PendingDelivery {
                    planned: Arc::clone(&record.planned),
                    event: Arc::clone(event),
                    attempts: record.attempts_made(),
                    due: record.next.unwrap_or_else(|| event.due_of(&record.planned)),
                });
            }
        });
        found
    }

    /// Copies the state of a workspace to a key that has none, with new ids for its subscriptions, because ids are unique. Returns
    /// warnings about what could not be copied.
    pub fn fork(self: &Arc<Self>, from: &Workspace, key: &Arc<str>) -> Result<Vec<String>, SnapshotProblem> {
        let mut copy = self.saved(from, Some(from.name()), Vec::new());
        let (profile, now) = (self.profile_for(Some(key)), self.registry.clock().now());
        let mut sources = RandomSources::new(&self.registry.seed(), key);
        for record in &mut copy.subscriptions {
            self.journal.budget().room_to_load().map_err(|full| SnapshotProblem(full.to_string()))?;
            Arc::make_mut(record).id = sources.make_id(IdKind::Subscription, &profile, now);
        }
        (copy.key, copy.sources) = (Arc::clone(key), sources.save());
        self.load_snapshot(Snapshot::new(self.registry.clock().save(), None, vec![copy]))
    }

    /// Reads a snapshot. Changes nothing.
    pub fn read_snapshot(&self, document: impl Read + Seek) -> Result<Snapshot, SnapshotProblem> {
        Snapshot::read(document, self.journal.budget())
    }

    /// Loads a snapshot: validates all of it first, then replaces the state. Returns warnings about what could not be restored.
    pub fn load_snapshot(self: &Arc<Self>, mut snapshot: Snapshot) -> Result<Vec<String>, SnapshotProblem> {
        let clock = self.registry.clock();
        let saved_clock = snapshot.clock;
        let shown = match &snapshot.whole {
            Some(_) if saved_clock.frozen => saved_clock.now,
            Some(_) => machine::wall_time().saturating_add(saved_clock.ahead).unwrap_or(Timestamp::MAX),
            None => clock.now().wall,
        };
        let in_range =
            |clock: &SavedClock, of: &str| clock.check().map_err(|early| SnapshotProblem(format!("{of}: {early}")));
        in_range(&saved_clock, "clock")?;
        for saved in &snapshot.workspaces {
            in_range(&saved.clock, "workspaces: clock")?;
        }
        let workspaces = self.new_workspaces(&mut snapshot.workspaces)?;
        let whole = snapshot.whole.as_mut().map(|whole| self.new_global(whole)).transpose()?;
        // The time since the snapshot has passed also for everything that waits.
        let elapsed = Duration::try_from(shown.duration_since(saved_clock.now)).unwrap_or_default();
        let restored = self.restored(&mut snapshot, elapsed)?;
        let instant = match &whole {
            // Late enough that activations can be as long ago as they were.
            Some(_) => clock.instant().max(saved_clock.moment.plus(elapsed)),
            None => clock.instant(),
        };
        self.library.restore(restored, instant).map_err(|found| refused_by(&found))?;

        // From here on nothing fails.
        let mut warnings = Vec::new();
        if let (Some((seed, anonymous)), Some(saved)) = (whole, snapshot.whole) {
            self.clear_all();
            self.registry.set_seed(seed);
            clock.restore(&SavedClock { moment: instant, ..saved_clock }, Duration::ZERO);
            for (name, statuses) in saved.sinks {
                // The snapshot's content is in memory already.
                let _ = self.sinks.script(&name, statuses);
            }
            self.registry.replace_anonymous(Arc::clone(&anonymous));
            // It has the emulator's clock, whose instants go on from where they are.
            let shift = instant.since(saved_clock.moment.plus(elapsed));
            warnings.extend(self.install(&anonymous, saved.anonymous, None, shift));
        }
        for (workspace, saved) in workspaces.iter().zip(snapshot.workspaces) {
            self.clear(workspace.name());
            // Only now, because the emulator's clock may have been restored.
            workspace.clock().restore(&saved.clock, elapsed);
            // A request in between may have created a new workspace, which is removed here.
            if let Some(short_lived) = self.registry.replace(workspace, clock.now()) {
                // Compared by pointer: other workspaces have the same name.
                self.deliveries.clear(|of| Arc::ptr_eq(of, short_lived.name()));
                self.journal.clear(|entry| entry.workspace().is_some_and(|of| Arc::ptr_eq(of, short_lived.name())));
            }
            warnings.extend(self.install(workspace, saved, Some(workspace.name()), Duration::ZERO));
        }
        Ok(warnings)
    }

    /// The workspaces of keys, which are not in the registry yet.
    fn new_workspaces(&self, saved: &mut [SavedWorkspace]) -> Result<Vec<Arc<Workspace>>, SnapshotProblem> {
        let profile = self.profile_for(None);
        let made = saved.iter_mut().map(|saved| {
            check_token(&saved.key).map_err(|refusal| SnapshotProblem(format!("workspaces: key: {refusal}")))?;
            let key = Arc::clone(&saved.key);
            saved.restore_to(self.registry.fresh(Arc::clone(&key))).map_err(|problem| {
                let shown = Redactor::new(&profile.keys).key(&key);
                SnapshotProblem(format!("workspace of `{shown}`: {problem}"))
            })
        });
        made.collect()
    }

    /// The seed, and the workspace of requests without a key.
    fn new_global(&self, saved: &mut SavedGlobal) -> Result<(Seed, Arc<Workspace>), SnapshotProblem> {
        let seed = Seed::from_text(&saved.seed)
            .ok_or_else(|| SnapshotProblem("whole.seed: expected 32 bytes as base64".to_owned()))?;
        let anonymous = saved.anonymous.restore_to(self.registry.new_anonymous());
        Ok((seed, anonymous.map_err(|problem| SnapshotProblem(format!("whole.anonymous: {problem}")))?))
    }

    /// The scenarios and settings of the snapshot, for the library.
    fn restored(&self, snapshot: &mut Snapshot, elapsed: Duration) -> Result<Restored, SnapshotProblem> {
        let list = |key: Option<&str>, active: Option<(&Vec<String>, u64)>, settings: &RawValue| {
            let age = |nanos| Duration::from_nanos(nanos).saturating_add(elapsed);
            self.journal.budget().room_to_load().map_err(|full| SnapshotProblem(full.to_string()))?;
            Ok(RestoredList {
                key: key.map(Arc::from),
                active: active.map(|(names, active_for)| (names.clone(), age(active_for))),
                settings: SettingPatch::from_text(settings.get()).map_err(|found| refused_by(&without_text(found)))?,
            })
        };
        let whole =
            snapshot.whole.iter().map(|whole| list(None, Some((&whole.active, whole.active_for)), &whole.settings));
        let current = self.library.load();
        let keys = snapshot.workspaces.iter().map(|saved| {
            let scenarios = &saved.scenarios;
            // A key gets its own list if it followed a list of all keys that differs from this emulator's.
            let own_names = current.active().names.iter().map(AsRef::as_ref);
            let follows = snapshot.whole.is_some() || own_names.eq(scenarios.active.iter().map(String::as_str));
            let active = (scenarios.own || !follows).then_some((&scenarios.active, scenarios.active_for));
            list(Some(&saved.key), active, &saved.settings)
        });
        let lists = whole.chain(keys).collect::<Result<_, SnapshotProblem>>()?;
        Ok(Restored { inline: snapshot.whole.as_mut().map(|whole| mem::take(&mut whole.scenarios)), lists })
    }

    /// Restores what belongs to a workspace that is in place, by whose clock everything is `shift` later; returns a warning about what
    /// could not be restored.
    fn install(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        saved: SavedWorkspace,
        key: Option<&str>,
        shift: Duration,
    ) -> Option<String> {
        let SavedWorkspace { scenarios, planned, deliveries, .. } = saved;
        let config = self.config_for(key);
        let mut state = workspace.lock();
        state.counters.restore(config.activation, &scenarios.turns, &scenarios.steps);
        if let Some(began) = scenarios.began {
            state.record_activation(config.activation, began.plus(shift));
        }
        drop(state);
        let by_print: HashMap<u64, _> = config.emits.iter().map(|emit| (emit.fingerprint, emit)).collect();
        let mut lost = 0;
        for SavedEmission { emission, at, leaves } in planned {
            let Some(emit) = by_print.get(&emission).map(|emit| Arc::clone(emit)) else {
                lost += 1;
                continue;
            };
            let (at, leaves) = (at.plus(shift), leaves.map(|leaves| leaves.plus(shift)));
            workspace.lock().timeline.add(PlannedEvent { emit, activation: config.activation, at, leaves });
        }
        // Deliveries due at this instant come after its events.
        workspace.agenda().set_next_firing(Some(Instant::default()));
        for of_event in deliveries.chunk_by(|one, next| Arc::ptr_eq(&one.event, &next.event)) {
            let event = EventRecord {
                workspace: Arc::clone(workspace.name()),
                handed_at: workspace.clock().now().wall,
                deliveries: of_event.iter().map(|delivery| Arc::clone(&delivery.planned)).collect(),
                ..EventRecord::clone(&of_event[0].event)
            };
            self.put(workspace, Arc::new(event));
        }
        self.fire_due(workspace);
        let warning =
            || format!("{lost} planned events of {} are of emissions that have changed since", workspace.id());
        (lost > 0).then(warning)
    }
}

/// The changed settings as a snapshot has them.
fn raw(patch: &SettingPatch) -> Box<RawValue> {
    to_raw_value(patch.entries()).expect("JSON always serialises")
}

fn refused_by(found: &[Diagnostic]) -> SnapshotProblem {
    let first = found.iter().find(|diagnostic| diagnostic.is_error()).or(found.first());
    SnapshotProblem(first.map_or_else(String::new, Diagnostic::one_line))
}
