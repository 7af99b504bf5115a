//! Layer 5, review: checks an integration before the service does. `probe` sends one receiver deliveries, genuine and forged, and
//! judges the answers.
//!
//! Must not know about the control API, the terminal or a running emulator.

pub mod probe;
