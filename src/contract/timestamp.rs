//! Timestamps as on the wire: ISO 8601, UTC, ending in `Z`; the setting `time.precision` decides the fraction.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Serialize, Serializer};

/// The form of timestamps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Fraction of a second shown.
    pub precision: Precision,
}

/// Fraction of a second in timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// None.
    Seconds,
    /// Three digits.
    Milliseconds,
    /// Six digits.
    Microseconds,
    /// Nine digits.
    Nanoseconds,
    /// One of the above, which the id of the resource decides.
    Mixed,
}

impl Precision {
    /// The precision for the timestamps of the resource with this id. Under `Mixed` it is one of the others and follows
    /// from the id, so that a resource shows an instant in the same way whenever it is read, and nothing is drawn at
    /// random for it.
    #[must_use]
    pub fn of(self, id: &str) -> Self {
        const TURNS: [Precision; 4] =
            [Precision::Seconds, Precision::Milliseconds, Precision::Microseconds, Precision::Nanoseconds];
        match self {
            Self::Mixed => TURNS[id.bytes().map(usize::from).sum::<usize>() % TURNS.len()],
            fixed => fixed,
        }
    }
}

/// An instant, and how it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShownTime {
    pub instant: Timestamp,
    pub precision: Precision,
}

impl Serialize for ShownTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_timestamp(self.instant, self.precision))
    }
}

/// The text of an instant of the resource with this id; the id decides under the precision `mixed`.
pub fn timestamp_of(id: &str, instant: Timestamp, precision: Precision) -> String {
    format_timestamp(instant, precision.of(id))
}

/// The text of an instant, such as `2026-01-31T09:30:00.000Z`.
pub fn format_timestamp(instant: Timestamp, precision: Precision) -> String {
    let digits = match precision {
        Precision::Seconds => 0,
        Precision::Milliseconds => 3,
        Precision::Microseconds => 6,
        // Mixed, without an id that decides: the longest form loses nothing.
        Precision::Nanoseconds | Precision::Mixed => 9,
    };
    DateTimePrinter::new().precision(Some(digits)).timestamp_to_string(&instant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_takes_counters_by_id_and_is_the_same_for_one_id() {
        let text = |id: &str| timestamp_of(id, Timestamp::UNIX_EPOCH, Precision::Mixed);
        let lengths: std::collections::BTreeSet<usize> =
            ["req_1", "req_2", "req_3", "req_4"].into_iter().map(|id| text(id).len()).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [20, 24, 27, 30]);
        assert_eq!(text("sub_a"), text("sub_a"));
    }
}
