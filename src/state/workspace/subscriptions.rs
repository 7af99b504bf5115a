//! The subscriptions of one workspace and their secrets: stored, saved and restored; and what the API and the control API do with
//! them: subscribe and update, rotate secrets, disable, delete (contract: Subscription).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rand::Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use url::Url;

use super::sources::RandomSources;
use crate::clock::{Instant, Now};
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::rules::CheckedSubscribe;
use crate::contract::signature::{KeyReading, Scheme, SchemeName, SecretProblem, SigningKey, Tamper};
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{Subscription, SubscriptionStatus};
use crate::settings::{Profile, Upsert};
use crate::state::budget::{Budget, NoRoom};

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

    /// A fresh one, in a form that these schemes read as a key under `reading`.
    pub fn generate(schemes: &[Scheme], reading: KeyReading, random: &mut impl Rng) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        let is_hex = schemes.iter().any(|scheme| scheme.reading(reading).0 == KeyReading::Hex);
        let text = if is_hex { bytes.map(|byte| format!("{byte:02x}")).concat() } else { STANDARD.encode(bytes) };
        Self::new(format!("whsec_{text}"))
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
    secret: Secret,
    /// True if the emulator generated the secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_generated_secret: bool,
    /// The secret before the last rotation, and when it stops signing.
    previous: Option<(Secret, Instant)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_rotation: Option<LastRotation>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRotation {
    pub at: Timestamp,
    /// The scenario that replaced the secret, in words; `None` after a command.
    pub by: Option<String>,
}

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
        Url::parse(&text).map(Arc::new).map_err(D::Error::custom)
    }
}

/// The subscriptions of one workspace, in the order in which they were made. Found by id and by URL without a search, as each
/// delivery and each subscribe call looks one up, and a client may make many.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    by_serial: BTreeMap<u64, Arc<SubscriptionRecord>>,
    serial_by_id: HashMap<String, u64>,
    /// Those of one URL; more than one only where `subscriptions.upsert` is or was `never`.
    serials_by_url: HashMap<Arc<Url>, Vec<u64>>,
    made: u64,
    budget: Budget,
}

impl Subscriptions {
    pub(super) fn within(budget: &Budget) -> Self {
        Self {
            by_serial: BTreeMap::new(),
            serial_by_id: HashMap::new(),
            serials_by_url: HashMap::new(),
            made: 0,
            budget: budget.clone(),
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SubscriptionRecord> {
        self.by_serial.values().map(|record| &**record)
    }

    /// The current subscriptions, without copying any.
    pub(crate) fn save(&self) -> Vec<Arc<SubscriptionRecord>> {
        self.by_serial.values().cloned().collect()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&SubscriptionRecord> {
        self.by_serial.get(self.serial_by_id.get(id)?).map(|record| &**record)
    }

    fn newest_of(&self, url: &Url) -> Option<u64> {
        self.serials_by_url.get(url)?.iter().max().copied()
    }

    fn release_url(&mut self, url: &Url, serial: u64) {
        if let Some(serials) = self.serials_by_url.get_mut(url) {
            serials.retain(|other| *other != serial);
            if serials.is_empty() {
                self.serials_by_url.remove(url);
            }
        }
    }

    fn insert(&mut self, record: Arc<SubscriptionRecord>) {
        self.made += 1;
        self.serial_by_id.insert(record.id.clone(), self.made);
        self.serials_by_url.entry(Arc::clone(&record.target)).or_default().push(self.made);
        self.by_serial.insert(self.made, record);
    }

    /// Changes a subscription and returns it. If the result does not fit, it stays unchanged and the error gives the reason.
    fn change(
        &mut self,
        serial: u64,
        change: impl FnOnce(&mut SubscriptionRecord),
    ) -> Result<&SubscriptionRecord, NoRoom> {
        let mut changed = SubscriptionRecord::clone(&self.by_serial[&serial]);
        change(&mut changed);
        self.budget.room()?;
        let target = Arc::clone(&changed.target);
        if let Some(old) = self.by_serial.insert(serial, Arc::new(changed))
            && old.target != target
        {
            self.release_url(&old.target, serial);
            self.serials_by_url.entry(target).or_default().push(serial);
        }
        Ok(&self.by_serial[&serial])
    }

    /// Adds the next subscription of a snapshot, which has the oldest first.
    pub(super) fn restore(&mut self, record: Arc<SubscriptionRecord>) -> Result<(), String> {
        if self.get(&record.id).is_some() {
            return Err(format!("subscription {} is given twice", record.id));
        }
        self.budget.room_to_load().map_err(|full| full.to_string())?;
        self.insert(record);
        Ok(())
    }

    /// Creates a subscription, or updates the one with the same URL: id and `created_at` stay, events and description are
    /// replaced, the secret stays unless one is sent, and a disabled subscription becomes active.
    pub(super) fn subscribe(
        &mut self,
        checked: CheckedSubscribe,
        profile: &Profile,
        now: Now,
        sources: &mut RandomSources,
    ) -> Result<Subscribed, Error> {
        let CheckedSubscribe { request, url: target } = checked;
        let supplied = request.secret.map(Secret::new);
        let echo = supplied.clone().filter(|_| profile.subscriptions.echo_secret);
        let known = match profile.subscriptions.upsert {
            Upsert::Url => self.newest_of(&target),
            Upsert::Never => None,
        };
        if let Some(serial) = known {
            let changed = self.change(serial, |record| {
                record.url = request.url;
                record.events = request.events;
                record.description = request.description;
                record.disabled = false;
                if let Some(secret) = supplied {
                    record.secret = secret;
                    record.has_generated_secret = false;
                    (record.previous, record.last_rotation) = (None, None);
                }
            });
            let record = changed.map_err(no_room)?;
            let body = body(record, echo.as_ref(), profile);
            return Ok(Subscribed { body, id: record.id.clone(), created: false });
        }
        let id = sources.make_id(IdKind::Subscription, profile, now);
        let is_supplied = supplied.is_some();
        let (secret, shown) = if let Some(secret) = supplied {
            (secret, echo)
        } else {
            let secret = Secret::generate(&profile.schemes(), profile.webhooks.secret_key, &mut sources.random);
            (secret.clone(), Some(secret))
        };
        let record = SubscriptionRecord {
            id: id.clone(),
            url: request.url,
            target: Arc::new(target),
            events: request.events,
            description: request.description,
            disabled: false,
            created_at: now.wall,
            has_generated_secret: !is_supplied,
            secret,
            previous: None,
            last_rotation: None,
        };
        let body = body(&record, shown.as_ref(), profile);
        self.budget.room().map_err(no_room)?;
        self.insert(Arc::new(record));
        Ok(Subscribed { body, id, created: true })
    }

    /// The secrets that sign for a subscription at present, newest first; `None` if it is gone or disabled.
    pub(crate) fn signing_secrets(&self, id: &str, now: Now) -> Option<Vec<Secret>> {
        let record = self.get(id)?;
        (!record.disabled).then(|| record.signing_secrets(now))
    }

    /// Changes a subscription: URL, events and description as checked, and whether events are delivered. Id, `created_at` and
    /// secret stay. `None` if there is none; an error if another subscription has the URL and URLs must be unique.
    pub(crate) fn update(
        &mut self,
        id: &str,
        checked: CheckedSubscribe,
        disabled: bool,
        profile: &Profile,
    ) -> Option<Result<(), Error>> {
        let serial = *self.serial_by_id.get(id)?;
        let CheckedSubscribe { request, url: target } = checked;
        let holder = self.newest_of(&target);
        if profile.subscriptions.upsert == Upsert::Url && holder.is_some_and(|holder| holder != serial) {
            let problem = FieldProblem::new("url", "is the URL of another subscription of this key");
            return Some(Err(Error::validation(vec![problem])));
        }
        let changed = self.change(serial, |record| {
            record.url = request.url;
            record.target = Arc::new(target);
            record.events = request.events;
            record.description = request.description;
            record.disabled = disabled;
        });
        Some(changed.map(drop).map_err(no_room))
    }

    pub(crate) fn disable(&mut self, id: &str) -> bool {
        let Subscriptions { by_serial, serial_by_id, .. } = self;
        let record = serial_by_id.get(id).and_then(|serial| by_serial.get_mut(serial));
        record.map(|record| Arc::make_mut(record).disabled = true).is_some()
    }

    /// Replaces a subscription's secret; the old one keeps signing until `grace` is over. `None` if there is no subscription.
    pub(crate) fn rotate(
        &mut self,
        id: &str,
        secret: &Secret,
        grace: Duration,
        now: Now,
        by: Option<&str>,
    ) -> Option<Result<(), Error>> {
        let serial = *self.serial_by_id.get(id)?;
        let changed = self.change(serial, |record| {
            let old = std::mem::replace(&mut record.secret, secret.clone());
            record.has_generated_secret = false;
            record.previous = Some((old, now.instant.plus(grace)));
            record.last_rotation = Some(LastRotation { at: now.wall, by: by.map(str::to_owned) });
        });
        Some(changed.map(drop).map_err(no_room))
    }

    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let Some(serial) = self.serial_by_id.remove(id) else { return false };
        if let Some(record) = self.by_serial.remove(&serial) {
            self.release_url(&record.target, serial);
        }
        true
    }
}

impl SubscriptionRecord {
    /// The secrets that sign at present, newest first: 1, or 2 during a rotation's grace period.
    pub fn signing_secrets(&self, now: Now) -> Vec<Secret> {
        let previous = self.previous.iter().filter(|(_, until)| now.instant < *until).map(|(secret, _)| secret.clone());
        std::iter::once(self.secret.clone()).chain(previous).collect()
    }

    /// The secret that signs alone instead, if a delivery is to be forged so.
    pub fn forging_secret(&self, tamper: Option<Tamper>) -> Option<Secret> {
        let previous = self.previous.as_ref().filter(|_| tamper == Some(Tamper::OldSecret));
        previous.map(|(secret, _)| secret.clone())
    }

    /// The last rotation, and when the old secret stops signing.
    pub fn last_rotation(&self) -> Option<(LastRotation, Instant)> {
        self.last_rotation.clone().zip(self.previous.as_ref().map(|(_, until)| *until))
    }
}

#[derive(Clone, Debug)]
pub struct Subscribed {
    pub body: Map<String, Value>,
    pub id: String,
    /// False if an existing subscription was updated.
    pub created: bool,
}

fn no_room(full: NoRoom) -> Error {
    Error::validation(vec![FieldProblem::new("url", full.to_string())])
}

/// The Subscription resource, with the secret under the name that the profile gives it.
fn body(record: &SubscriptionRecord, secret: Option<&Secret>, profile: &Profile) -> Map<String, Value> {
    let resource = Subscription {
        id: record.id.clone(),
        url: record.url.clone(),
        events: record.events.clone(),
        status: if record.disabled { SubscriptionStatus::Disabled } else { SubscriptionStatus::Active },
        created_at: timestamp_of(&record.id, record.created_at, profile.time.precision),
    };
    let Ok(Value::Object(mut body)) = serde_json::to_value(resource) else {
        unreachable!("a struct of strings serialises to an object")
    };
    if let Some(secret) = secret {
        body.insert(profile.subscriptions.secret_field.clone(), secret.reveal().into());
    }
    body
}
