//! Timestamps as on the wire: ISO 8601, UTC, ending in `Z`; the fraction is the knob `time.precision`.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use crate::contract::profile::Precision;

static SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
static MILLISECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
static MICROSECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// The text of an instant, such as `2026-01-31T09:30:00.000Z`.
pub fn format_timestamp(instant: Timestamp, precision: Precision) -> String {
    let printer = match precision {
        Precision::Seconds => &SECONDS,
        Precision::Milliseconds => &MILLISECONDS,
        Precision::Microseconds => &MICROSECONDS,
    };
    let mut text = String::with_capacity("2026-01-31T09:30:00.000000Z".len());
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
        ] {
            assert_eq!(format_timestamp(instant, precision), text);
        }
    }
}
