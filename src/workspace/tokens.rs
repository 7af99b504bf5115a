//! Access tokens of the preview: each an alias of the key that it was issued for, until that key's clock says that it has
//! expired.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use rand::Rng;

use crate::clock::Instant;

/// Most tokens kept; the oldest leave first.
pub const MOST_TOKENS: usize = 10_000;

/// Every access token of one emulator.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Whether one was ever issued; spares other requests the lock.
    any: AtomicBool,
    held: RwLock<Held>,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    by_text: HashMap<Arc<str>, Alias>,
    in_order: VecDeque<Arc<str>>,
}

/// What a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The key that it was issued for.
    pub key: Arc<str>,
    /// When its time is over, by the clock of the key's workspace.
    pub expires: Instant,
}

impl Tokens {
    /// Issues a token for a key. Its text is drawn from the key's own source.
    pub fn issue(&self, key: &str, expires: Instant, random: &mut impl Rng) -> Arc<str> {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        let text: Arc<str> = format!("oat_{}", URL_SAFE_NO_PAD.encode(bytes)).into();
        self.put(Arc::clone(&text), Alias { key: Arc::from(key), expires });
        text
    }

    /// Keeps a token as it was issued before.
    pub fn put(&self, text: Arc<str>, alias: Alias) {
        let mut held = self.held.write();
        if held.in_order.len() >= MOST_TOKENS
            && let Some(oldest) = held.in_order.pop_front()
        {
            held.by_text.remove(&oldest);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        if held.by_text.insert(Arc::clone(&text), alias).is_none() {
            held.in_order.push_back(text);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Tokens that had to leave so far, before or after they had expired.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// What a token stands for, if it was issued here and is still kept.
    pub fn find(&self, text: &str) -> Option<Alias> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.held.read().by_text.get(text).cloned()
    }

    /// The tokens of the keys that are wanted, oldest first.
    pub fn of(&self, wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Alias)> {
        let held = self.held.read();
        let known = held.in_order.iter().filter_map(|text| Some((text, held.by_text.get(text)?)));
        known.filter(|(_, alias)| wanted(&alias.key)).map(|(text, alias)| (Arc::clone(text), alias.clone())).collect()
    }

    /// Forgets the tokens of the keys that are wanted.
    pub fn forget(&self, wanted: impl Fn(&str) -> bool) {
        let mut held = self.held.write();
        let Held { by_text, in_order } = &mut *held;
        by_text.retain(|_, alias| !wanted(&alias.key));
        in_order.retain(|text| by_text.contains_key(text));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn tokens_are_found_and_the_oldest_leave_first() {
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
        assert!(tokens.of(|_| true).is_empty() && tokens.held.read().by_text.is_empty());
    }
}
