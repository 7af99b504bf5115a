//! Timestamps as on the wire: ISO 8601, UTC, ending in `Z`; the setting `time.precision` decides the fraction.

use crate::contract::setting::settings;
use std::cell::RefCell;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

settings! {
    /// The form of timestamps.
    pub struct Time {
        /// The fraction of a second shown.
        pub precision: Precision = "milliseconds" {
            contract: "ISO 8601 UTC; the fraction is not shown",
            assumed: "milliseconds and Z",
            observed_by: "eight different timestamps",
        },
    }
}

/// Fraction of a second in timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
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
    let mut text = String::with_capacity("2026-01-31T09:30:00.000000000Z".len());
    push_timestamp(&mut text, instant, precision);
    text
}

pub fn push_timestamp(text: &mut String, instant: Timestamp, precision: Precision) {
    let digits = match precision {
        Precision::Seconds => 0,
        Precision::Milliseconds => 3,
        Precision::Microseconds => 6,
        // Mixed, without an id that decides: the longest form loses nothing.
        Precision::Nanoseconds | Precision::Mixed => 9,
    };
    if instant < Timestamp::UNIX_EPOCH {
        // The parts of such an instant are negative, so the printer writes it. A write to a String cannot fail.
        let _ = DateTimePrinter::new().precision(Some(digits)).print_timestamp(&instant, text);
        return;
    }
    push_whole_second(text, instant);
    if digits > 0 {
        text.push('.');
        let (nanos, mut unit) = (instant.subsec_nanosecond().unsigned_abs(), 100_000_000);
        for _ in 0..digits {
            // A digit is below ten.
            text.push(char::from(b'0' + (nanos / unit % 10) as u8));
            unit /= 10;
        }
    }
    text.push('Z');
}

/// Writes an instant up to its seconds. Answers come many to a second, so each thread keeps the last.
fn push_whole_second(text: &mut String, instant: Timestamp) {
    thread_local! {
        static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    LAST.with_borrow_mut(|(known, whole)| {
        let second = instant.as_second();
        if *known != second {
            whole.clear();
            // A write to a String cannot fail.
            let _ = DateTimePrinter::new().precision(Some(0)).print_timestamp(&instant, &mut *whole);
            whole.truncate(whole.trim_end_matches('Z').len());
            *known = second;
        }
        text.push_str(whole);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text made here equals the text of the printer.
    #[test]
    fn every_instant_is_written_as_by_the_printer() {
        let seconds =
            [Timestamp::MIN.as_second(), -1, 0, 1, 59, 1_750_000_000, 1_750_000_000, Timestamp::MAX.as_second()];
        for second in seconds {
            for nanos in [0, 1, 999, 1_000_000, 999_999_999] {
                let Ok(instant) = Timestamp::new(second, nanos) else { continue };
                for (precision, digits) in [
                    (Precision::Seconds, 0),
                    (Precision::Milliseconds, 3),
                    (Precision::Microseconds, 6),
                    (Precision::Nanoseconds, 9),
                ] {
                    let printer = DateTimePrinter::new().precision(Some(digits));
                    let mut expected = String::new();
                    printer.print_timestamp(&instant, &mut expected).expect("a String takes everything");
                    assert_eq!(format_timestamp(instant, precision), expected);
                }
            }
        }
    }
}
