//! effective configurations that were replaced a short while ago: requests that they answered can still be explained by them. Bounded by count and
//! by what their scenarios take in memory; the oldest are dropped first.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::effective_config::EffectiveConfig;

/// Most effective configurations kept.
pub(crate) const MOST: usize = 64;
/// Most bytes that their scenarios take, roughly.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;

/// effective configurations that are not in force any more, oldest first.
#[derive(Debug, Default)]
pub(super) struct Retired(Mutex<VecDeque<Arc<EffectiveConfig>>>);

impl Retired {
    /// Keeps an effective configuration that was replaced.
    pub(super) fn keep(&self, config: Arc<EffectiveConfig>) {
        let mut kept = self.0.lock();
        kept.push_back(config);
        while kept.len() > MOST || kept.iter().map(|config| weight(config)).sum::<usize>() > MOST_BYTES {
            kept.pop_front();
        }
    }
}

fn weight(config: &EffectiveConfig) -> usize {
    config.active.iter().map(|scenario| scenario.weight).sum()
}
