//! Durations as people write them in profiles and scenarios: `250ms`, `30s`, `5m`, `24h`, `1m30s`.

use std::fmt;
use std::time::Duration;

use crate::util::wording::quoted;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// The longest duration taken anywhere: ten years. Longer ones are typing errors and would overflow the clock.
const MAX: Duration = Duration::from_hours(87600);

/// The pattern of a duration for JSON Schema; limits on its length are separate.
pub const DURATION_PATTERN: &str = r"^(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ms|[smhd]))+)$";

/// A duration with its text form; whole seconds, minutes and so on stay readable in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", extend("pattern" = DURATION_PATTERN, "examples" = ["10s", "250ms", "1m30s", "24h"]))]
pub struct DurationText(pub Duration);

impl DurationText {
    pub fn get(self) -> Duration {
        self.0
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => f.write_str("0s"),
            _ if millis.is_multiple_of(3_600_000) => write!(f, "{}h", millis / 3_600_000),
            _ if millis.is_multiple_of(1000) => write!(f, "{}s", millis / 1000),
            _ => write!(f, "{millis}ms"),
        }
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A length of time as people say it, to a tenth of its unit: `1.2 ms`, `90 s`, `2.5 min`.
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    let (amount, unit) = match millis {
        ..1000.0 => (millis, "ms"),
        ..120_000.0 => (millis / 1000.0, "s"),
        ..7_200_000.0 => (millis / 60_000.0, "min"),
        ..172_800_000.0 => (millis / 3_600_000.0, "h"),
        _ => (millis / 86_400_000.0, "d"),
    };
    format!("{} {unit}", (amount * 10.0).round() / 10.0)
}

/// Reads a duration such as `250ms`, `30s`, `1m30s` or `24h`. Units: `ms`, `s`, `m`, `h`, `d`.
///
/// The error names the expected form, for the person who typed the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a duration such as \"250ms\", \"30s\" or \"1m30s\", found \"{}\"", quoted(text));
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.strip_prefix('-').and_then(parts).is_some() {
        return Err(format!("a duration cannot be negative, found \"{text}\""));
    }
    let duration = parts(text).ok_or_else(wrong)?;
    if duration > MAX {
        return Err(format!("a duration can be at most ten years, found \"{text}\""));
    }
    Ok(duration)
}

fn parts(mut text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    loop {
        let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()));
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        sum = sum.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        if rest.is_empty() {
            return Some(sum);
        }
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, millis, shown) in [
            ("250ms", 250, "250ms"),
            ("30s", 30_000, "30s"),
            ("60s", 60_000, "60s"),
            ("1m30s", 90_000, "90s"),
            ("24h", 86_400_000, "24h"),
            ("3d", 259_200_000, "72h"),
            ("1d12h", 129_600_000, "36h"),
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
            ("1.5s", 1500, "1500ms"),
            ("0.1h", 360_000, "360s"),
        ] {
            let read = parse_duration(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read, Duration::from_millis(millis), "{text}");
            assert_eq!(DurationText(read).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn the_pattern_matches_what_is_read() {
        let pattern = regex::Regex::new(DURATION_PATTERN).expect("it is a pattern");
        for text in [
            "0",
            "0s",
            "5.s",
            ".5s",
            "1m30s",
            "1d12h",
            "2ms3ms",
            "10",
            "s",
            ".s",
            "1..s",
            "1 s",
            "1s ",
            "5 seconds",
            "1S",
            "0 s",
            "1s0",
            "",
        ] {
            assert_eq!(pattern.is_match(text), parse_duration(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn lengths_of_time_are_rounded_for_people() {
        for (micros, shown) in [
            (0, "0 ms"),
            (1_234, "1.2 ms"),
            (250_000, "250 ms"),
            (30_000_000, "30 s"),
            (59_755_807, "59.8 s"),
            (90_000_000, "90 s"),
            (150_000_000, "2.5 min"),
            (86_400_000_000, "24 h"),
            (259_200_000_000, "3 d"),
        ] {
            assert_eq!(duration_text(Duration::from_micros(micros)), shown);
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "soon", "10", "-5s", "99999999999999999999d", "1000000000h", "5 parsecs", "d", "\u{0}"]
            .into_iter()
            .chain(["1 second", "1s 500ms", "5min", "PT1H", "1.5.5s", ".s", "1s2", "10us"])
        {
            assert!(parse_duration(text).is_err(), "{text:?} was taken");
        }
    }
}
