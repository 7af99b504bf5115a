//! Webhook signatures: what a delivery is signed with, over which bytes, and in which headers.
//!
//! [`sign()`] makes the headers of one attempt, [`verify()`] reads them back the way the scheme's
//! own receiver libraries do, [`SigningKey::read`] turns a signing secret into key bytes. Bodies
//! are raw bytes and are never parsed or serialised again; time is always an argument.
//!
//! Must not know about deliveries, retries, subscriptions, sockets or clocks.
//!
//! Reading order: `scheme` (every scheme as one row of data), `mac`, `key` (secrets), `sign`, `verify`, `tamper` (forged
//! deliveries), `diagnose` (what would make a rejected delivery verify).

mod diagnose;
mod key;
mod mac;
#[cfg(test)]
mod round_trip_tests;
mod scheme;
mod sign;
mod tamper;
mod verify;

pub use diagnose::{Change, Evidence, Remedy, rewrites};
pub use key::{SecretProblem, SigningKey, secret_warnings};
pub use mac::{Encoding, Hash, KeyReading};
pub use scheme::{CustomScheme, Scheme, SchemeName, SchemeNames};
pub use sign::{Message, Signed, sign, sign_as};
pub use tamper::{Tamper, another_key, sign_forged};
pub use verify::{Rejection, TOLERANCE_SECONDS, Verified, verify};
