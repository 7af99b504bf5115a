//! Layer 5, the review of an integration before the service's own: what its traffic shows (`findings`), what a receiver answers
//! to deliveries, genuine and forged (`probe`), and what a client does when something changes that was never promised
//! (`differential`).
//!
//! Independent of the control API, the terminal or a running emulator.

pub mod differential;
pub mod findings;
pub mod probe;
