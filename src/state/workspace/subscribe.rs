//! What the API and the control API do with subscriptions: subscribe and update, rotate secrets, disable, delete (contract:
//! Subscription).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::State;
use super::subscriptions::{Secret, SubscriptionRecord};
use crate::clock::Now;
use crate::contract::error::{Error, FieldProblem};
use crate::contract::ids::IdKind;
use crate::contract::rules::CheckedSubscribe;
use crate::contract::timestamp::timestamp_of;
use crate::contract::types::{Subscription, SubscriptionStatus};
use crate::settings::{Profile, Upsert};
use crate::state::budget::Full;

#[derive(Clone, Debug)]
pub struct Subscribed {
    pub body: Map<String, Value>,
    pub id: String,
    /// False if an existing subscription was updated.
    pub created: bool,
}

impl State {
    /// Creates a subscription, or updates the one with the same URL: id and `created_at` stay, events and description are
    /// replaced, the secret stays unless one is sent, and a disabled subscription becomes active.
    pub fn subscribe(&mut self, checked: CheckedSubscribe, profile: &Profile, now: Now) -> Result<Subscribed, Error> {
        let CheckedSubscribe { request, url: target } = checked;
        let supplied = request.secret.map(Secret::new);
        let echo = supplied.clone().filter(|_| profile.subscriptions.echo_secret);
        let known = match profile.subscriptions.upsert {
            Upsert::Url => self.subscriptions.serial_of_url(&target),
            Upsert::Never => None,
        };
        if let Some(serial) = known {
            let changed = self.subscriptions.change(serial, |record| {
                record.url = request.url;
                record.events = request.events;
                record.description = request.description;
                record.disabled = false;
                if let Some(secret) = supplied {
                    record.secret = secret;
                    record.previous = None;
                }
            });
            let record = changed.map_err(no_room)?;
            let body = body(record, echo.as_ref(), profile);
            return Ok(Subscribed { body, id: record.id.clone(), created: false });
        }
        let id = self.make_id(IdKind::Subscription, profile, now);
        let (secret, shown) = if let Some(secret) = supplied {
            (secret, echo)
        } else {
            let secret = Secret::generate(&mut self.random);
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
            secret,
            previous: None,
        };
        let body = body(&record, shown.as_ref(), profile);
        self.subscriptions.insert(record).map_err(no_room)?;
        Ok(Subscribed { body, id, created: true })
    }

    /// The secrets that sign for a subscription at present, newest first; `None` if it is gone or disabled.
    pub fn signing_secrets(&self, id: &str, now: Now) -> Option<Vec<Secret>> {
        let record = self.subscriptions.get(id)?;
        (!record.disabled).then(|| record.signing_secrets(now))
    }

    /// Changes a subscription: URL, events and description as checked, and whether events are delivered. Id, `created_at` and
    /// secret stay. `None` if there is none; an error if another subscription has the URL and URLs must be unique.
    pub fn change_subscription(
        &mut self,
        id: &str,
        checked: CheckedSubscribe,
        disabled: bool,
        profile: &Profile,
    ) -> Option<Result<(), Error>> {
        let serial = self.subscriptions.serial(id)?;
        let CheckedSubscribe { request, url: target } = checked;
        let holder = self.subscriptions.serial_of_url(&target);
        if profile.subscriptions.upsert == Upsert::Url && holder.is_some_and(|holder| holder != serial) {
            let problem = FieldProblem::new("url", "is the URL of another subscription of this key");
            return Some(Err(Error::validation(vec![problem])));
        }
        let changed = self.subscriptions.change(serial, |record| {
            record.url = request.url;
            record.target = Arc::new(target);
            record.events = request.events;
            record.description = request.description;
            record.disabled = disabled;
        });
        Some(changed.map(drop).map_err(no_room))
    }

    pub fn disable_subscription(&mut self, id: &str) -> bool {
        self.subscriptions.disable(id)
    }

    /// Replaces a subscription's secret by `text` or a generated one; the old one keeps signing until `grace` is over.
    pub fn rotate_secret(
        &mut self,
        id: &str,
        text: Option<String>,
        grace: Duration,
        now: Now,
    ) -> Option<Result<Secret, Error>> {
        let secret = text.map_or_else(|| Secret::generate(&mut self.random), Secret::new);
        let serial = self.subscriptions.serial(id)?;
        let changed = self.subscriptions.change(serial, |record| {
            let old = std::mem::replace(&mut record.secret, secret.clone());
            record.previous = (!grace.is_zero()).then(|| (old, now.instant.plus(grace)));
        });
        Some(changed.map(|_| secret).map_err(no_room))
    }

    pub fn delete_subscription(&mut self, id: &str) -> bool {
        self.subscriptions.remove(id)
    }
}

fn no_room(full: Full) -> Error {
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
