//! Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).
//!
//! It serves the whole v1 contract from memory, keeps a quota per API key, plays scenario files, and delivers signed
//! webhooks. Where the published contract is silent, a typed profile says what is assumed ([`profile`]).
//!
//! To embed it in a Rust test, start with [`Emulator::builder`]; [`app`] shows a first test, [`ControlHandle`] one with webhooks,
//! time, resets and snapshots. To work on it, read in this order:
//!
//! - [`contract`], [`duration`], [`header_lines`] and [`wording`], layer 0: the API's rules, pure, with the settings of
//!   what the published contract leaves open;
//! - [`profile`], layer 1: all settings, their defaults, and how changes to them are put together;
//! - [`clock`], [`mod@file`], [`agenda`], [`rate_limit`], [`template`], [`rule_counters`], [`budget`], [`memory`], [`process`], [`snapshot`],
//!   [`redact`], layer 1: time, quotas, saved forms, and what may be shown;
//! - [`diagnostic`], [`scenario`], layer 2: stories in files, and what is wrong with them;
//! - [`workspace`], [`journal`], layer 2: one key's state, and the log of what happened;
//! - [`tasks`], [`engine`], layer 3: these parts put together, and everything that takes more than one of them;
//! - [`http`], layer 4: one request end to end;
//! - [`webhook`], layer 4: the attempts to deliver one event to its receivers;
//! - [`ui`], layer 5: the files of the page, and the report made of them;
//! - [`review`], layer 5: what traffic shows about an integration, and what a receiver does with deliveries that are sent to try it;
//! - [`control`], layer 6: the API under `/_emulator/`;
//! - [`app`] and [`cli`], layer 7: the parts put together, and the command line.
//!
//! A file imports only from its own layer or a lower one. `docs/internals/architecture.md` says what is absent from each, and why.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod app;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod contract;
pub mod control;
pub mod diagnostic;
pub mod duration;
pub mod engine;
pub mod file;
pub mod header_lines;
pub mod http;
pub mod journal;
pub mod memory;
pub mod process;
pub mod profile;
pub mod rate_limit;
pub mod redact;
pub mod review;
pub mod rule_counters;
pub mod scenario;
pub mod snapshot;
pub mod tasks;
pub mod template;
pub mod ui;
pub mod webhook;
pub mod wording;
pub mod workspace;

pub use app::{Builder, ControlHandle, Emulator, ResetProblem, Settings, StartError, StopProblem};
pub use workspace::FireRequest;

#[cfg(test)]
#[path = "committed_tests.rs"]
mod committed;
