//! The only file that reads the operating system's time and entropy; `clippy.toml` bans them elsewhere.

use std::time::{Instant, SystemTime};

use jiff::Timestamp;
use rand::TryRng;
#[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
use rand::rngs::SysRng;

/// The machine's wall time: for labels, and for signatures that real receivers compare with their own clock.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's wall time")]
pub fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // By its parts, as every request reads the time: seconds since 1970 are far from the end of `i64`.
    Timestamp::new(since.as_secs().cast_signed(), since.subsec_nanos().cast_signed()).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's monotonic time")]
pub fn monotonic() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_types, reason = "the one place that reads the machine's entropy")]
pub fn entropy<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).expect("the operating system provides entropy");
    bytes
}
