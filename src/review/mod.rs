//! Layer 5, the review of an integration before the service's own: what its traffic shows (`findings`), and what a receiver answers
//! to deliveries, genuine and forged (`probe`).
//!
//! Independent of the control API, the terminal or a running emulator.

pub mod findings;
pub mod probe;
