//! The frame of a saved state: its format and version, the forms of values that are no records, and how values are written. Records
//! are saved as they are kept; `workspace::saved` has the whole document.
//!
//! Instants are nanoseconds of the workspace's own clock; wall times are RFC 3339. Secrets and keys are not masked, as the state
//! could not be restored without them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::clock::Instant;

/// The value of the first field of every snapshot.
pub const FORMAT: &str = "wrs-emulator snapshot";
/// The version of the form; a snapshot of another version is refused.
pub const VERSION: u32 = 1;

/// Why a snapshot cannot be loaded. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SnapshotProblem(pub(crate) String);

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedClock {
    pub moment: Instant,
    #[serde(with = "text")]
    pub now: Timestamp,
    /// Whether it was frozen separately from the clock that it follows.
    pub frozen: bool,
    /// How far its wall time was ahead of the clock that it follows.
    #[serde(with = "text")]
    pub ahead: SignedDuration,
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

/// Refuses documents that are not snapshots of this version.
pub(crate) fn check_frame(bytes: &[u8]) -> Result<(), SnapshotProblem> {
    #[derive(Deserialize)]
    struct Frame<'t> {
        #[serde(borrow)]
        format: Option<&'t RawValue>,
        #[serde(borrow)]
        version: Option<&'t RawValue>,
    }

    let not_a_snapshot = || SnapshotProblem(format!("expected a snapshot (`format` is `{FORMAT}`)"));
    let frame: Frame<'_> = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Data => not_a_snapshot(),
        _ => SnapshotProblem(format!("the snapshot is not JSON: {error}")),
    })?;
    let text = |value: Option<&RawValue>| value.map_or("null", RawValue::get).to_owned();
    if serde_json::from_str::<String>(&text(frame.format)).ok().as_deref() != Some(FORMAT) {
        return Err(not_a_snapshot());
    }
    let version: String = text(frame.version).chars().take(40).collect();
    if version != VERSION.to_string() {
        let message = format!(
            "the snapshot has version {version}, and this emulator reads version {VERSION}; take it again with this one"
        );
        return Err(SnapshotProblem(message));
    }
    Ok(())
}

/// Durations in nanoseconds.
pub(crate) mod nanos {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

/// Values as their text.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|problem| D::Error::custom(format!("`{}`: {problem}", text.escape_debug())))
    }
}
