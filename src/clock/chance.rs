//! Chance: one seed fixes every id, secret, jitter and dice roll, with a random source of its own for each workspace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::clock::machine;

/// A repeatable source of chance: the same numbers on every machine and in every release.
pub type Random = ChaCha8Rng;

/// The seed of every id, secret, jitter and dice roll.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed that `--seed N` means.
    pub fn from_number(number: u64) -> Self {
        Self(Sha256::digest(number.to_be_bytes()).into())
    }

    /// The seed that a snapshot keeps as base64; `None` if it is not a seed.
    pub fn from_text(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// The seed for a snapshot; every secret follows from it.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }

    pub fn from_entropy() -> Self {
        Self(machine::entropy())
    }

    /// The random source of one workspace: fixed by the seed and the name alone, whatever other workspaces draw.
    pub fn source(&self, name: &str) -> Random {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(name.as_bytes());
        Random::from_seed(hash.finalize().into())
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Secrets follow from it.
        f.write_str("Seed(…)")
    }
}
