//! Layer 4, webhooks: events become signed POSTs to registered HTTPS URLs. Overview of the layer.
//!
//! What is due and what follows an outcome is the business of the workspace's queue. Reading order: `attempt` (what is signed and
//! sent); `egress` and `guard` (where it may go); `resolve` (names), `dial`, `tls` and `client` (getting there); `deliver` and `worker`
//! (the driver that ties them together).

pub mod attempt;
pub mod client;
pub mod deliver;
pub mod dial;
pub mod egress;
pub mod guard;
pub mod resolve;
pub mod tls;
mod worker;
