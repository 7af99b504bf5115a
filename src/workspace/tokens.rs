//! Access tokens of the preview: each is an alias of the key that it was issued for, until it expires by the clock of that key's
//! workspace.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use rand::Rng;

use crate::clock::Instant;

/// Most tokens kept; the oldest are evicted first.
const MOST_TOKENS: usize = 10_000;

/// Every access token of one emulator.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Whether any was ever issued; if not, requests skip the lock.
    any: AtomicBool,
    kept: RwLock<Kept>,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    by_text: HashMap<Arc<str>, Alias>,
    in_order: VecDeque<Arc<str>>,
}

/// The key of a token, and when the token expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The key that it was issued for.
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

    /// Adds a token that exists already, as from a snapshot.
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

    /// The alias of a token, if it was issued here and is still kept.
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

    /// Forgets the tokens of the keys for which `is_meant` is true.
    pub fn forget(&self, is_meant: impl Fn(&str) -> bool) {
        let mut kept = self.kept.write();
        let Kept { by_text, in_order } = &mut *kept;
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
