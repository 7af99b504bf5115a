//! Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).

#![forbid(unsafe_code)]

pub mod contract;
