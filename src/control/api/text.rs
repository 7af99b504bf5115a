//! Durations and whole numbers in bodies of calls, and headers and bodies as text.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use crate::control::render::cell;
use crate::redact::visible;
use crate::state::journal::record::{Bytes, Headers};

/// A duration such as 250ms, 5s or 1m30s.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub(crate) struct DurationInput(pub(crate) String);

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
