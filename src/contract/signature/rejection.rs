//! The result of a verification: what the delivery carries, or why it was rejected.
//!
//! Each rejection names what to look at first. Must not know how the checks are
//! made; `verify` makes them.

/// What a verified delivery carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The event's id, if the scheme has a header for it; `github` and `shopify` do not sign it.
    pub id: Option<String>,
    /// Unix seconds of the attempt, if the scheme sends them.
    pub timestamp: Option<i64>,
}

/// Why a delivery was rejected; the text names what to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is no key to verify with.
    #[error("no signing secret to verify with: give the receiver the subscription's secret")]
    NoKey,
    /// A header that the scheme needs is absent or empty.
    #[error("no `{header}` header: check the scheme, and that nothing on the way drops the header")]
    MissingHeader {
        /// The header's name in lower case.
        header: String,
    },
    /// The timestamp is not a plain number of seconds.
    #[error("expected the timestamp in whole Unix seconds, found `{}`", value.escape_debug())]
    BadTimestamp {
        /// What was found.
        value: String,
    },
    /// The timestamp is too long ago.
    #[error(
        "the timestamp is {seconds_old} s old and {tolerance} s are tolerated: \
         check the receiver's clock, or take it as a replay"
    )]
    Stale {
        /// Seconds between the timestamp and now.
        seconds_old: i64,
        /// Seconds tolerated.
        tolerance: i64,
    },
    /// The timestamp is too far ahead.
    #[error(
        "the timestamp is {seconds_ahead} s ahead and {tolerance} s are tolerated: {}",
        ahead_hint(*seconds_ahead)
    )]
    Future {
        /// Seconds between now and the timestamp.
        seconds_ahead: i64,
        /// Seconds tolerated.
        tolerance: i64,
    },
    /// The signature header does not have the scheme's form.
    #[error(
        "the `{header}` header `{}` does not have the scheme's form: \
         check the scheme, and that all of the header is passed on", value.escape_debug()
    )]
    MalformedSignature {
        /// The header's name in lower case.
        header: String,
        /// What was found.
        value: String,
    },
    /// The signature is well-formed and wrong.
    #[error(
        "expected `{expected}`, found `{}`: check that the body is the raw bytes received, \
         that the secret is the subscription's, and how it is read (`webhooks.secret_key`)",
        got.join(" ").escape_debug()
    )]
    Mismatch {
        /// What the newest key signs, as it would be in the header.
        expected: String,
        /// The signatures that were found, in order.
        got: Vec<String>,
    },
}

fn ahead_hint(seconds_ahead: i64) -> &'static str {
    // Three thousand years ahead is a present time in milliseconds.
    if seconds_ahead > 100_000_000_000 {
        "it looks like milliseconds, expected seconds"
    } else {
        "check the receiver's clock"
    }
}
