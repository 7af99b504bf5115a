//! The subscriptions of one workspace and their secrets, as they are stored, saved and restored. What the API and the control
//! API do with them is in `subscribe`.

use std::collections::{BTreeMap, HashMap};
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

/// The subscriptions of one workspace, in the order in which they were made. Found by id and by URL without a search: each
/// delivery looks its own up, and a client may make many.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    by_serial: BTreeMap<u64, SubscriptionRecord>,
    serial_by_id: HashMap<String, u64>,
    /// The newest of each URL.
    serial_by_url: HashMap<Arc<Url>, u64>,
    made: u64,
    pub(super) charge: Charge,
}

impl Subscriptions {
    pub(super) fn within(budget: &Budget) -> Self {
        let (by_serial, serial_by_id, serial_by_url) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { by_serial, serial_by_id, serial_by_url, made: 0, charge: Charge::empty(budget) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SubscriptionRecord> {
        self.by_serial.values()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&SubscriptionRecord> {
        self.by_serial.get(self.serial_by_id.get(id)?)
    }

    pub(super) fn serial(&self, id: &str) -> Option<u64> {
        self.serial_by_id.get(id).copied()
    }

    /// The newest subscription of a URL.
    pub(super) fn serial_of_url(&self, url: &Url) -> Option<u64> {
        self.serial_by_url.get(url).copied()
    }

    pub(super) fn insert(&mut self, record: SubscriptionRecord) -> Result<(), Full> {
        self.charge.grow(record.bytes())?;
        self.made += 1;
        self.serial_by_id.insert(record.id.clone(), self.made);
        self.serial_by_url.insert(Arc::clone(&record.target), self.made);
        self.by_serial.insert(self.made, record);
        Ok(())
    }

    /// Changes a subscription and returns it. If the result does not fit, it stays unchanged and the error gives the reason.
    pub(super) fn change(
        &mut self,
        serial: u64,
        change: impl FnOnce(&mut SubscriptionRecord),
    ) -> Result<&SubscriptionRecord, Full> {
        let mut changed = self.by_serial[&serial].clone();
        change(&mut changed);
        self.charge.grow(changed.bytes())?;
        let url = Arc::clone(&changed.target);
        if let Some(old) = self.by_serial.insert(serial, changed) {
            self.charge.shrink(old.bytes());
            if old.target != url {
                self.release_url(&old.target, serial);
                let newest = self.serial_by_url.entry(url).or_default();
                *newest = serial.max(*newest);
            }
        }
        Ok(&self.by_serial[&serial])
    }

    pub(super) fn disable(&mut self, id: &str) -> bool {
        let record = self.serial(id).and_then(|serial| self.by_serial.get_mut(&serial));
        record.map(|record| record.disabled = true).is_some()
    }

    pub(super) fn remove(&mut self, id: &str) -> bool {
        let Some(serial) = self.serial_by_id.remove(id) else { return false };
        if let Some(record) = self.by_serial.remove(&serial) {
            self.charge.shrink(record.bytes());
            self.release_url(&record.target, serial);
        }
        true
    }

    /// After a subscription has left its URL: an older one may have the same.
    fn release_url(&mut self, url: &Url, serial: u64) {
        if self.serial_by_url.get(url) != Some(&serial) {
            return;
        }
        self.serial_by_url.remove(url);
        if let Some((older, record)) = self.by_serial.iter().rfind(|(_, record)| *record.target == *url) {
            self.serial_by_url.insert(Arc::clone(&record.target), *older);
        }
    }

    /// The subscriptions of a snapshot, oldest first. The error names the one that cannot be restored.
    pub(crate) fn restore(saved: &[SubscriptionRecord], budget: &Budget) -> Result<Self, String> {
        let mut subscriptions = Self::within(budget);
        for record in saved {
            if subscriptions.get(&record.id).is_some() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_subscription_of_a_url_is_found_when_the_newest_has_left_it() {
        let mut subscriptions = Subscriptions::within(&Budget::new(1 << 20));
        let [hooks, other] =
            ["https://app.test/hooks", "https://app.test/other"].map(|url| Url::parse(url).expect("a URL"));
        for id in ["sub_1", "sub_2", "sub_3"] {
            subscriptions.insert(record(id, &hooks)).expect("room");
        }
        let of_hooks = |subscriptions: &Subscriptions| subscriptions.serial_of_url(&hooks);
        assert_eq!(of_hooks(&subscriptions), subscriptions.serial("sub_3"));
        assert!(subscriptions.remove("sub_3") && !subscriptions.remove("sub_3"));
        assert_eq!(of_hooks(&subscriptions), subscriptions.serial("sub_2"));

        let second = subscriptions.serial("sub_2").expect("kept");
        subscriptions.change(second, |record| record.target = Arc::new(other.clone())).expect("room");
        assert_eq!(subscriptions.serial_of_url(&other), Some(second));
        assert_eq!(of_hooks(&subscriptions), subscriptions.serial("sub_1"));

        let first = subscriptions.serial("sub_1").expect("kept");
        subscriptions.change(first, |record| record.target = Arc::new(other.clone())).expect("room");
        assert_eq!(subscriptions.serial_of_url(&other), Some(second), "the newest, whichever came last");
        assert_eq!(of_hooks(&subscriptions), None);
    }

    fn record(id: &str, url: &Url) -> SubscriptionRecord {
        SubscriptionRecord {
            id: id.into(),
            url: url.to_string(),
            target: Arc::new(url.clone()),
            events: Vec::new(),
            description: None,
            disabled: false,
            created_at: Timestamp::UNIX_EPOCH,
            secret: Secret::new("whsec_test"),
            previous: None,
        }
    }
}
