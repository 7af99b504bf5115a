//! All workspaces: made on first use, bounded, the longest unused leaving first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::Workspace;
use crate::clock::{Clock, Now, Seed};

/// Most workspaces kept at a time.
pub const MOST_WORKSPACES: usize = 10_000;

/// The name of the workspace for requests that carry no valid key: it draws from a random source of its own, so that
/// such requests do not shift what a key's own requests draw. No key can have this name, as keys hold no spaces.
const ANONYMOUS: &str = "no key";

/// Every workspace of one emulator.
#[derive(Debug)]
pub struct Registry {
    seed: Seed,
    clock: Clock,
    most: usize,
    anonymous: Arc<Workspace>,
    workspaces: RwLock<HashMap<Arc<str>, Arc<Workspace>>>,
    evicted: AtomicU64,
}

impl Registry {
    /// A registry of at most `most` workspaces.
    pub fn new(seed: Seed, clock: Clock, most: usize) -> Self {
        let anonymous = Arc::new(Workspace::new(Arc::from(ANONYMOUS), &seed, clock.clone()));
        Self { seed, clock, most: most.max(1), anonymous, workspaces: RwLock::default(), evicted: AtomicU64::new(0) }
    }

    /// The emulator's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where requests without a valid key draw their ids from.
    pub fn anonymous(&self) -> &Arc<Workspace> {
        &self.anonymous
    }

    /// The workspace of this name, made if it is not there. The second value is what had to leave for it.
    pub fn open(&self, name: &str, now: Now) -> (Arc<Workspace>, Option<Arc<Workspace>>) {
        if let Some(workspace) = self.workspaces.read().get(name) {
            workspace.touch(now.moment);
            return (Arc::clone(workspace), None);
        }
        let mut workspaces = self.workspaces.write();
        let mut left = None;
        if workspaces.len() >= self.most && !workspaces.contains_key(name) {
            let idle = workspaces
                .values()
                .min_by_key(|workspace| workspace.idle_since())
                .map(|workspace| Arc::clone(workspace.name()));
            left = idle.and_then(|idle| workspaces.remove(&idle));
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        let name: Arc<str> = Arc::from(name);
        let workspace = workspaces
            .entry(Arc::clone(&name))
            .or_insert_with(|| Arc::new(Workspace::new(name, &self.seed, self.clock.clone())));
        workspace.touch(now.moment);
        (Arc::clone(workspace), left)
    }

    /// The workspace of this name or id, if it is there.
    pub fn find(&self, name_or_id: &str) -> Option<Arc<Workspace>> {
        let workspaces = self.workspaces.read();
        let by_id = || workspaces.values().find(|workspace| workspace.id() == name_or_id).cloned();
        workspaces.get(name_or_id).cloned().or_else(|| name_or_id.starts_with("ws_").then(by_id).flatten())
    }

    /// Every workspace, by id.
    pub fn all(&self) -> Vec<Arc<Workspace>> {
        let mut all: Vec<_> = self.workspaces.read().values().cloned().collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// How many workspaces had to leave so far.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_workspace_leaves_first() {
        let registry = Registry::new(Seed::from_number(1), Clock::frozen(jiff::Timestamp::UNIX_EPOCH), 2);
        let clock = registry.clock().clone();
        let open = |name: &str| {
            let now = clock.advance(std::time::Duration::from_secs(1));
            registry.open(name, now).1.map(|left| left.name().to_string())
        };
        assert_eq!(open("a"), None);
        assert_eq!(open("b"), None);
        assert_eq!(open("a"), None);
        assert_eq!(open("c").as_deref(), Some("b"));
        assert_eq!(registry.evicted(), 1);
        assert!(registry.find("a").is_some() && registry.find("b").is_none());
        let id = registry.find("a").expect("a is there").id().to_owned();
        assert_eq!(registry.find(&id).expect("ids are accepted").name().as_ref(), "a");
    }
}
