//! Subscriptions: subscribing and updating, secrets and their rotation, disabling (contract: Subscription).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rand::Rng;
use serde_json::{Map, Value};
use url::Url;

use super::State;
use super::room::{Room, Share};
use crate::clock::{Instant, Now};
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::rules::CheckedSubscribe;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{Subscription, SubscriptionStatus};
use crate::profile::{Profile, Upsert};
use crate::snapshot::SavedSubscription;

/// Most subscriptions one workspace holds.
pub const MOST_SUBSCRIPTIONS: usize = 10_000;

/// A signing secret; its text never appears in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for signing and for the one answer that carries it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn generate(random: &mut impl Rng) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self(format!("whsec_{}", STANDARD.encode(bytes)))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One subscription as it is kept.
#[derive(Clone, Debug)]
pub struct SubscriptionRecord {
    /// Form `sub_<id>`.
    pub id: String,
    /// As the client wrote it.
    pub url: String,
    /// Normalised, for comparison and dialling.
    pub target: Arc<Url>,
    /// The same as text.
    pub target_text: Arc<str>,
    /// Subscribed event types.
    pub events: Vec<String>,
    /// Short label.
    pub description: Option<String>,
    /// Whether events are delivered.
    pub status: SubscriptionStatus,
    /// When it was first made.
    pub created_at: Timestamp,
    secret: Secret,
    /// The secret before the last rotation, and when it stops signing.
    previous: Option<(Secret, Instant)>,
}

/// What subscribing did.
#[derive(Clone, Debug)]
pub struct Subscribed {
    /// The answer's body.
    pub body: Map<String, Value>,
    /// The subscription's id.
    pub id: String,
    /// False when an earlier subscription was updated.
    pub created: bool,
}

/// The subscriptions of one workspace, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    by_serial: BTreeMap<u64, SubscriptionRecord>,
    serial_by_id: HashMap<String, u64>,
    serial_by_url: HashMap<Arc<str>, u64>,
    made: u64,
    share: Share,
}

impl Subscriptions {
    /// None yet, in the room that all keys share.
    pub(super) fn within(room: &Room) -> Self {
        let (by_serial, serial_by_id, serial_by_url) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { by_serial, serial_by_id, serial_by_url, made: 0, share: room.share() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SubscriptionRecord> {
        self.by_serial.values()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&SubscriptionRecord> {
        self.by_serial.get(self.serial_by_id.get(id)?)
    }

    fn get_mut(&mut self, id: &str) -> Option<&mut SubscriptionRecord> {
        self.by_serial.get_mut(self.serial_by_id.get(id)?)
    }

    /// Keeps a subscription whose room was taken.
    fn insert(&mut self, record: SubscriptionRecord) {
        self.made += 1;
        self.serial_by_id.insert(record.id.clone(), self.made);
        self.serial_by_url.insert(Arc::clone(&record.target_text), self.made);
        self.by_serial.insert(self.made, record);
    }

    /// Changes a subscription if what it then holds has room; otherwise it stays as it is, and the error says why.
    fn change(&mut self, serial: u64, change: impl FnOnce(&mut SubscriptionRecord)) -> Result<(), String> {
        let Some(record) = self.by_serial.get_mut(&serial) else { return Ok(()) };
        let mut changed = record.clone();
        change(&mut changed);
        self.share.give_back(record.bytes());
        if let Err(reason) = self.share.take(changed.bytes()) {
            self.share.take_anyway(record.bytes());
            return Err(reason);
        }
        if record.target_text != changed.target_text {
            self.serial_by_url.retain(|_, known| *known != serial);
            self.serial_by_url.insert(Arc::clone(&changed.target_text), serial);
        }
        *record = changed;
        Ok(())
    }

    /// The subscriptions for a snapshot, oldest first.
    pub(crate) fn save(&self) -> Vec<SavedSubscription> {
        let saved = |record: &SubscriptionRecord| SavedSubscription {
            id: record.id.clone(),
            url: record.url.clone(),
            target: record.target_text.to_string(),
            events: record.events.clone(),
            description: record.description.clone(),
            disabled: record.status == SubscriptionStatus::Disabled,
            created_at: record.created_at,
            secret: record.secret.reveal().to_owned(),
            previous: record.previous.as_ref().map(|(secret, until)| (secret.reveal().to_owned(), until.nanos())),
        };
        self.iter().map(saved).collect()
    }

    /// The subscriptions of a snapshot. The error names the one that cannot be.
    pub(crate) fn restore(saved: &[SavedSubscription], room: &Room) -> Result<Self, String> {
        let mut subscriptions = Self::within(room);
        if saved.len() > MOST_SUBSCRIPTIONS {
            return Err(format!("{} subscriptions are more than the {MOST_SUBSCRIPTIONS} of one key", saved.len()));
        }
        for saved in saved {
            let id = &saved.id;
            let target = Url::parse(&saved.target).map_err(|error| format!("subscription {id}: target: {error}"))?;
            if subscriptions.get(id).is_some() {
                return Err(format!("subscription {id} stands there twice"));
            }
            let record = SubscriptionRecord {
                id: id.clone(),
                url: saved.url.clone(),
                target_text: Arc::from(target.as_str()),
                target: Arc::new(target),
                events: saved.events.clone(),
                description: saved.description.clone(),
                status: if saved.disabled { SubscriptionStatus::Disabled } else { SubscriptionStatus::Active },
                created_at: saved.created_at,
                secret: Secret::new(saved.secret.as_str()),
                previous: saved
                    .previous
                    .as_ref()
                    .map(|(secret, until)| (Secret::new(secret.as_str()), Instant::from_nanos(*until))),
            };
            subscriptions.share.take_anyway(record.bytes());
            subscriptions.insert(record);
        }
        Ok(subscriptions)
    }

    fn remove(&mut self, id: &str) -> Option<SubscriptionRecord> {
        let serial = self.serial_by_id.remove(id)?;
        self.serial_by_url.retain(|_, known| *known != serial);
        let record = self.by_serial.remove(&serial)?;
        self.share.give_back(record.bytes());
        Some(record)
    }
}

impl State {
    /// Makes a subscription, or updates the one with the same URL: id and `created_at` stay, events and description are
    /// replaced, the secret stays unless one is sent, and a disabled subscription becomes active.
    pub fn subscribe(&mut self, checked: CheckedSubscribe, profile: &Profile, now: Now) -> Result<Subscribed, Error> {
        let CheckedSubscribe { request, url: target } = checked;
        let supplied = request.secret.map(Secret::new);
        let echo = supplied.clone().filter(|_| profile.subscriptions.echo_secret);
        let known = match profile.subscriptions.upsert {
            Upsert::Url => self.subscriptions.serial_by_url.get(target.as_str()).copied(),
            Upsert::Never => None,
        };
        if let Some(serial) = known {
            let changed = self.subscriptions.change(serial, |record| {
                record.url = request.url;
                record.events = request.events;
                record.description = request.description;
                record.status = SubscriptionStatus::Active;
                if let Some(secret) = supplied {
                    record.secret = secret;
                    record.previous = None;
                }
            });
            changed.map_err(no_room)?;
            let record = &self.subscriptions.by_serial[&serial];
            return Ok(Subscribed {
                body: body(record, echo.as_ref(), profile),
                id: record.id.clone(),
                created: false,
            });
        }
        if self.subscriptions.by_serial.len() >= MOST_SUBSCRIPTIONS {
            let reason = format!("the emulator holds at most {MOST_SUBSCRIPTIONS} subscriptions for one key");
            return Err(no_room(reason));
        }
        let id = self.make_id(IdKind::Subscription, profile, now);
        let (secret, shown) = if let Some(secret) = supplied {
            (secret, echo)
        } else {
            let secret = Secret::generate(self.random());
            (secret.clone(), Some(secret))
        };
        let record = SubscriptionRecord {
            id: id.clone(),
            url: request.url,
            target_text: Arc::from(target.as_str()),
            target: Arc::new(target),
            events: request.events,
            description: request.description,
            status: SubscriptionStatus::Active,
            created_at: now.wall,
            secret,
            previous: None,
        };
        self.subscriptions.share.take(record.bytes()).map_err(no_room)?;
        let body = body(&record, shown.as_ref(), profile);
        self.subscriptions.insert(record);
        Ok(Subscribed { body, id, created: true })
    }

    /// The secrets that sign for a subscription at present, newest first; `None` if it is gone or disabled.
    pub fn signing_secrets(&self, id: &str, now: Now) -> Option<Vec<Secret>> {
        let record = self.subscriptions.get(id)?;
        (record.status == SubscriptionStatus::Active).then(|| record.signing_secrets(now))
    }

    /// Changes a subscription: URL, events and description as checked, and whether events are delivered. Id, `created_at` and
    /// secret stay. `None` if there is none; an error if another subscription has the URL and URLs are told apart.
    pub fn change_subscription(
        &mut self,
        id: &str,
        checked: CheckedSubscribe,
        status: SubscriptionStatus,
        profile: &Profile,
    ) -> Option<Result<(), Error>> {
        let serial = self.subscriptions.serial_by_id.get(id).copied()?;
        let CheckedSubscribe { request, url: target } = checked;
        let holder = self.subscriptions.serial_by_url.get(target.as_str()).copied();
        if profile.subscriptions.upsert == Upsert::Url && holder.is_some_and(|holder| holder != serial) {
            let problem = FieldProblem::new("url", "is the URL of another subscription of this key");
            return Some(Err(Error::validation(vec![problem])));
        }
        let changed = self.subscriptions.change(serial, |record| {
            record.url = request.url;
            record.target_text = Arc::from(target.as_str());
            record.target = Arc::new(target);
            record.events = request.events;
            record.description = request.description;
            record.status = status;
        });
        Some(changed.map_err(no_room))
    }

    /// Stops deliveries to a subscription. Returns false if there is none.
    pub fn disable_subscription(&mut self, id: &str) -> bool {
        self.subscriptions.get_mut(id).map(|record| record.status = SubscriptionStatus::Disabled).is_some()
    }

    /// Gives a subscription a new secret, the text given or a generated one; the old one keeps signing until `grace` is over.
    pub fn rotate_secret(
        &mut self,
        id: &str,
        text: Option<String>,
        grace: Duration,
        now: Now,
    ) -> Option<Result<Secret, Error>> {
        let secret = text.map_or_else(|| Secret::generate(&mut self.random), Secret::new);
        let serial = *self.subscriptions.serial_by_id.get(id)?;
        let changed = self.subscriptions.change(serial, |record| {
            let old = std::mem::replace(&mut record.secret, secret.clone());
            record.previous = (!grace.is_zero()).then(|| (old, now.instant.plus(grace)));
        });
        Some(changed.map(|()| secret).map_err(no_room))
    }

    /// Removes a subscription. Returns false if there is none.
    pub fn delete_subscription(&mut self, id: &str) -> bool {
        self.subscriptions.remove(id).is_some()
    }
}

impl SubscriptionRecord {
    /// Roughly what it holds in memory. The URL is there as it was written, as it was read, and as a text to look for.
    fn bytes(&self) -> usize {
        const FIXED: usize = 640;
        let events: usize = self.events.iter().map(|event| event.len() + 24).sum();
        let secrets = self.secret.0.len() + self.previous.as_ref().map_or(0, |(secret, _)| secret.0.len());
        let description = self.description.as_ref().map_or(0, String::len);
        FIXED + self.url.len() + 2 * self.target_text.len() + events + secrets + description
    }

    /// The secrets that sign at present, newest first: 1, or 2 during a rotation's grace period.
    pub fn signing_secrets(&self, now: Now) -> Vec<Secret> {
        let previous = self.previous.iter().filter(|(_, until)| now.instant < *until).map(|(secret, _)| secret.clone());
        std::iter::once(self.secret.clone()).chain(previous).collect()
    }
}

/// The 422 for a subscription that there is no room for.
fn no_room(reason: String) -> Error {
    Error::validation(vec![FieldProblem::new("url", reason)])
}

/// The Subscription resource, with the secret under the name that the profile gives it.
fn body(record: &SubscriptionRecord, secret: Option<&Secret>, profile: &Profile) -> Map<String, Value> {
    let resource = Subscription {
        id: record.id.clone(),
        url: record.url.clone(),
        events: record.events.clone(),
        status: record.status,
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
