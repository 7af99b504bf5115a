//! Layer 4, webhooks: events become signed POSTs to registered HTTPS URLs.
//!
//! The workspace's queue decides which jobs are due and what follows an outcome. Reading order: `deliver` (the tasks that make the attempts
//! of each workspace); `signed` (what they send); `egress` (where they may go); `resolve`, `dial` and `client` (names, connections,
//! requests); `protocol` (what a server speaks instead).

pub mod client;
pub mod deliver;
pub mod dial;
pub mod egress;
mod protocol;
pub mod resolve;
pub mod signed;
