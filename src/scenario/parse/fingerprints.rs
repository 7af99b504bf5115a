//! Fingerprints, which name the counters of a rule or an emission while its text is edited.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use toml::de::{DeTable, DeValue};

/// Fingerprints of the rules or emissions of one scenario: the same as long as name and content are the same, whatever
/// is around them, so that rules whose text did not change keep their counters. The second of two equal ones gets another.
pub(super) struct Fingerprints {
    prefix: Sha256,
    seen: HashMap<[u8; 32], u64>,
}

impl Fingerprints {
    pub(super) fn new(scenario: &str, kind: &str) -> Self {
        let mut prefix = Sha256::new();
        for part in [kind, scenario] {
            hash_text(&mut prefix, part);
        }
        Self { prefix, seen: HashMap::new() }
    }

    pub(super) fn of(&mut self, table: &DeTable<'_>) -> u64 {
        let mut hash = self.prefix.clone();
        hash_table(&mut hash, table);
        let content: [u8; 32] = hash.finalize().into();
        let repeats = self.seen.entry(content).or_default();
        *repeats += 1;
        shortened(Sha256::new().chain_update(content).chain_update(repeats.to_be_bytes()))
    }

    pub(super) fn story(&self) -> u64 {
        shortened(self.prefix.clone().chain_update(b"story"))
    }
}

fn shortened(hash: Sha256) -> u64 {
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |print, byte| print << 8 | u64::from(*byte))
}

fn hash_table(hash: &mut Sha256, table: &DeTable<'_>) {
    hash.update(b"{");
    for (key, value) in table {
        hash_text(hash, key.get_ref());
        hash_value(hash, value.get_ref());
    }
    hash.update(b"}");
}

fn hash_value(hash: &mut Sha256, value: &DeValue<'_>) {
    match value {
        DeValue::String(text) => {
            hash.update(b"s");
            hash_text(hash, text);
        }
        DeValue::Table(table) => hash_table(hash, table),
        DeValue::Array(values) => {
            hash.update(b"[");
            values.iter().for_each(|value| hash_value(hash, value.get_ref()));
            hash.update(b"]");
        }
        DeValue::Integer(number) => hash_text(hash, &number.to_string()),
        DeValue::Float(number) => hash_text(hash, number.as_str()),
        DeValue::Boolean(flag) => hash.update([b'b', u8::from(*flag)]),
        DeValue::Datetime(time) => hash_text(hash, &time.to_string()),
    }
}

fn hash_text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
