//! Subscriptions: listed, made, changed and deleted for a key; their secrets changed.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Empty, Form, KeyField, List, Nothing, SubscriptionId, Time, WorkspaceId, endpoint, name_of};
use crate::control::render::{Row, Text, cell, optional, table};

endpoint! {
    /// Subscriptions, oldest first.
    ListSubscriptions: GET "subscriptions", Form::Masked, Nothing, Nothing => List<Subscription>;
    /// Subscribe a URL for a key; the answer has the secret if one was generated.
    CreateSubscription: POST "subscriptions", Form::Plain, Nothing, NewSubscription => Created;
    /// One subscription.
    ShowSubscription: GET "subscriptions/{id}", Form::Masked, Nothing, Nothing => Subscription;
    /// Change a subscription; what is left out stays.
    ChangeSubscription: PUT "subscriptions/{id}", Form::Masked, Nothing, SubscriptionChange => Subscription;
    /// Delete a subscription.
    DeleteSubscription: DELETE "subscriptions/{id}", Form::Masked, Nothing, Empty => Deleted;
    /// Give a subscription a new secret; the old one keeps signing for a while.
    RotateSecret: POST "subscriptions/{id}/rotate", Form::Plain, Nothing, Rotate => Rotated;
}

/// A subscription, without its secret.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Subscription {
    pub(crate) id: SubscriptionId,
    pub(crate) url: String,
    pub(crate) events: Vec<String>,
    pub(crate) description: Option<String>,
    pub(crate) status: SubscriptionState,
    pub(crate) created_at: Time,
    /// Secrets that sign at present: 2 during a rotation's grace period.
    #[cfg_attr(test, schemars(range(min = 1, max = 2)))]
    pub(crate) signing_secrets: usize,
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: String,
}

/// Whether events are delivered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum SubscriptionState {
    Active,
    Disabled,
}

/// A subscription to make.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSubscription {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    pub(crate) url: String,
    /// Every type that can be subscribed, if absent.
    pub(crate) events: Option<Vec<String>>,
    pub(crate) secret: Option<String>,
    pub(crate) description: Option<String>,
}

/// The new subscription, or the updated one with that URL.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Created {
    pub(crate) subscription: Subscription,
    /// Shown here once, if it was generated.
    pub(crate) secret: Option<String>,
    pub(crate) created: bool,
}

/// What is to be changed.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionChange {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    pub(crate) url: Option<String>,
    pub(crate) events: Option<Vec<String>>,
    /// Null removes the description; absent, it stays.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) description: Option<Value>,
    pub(crate) status: Option<SubscriptionState>,
}

/// Distinguishes a null field from an absent one.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// The subscription is gone.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Deleted {
    pub(crate) deleted: SubscriptionId,
}

/// The secret to sign with from now on; generated if absent.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotate {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    pub(crate) secret: Option<String>,
}

/// The secret that signs from now on.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Rotated {
    pub(crate) subscription: Subscription,
    pub(crate) secret: String,
    pub(crate) old_secret_signs_for: String,
}

impl Row for Subscription {
    fn table(rows: &[Self]) -> String {
        let columns = |row: &Self| {
            [cell(&row.id), cell(&row.key), name_of(row.status), cell(row.events.join(",")), cell(&row.url)]
        };
        table(["ID", "KEY", "STATUS", "EVENTS", "URL"], rows.iter().map(columns))
    }
}

impl Text for Subscription {
    fn text(&self) -> String {
        let Self { id, url, events, description, status, created_at, signing_secrets, workspace, key } = self;
        format!(
            "id: {id}\nkey: {}\nworkspace: {workspace}\nstatus: {}\nurl: {}\ndescription: {}\ncreated_at: {created_at}\n\
             signing_secrets: {signing_secrets}\nevents: {}\n",
            cell(key),
            name_of(status),
            cell(url),
            optional(description.as_ref()),
            cell(events.join(",")),
        )
    }
}

impl Text for Created {
    fn text(&self) -> String {
        let Subscription { id, events, url, .. } = &self.subscription;
        let verb = if self.created { "created" } else { "updated" };
        let secret = self.secret.as_ref().map_or_else(String::new, |secret| format!("secret: {}\n", cell(secret)));
        format!("{id} {verb}: {} to {}\n{secret}", cell(events.join(",")), cell(url))
    }
}

impl Text for Deleted {
    fn text(&self) -> String {
        format!("{} deleted\n", cell(&self.deleted))
    }
}

impl Text for Rotated {
    fn text(&self) -> String {
        format!("{}\nthe old secret keeps signing for {}\n", cell(&self.secret), cell(&self.old_secret_signs_for))
    }
}
