//! What requests that name their scenarios get: an effective configuration for each combination, the most used of which are kept.

use std::collections::HashMap;
use std::sync::Arc;

use super::effective_config::EffectiveConfig;

/// effective configurations kept for combinations of scenarios that requests name; past this, the one that was not used for longest leaves.
pub(crate) const MOST_NAMED: usize = 64;
/// Most bytes of text that the scenarios named by one request have together.
pub(crate) const MOST_NAMED_TEXT: usize = 2 * 1024 * 1024;

/// The names in their order, and the knobs of the key that named them.
pub(super) type Combination = (String, String);

/// effective configurations by combination, each with the number of its last use.
#[derive(Debug, Default)]
pub(super) struct Named {
    kept: HashMap<Combination, (Arc<EffectiveConfig>, u64)>,
    uses: u64,
}

impl Named {
    /// The effective configuration of a combination, if it is kept.
    pub(super) fn get(&mut self, combination: &Combination) -> Option<Arc<EffectiveConfig>> {
        self.uses += 1;
        let (config, used) = self.kept.get_mut(combination)?;
        *used = self.uses;
        Some(Arc::clone(config))
    }

    /// Keeps an effective configuration; gives the one that leaves for it.
    pub(super) fn keep(
        &mut self,
        combination: Combination,
        config: Arc<EffectiveConfig>,
    ) -> Option<Arc<EffectiveConfig>> {
        let leaves = (self.kept.len() >= MOST_NAMED).then(|| {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used)?;
            let oldest = oldest.0.clone();
            self.kept.remove(&oldest).map(|(config, _)| config)
        });
        self.kept.insert(combination, (config, self.uses));
        leaves.flatten()
    }
}
