//! The JSON of a saved emulator or workspace, and how one workspace is restored from it: state, counters, progress of scenarios,
//! clock, random sources. The engine saves, and restores what is kept elsewhere: planned events, deliveries, tokens.
//!
//! Instants are nanoseconds of the workspace's own clock; wall times are RFC 3339. Secrets and keys are not masked, as the state
//! could not be restored without them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::sources::{SavedSources, Sources};
use super::subscriptions::{SubscriptionRecord, Subscriptions};
use super::tokens::AccessToken;
use super::workflows::{WorkflowRecord, Workflows};
use super::{Registry, Workspace, WorkspaceState};
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

/// A snapshot: of some workspaces, or of everything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub format: String,
    pub version: u32,
    /// The emulator's clock when the snapshot was taken.
    pub clock: SavedClock,
    /// What does not belong to a workspace; present if everything was saved.
    pub whole: Option<GlobalState>,
    /// By id.
    pub workspaces: Vec<SavedWorkspace>,
    /// The `key` that a request may send with the snapshot; never saved.
    #[serde(default, skip_serializing)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalState {
    pub seed: String,
    pub anonymous: SavedSources,
    pub scenarios: BTreeMap<String, String>,
    /// The scenarios active for every key without its own list.
    pub active: Vec<String>,
    /// How long they have been active, by the emulator's clock, in nanoseconds.
    pub active_for: u64,
    pub knobs: Box<RawValue>,
    /// The scripted answers of the built-in receivers, by name.
    pub sinks: BTreeMap<String, Vec<u16>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedWorkspace {
    /// The key, or the name of the group of keys.
    pub key: String,
    pub clock: SavedClock,
    pub(crate) sources: SavedSources,
    pub(crate) quotas: BTreeMap<String, Quota>,
    pub(crate) subscriptions: Vec<SubscriptionRecord>,
    pub(crate) workflows: Vec<WorkflowRecord>,
    pub(crate) users: Vec<Map<String, Value>>,
    pub scenarios: SavedScenarios,
    pub knobs: Box<RawValue>,
    pub tokens: Vec<AccessToken>,
    pub planned: Vec<SavedEmission>,
    /// Deliveries that are not settled.
    pub deliveries: Vec<SavedDelivery>,
}

/// The progress of a workspace's scenarios.
#[derive(Debug, Serialize, Deserialize)]
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

/// A delivery that is not settled, with its event: the form in which several deliveries of an event are independent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDelivery {
    pub id: String,
    pub subscription: String,
    pub url: String,
    pub attempts: u32,
    pub due: Instant,
    pub event: String,
    pub event_type: String,
    pub created_at: Timestamp,
    #[serde(with = "shared_text")]
    pub body: Bytes,
    pub tamper: Option<String>,
    /// What is deliberately wrong with it and who asked for it, in words; absent if nothing is, and in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl Snapshot {
    /// Reads a document; the error says why it cannot be loaded.
    pub fn read(bytes: &[u8]) -> Result<Self, SnapshotProblem> {
        Self::check_version(bytes)?;
        serde_json::from_slice(bytes).map_err(|error| SnapshotProblem(format!("the snapshot cannot be read: {error}")))
    }

    /// Refuses documents that are not snapshots of this version.
    fn check_version(bytes: &[u8]) -> Result<(), SnapshotProblem> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Frame {
            format: Value,
            version: Value,
        }
        let frame = match serde_json::from_slice(bytes) {
            Err(error) if !error.is_data() => {
                return Err(SnapshotProblem(format!("the snapshot is not JSON: {error}")));
            }
            frame => frame.unwrap_or_else(|_| Frame::default()),
        };
        if frame.format != SNAPSHOT_FORMAT {
            return Err(SnapshotProblem(format!("expected a snapshot (`format` is `{SNAPSHOT_FORMAT}`)")));
        }
        if frame.version != SNAPSHOT_VERSION {
            let version: String = frame.version.to_string().chars().take(40).collect();
            return Err(SnapshotProblem(format!(
                "the snapshot has version {version}, and this emulator reads version {SNAPSHOT_VERSION}; take it again with this one"
            )));
        }
        Ok(())
    }

    pub fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always serialise")
    }
}

impl Registry {
    /// The workspace that a snapshot describes, not yet in the registry; the error says what is invalid. Its clock continues from
    /// its saved instant, `elapsed` later if it was running.
    pub fn restored(&self, saved: &SavedWorkspace, elapsed: Duration) -> Result<Arc<Workspace>, String> {
        let workspace = self.fresh(Arc::from(saved.key.as_str()));
        workspace.clock.restore(&saved.clock, elapsed);
        workspace.lock().restore(saved)?;
        Ok(Arc::new(workspace))
    }
}

impl WorkspaceState {
    /// The quotas that were used, by key; `name` is the workspace's.
    pub fn used_quotas(&self, name: &Arc<str>) -> BTreeMap<String, Quota> {
        let quotas = std::iter::once((name, &self.quota)).chain(&self.group_quotas);
        quotas.filter(|(_, quota)| quota.is_used()).map(|(key, quota)| (key.to_string(), quota.clone())).collect()
    }

    fn restore(&mut self, saved: &SavedWorkspace) -> Result<(), String> {
        self.sources = Sources::restored(&saved.sources)?;
        for (key, quota) in &saved.quotas {
            let quota = quota.clone().restored();
            if *key == saved.key {
                self.quota = quota;
            } else {
                self.group_quotas.insert(Arc::from(key.as_str()), quota);
            }
        }
        let budget = self.budget().clone();
        self.subscriptions = Subscriptions::restore(&saved.subscriptions, &budget)?;
        self.workflows =
            Workflows::restore(&saved.workflows, &saved.users, &budget).map_err(|full| full.to_string())?;
        self.counters.restore(0, &saved.scenarios.named_turns, &saved.scenarios.named_steps);
        Ok(())
    }

    /// Restores the progress of the scenarios, under their present activation.
    pub fn restore_scenarios(&mut self, saved: &SavedScenarios, activation: u64) {
        self.counters.restore(activation, &saved.turns, &saved.steps);
        if let Some(began) = saved.began {
            self.record_activation(activation, began);
        }
    }
}

mod shared_text {
    use hyper::body::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        String::deserialize(deserializer).map(|text| text.into_boxed_str().into_boxed_bytes().into())
    }
}
