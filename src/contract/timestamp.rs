//! Timestamps as on the wire: ISO 8601, UTC, ending in `Z`; the fraction is the knob `time.precision`.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use crate::contract::profile::Precision;

static SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
static MILLISECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static MICROSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
static NANOSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(9));

/// The text of an instant that belongs to what has this id, which decides under the precision `mixed`.
pub fn timestamp_of(id: &str, instant: Timestamp, precision: Precision) -> String {
    format_timestamp(instant, precision.of(id))
}

/// The text of an instant, such as `2026-01-31T09:30:00.000Z`.
pub fn format_timestamp(instant: Timestamp, precision: Precision) -> String {
    let printer = match precision {
        Precision::Seconds => &SECONDS,
        Precision::Milliseconds => &MILLISECONDS,
        Precision::Microseconds => &MICROSECONDS,
        // Mixed without an id to tell which: the longest form loses nothing.
        Precision::Nanoseconds | Precision::Mixed => &NANOSECONDS,
    };
    let mut text = String::with_capacity("2026-01-31T09:30:00.000000000Z".len());
    // Writing to a String cannot fail.
    let _ = printer.print_timestamp(&instant, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_follows_the_precision() {
        let instant = Timestamp::from_microsecond(1_750_000_000_123_456).expect("the instant is in range");
        for (precision, text) in [
            (Precision::Seconds, "2025-06-15T15:06:40Z"),
            (Precision::Milliseconds, "2025-06-15T15:06:40.123Z"),
            (Precision::Microseconds, "2025-06-15T15:06:40.123456Z"),
            (Precision::Nanoseconds, "2025-06-15T15:06:40.123456000Z"),
        ] {
            assert_eq!(format_timestamp(instant, precision), text);
            assert_eq!(timestamp_of("sub_1", instant, precision), text);
        }
    }

    #[test]
    fn mixed_takes_turns_by_id_and_is_the_same_for_one_id() {
        let text = |id: &str| timestamp_of(id, Timestamp::UNIX_EPOCH, Precision::Mixed);
        let lengths: std::collections::BTreeSet<usize> =
            ["req_1", "req_2", "req_3", "req_4"].into_iter().map(|id| text(id).len()).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [20, 24, 27, 30]);
        assert_eq!(text("sub_a"), text("sub_a"));
    }
}
