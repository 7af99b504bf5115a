//! `GET`/`POST subscriptions`, `GET`/`PUT`/`DELETE subscriptions/{id}`, `POST subscriptions/{id}/rotate`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::call::{Call, Input, Scope, flag, scope_or_all};
use super::endpoint::{Empty, KeyField, List, Nothing};
use super::render::{Row, Text, cell, optional, table};
use super::{Control, ControlError};
use crate::contract::error::Error;
use crate::contract::rules::check_subscribe;
use crate::contract::signature::SigningKey;
use crate::contract::timestamp::timestamp_of;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::journal::record::{SubscriptionId, Time, WorkspaceId, name_of};
use crate::state::workspace::{Secret, SubscriptionRecord, Workspace};

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

/// How one subscription is shown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShowQuery {
    /// True if the answer has the signing secret.
    #[cfg_attr(test, schemars(extend("enum" = ["true", "false"])))]
    pub(crate) secret: Option<String>,
}

/// A subscription, with its secret if that was asked for.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct ShownSubscription {
    #[serde(flatten)]
    pub(crate) subscription: Subscription,
    /// The secret that signs at present; of two, the newer one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
}

/// True if events are delivered.
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
    #[cfg_attr(test, schemars(schema_with = "url_schema"))]
    pub(crate) url: String,
    /// Every type that can be subscribed, if absent.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub(crate) events: Option<Vec<String>>,
    #[cfg_attr(test, schemars(length(min = 1)))]
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
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionChange {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(schema_with = "url_schema_or_null"))]
    pub(crate) url: Option<String>,
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub(crate) events: Option<Vec<String>>,
    /// Null removes the description; absent, it stays.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) description: Option<Value>,
    pub(crate) status: Option<SubscriptionState>,
}

#[cfg(test)]
fn url_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    // Whether http is allowed, the profile in force says.
    crate::contract::rules::url_schema(true).try_into().expect("it is a schema")
}

#[cfg(test)]
fn url_schema_or_null(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = url_schema(generator).to_value();
    schema["anyOf"].as_array_mut().expect("it has choices").push(serde_json::json!({ "type": "null" }));
    schema.try_into().expect("it is a schema")
}

/// Distinguishes a null field from an absent one.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// The subscription is gone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Deleted {
    pub(crate) deleted: SubscriptionId,
}

/// The secret to sign with from now on; generated if absent.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotate {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub(crate) secret: Option<String>,
}

/// The secret that signs from now on.
#[derive(Debug, Serialize)]
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
             signing_secrets: {signing_secrets}; `subscriptions show {id} --secret` shows the newest\nevents: {}\n",
            cell(key),
            name_of(status),
            cell(url),
            optional(description.as_ref()),
            cell(events.join(",")),
        )
    }
}

impl Text for ShownSubscription {
    fn text(&self) -> String {
        let secret = self.secret.as_ref().map_or_else(String::new, |secret| format!("secret: {}\n", cell(secret)));
        self.subscription.text() + &secret
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

pub(super) fn list(control: &Control, input: &Input) -> Result<List<Subscription>, ControlError> {
    Ok(List { data: all_of(control, &scope_or_all(control, input)?, input.redactor()) })
}

pub(super) fn all_of(control: &Control, scope: &Scope, redactor: Redactor<'_>) -> Vec<Subscription> {
    let mut found = Vec::new();
    for workspace in scope.workspaces(control) {
        let profile = control.profile_for(Some(workspace.name()));
        let state = workspace.lock();
        found.extend(state.subscriptions.iter().map(|record| shown(record, &workspace, &profile, redactor)));
    }
    // Those of one key are in the order in which they were made, whatever its clock did meanwhile.
    if scope.key().is_none() {
        found.sort_by(|one, other| one.created_at.0.cmp(&other.created_at.0));
    }
    found
}

pub(super) fn show(control: &Control, input: &Input<ShowQuery>) -> Result<ShownSubscription, ControlError> {
    let (workspace, id) = (owner(control, input)?, &input.segment);
    let with_secret = flag("secret", input.query.secret.as_deref())?;
    let subscription = view(control, input, &workspace, id)?;
    let newest_secret = || {
        let (state, now) = (workspace.lock(), workspace.clock().now());
        let secrets = state.subscriptions.get(id)?.signing_secrets(now);
        secrets.first().map(|secret| secret.reveal().to_owned())
    };
    Ok(ShownSubscription { subscription, secret: with_secret.then(newest_secret).flatten() })
}

fn view(control: &Control, call: &Call, workspace: &Workspace, id: &str) -> Result<Subscription, ControlError> {
    let profile = control.profile_for(Some(workspace.name()));
    let state = workspace.lock();
    let record = state.subscriptions.get(id).ok_or_else(|| unknown(id))?;
    Ok(shown(record, workspace, &profile, call.redactor()))
}

/// Masked here, as an answer with a secret is not masked as a whole.
fn shown(
    record: &SubscriptionRecord,
    workspace: &Workspace,
    profile: &Profile,
    redactor: Redactor<'_>,
) -> Subscription {
    let masked = |text: &String| redactor.text(text).into_owned();
    Subscription {
        id: record.id.as_str().into(),
        url: masked(&record.url),
        events: record.events.clone(),
        description: record.description.as_ref().map(masked),
        status: if record.disabled { SubscriptionState::Disabled } else { SubscriptionState::Active },
        created_at: timestamp_of(&record.id, record.created_at, profile.time.precision).into(),
        signing_secrets: record.signing_secrets(workspace.clock().now()).len(),
        workspace: workspace.id().into(),
        key: redactor.key(workspace.name()).into_owned(),
    }
}

/// Subscribes a URL for a key, with the validation of the emulated API but without counting a request. The answer has the secret
/// only if it was generated.
pub(super) fn create(control: &Control, input: &Input<Nothing, NewSubscription>) -> Result<Created, ControlError> {
    let request = &input.body;
    let workspace = control.workspace(input.key()?.as_deref())?;
    let profile = control.profile_for(Some(workspace.name()));
    let every_type = || profile.events.types().map(str::to_owned).collect();
    let mut fields = Map::from_iter([
        ("url".to_owned(), request.url.clone().into()),
        ("events".to_owned(), request.events.clone().unwrap_or_else(every_type).into()),
    ]);
    let optional = [("secret", &request.secret), ("description", &request.description)];
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))));
    let checked = check_subscribe(&fields, &profile.subscribe_rules()).map_err(refused)?;
    let now = workspace.clock().now();
    let subscribed = workspace.lock().subscribe(checked, &profile, now).map_err(refused)?;
    let secret = subscribed.body.get(&profile.subscriptions.secret_field);
    let secret = secret.and_then(|secret| secret.as_str()).map(str::to_owned);
    let subscription = view(control, input, &workspace, &subscribed.id)?;
    Ok(Created { subscription, secret, created: subscribed.created })
}

/// Changes a subscription; absent fields stay. The validation is that of the emulated API.
pub(super) fn change(
    control: &Control,
    input: &Input<Nothing, SubscriptionChange>,
) -> Result<Subscription, ControlError> {
    let (request, id) = (&input.body, &input.segment);
    let workspace = owner(control, input)?;
    let profile = control.profile_for(Some(workspace.name()));
    // Locked from reading to writing, so that two concurrent changes do not undo each other.
    let mut state = workspace.lock();
    let Some(known) = state.subscriptions.get(id) else { return Err(unknown(id)) };
    let description = request.description.clone().unwrap_or_else(|| known.description.clone().into());
    let fields = Map::from_iter([
        ("url".to_owned(), request.url.as_ref().unwrap_or(&known.url).as_str().into()),
        ("events".to_owned(), request.events.as_ref().unwrap_or(&known.events).clone().into()),
        ("description".to_owned(), description),
    ]);
    let disabled = match request.status {
        None => known.disabled,
        Some(status) => matches!(status, SubscriptionState::Disabled),
    };
    let checked = check_subscribe(&fields, &profile.subscribe_rules()).map_err(refused)?;
    let changed = state.subscriptions.update(id, checked, disabled, &profile);
    drop(state);
    changed.ok_or_else(|| unknown(id))?.map_err(refused)?;
    view(control, input, &workspace, id)
}

pub(super) fn delete(control: &Control, input: &Input<Nothing, Empty>) -> Result<Deleted, ControlError> {
    let workspace = owner(control, input)?;
    workspace.lock().subscriptions.remove(&input.segment);
    Ok(Deleted { deleted: input.segment.as_str().into() })
}

/// Gives the subscription a new secret and returns it; the old one keeps signing for the grace period.
pub(super) fn rotate(control: &Control, input: &Input<Nothing, Rotate>) -> Result<Rotated, ControlError> {
    let workspace = owner(control, input)?;
    let (profile, now) = (control.profile_for(Some(workspace.name())), workspace.clock().now());
    let given = input.body.secret.clone();
    if let Some(secret) = &given {
        for scheme in profile.schemes() {
            SigningKey::read(secret, &scheme, profile.webhooks.secret_key)
                .map_err(|problem| ControlError::invalid(format!("secret: {problem}")))?;
        }
    }
    let grace = profile.webhooks.rotation_grace;
    let mut state = workspace.lock();
    let secret = given.map_or_else(|| Secret::generate(&mut state.sources.random), Secret::new);
    let rotated = state.subscriptions.rotate(&input.segment, &secret, grace.get(), now);
    let record = state.subscriptions.get(&input.segment);
    let (Some(rotated), Some(record)) = (rotated, record) else { return Err(unknown(&input.segment)) };
    rotated.map_err(refused)?;
    Ok(Rotated {
        subscription: shown(record, &workspace, &profile, input.redactor()),
        secret: secret.reveal().to_owned(),
        old_secret_signs_for: grace.to_string(),
    })
}

fn refused(error: Error) -> ControlError {
    ControlError::invalid(error.message)
}

/// The workspace of the subscription that a call names. Ids are unique, so the call need not name a key.
fn owner(control: &Control, call: &Call) -> Result<Arc<Workspace>, ControlError> {
    let (scope, id) = (scope_or_all(control, call)?, &call.segment);
    let owns = |workspace: &Arc<Workspace>| workspace.lock().subscriptions.get(id).is_some();
    let found = scope.workspaces(control).into_iter().find(owns);
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no subscription `{}`{}", id.escape_debug(), scope.of_this_key()))
    })
}

fn unknown(id: &str) -> ControlError {
    ControlError::not_found(format!("there is no subscription `{}`", id.escape_debug()))
}
