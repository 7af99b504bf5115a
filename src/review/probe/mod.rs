//! The probe: sends one receiver every [`Case`] of a table and judges what comes back. Needs no running emulator.
//!
//! Reading order: `case` (what a case is), `table` (all of them), `delivery` (the requests of a case), `wire` and `reply` (one
//! request and what came back), `judge` (a pure function from replies to an outcome), `effect` (evidence of what a delivery did),
//! `run` (the order of everything, and its limits), `report` (all results).

mod case;
mod delivery;
mod effect;
mod judge;
mod reply;
mod report;
mod run;
mod table;
mod wire;

pub use case::{Case, Expectation};
pub use delivery::ProbeSigning;
pub use effect::{EffectCommand, EffectProblem};
pub use judge::Outcome;
pub use reply::ProbeReply;
pub use report::{ProbeReport, Probed};
pub use run::{LONGEST, Probe, ProbeProblem};
pub use table::{CASES, VALID};
