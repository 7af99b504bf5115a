//! Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).

#![forbid(unsafe_code)]

pub mod app;
pub mod cli;
pub mod clock;
pub mod contract;
pub mod control;
pub mod diagnostic;
pub mod http;
pub mod journal;
pub mod rate_limit;
pub mod scenario;
pub mod template;
pub mod turns;
pub mod webhook;
pub mod workspace;

pub use app::{Builder, ControlHandle, Emulator, Settings, StartError};
