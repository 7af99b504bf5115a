//! The quota of one key, by what was promised: every request that was counted is looked at again for each new one.

use crate::plan::{Algorithm, Count, Plan};

#[derive(Clone, Debug)]
struct Charge {
    at: i64,
    limit: u32,
    costs: bool,
    /// The place in the journal from which on it costs nothing.
    free_from: Option<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Charges(Vec<Charge>);

#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) allowed: bool,
    pub(crate) remaining: u32,
    /// Until the next is allowed, if this can be said simply.
    pub(crate) wait_ms: Option<i64>,
}

impl Check {
    /// True if it is what was expected. Times are shown in whole milliseconds; `is_late` allows for one request more.
    pub(crate) fn agrees(&self, expected: &Self, is_late: bool) -> bool {
        let waits = match (self.wait_ms, expected.wait_ms) {
            (Some(found), Some(expected)) => found.abs_diff(expected) <= 1,
            _ => true,
        };
        let missing = expected.remaining.checked_sub(self.remaining);
        waits && self.allowed == expected.allowed && missing.is_some_and(|missing| missing <= u32::from(is_late))
    }
}

impl Charges {
    /// Counts the request at a place of the journal; `is_free` if it was found to cost nothing after all when it was recorded.
    pub(crate) fn count(&mut self, plan: &Plan, limit: u32, now: i64, place: usize, is_free: bool) -> Check {
        for charge in self.0.iter_mut().filter(|charge| charge.free_from.is_some_and(|from| from < place)) {
            charge.costs = false;
        }
        let (window, left) = (i64::try_from(plan.window_ms).unwrap_or_default(), self.left(plan, limit, now));
        let allowed = left > 0;
        let counts_refused = plan.count == Count::All && plan.algorithm != Algorithm::Bucket;
        let free_from = (is_free && allowed).then_some(place);
        self.0.push(Charge { at: now, limit, costs: allowed || counts_refused, free_from });
        let wait_ms = match plan.algorithm {
            Algorithm::Fixed if !allowed => self.opened(window).map(|opened| opened + window - now),
            _ if allowed => Some(0),
            _ => None,
        };
        // A request that is free says what is left without it.
        let remaining = if free_from.is_some() { left } else { left.saturating_sub(1) };
        Check { allowed, remaining, wait_ms }
    }

    /// When the newest window was opened, by whichever request found none open.
    fn opened(&self, window: i64) -> Option<i64> {
        self.0.iter().fold(None, |opened, charge| match opened {
            Some(opened) if charge.at - opened < window => Some(opened),
            _ => Some(charge.at),
        })
    }

    fn left(&self, plan: &Plan, limit: u32, now: i64) -> u32 {
        let window = i64::try_from(plan.window_ms).unwrap_or_default();
        let used = match plan.algorithm {
            Algorithm::Fixed => {
                let opened = self.opened(window).filter(|opened| now - opened < window);
                opened.map_or(0, |opened| self.0.iter().filter(|charge| charge.costs && charge.at >= opened).count())
            }
            Algorithm::Sliding => self.0.iter().filter(|charge| charge.costs && now - charge.at < window).count(),
            Algorithm::Bucket => return self.tokens(window, limit, now),
        };
        limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Whole tokens left, counted in parts of one token that flow back in a millisecond for a limit of 1.
    fn tokens(&self, window: i64, limit: u32, now: i64) -> u32 {
        let (mut missing, mut last) = (0, now);
        for charge in &self.0 {
            missing = i64::min(missing, window * i64::from(charge.limit));
            missing = i64::max(0, missing - (charge.at - last).max(0) * i64::from(charge.limit));
            missing += if charge.costs { window } else { 0 };
            last = charge.at;
        }
        let full = window * i64::from(limit);
        let missing = i64::max(0, missing.min(full) - (now - last) * i64::from(limit));
        u32::try_from((full - missing) / window).unwrap_or_default()
    }
}
