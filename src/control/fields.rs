//! Types of fields and answers that several calls of the control API have. Independent of the emulator's parts.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::render::{TableRow, Text};
use crate::advice::Audience;
use crate::contract::keys::SAMPLE_KEY;
use crate::state::journal::record::{DeliveryId, Millis, Time, WorkspaceId};
use crate::util::duration::parse_duration;
use crate::util::schema::integer;

/// The field `key` of requests, with the meaning of its absence.
macro_rules! keys {
    ($($(#[doc = $help:literal])* $name:ident($($argument:tt)*) = $absent:expr;)*) => {$(
        #[derive(Args, Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
        #[schemars(
            inline,
            description = "An API key, or the name or id of its workspace; `*` means all."
        )]
        #[serde(transparent)]
        pub(crate) struct $name {
            $(#[doc = $help])*
            #[arg(long $($argument)*)]
            pub(crate) key: Option<String>,
        }

        impl $name {
            /// The key that is meant: `*` for all, `None` for the sample key.
            pub(super) fn meant(&self) -> Option<&str> {
                self.key.as_deref().or($absent)
            }
        }

        impl From<&str> for $name {
            fn from(key: &str) -> Self {
                Self { key: Some(key.to_owned()) }
            }
        }
    )*};
}

keys! {
    /// Only of this key, or workspace `ws_…`; by default of all keys, or without one.
    KeyFilter(, env = "WRS_API_KEY", hide_env_values = true, default_value = "*") = Some("*");
    /// Only for this key, or workspace `ws_…`; by default for all keys.
    KeyOrAll(, env = "WRS_API_KEY", hide_env_values = true) = Some("*");
    /// Whose: a key, or a workspace `ws_…`.
    KeyOrSample(, env = "WRS_API_KEY", hide_env_values = true, default_value = SAMPLE_KEY) = None;
    /// Only the clock of this key, or workspace `ws_…`; by default the emulator's, which all keys follow.
    ClockOwner() = Some("*");
}

// A query or a body with nothing but a key, which the command that makes the call does not take.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {
    #[arg(skip)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

/// `now`, or a timestamp.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(inline)]
#[serde(transparent)]
pub(crate) struct Since(
    #[schemars(extend("anyOf" = [{ "const": "now" }, { "format": "date-time" }]))] pub(crate) String,
);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_time = text == "now" || text.parse::<Timestamp>().is_ok();
        let expected = || "expected a timestamp such as 2026-01-31T09:30:00Z, or `now`".to_owned();
        is_time.then(|| Self(text.to_owned())).ok_or_else(expected)
    }
}

/// Something that happens once the clock reaches its time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Due {
    /// By the clock of the workspace.
    pub(crate) at: Time,
    pub(crate) in_ms: Millis,
    pub(crate) what: DueKind,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: String,
    /// The delivery to be attempted.
    pub(crate) delivery: Option<DeliveryId>,
    /// The scenario that planned it.
    pub(crate) scenario: Option<String>,
    /// The description.
    pub(crate) message: String,
}

/// The entry that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DueKind {
    /// An attempt at a delivery.
    Attempt,
    /// An event of a scenario.
    Event,
    /// A rotation of secrets that a scenario has planned.
    Rotation,
    /// Something else that waits for the clock, such as a delayed answer.
    Timer,
}

/// A complete listing.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct List<T> {
    pub(crate) data: Vec<T>,
}

/// A page of a listing.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) has_more: bool,
    /// The `cursor` of the next page.
    pub(crate) next_cursor: Option<String>,
}

impl<T: TableRow> Text for List<T> {
    fn text(&self, _: &Audience) -> String {
        T::table(&self.data)
    }
}

impl<T: TableRow> Text for Page<T> {
    fn text(&self, reader: &Audience) -> String {
        let option = reader.option("cursor");
        let more = self.next_cursor.as_ref().map(|cursor| format!("… more: {option} {cursor}\n"));
        T::table(&self.data) + &more.unwrap_or_default()
    }
}

/// A schema of the objects to refuse because not exactly one of these fields is given; null counts as absent.
pub(crate) fn not_one_of(fields: &[&str]) -> serde_json::Value {
    let given = |field: &str| serde_json::json!({ "required": [field], "properties": { field: { "not": { "type": "null" } } } });
    let none: serde_json::Map<_, _> =
        fields.iter().map(|field| ((*field).to_owned(), serde_json::json!({ "type": "null" }))).collect();
    let mut wrong = vec![serde_json::json!({ "properties": none })];
    for (at, field) in fields.iter().enumerate() {
        wrong.extend(fields[at + 1..].iter().map(|other| serde_json::json!({ "allOf": [given(field), given(other)] })));
    }
    serde_json::json!({ "anyOf": wrong })
}

/// A duration such as 250ms, 5s or 1m30s.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline, extend("pattern" = crate::util::duration::DURATION_PATTERN, "examples" = ["5s"]))]
#[serde(transparent)]
pub(crate) struct DurationInput(pub(crate) String);

impl DurationInput {
    /// `None` if it is not a duration, which the emulator refuses.
    pub(super) fn get(&self) -> Option<Duration> {
        parse_duration(&self.0).ok()
    }
}

impl FromStr for DurationInput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(|_| Self(text.to_owned()))
    }
}

/// A whole number in a body. JSON has one kind of number, so `5.0` is accepted as 5.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(transparent)]
pub(crate) struct Integer<T: TryFrom<u64>>(#[serde(deserialize_with = "integer")] pub(crate) T);

/// A number of things that are awaited, as typed.
pub(super) fn count_parser() -> impl TypedValueParser<Value = Integer<usize>> {
    RangedU64ValueParser::<usize>::new().range(1..=10_000).map(Integer)
}
