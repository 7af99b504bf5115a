//! The probe: sends one receiver every [`Case`] of a table and judges what comes back. Needs no running emulator.
//!
//! Reading order: `table` (all cases), `delivery` (the requests of a case), `judge` (a pure function from replies to an outcome),
//! `run` (sending, the order of everything, and its limits).

mod delivery;
mod judge;
mod run;
mod table;

pub use delivery::ProbeSigning;
pub use judge::Outcome;
pub use run::{LONGEST, Probe, ProbeReport, ProbedCase};
pub use table::{CASES, Case, Expectation, VALID};
