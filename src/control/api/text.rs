//! Strings with a format, such as ids and times, and numbers and bytes as JSON represents them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use crate::contract::timestamp::Precision;
use crate::contract::timestamp::format_timestamp;
use crate::control::render::cell;
use crate::redact::visible;

/// Declares string types, each with a keyword of its schema.
macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident, $key:literal: $value:literal;)+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
            #[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
            #[serde(transparent)]
            pub(crate) struct $name(#[cfg_attr(test, schemars(extend($key = $value)))] pub(crate) String);

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.pad(&self.0)
                }
            }

            impl<T: Into<String>> From<T> for $name {
                fn from(text: T) -> Self {
                    Self(text.into())
                }
            }
        )+
    };
}

texts! {
    /// A request's id.
    RequestId, "pattern": "^req_";
    /// An event's id.
    EventId, "pattern": "^evt_";
    /// A delivery's id.
    DeliveryId, "pattern": "^dlv_";
    /// A subscription's id.
    SubscriptionId, "pattern": "^sub_";
    /// A workspace's id.
    WorkspaceId, "pattern": "^ws_";
    /// A time, UTC with milliseconds.
    Time, "format": "date-time";
}

/// A time as the control API shows it: always with milliseconds, whatever the profile says of the emulated API.
pub(crate) fn time(at: Timestamp) -> Time {
    Time(format_timestamp(at, Precision::Milliseconds))
}

/// A duration such as 250ms, 5s or 1m30s.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub(crate) struct DurationInput(pub(crate) String);

/// Milliseconds with their fraction, to the microsecond.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub(crate) struct Millis(#[cfg_attr(test, schemars(range(min = 0.0)))] pub(crate) f64);

impl fmt::Display for Millis {
    /// As JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl From<std::time::Duration> for Millis {
    fn from(duration: std::time::Duration) -> Self {
        Self((duration.as_secs_f64() * 1_000_000.0).round() / 1000.0)
    }
}

/// Bytes: as text where they are UTF-8, else as base64.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Binary { base64: String },
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: STANDARD.encode(bytes) },
        }
    }
}

/// The JSON name of an enum's value.
pub(crate) fn name_of<T: Serialize>(value: T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Headers in the order in which they were sent: name and value.
pub(crate) type Headers = Vec<(String, String)>;

/// Headers as on the wire, one a line.
pub(crate) fn header_text(headers: &Headers) -> String {
    headers.iter().map(|(name, value)| format!("{}: {}\n", cell(name), cell(value))).collect()
}

/// A body: text with control characters other than line ends escaped, anything else as base64 in JSON.
pub(crate) fn body_text(body: &Bytes) -> String {
    match body {
        Bytes::Text(text) => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        Bytes::Binary { base64 } => format!("{{\"base64\":\"{base64}\"}}"),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_fraction_are_whole() {
        for (text, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("0", Some(0)),
            ("65535", Some(65_535)),
            ("65536", None),
            ("-1", None),
            ("5.5", None),
            ("1e300", None),
            ("\"5\"", None),
        ] {
            let found = serde_json::from_str::<Integer<u16>>(text).ok();
            assert_eq!(found, expected.map(Integer), "{text}");
        }
    }
}
