//! The only file that reads the operating system's time and entropy; `clippy.toml` bans them elsewhere.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

#[cfg(feature = "simulation")]
use super::simulated as source;

/// From 1970 to the year 10000, in which HTTP has no dates.
const AFTER_9999: Duration = Duration::from_hours(24 * 2_932_897);

/// The range of the machine's clock: HTTP and TLS libraries panic at any other time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the machine's clock shows a time {}: set it (`date -s`, or let NTP do it), and start again; `--clock` sets only the emulator's",
    if *.is_early { "before 1970" } else { "after 9999" }
)]
pub struct UnusableClock {
    is_early: bool,
}

/// The machine's time and entropy; with the feature `simulation`, `clock/simulated.rs` replaces it.
#[cfg(not(feature = "simulation"))]
mod source {
    use std::time::{Instant, SystemTime};

    use rand::TryRng as _;
    #[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
    use rand::rngs::SysRng;

    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's wall time")]
    pub(super) fn system_time() -> SystemTime {
        SystemTime::now()
    }

    /// Through the runtime, whose time a test can stop.
    pub(super) fn monotonic() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
    pub(super) fn fill(bytes: &mut [u8]) {
        SysRng.try_fill_bytes(bytes).expect("the operating system provides entropy");
    }
}

pub fn check_machine() -> Result<(), UnusableClock> {
    check_time(source::system_time())
}

/// True if libraries may write `Date` by the machine's clock: not in a simulation, and not before 1970, when they panic.
pub fn libraries_may_date() -> bool {
    !cfg!(feature = "simulation") && check_machine().is_ok()
}

fn check_time(now: SystemTime) -> Result<(), UnusableClock> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| UnusableClock { is_early: true })?;
    if since < AFTER_9999 { Ok(()) } else { Err(UnusableClock { is_early: false }) }
}

/// The machine's wall time: for labels, and for signatures that real receivers compare with their own clock.
pub fn wall_time() -> Timestamp {
    let since = source::system_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // By its parts, as every request reads the time: seconds since 1970 are far from the end of `i64`.
    Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos().cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub fn monotonic() -> Instant {
    source::monotonic()
}

pub fn entropy<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    source::fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_http_dates_is_refused() {
        let (second, epoch) = (Duration::from_secs(1), SystemTime::UNIX_EPOCH);
        let said = |now: SystemTime| check_time(now).map_err(|problem| problem.to_string());
        for fine in [epoch, epoch + second, epoch + AFTER_9999 - second] {
            assert_eq!(said(fine), Ok(()));
        }
        for (wrong, part) in [
            (epoch - Duration::from_nanos(1), "before 1970"),
            (epoch - second, "before 1970"),
            (epoch + AFTER_9999, "after 9999"),
        ] {
            let said = said(wrong).expect_err("there is no HTTP date");
            assert!(said.contains(part) && said.contains("the machine's clock") && !said.contains('\n'), "{said}");
        }
    }
}
