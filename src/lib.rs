//! Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).

#![forbid(unsafe_code)]

pub mod clock;
pub mod contract;
pub mod diagnostic;
pub mod journal;
pub mod rate_limit;
pub mod scenario;
pub mod template;
pub mod turns;
pub mod workspace;
