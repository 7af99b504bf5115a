//! What calls of the control API have in common: the types that several of them take or answer. Independent of the emulator's parts.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::render::{Row, Text};

/// The query parameters of a call besides `key`.
pub(crate) trait Query: Serialize + DeserializeOwned + Described + Send + Sync + 'static {}
impl<T: Serialize + DeserializeOwned + Described + Send + Sync + 'static> Query for T {}

/// The body of a call.
pub(crate) trait Content: DeserializeOwned + Described + Send + Sync + 'static {}
impl<T: DeserializeOwned + Described + Send + Sync + 'static> Content for T {}

/// No query parameter besides `key`, or no body.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// A body without fields.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
}

/// How long the call waits for outcomes before it answers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Wait {
    /// At most 300s.
    pub(crate) wait: Option<DurationInput>,
}

/// The field `key` of a body. `Call::key` reads it before the body is parsed; this type only keeps it from being refused as unknown.
/// The command line sends `key` as a query parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(inline, description = "The key whose things are meant, or the name or id of its workspace; `*` is all.")
)]
pub(crate) struct KeyField(#[allow(dead_code, reason = "for the schema")] Option<String>);

impl<'de> Deserialize<'de> for KeyField {
    fn deserialize<D: Deserializer<'de>>(field: D) -> Result<Self, D::Error> {
        Option::deserialize(field).map(Self)
    }
}

/// A complete listing.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct List<T> {
    pub(crate) data: Vec<T>,
}

/// A page of a listing, newest first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) has_more: bool,
    /// The `cursor` of the next page.
    pub(crate) next_cursor: Option<String>,
}

impl<T: Row> Text for List<T> {
    fn text(&self) -> String {
        T::table(&self.data)
    }
}

impl<T: Row> Text for Page<T> {
    fn text(&self) -> String {
        let more = self.next_cursor.as_ref().map(|cursor| format!("… more: --cursor {cursor}\n"));
        T::table(&self.data) + &more.unwrap_or_default()
    }
}

/// A type that the `OpenAPI` document describes. Only tests make the document, so in any other build every type is one.
#[cfg(not(test))]
pub(crate) trait Described {}
#[cfg(not(test))]
impl<T> Described for T {}
#[cfg(test)]
pub(crate) use schemars::JsonSchema as Described;

/// What is refused where exactly one of these fields must be given; null is as good as absent.
#[cfg(test)]
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
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(inline, extend("pattern" = crate::util::duration::DURATION_PATTERN, "examples" = ["5s"]))
)]
#[serde(transparent)]
pub(crate) struct DurationInput(pub(crate) String);

/// A whole number in a body. JSON has one kind of number, so `5.0` is accepted as 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub(crate) struct Integer<T>(pub(crate) T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let from_fraction = || number.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok();
        let whole: Option<u64> = number.as_u64().or_else(from_fraction);
        let matching = whole.and_then(|whole| T::try_from(whole).ok());
        matching.map(Self).ok_or_else(|| D::Error::custom(format!("expected a whole number, found {number}")))
    }
}
