//! All workspaces: created on first use, bounded in number, the least recently used evicted first; and the access tokens of the
//! preview, which are aliases of keys.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use rand::Rng;

use super::Workspace;
use crate::clock::{Clock, Instant, Now, Random, Seed};
use crate::state::journal::Journal;

/// Most workspaces kept at a time.
pub const MOST_WORKSPACES: usize = 10_000;

/// The name of the workspace for requests without a valid key. It has its own random source, so that such requests do not change
/// what a key's requests draw. No key can have this name, as keys contain no spaces.
const ANONYMOUS: &str = "no key";

/// A full registry evicts one in this many workspaces at a time, because finding the least recently used scans all of them.
const EVICTED_SHARE: usize = 128;

#[derive(Debug)]
pub struct Registry {
    seed: RwLock<Seed>,
    clock: Clock,
    journal: Arc<Journal>,
    most: usize,
    anonymous: ArcSwap<Workspace>,
    workspaces: RwLock<HashMap<Arc<str>, Arc<Workspace>>>,
    tokens: Tokens,
    evicted: AtomicU64,
}

impl Registry {
    /// A registry of at most `most` workspaces; it records evictions in the journal.
    pub fn new(seed: Seed, clock: Clock, most: usize, journal: Arc<Journal>) -> Self {
        let anonymous =
            ArcSwap::from_pointee(Workspace::new(Arc::from(ANONYMOUS), &seed, clock.clone(), journal.budget()));
        Self {
            seed: RwLock::new(seed),
            clock,
            journal,
            most: most.max(1),
            anonymous,
            workspaces: RwLock::default(),
            tokens: Tokens::default(),
            evicted: AtomicU64::new(0),
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The seed that every random source follows from.
    pub fn seed(&self) -> Seed {
        *self.seed.read()
    }

    pub fn set_seed(&self, seed: Seed) {
        *self.seed.write() = seed;
    }

    /// A random source fixed by the seed and this name.
    pub fn source(&self, name: &str) -> Random {
        self.seed().source(name)
    }

    /// The workspace of requests without a valid key, from which they draw their ids.
    pub fn anonymous(&self) -> Arc<Workspace> {
        self.anonymous.load_full()
    }

    /// The workspace of this name, created if it does not exist; `now` is by the emulator's clock. The journal records each
    /// workspace evicted for it.
    pub fn open(&self, name: &str, now: Now) -> Arc<Workspace> {
        if let Some(workspace) = self.workspaces.read().get(name) {
            workspace.touch(now.instant);
            return Arc::clone(workspace);
        }
        let mut workspaces = self.workspaces.write();
        let evicted = self.make_room(&mut workspaces, name);
        let name: Arc<str> = Arc::from(name);
        let workspace = workspaces.entry(Arc::clone(&name)).or_insert_with(|| Arc::new(self.fresh(name)));
        workspace.touch(now.instant);
        let workspace = Arc::clone(workspace);
        drop(workspaces);
        self.log_evicted(&evicted, now);
        workspace
    }

    /// Evicts the least recently used workspaces if there is no room for one more of this name.
    fn make_room(&self, workspaces: &mut HashMap<Arc<str>, Arc<Workspace>>, name: &str) -> Vec<Arc<Workspace>> {
        if workspaces.len() < self.most || workspaces.contains_key(name) {
            return Vec::new();
        }
        let mut by_use: Vec<_> =
            workspaces.values().map(|known| (known.last_used.load(Ordering::Relaxed), known)).collect();
        let count = (self.most / EVICTED_SHARE).max(1);
        by_use.select_nth_unstable_by(count - 1, |(a, one), (b, other)| (a, one.name()).cmp(&(b, other.name())));
        let evicted: Vec<_> = by_use[..count].iter().map(|(_, known)| Arc::clone(known)).collect();
        for known in &evicted {
            workspaces.remove(known.name());
            known.leave();
        }
        self.evicted.fetch_add(count as u64, Ordering::Relaxed);
        evicted
    }

    fn log_evicted(&self, evicted: &[Arc<Workspace>], now: Now) {
        for evicted in evicted {
            let message =
                format!("workspace {} was forgotten: there are more keys than workspaces are kept", evicted.id());
            self.journal.note(now.wall, Some(Arc::clone(evicted.name())), message, true);
        }
    }

    pub(super) fn fresh(&self, name: Arc<str>) -> Workspace {
        Workspace::new(name, &self.seed(), self.clock.follower(), self.journal.budget())
    }

    /// Inserts a workspace, for which others may be evicted. An existing one of its name is forgotten and returned.
    pub fn replace(&self, workspace: &Arc<Workspace>, now: Now) -> Option<Arc<Workspace>> {
        workspace.touch(now.instant);
        let mut workspaces = self.workspaces.write();
        let evicted = self.make_room(&mut workspaces, workspace.name());
        let old = workspaces.insert(Arc::clone(workspace.name()), Arc::clone(workspace));
        drop(workspaces);
        if let Some(old) = &old {
            old.forget();
        }
        self.log_evicted(&evicted, now);
        old
    }

    /// Forgets a workspace. The next request of its key gets a new one, which has the same seed and draws the same values again.
    pub fn forget(&self, name: &str) -> Option<Arc<Workspace>> {
        let forgotten = self.workspaces.write().remove(name);
        if let Some(workspace) = &forgotten {
            workspace.forget();
        }
        forgotten
    }

    /// Forgets every workspace, that of requests without a valid key included.
    pub fn forget_all(&self) -> Vec<Arc<Workspace>> {
        let forgotten: Vec<_> = std::mem::take(&mut *self.workspaces.write()).into_values().collect();
        for workspace in &forgotten {
            workspace.forget();
        }
        let anonymous = Workspace::new(Arc::from(ANONYMOUS), &self.seed(), self.clock.clone(), self.journal.budget());
        self.anonymous.swap(Arc::new(anonymous)).forget();
        forgotten
    }

    pub fn find(&self, name_or_id: &str) -> Option<Arc<Workspace>> {
        let workspaces = self.workspaces.read();
        let by_id = || workspaces.values().find(|workspace| workspace.id() == name_or_id).cloned();
        workspaces.get(name_or_id).cloned().or_else(|| name_or_id.starts_with("ws_").then(by_id).flatten())
    }

    pub fn all(&self) -> Vec<Arc<Workspace>> {
        let mut all: Vec<_> = self.workspaces.read().values().cloned().collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    pub fn kept(&self) -> usize {
        self.workspaces.read().len()
    }

    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

/// Most tokens kept; the oldest are evicted first.
const MOST_TOKENS: usize = 10_000;

#[derive(Debug, Default)]
pub struct Tokens {
    /// Whether any was ever issued; if not, requests skip the lock.
    any: AtomicBool,
    kept: RwLock<TokenStore>,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct TokenStore {
    by_text: HashMap<Arc<str>, Alias>,
    in_order: VecDeque<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub key: Arc<str>,
    /// When it expires, by the clock of the key's workspace.
    pub expires: Instant,
}

impl Tokens {
    /// Issues a token for a key. Its text is drawn from the key's random source.
    pub fn issue(&self, key: &str, expires: Instant, random: &mut impl Rng) -> Arc<str> {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        let text: Arc<str> = format!("oat_{}", URL_SAFE_NO_PAD.encode(bytes)).into();
        self.put(Arc::clone(&text), Alias { key: Arc::from(key), expires });
        text
    }

    pub fn put(&self, text: Arc<str>, alias: Alias) {
        let mut kept = self.kept.write();
        if kept.in_order.len() >= MOST_TOKENS
            && let Some(oldest) = kept.in_order.pop_front()
        {
            kept.by_text.remove(&oldest);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if kept.by_text.insert(Arc::clone(&text), alias).is_none() {
            kept.in_order.push_back(text);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Tokens evicted so far, expired or not.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub fn find(&self, text: &str) -> Option<Alias> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.kept.read().by_text.get(text).cloned()
    }

    /// The tokens of the keys for which `is_meant` is true, oldest first.
    pub fn of(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Alias)> {
        let kept = self.kept.read();
        let known = kept.in_order.iter().filter_map(|text| Some((text, kept.by_text.get(text)?)));
        known.filter(|(_, alias)| is_meant(&alias.key)).map(|(text, alias)| (Arc::clone(text), alias.clone())).collect()
    }

    pub fn forget(&self, is_meant: impl Fn(&str) -> bool) {
        let mut kept = self.kept.write();
        let TokenStore { by_text, in_order } = &mut *kept;
        by_text.retain(|_, alias| !is_meant(&alias.key));
        in_order.retain(|text| by_text.contains_key(text));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn tokens_are_found_and_the_oldest_are_evicted_first() {
        let (tokens, mut random) = (Tokens::default(), crate::clock::Random::seed_from_u64(1));
        let at = |seconds| Instant::after_start(Duration::from_secs(seconds));
        let first = tokens.issue("sk_test_a", at(10), &mut random);
        let found = || tokens.find(&first).map(|alias| alias.expires);
        assert_eq!(found(), Some(at(10)));
        for _ in 0..MOST_TOKENS {
            tokens.issue("sk_test_b", at(10), &mut random);
        }
        assert_eq!(found(), None);
        assert_eq!(tokens.of(|key| key == "sk_test_b").len(), MOST_TOKENS);
        tokens.forget(|key| key == "sk_test_b");
        assert!(tokens.of(|_| true).is_empty() && tokens.kept.read().by_text.is_empty());
    }
}
