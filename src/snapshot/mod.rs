//! The JSON of a saved emulator or workspace. Only the serialised forms are here; each owner of state saves and restores its part
//! (`save`, `restore`), and `engine` combines them.
//!
//! Instants are nanoseconds of the workspace's own clock; wall times are RFC 3339. Secrets and keys are not masked, as the state
//! could not be restored without them.

mod document;

use std::collections::BTreeMap;

use hyper::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use document::SnapshotProblem;

/// The value of the first field of every snapshot.
pub const FORMAT: &str = "wrs-emulator snapshot";
/// The version of the form; a snapshot of another version is refused.
pub const VERSION: u32 = 1;

/// An instant or a duration of a workspace's clock, in nanoseconds.
pub type Nanos = u64;

/// A snapshot: of some workspaces, or of everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The emulator's clock when the snapshot was taken.
    pub clock: SavedClock,
    /// What does not belong to a workspace; present if everything was saved.
    pub whole: Option<GlobalState>,
    /// The workspaces, by id.
    pub workspaces: Vec<SavedWorkspace>,
    /// The `key` that a request may send with the snapshot; never saved.
    #[serde(default, skip_serializing)]
    pub key: Option<String>,
}

/// The state that does not belong to a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalState {
    /// The seed of all random sources, as base64.
    pub seed: String,
    /// The random sources of requests without a valid key.
    pub anonymous: Sources,
    /// Scenarios given as text, by name.
    pub scenarios: BTreeMap<String, String>,
    /// The scenarios active for every key without its own list.
    pub active: Vec<String>,
    /// How long they have been active, by the emulator's clock.
    pub active_for: Nanos,
    /// Settings changed for all keys while running.
    pub knobs: Box<RawValue>,
    /// The scripted answers of the built-in receivers, by name.
    pub sinks: BTreeMap<String, Vec<u16>>,
}

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedClock {
    /// Its instant.
    pub moment: Nanos,
    /// Its wall time.
    #[serde(with = "text")]
    pub now: Timestamp,
    /// Whether it was frozen separately from the clock that it follows.
    pub frozen: bool,
    /// How far its wall time was ahead of the clock that it follows.
    #[serde(with = "text")]
    pub ahead: SignedDuration,
}

/// Random sources and serial numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The state of the source for requests, as base64.
    pub random: String,
    /// Ids made for requests.
    pub serial: u64,
    /// The state of the source for events, as base64.
    pub event_random: String,
    /// Ids made for events.
    pub event_serial: u64,
}

/// One workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedWorkspace {
    /// The key, or the name of the group of keys.
    pub key: String,
    /// Its clock.
    pub clock: SavedClock,
    /// Its random sources.
    pub sources: Sources,
    /// What each key has used.
    pub quotas: BTreeMap<String, SavedQuota>,
    /// Subscriptions, oldest first.
    pub subscriptions: Vec<SavedSubscription>,
    /// Workflows, oldest first.
    pub workflows: Vec<SavedWorkflow>,
    /// Users, in order.
    pub users: Vec<Box<RawValue>>,
    /// The progress of its scenarios.
    pub scenarios: SavedScenarios,
    /// Settings changed for it while running.
    pub knobs: Box<RawValue>,
    /// Access tokens of its keys, oldest first.
    pub tokens: Vec<SavedToken>,
    /// Events that emissions have planned, in order.
    pub planned: Vec<SavedEmission>,
    /// Deliveries that are not settled, in order.
    pub deliveries: Vec<SavedDelivery>,
}

/// What a key has used of its quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SavedQuota {
    /// Nothing yet.
    None,
    /// A window that has started, and the requests in it.
    Fixed {
        /// When it started.
        opened: Nanos,
        /// Requests since.
        used: u32,
    },
    /// Requests by instant, oldest first.
    Sliding {
        /// The instant and the count.
        log: Vec<(Nanos, u32)>,
    },
    /// How much is missing from a full bucket.
    Bucket {
        /// In tokens divided by the window's nanoseconds; a number too large for JSON.
        #[serde(with = "text")]
        missing: u128,
        /// When this was measured.
        at: Nanos,
        /// The window at that time; absent in snapshots of older versions, which means the one in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<Nanos>,
    },
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedSubscription {
    /// Form `sub_<id>`.
    pub id: String,
    /// As the client wrote it.
    pub url: String,
    /// Normalised.
    pub target: String,
    /// Subscribed event types.
    pub events: Vec<String>,
    /// Short label.
    pub description: Option<String>,
    /// Whether a receiver answered 410 Gone.
    pub disabled: bool,
    /// When it was created.
    #[serde(with = "text")]
    pub created_at: Timestamp,
    /// The signing secret.
    pub secret: String,
    /// The previous secret, and until when it signs.
    pub previous: Option<(String, Nanos)>,
}

/// A workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedWorkflow {
    /// Form `wf_<id>`.
    pub id: String,
    /// A label.
    pub name: Option<String>,
    /// Its reference.
    pub reference: Option<String>,
    /// `running`, `completed` or `cancelled`.
    pub status: String,
    /// When it was created.
    #[serde(with = "text")]
    pub created_at: Timestamp,
    /// When it was changed last.
    #[serde(with = "text")]
    pub updated_at: Timestamp,
    /// When it completes, or would have completed.
    pub completes: Nanos,
    /// The same as a wall time.
    #[serde(with = "text")]
    pub completes_at: Timestamp,
    /// Whether the event of its completion has not been fired yet.
    pub untold: bool,
}

/// The progress of a workspace's scenarios.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedScenarios {
    /// The active ones, in order.
    pub active: Vec<String>,
    /// Whether the key has its own list.
    pub own: bool,
    /// How long they have been active, by the emulator's clock.
    pub active_for: Nanos,
    /// When they started for it, if they have.
    pub began: Option<Nanos>,
    /// The counters of their rules and emissions.
    pub turns: Vec<SavedTurn>,
    /// The current steps of their stories.
    pub steps: Vec<(u64, String)>,
    /// The counters of scenarios that requests named.
    pub named_turns: Vec<SavedTurn>,
    /// The steps of scenarios that requests named.
    pub named_steps: Vec<(u64, String)>,
}

/// The counters of one rule or emission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedTurn {
    /// The fingerprint of the rule's text.
    pub rule: u64,
    /// Requests that its conditions matched.
    pub matched: u64,
    /// Requests that it decided, or events fired.
    pub applied: u64,
}

/// An access token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedToken {
    /// The token.
    pub token: String,
    /// The key that it is an alias of.
    pub key: String,
    /// When it expires.
    pub expires: Nanos,
}

/// A planned event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedEmission {
    /// The fingerprint of the emission's text.
    pub emission: u64,
    /// When it happens.
    pub at: Nanos,
    /// When it is sent, if later.
    pub leaves: Option<Nanos>,
}

/// A delivery that is not settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDelivery {
    /// Form `dlv_<id>`.
    pub id: String,
    /// The subscription.
    pub subscription: String,
    /// Its URL.
    pub url: String,
    /// Attempts made.
    pub attempts: u32,
    /// When the next is due.
    pub due: Nanos,
    /// The event's id.
    pub event: String,
    /// The event type.
    pub event_type: String,
    /// When it occurred.
    #[serde(with = "text")]
    pub created_at: Timestamp,
    /// The envelope as it is signed and sent.
    #[serde(with = "shared_text")]
    pub body: Bytes,
    /// What is falsified.
    pub tamper: Option<String>,
    /// What is deliberately wrong with it and who asked for it, in words; absent if nothing is, and in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

/// UTF-8 bytes as a string.
mod shared_text {
    use hyper::body::Bytes;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::memory::kept;

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        String::deserialize(deserializer).map(|text| kept(text.into_bytes()))
    }
}

/// Values as their text.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|problem| D::Error::custom(format!("`{}`: {problem}", text.escape_debug())))
    }
}
