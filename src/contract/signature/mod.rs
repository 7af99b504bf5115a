//! Webhook signatures: what a delivery is signed with, over which bytes, and in which headers.
//!
//! [`sign()`] makes the headers of one attempt, [`verify()`] reads them back the way the scheme's
//! own receiver libraries do, [`SigningKey::read`] turns a signing secret into key bytes. Bodies
//! are raw bytes and are never parsed or serialised again; time is always an argument.
//!
//! Independent of deliveries, retries, subscriptions, sockets or clocks.
//!
//! Reading order: `scheme` (every scheme as one row of data), `key` (secrets), `verify`, `sign` (genuine and forged
//! deliveries), `diagnose` (what would make a rejected delivery verify), `departure` (signatures computed by hand),
//! `rewrite` (what happens to bodies).

mod departure;
mod diagnose;
mod key;
mod rewrite;
mod scheme;
mod sign;
mod verify;

pub use departure::Departure;
pub use diagnose::{Change, Evidence, Remedy};
pub use key::{SecretProblem, SigningKey, secret_warnings, undecorated};
pub use rewrite::rewrites;
pub use scheme::{CustomScheme, Encoding, Hash, KeyReading, Scheme, SchemeName, SchemeNames, Wrapping};
pub use sign::{Message, Signed, Tamper, another_key, sign, sign_as, sign_forged};
pub use verify::{Rejection, TOLERANCE_SECONDS, Verified, verify};
