//! The access tokens of the preview: aliases of keys until they expire. The registry has one store of them for all keys.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::RwLock;
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::clock::Instant;

/// Most tokens kept; the oldest are evicted first.
const MAX_TOKENS: usize = 10_000;

/// With which every token begins, and no key.
const TOKEN_PREFIX: &str = "oat_";

/// An access token, as it is kept and saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessToken {
    #[serde(rename = "token")]
    pub text: String,
    /// The key that it is an alias of.
    pub key: String,
    /// When it expires, by the clock of the key's workspace.
    pub expires: Instant,
}

/// The access tokens, oldest first. They are few, so they are searched.
#[derive(Debug, Default)]
pub struct AccessTokens {
    kept: RwLock<VecDeque<AccessToken>>,
    evicted: AtomicU64,
}

impl AccessTokens {
    /// Issues a token for a key. Its text is drawn from the key's random source.
    pub fn issue(&self, key: &str, expires: Instant, random: &mut impl Rng) -> String {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        self.put(AccessToken { text: text.clone(), key: key.to_owned(), expires });
        text
    }

    pub fn put(&self, token: AccessToken) {
        let mut kept = self.kept.write();
        // The workspace of a key that was evicted makes the same tokens again.
        kept.retain(|known| known.text != token.text);
        if kept.len() >= MAX_TOKENS {
            kept.pop_front();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        kept.push_back(token);
    }

    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    pub fn find(&self, text: &str) -> Option<AccessToken> {
        // Requests with a key need not wait for the lock.
        text.strip_prefix(TOKEN_PREFIX)?;
        self.kept.read().iter().find(|token| token.text == text).cloned()
    }

    /// The tokens of the keys for which `is_meant` is true, oldest first.
    pub fn of(&self, is_meant: impl Fn(&str) -> bool) -> Vec<AccessToken> {
        self.kept.read().iter().filter(|token| is_meant(&token.key)).cloned().collect()
    }

    pub fn remove(&self, is_meant: impl Fn(&str) -> bool) {
        self.kept.write().retain(|token| !is_meant(&token.key));
    }
}
