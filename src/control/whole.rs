//! Whole numbers in bodies: JSON knows one kind of number, and writes 5 as `5.0` where it likes.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// A number without a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<T>(pub(super) T);

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let from_fraction = || number.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok();
        let whole: Option<u64> = number.as_u64().or_else(from_fraction);
        let fits = whole.and_then(|whole| T::try_from(whole).ok());
        fits.map(Self).ok_or_else(|| D::Error::custom(format!("expected a whole number, found {number}")))
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
            let found = serde_json::from_str::<Whole<u16>>(text).ok();
            assert_eq!(found, expected.map(Whole), "{text}");
        }
    }
}
