//! Quotas in the reference: every request that was ever made is looked at again for each new one.

use super::commands::{Algorithm, Count, Rules};

const WINDOW: u64 = 10_000;

/// One request that came as far as the quota.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    at: u64,
    /// The limit in force then.
    limit: u32,
    /// True if it costs.
    costs: bool,
}

/// Counts one request more; says whether it may go on, and how many are left then.
pub(super) fn charge(charges: &mut Vec<Charge>, rules: &Rules, limit: u32, at: u64) -> (bool, u32) {
    let left = left(charges, rules.algorithm, limit, at);
    let allowed = left > 0;
    // An even flow has no windows that refused requests could use up.
    let refused_cost = rules.count == Count::All && rules.algorithm != Algorithm::TokenBucket;
    charges.push(Charge { at, limit, costs: allowed || refused_cost });
    (allowed, left.saturating_sub(1))
}

/// Takes the last request back.
pub(super) fn refund(charges: &mut [Charge]) {
    if let Some(last) = charges.last_mut() {
        last.costs = false;
    }
}

fn left(charges: &[Charge], algorithm: Algorithm, limit: u32, now: u64) -> u32 {
    let used = match algorithm {
        Algorithm::Fixed => {
            // A request that finds no open window opens one, whatever becomes of it.
            let (mut opened, mut used) = (None, 0);
            for charge in charges {
                if opened.is_none_or(|opened| charge.at - opened >= WINDOW) {
                    (opened, used) = (Some(charge.at), 0);
                }
                used += u32::from(charge.costs);
            }
            if opened.is_some_and(|opened| now - opened < WINDOW) { used } else { 0 }
        }
        Algorithm::Sliding => {
            let inside = charges.iter().filter(|charge| charge.costs && now - charge.at < WINDOW);
            u32::try_from(inside.count()).expect("few requests")
        }
        Algorithm::TokenBucket => return tokens(charges, limit, now),
    };
    limit.saturating_sub(used)
}

/// Whole tokens in the bucket. One token is as much as flows back in a window for a limit of 1.
fn tokens(charges: &[Charge], limit: u32, now: u64) -> u32 {
    let (mut missing, mut last) = (0_u64, 0);
    for charge in charges {
        missing = missing.min(WINDOW * u64::from(charge.limit));
        missing = missing.saturating_sub((charge.at - last) * u64::from(charge.limit));
        missing += if charge.costs { WINDOW } else { 0 };
        last = charge.at;
    }
    let full = WINDOW * u64::from(limit);
    let missing = missing.min(full).saturating_sub((now - last) * u64::from(limit));
    u32::try_from((full - missing) / WINDOW).expect("few tokens")
}
