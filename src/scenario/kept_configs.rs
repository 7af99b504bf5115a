//! Effective configurations kept in addition to those in force: the ones that requests choose by name, and the ones replaced
//! a short while ago. Both are bounded; what a scenario means is not known here.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::effective_config::EffectiveConfig;

/// Most combinations of scenarios kept for requests that name them; past this, the least recently used one is dropped.
pub(crate) const MOST_NAMED: usize = 64;
/// Most bytes of text that the scenarios named by one request have together.
pub(crate) const MOST_NAMED_TEXT: usize = 2 * 1024 * 1024;
/// Most replaced configurations kept.
pub(crate) const MOST_RETIRED: usize = 64;
/// Most bytes that their scenarios take, roughly.
pub(crate) const MOST_RETIRED_BYTES: usize = 16 * 1024 * 1024;

/// The names in their order, and the settings of the key that named them.
pub(super) type Combination = (String, String);

/// Configurations by combination, each with the number of its last use.
#[derive(Debug, Default)]
pub(super) struct NamedConfigs {
    kept: HashMap<Combination, (Arc<EffectiveConfig>, u64)>,
    uses: u64,
}

impl NamedConfigs {
    /// The configuration of a combination, if it is kept.
    pub(super) fn get(&mut self, combination: &Combination) -> Option<Arc<EffectiveConfig>> {
        self.uses += 1;
        let (config, used) = self.kept.get_mut(combination)?;
        *used = self.uses;
        Some(Arc::clone(config))
    }

    /// Keeps a configuration; returns the one dropped for it, so that the caller frees it outside the lock.
    pub(super) fn keep(
        &mut self,
        combination: Combination,
        config: Arc<EffectiveConfig>,
    ) -> Option<Arc<EffectiveConfig>> {
        let dropped = (self.kept.len() >= MOST_NAMED).then(|| {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used)?.0.clone();
            self.kept.remove(&oldest).map(|(config, _)| config)
        });
        self.kept.insert(combination, (config, self.uses));
        dropped.flatten()
    }
}

/// Configurations no longer in force, oldest first: requests that they answered can still be explained by them.
#[derive(Debug, Default)]
pub(super) struct RetiredConfigs(Mutex<VecDeque<Arc<EffectiveConfig>>>);

impl RetiredConfigs {
    /// Drops all of them, as when the requests that they answered are forgotten.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Keeps a configuration that was replaced.
    pub(super) fn keep(&self, config: Arc<EffectiveConfig>) {
        let weight =
            |config: &Arc<EffectiveConfig>| config.active.iter().map(|scenario| scenario.weight).sum::<usize>();
        let mut kept = self.0.lock();
        kept.push_back(config);
        while kept.len() > MOST_RETIRED || kept.iter().map(weight).sum::<usize>() > MOST_RETIRED_BYTES {
            kept.pop_front();
        }
    }
}
