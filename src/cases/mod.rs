//! Layer 5, the cases that a receiver of webhooks is tried with: genuine and forged deliveries, as data, and their requests.
//!
//! `lab` sends them to a receiver and judges its answers; the control API hands them to a test that calls its handler in process.

mod requests;
mod table;

pub use requests::{Occasion, ProbeRequest, ProbeSigning, check_events, is_applicable, make, variations};
pub use table::{ANOTHER_SECRET, CASES, Case, Expectation, VALID, VERIFY_FIRST};
