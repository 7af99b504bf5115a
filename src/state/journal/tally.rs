//! Counts of everything appended to the journal. They do not fall when entries are evicted or cleared.
//!
//! They are plain numbers, changed under the lock that an append takes anyway, so they need no atomics of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Entry, Reason, RequestRecord};
use crate::contract::routes::{Operation, ROUTES};
use crate::state::workspace::{AttemptOutcome, AttemptRecord, FailureReason};

/// Upper bounds of the latency histogram, in milliseconds; above the last there is one more bucket.
pub const LATENCY_BOUNDS: [u64; 12] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000];

/// Classes of answers: the first digit of the status; 0 is a broken connection.
const CLASSES: usize = 6;
/// All operations, and one more row for requests that matched none.
const OPERATIONS: usize = ROUTES.len() + 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    requests: [[u64; CLASSES]; OPERATIONS],
    pub quota_refusals: u64,
    pub events: u64,
    /// Attempts that the receiver answered with 2xx.
    pub accepted: u64,
    /// Attempts that the receiver answered otherwise.
    pub refused: u64,
    /// Attempts that had no answer, by cause.
    pub failed: BTreeMap<FailureReason, u64>,
    /// Attempts by latency; the last bucket is for those above every bound.
    pub latencies: [u64; LATENCY_BOUNDS.len() + 1],
    pub latency_sum: Duration,
    /// Entries evicted from the journal; cleared entries are not counted.
    pub evicted: u64,
}

impl Tally {
    pub(super) fn count(&mut self, entry: &Entry) {
        match entry {
            Entry::Request(request) => self.count_request(request),
            Entry::Event(_) => self.events += 1,
            Entry::Attempt(attempt) => self.count_attempt(attempt),
            Entry::Notice(_) | Entry::Gone => {}
        }
    }

    fn count_request(&mut self, request: &RequestRecord) {
        let class = usize::from(request.status / 100);
        let row = &mut self.requests[place(request.operation)];
        if let Some(count) = row.get_mut(class) {
            *count += 1;
        }
        self.quota_refusals += u64::from(matches!(request.reason, Reason::RateLimited));
    }

    fn count_attempt(&mut self, attempt: &AttemptRecord) {
        match &attempt.outcome {
            outcome @ AttemptOutcome::Answered { .. } if outcome.is_success() => self.accepted += 1,
            AttemptOutcome::Answered { .. } => self.refused += 1,
            AttemptOutcome::Failed { reason, .. } => *self.failed.entry(*reason).or_default() += 1,
        }
        let bucket = LATENCY_BOUNDS.iter().position(|bound| attempt.latency <= Duration::from_millis(*bound));
        self.latencies[bucket.unwrap_or(LATENCY_BOUNDS.len())] += 1;
        self.latency_sum += attempt.latency;
    }

    /// Requests by operation (`None` for those that matched none) and by the first digit of the status, 0 for a broken
    /// connection.
    pub fn requests(&self) -> impl Iterator<Item = (Option<Operation>, usize, u64)> {
        let operations = ROUTES.iter().map(|route| Some(route.operation)).chain([None]);
        operations.flat_map(|operation| {
            let row = self.requests[place(operation)];
            row.into_iter().enumerate().map(move |(class, count)| (operation, class, count))
        })
    }
}

fn place(operation: Option<Operation>) -> usize {
    let place = operation.and_then(|operation| ROUTES.iter().position(|route| route.operation == operation));
    place.unwrap_or(OPERATIONS - 1)
}
