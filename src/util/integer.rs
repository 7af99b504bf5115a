//! Whole numbers in JSON.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::Number;

/// Reads a whole number. JSON has one kind of number, so `5.0` is accepted as 5, as JSON Schema has it.
pub(crate) fn integer<'de, T: TryFrom<u64>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let from_fraction = || number.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok();
    let whole: Option<u64> = number.as_u64().or_else(from_fraction);
    let matching = whole.and_then(|whole| T::try_from(whole).ok());
    matching.ok_or_else(|| D::Error::custom(format!("expected a whole number, found {number}")))
}
