//! The subscriptions of one workspace and their secrets, as they are stored, saved and restored. What the API and the control
//! API do with them is in `subscribe`.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rand::Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use crate::clock::{Instant, Now};
use crate::contract::signature::{KeyReading, Scheme, SchemeName, SecretProblem, SigningKey};
use crate::state::budget::{Budget, Charge, Full};

/// A signing secret; its text never appears in debug output. Clones share the key that was read from it.
#[derive(Clone)]
pub struct Secret(Arc<SecretText>);

struct SecretText {
    text: String,
    /// The key for the scheme and reading that asked first.
    key: OnceLock<(SchemeName, KeyReading, SigningKey)>,
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(SecretText { text: text.into(), key: OnceLock::new() }))
    }

    /// The text, for signing and for the one answer that contains it.
    pub fn reveal(&self) -> &str {
        &self.0.text
    }

    pub fn signing_key(&self, scheme: &Scheme, reading: KeyReading) -> Result<SigningKey, SecretProblem> {
        let (name, reading) = (scheme.name(), scheme.reading(reading).0);
        if let Some((known_name, known_reading, key)) = self.0.key.get()
            && (*known_name, *known_reading) == (name, reading)
        {
            return Ok(key.clone());
        }
        let key = SigningKey::read(&self.0.text, scheme, reading)?;
        let _ = self.0.key.set((name, reading, key.clone()));
        Ok(key)
    }

    /// A fresh one, in the form that the contract shows.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self::new(format!("whsec_{}", STANDARD.encode(bytes)))
    }
}

/// For snapshots alone: no other record with a secret is serialised.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reveal())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One subscription as it is kept and saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriptionRecord {
    /// Form `sub_<id>`.
    pub id: String,
    /// As the client wrote it.
    pub url: String,
    /// Normalised, for comparison and dialling.
    #[serde(with = "target")]
    pub target: Arc<Url>,
    pub events: Vec<String>,
    pub description: Option<String>,
    pub disabled: bool,
    pub created_at: Timestamp,
    pub(super) secret: Secret,
    /// The secret before the last rotation, and when it stops signing.
    pub(super) previous: Option<(Secret, Instant)>,
}

/// A URL as text.
mod target {
    use std::sync::Arc;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use url::Url;

    pub(super) fn serialize<S: Serializer>(target: &Arc<Url>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(target.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Url>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Url::parse(&text).map(Arc::new).map_err(|error| D::Error::custom(format!("target: {error}")))
    }
}

/// The subscriptions of one workspace, in the order in which they were made. They are few, so they are searched.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub(super) records: Vec<SubscriptionRecord>,
    pub(super) charge: Charge,
}

impl Subscriptions {
    pub(super) fn within(budget: &Budget) -> Self {
        Self { records: Vec::new(), charge: Charge::empty(budget) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SubscriptionRecord> {
        self.records.iter()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&SubscriptionRecord> {
        self.records.iter().find(|record| record.id == id)
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.records.iter().position(|record| record.id == id)
    }

    /// The newest subscription of a URL.
    pub(super) fn position_of_url(&self, url: &Url) -> Option<usize> {
        self.records.iter().rposition(|record| *record.target == *url)
    }

    pub(super) fn insert(&mut self, record: SubscriptionRecord) -> Result<(), Full> {
        self.charge.grow(record.bytes())?;
        self.records.push(record);
        Ok(())
    }

    /// Changes a subscription. If the result does not fit, it stays unchanged and the error gives the reason.
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut SubscriptionRecord)) -> Result<(), Full> {
        let mut changed = self.records[at].clone();
        change(&mut changed);
        self.charge.grow(changed.bytes())?;
        let old = std::mem::replace(&mut self.records[at], changed);
        self.charge.shrink(old.bytes());
        Ok(())
    }

    /// The subscriptions of a snapshot, oldest first. The error names the one that cannot be restored.
    pub(crate) fn restore(saved: &[SubscriptionRecord], budget: &Budget) -> Result<Self, String> {
        let (mut subscriptions, mut ids) = (Self::within(budget), HashSet::new());
        for record in saved {
            if !ids.insert(&record.id) {
                return Err(format!("subscription {} is there twice", record.id));
            }
            subscriptions.insert(record.clone()).map_err(|full| full.to_string())?;
        }
        Ok(subscriptions)
    }
}

impl SubscriptionRecord {
    /// Roughly the bytes that it takes in memory. The URL is kept twice: as written, and parsed.
    pub(super) fn bytes(&self) -> usize {
        const FIXED: usize = 640;
        let events: usize = self.events.iter().map(|event| event.len() + 24).sum();
        let secrets =
            self.secret.reveal().len() + self.previous.as_ref().map_or(0, |(secret, _)| secret.reveal().len());
        let description = self.description.as_ref().map_or(0, String::len);
        FIXED + self.url.len() + self.target.as_str().len() + events + secrets + description
    }

    /// The secrets that sign at present, newest first: 1, or 2 during a rotation's grace period.
    pub fn signing_secrets(&self, now: Now) -> Vec<Secret> {
        let previous = self.previous.iter().filter(|(_, until)| now.instant < *until).map(|(secret, _)| secret.clone());
        std::iter::once(self.secret.clone()).chain(previous).collect()
    }
}
