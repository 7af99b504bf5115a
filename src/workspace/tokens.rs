//! Access tokens of the preview: each an alias of the key that it was issued for, until the clock says that it has expired.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use rand::Rng;

use crate::clock::Moment;

/// Most tokens kept; the oldest leave first.
pub const MOST_TOKENS: usize = 10_000;

/// Every access token of one emulator.
#[derive(Debug, Default)]
pub struct Tokens {
    /// Whether one was ever issued; spares other requests the lock.
    any: AtomicBool,
    held: RwLock<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_text: HashMap<Arc<str>, Token>,
    in_order: VecDeque<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Token {
    key: Arc<str>,
    expires: Moment,
}

/// What a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The key that it was issued for.
    pub key: Arc<str>,
    /// Whether its time is over.
    pub expired: bool,
}

impl Tokens {
    /// Issues a token for a key. Its text is drawn from the key's own source.
    pub fn issue(&self, key: &str, expires: Moment, random: &mut impl Rng) -> Arc<str> {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        let text: Arc<str> = format!("oat_{}", URL_SAFE_NO_PAD.encode(bytes)).into();
        let mut held = self.held.write();
        if held.in_order.len() >= MOST_TOKENS
            && let Some(oldest) = held.in_order.pop_front()
        {
            held.by_text.remove(&oldest);
        }
        held.in_order.push_back(Arc::clone(&text));
        held.by_text.insert(Arc::clone(&text), Token { key: Arc::from(key), expires });
        self.any.store(true, Ordering::Release);
        text
    }

    /// What a token stands for, if it was issued here and is still kept.
    pub fn find(&self, text: &str, now: Moment) -> Option<Alias> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let held = self.held.read();
        let token = held.by_text.get(text)?;
        Some(Alias { key: Arc::clone(&token.key), expired: token.expires <= now })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn tokens_expire_and_the_oldest_leave_first() {
        let (tokens, mut random) = (Tokens::default(), crate::clock::Random::seed_from_u64(1));
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let first = tokens.issue("sk_test_a", at(10), &mut random);
        let found = |now| tokens.find(&first, at(now)).map(|alias| alias.expired);
        assert_eq!((found(9), found(10)), (Some(false), Some(true)));
        for _ in 0..MOST_TOKENS {
            tokens.issue("sk_test_b", at(10), &mut random);
        }
        assert_eq!(found(0), None);
        assert_eq!(tokens.held.read().by_text.len(), MOST_TOKENS);
    }
}
