//! The emulator's clock and those of keys; resetting; snapshots.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DurationInput, Empty, Form, KeyField, Nothing, Time, WorkspaceId, endpoint};
pub(crate) use crate::clock::ClockMode;
use crate::control::render::{Text, cell, joined};
use crate::scenario::generation_text;
use crate::util::wording::counted;

endpoint! {
    /// The emulator's time, or that of one key.
    ShowClock: GET "clock", Form::Masked, Nothing, Nothing => Clock;
    /// Stop, set, move or resume a clock; answers when what was due on the way is done.
    MoveClock: POST "clock", Form::Masked, Nothing, ClockChange => Clock;
    /// Forget what a key did, or everything.
    Reset: POST "reset", Form::Masked, Nothing, Empty => WasReset;
    /// The state of a key, or everything, as a document.
    SaveSnapshot: GET "snapshot", Form::Plain, Nothing, Nothing => Snapshot;
    /// Put a saved state in place.
    LoadSnapshot: PUT "snapshot", Form::Masked, Nothing, Snapshot => Loaded;
}

/// A clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Clock {
    pub(crate) mode: ClockMode,
    pub(crate) now: Time,
    /// Whose it is, unless it is the emulator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<WorkspaceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// Whether it shows the emulator's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<bool>,
}

/// A change of a clock: one of `mode`, `advance` and `set`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockChange {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    pub(crate) mode: Option<NewMode>,
    pub(crate) advance: Option<DurationInput>,
    #[cfg_attr(test, schemars(extend("format" = "date-time")))]
    pub(crate) set: Option<String>,
    /// How long the call waits until everything due is done; 60s if absent.
    pub(crate) timeout: Option<DurationInput>,
}

/// The requested mode of a clock.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewMode {
    /// Running from the time at which it was frozen.
    Real,
    Frozen,
    /// Only for a key's clock: it follows the emulator's again.
    Follow,
}

/// What was forgotten.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct WasReset {
    pub(crate) reset: Vec<WorkspaceId>,
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
}

/// A saved state. Only its frame is documented.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "SnapshotFrame", inline))]
#[serde(transparent)]
pub(crate) struct Snapshot(pub(crate) Map<String, Value>);

/// The frame of a saved state.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Snapshot"))]
#[expect(dead_code, reason = "a schema")]
struct SnapshotFrame {
    #[cfg_attr(test, schemars(extend("const" = crate::state::workspace::SNAPSHOT_FORMAT)))]
    format: String,
    #[cfg_attr(test, schemars(extend("const" = crate::state::workspace::SNAPSHOT_VERSION)))]
    version: u64,
    clock: Map<String, Value>,
    whole: Option<Map<String, Value>>,
    workspaces: Vec<WorkspaceFrame>,
}

/// The state of one key.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[expect(dead_code, reason = "a schema")]
struct WorkspaceFrame {
    key: String,
}

/// What was put in place.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Loaded {
    /// Workspaces.
    pub(crate) loaded: usize,
    /// The keys of the first few.
    pub(crate) keys: Vec<String>,
    pub(crate) generation: u64,
    pub(crate) warnings: Vec<String>,
}

impl Text for Clock {
    fn text(&self) -> String {
        let whose = match (&self.key, self.follows) {
            (Some(key), Some(true)) => format!(", {}, with the emulator's", cell(key)),
            (Some(key), _) => format!(", {} alone", cell(key)),
            (None, _) => String::new(),
        };
        let mode = match self.mode {
            ClockMode::Real => "running",
            ClockMode::Frozen => "frozen",
        };
        format!("{} ({mode}{whose})\n", self.now)
    }
}

impl Text for WasReset {
    fn text(&self) -> String {
        match self.keys.as_slice() {
            [key] => format!("{} reset\n", cell(key)),
            keys => format!("{} reset\n", counted(keys.len(), "workspace")),
        }
    }
}

impl Text for Snapshot {}

impl Text for Loaded {
    fn text(&self) -> String {
        let more = if self.loaded > self.keys.len() { ", …" } else { "" };
        let names = if self.keys.is_empty() { String::new() } else { format!(": {}{more}", joined(&self.keys)) };
        let (loaded, generation) = (counted(self.loaded, "workspace"), generation_text(self.generation));
        let warnings: String = self.warnings.iter().map(|warning| format!("  but {}\n", cell(warning))).collect();
        format!("{loaded} loaded{names} ({generation})\n{warnings}")
    }
}
