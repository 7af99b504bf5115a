//! The JSON of a saved emulator or workspace, written from what the workspaces share with it: no record is copied. `restored` reads it.
//!
//! Instants are nanoseconds of the workspace's own clock; wall times are RFC 3339. Secrets and keys are not masked, because the state
//! could not be restored without them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::WorkspaceState;
use super::events::{EventRecord, PlannedDelivery};
use super::sources::SavedSources;
use super::subscriptions::SubscriptionRecord;
use crate::clock::{Instant, SavedClock};
use crate::scenario::rule_counters::SavedCounter;
use crate::state::quota::Quota;

/// The value of the first field of every snapshot.
pub const SNAPSHOT_FORMAT: &str = "wrs-emulator snapshot";
/// The version of the form; a snapshot of another version is refused.
pub const SNAPSHOT_VERSION: u32 = 1;

/// Why a snapshot cannot be loaded. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotProblem(pub(crate) String);

/// A snapshot to be written: of some workspaces, or of everything.
#[derive(Debug, Serialize)]
pub struct Snapshot {
    pub(crate) format: &'static str,
    pub(crate) version: u32,
    /// The emulator's clock when the snapshot was taken.
    pub(crate) clock: SavedClock,
    /// What does not belong to a key; present if everything was saved.
    pub(crate) whole: Option<SavedGlobal>,
    /// By id.
    pub(crate) workspaces: Vec<SavedWorkspace>,
}

#[derive(Debug, Serialize)]
pub struct SavedGlobal {
    pub(crate) seed: String,
    /// The workspace of requests without a key.
    pub(crate) anonymous: SavedWorkspace,
    pub(crate) scenarios: BTreeMap<Arc<str>, Arc<str>>,
    /// The scenarios active for every key without its own list.
    pub(crate) active: Vec<String>,
    /// How long they have been active, by the emulator's clock, in nanoseconds.
    pub(crate) active_for: u64,
    pub(crate) knobs: Box<RawValue>,
    /// The scripted answers of the built-in receivers, by name.
    pub(crate) sinks: BTreeMap<String, Vec<u16>>,
}

#[derive(Debug, Serialize)]
pub struct SavedWorkspace {
    pub(crate) key: Arc<str>,
    pub(crate) clock: SavedClock,
    #[serde(flatten)]
    pub(crate) state: SavedState,
    pub(crate) scenarios: SavedScenarios,
    pub(crate) knobs: Box<RawValue>,
    pub(crate) planned: Vec<SavedEmission>,
    /// Deliveries that are not settled.
    pub(crate) deliveries: Vec<PendingDelivery>,
}

/// The part of a workspace that it saves itself.
#[derive(Debug, Serialize)]
pub struct SavedState {
    sources: SavedSources,
    /// Null if it was not used.
    pub(super) quota: Option<Quota>,
    pub(super) subscriptions: Vec<Arc<SubscriptionRecord>>,
}

/// The progress of a workspace's scenarios.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScenarios {
    pub active: Vec<String>,
    pub own: bool,
    /// How long they have been active, by the emulator's clock, in nanoseconds.
    pub active_for: u64,
    /// When they started for it, if they have.
    pub(crate) began: Option<Instant>,
    pub(crate) turns: Vec<SavedCounter>,
    pub(crate) steps: Vec<(u64, String)>,
    /// The same of scenarios that requests named.
    pub(crate) named_turns: Vec<SavedCounter>,
    pub(crate) named_steps: Vec<(u64, String)>,
}

/// A planned event. An emission is part of a scenario, so it is named by its fingerprint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEmission {
    pub emission: u64,
    pub at: Instant,
    /// When it is sent, if later.
    pub leaves: Option<Instant>,
}

/// A delivery that is not settled. It is written as a `SavedDelivery`.
#[derive(Debug)]
pub struct PendingDelivery {
    pub(crate) planned: Arc<PlannedDelivery>,
    pub(crate) event: Arc<EventRecord>,
    pub(crate) attempts: u32,
    pub(crate) due: Instant,
}

/// A delivery with its event: the form in which several deliveries of an event are independent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedDelivery<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) subscription: Cow<'a, str>,
    pub(super) url: Cow<'a, str>,
    pub(super) attempts: u32,
    pub(super) due: Instant,
    pub(super) event: Cow<'a, str>,
    pub(super) event_type: Cow<'a, str>,
    pub(super) created_at: Timestamp,
    pub(super) body: Cow<'a, str>,
    pub(super) tamper: Option<Cow<'a, str>>,
    /// What is deliberately wrong with it and who asked for it, in words; absent if nothing is, and in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) damage: Option<Cow<'a, str>>,
}

impl Snapshot {
    pub fn write(&self, to: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(to, self).map_err(io::Error::from)
    }

    pub fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialise")
    }
}

impl Serialize for PendingDelivery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { planned, event, attempts, due } = self;
        let saved = SavedDelivery {
            id: Cow::from(&planned.id),
            subscription: Cow::from(&planned.subscription),
            url: Cow::from(planned.url.as_str()),
            attempts: *attempts,
            due: *due,
            event: Cow::from(&event.id),
            event_type: Cow::from(&event.event_type),
            created_at: event.created_at,
            body: String::from_utf8_lossy(&event.body),
            tamper: event.tamper.map(|tamper| Cow::from(tamper.name())),
            damage: event.damage.as_deref().map(Cow::from),
        };
        saved.serialize(serializer)
    }
}

impl WorkspaceState {
    /// What the workspace keeps itself. Records are shared and not copied.
    pub fn save(&self) -> SavedState {
        SavedState {
            sources: self.sources.save(),
            quota: Some(&self.quota).filter(|quota| quota.is_used()).cloned(),
            subscriptions: self.subscriptions.save(),
        }
    }

    /// Restores the progress of the scenarios, under their present activation.
    pub fn restore_scenarios(&mut self, saved: &SavedScenarios, activation: u64) {
        self.counters.restore(activation, &saved.turns, &saved.steps);
        if let Some(began) = saved.began {
            self.record_activation(activation, began);
        }
    }
}
