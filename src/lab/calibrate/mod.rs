//! Behaviour of a service where the contract is silent: a few harmless calls, and inferences from their answers about each setting.
//!
//! Reading order: `call_log` (calls and answers, masked), `har` (the file), `traffic` (recordings of other calls), `plan` (which call
//! comes next), `promises` (what the contract says of every field), `infer` (what the answers show), `report` (every setting with its
//! result, and the profile made of them), `run` (the calls over HTTP), `command`. Independent of a running emulator.

pub mod call_log;
pub(crate) mod command;
pub mod delivery;
pub mod evidence;
mod har;
pub mod infer;
pub mod openapi;
pub mod plan;
mod promises;
mod quota;
pub mod report;
pub mod run;
mod traffic;
