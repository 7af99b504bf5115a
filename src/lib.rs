//! Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).
//!
//! It serves the whole v1 contract from memory, keeps a quota per API key, plays scenario files, and delivers signed
//! webhooks. Where the published contract is silent, a typed profile holds the assumptions ([`settings`]).
//!
//! To embed it in a Rust test, start with [`Emulator::builder`]; [`app`] shows a first test, [`ControlHandle`] one with webhooks,
//! time, resets and snapshots. To work on it, read in this order:
//!
//! - [`contract`], layer 0: the API's rules, pure, with the settings of what the published contract leaves open;
//! - [`advice`], layer 0: what to do next, as data, and how it is worded for its reader;
//! - [`settings`], layer 1: all settings, their defaults, and how changes to them are put together;
//! - [`clock`], layer 1: the emulated clock and its agenda; the machine's time and entropy are read here alone;
//! - [`redact`], layer 1: what may be shown;
//! - [`diagnostic`], [`scenario`], layer 2: scenario files, and their problems;
//! - [`state`], layers 1 to 3: the budget, quotas, the journal, one key's state, and everything that needs more than one of them;
//! - [`http`], layer 4: one request end to end;
//! - [`webhook`], layer 4: the attempts to deliver one event to its receivers;
//! - [`ui`], layer 5: the files of the page, and the report made of them;
//! - [`findings`], layer 5: what traffic shows about an integration;
//! - [`cases`], layer 5: the genuine and forged deliveries that a receiver is tried with;
//! - [`control`], layer 6: the API under `/_emulator/`;
//! - [`app`] and [`cli`], layer 7: the parts put together, and the command line;
//! - [`lab`], layer 7: the probe of a receiver and the calibration of the settings, with their commands; named by nothing but the lists of
//!   modules and commands;
//! - [`util`]: durations, wording, files, processes and tasks, for all of them.
//!
//! A file imports only from its own layer or a lower one. `docs/internals/architecture.md` lists what is deliberately absent from each.

#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!(
    "wrs-emulator runs on Linux and macOS; on Windows, use the Windows Subsystem for Linux or the container image"
);

pub mod advice;
pub mod app;
pub mod cases;
pub mod cli;
pub mod clock;
pub mod contract;
pub mod control;
pub mod diagnostic;
pub mod findings;
pub mod http;
pub mod lab;
pub mod redact;
pub mod scenario;
pub mod settings;
pub mod state;
pub mod ui;
pub mod util;
pub mod webhook;

pub use app::{Builder, ControlHandle, Emulator, ResetProblem, Settings, StartError, StopProblem};
pub use state::budget::measure_memory_by;
pub use state::workspace::FireRequest;
