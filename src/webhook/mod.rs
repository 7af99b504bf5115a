//! Layer 4, webhooks: events become signed POSTs to registered HTTPS URLs.
//!
//! The workspace's queue decides what is due and what follows an outcome. Reading order: `attempt` (what is signed and sent);
//! `egress` (where it may go); `resolve`, `dial`, `tls` and `client` (names, connections, requests); `deliver` (the tasks that make
//! the attempts of each workspace).

pub mod attempt;
pub mod client;
pub mod deliver;
pub mod dial;
pub mod egress;
pub mod resolve;
pub mod tls;
