//! `GET`/`POST subscriptions`, `GET`/`PUT`/`DELETE subscriptions/{id}`, `POST subscriptions/{id}/rotate`.

use std::sync::Arc;

use serde_json::Map;

use super::api::{self, Created, Deleted, List, Rotated, Subscription, SubscriptionState};
use super::call::{Call, Input};
use super::scope::{Scope, scope, scope_or_all};
use super::{Control, ControlError};
use crate::contract::error::Error;
use crate::contract::rules::check_subscribe;
use crate::contract::signature::SigningKey;
use crate::contract::timestamp::timestamp_of;
use crate::redact::Redactor;
use crate::settings::Profile;
use crate::state::workspace::{SubscriptionRecord, Workspace};

pub(super) fn list(
    control: &Control,
    input: &Input<api::ListSubscriptions>,
) -> Result<List<Subscription>, ControlError> {
    Ok(List { data: all_of(control, &scope(control, input)?, input.redactor()) })
}

/// The subscriptions in a scope.
pub(super) fn all_of(control: &Control, scope: &Scope, redactor: Redactor<'_>) -> Vec<Subscription> {
    let mut found = Vec::new();
    for workspace in scope.workspaces(control) {
        let profile = control.profile_for(Some(workspace.name()));
        let state = workspace.lock();
        found.extend(state.subscriptions.iter().map(|record| shown(record, &workspace, &profile, redactor)));
    }
    found
}

pub(super) fn show(control: &Control, input: &Input<api::ShowSubscription>) -> Result<Subscription, ControlError> {
    view(control, input, &*owner(control, input)?, &input.segment)
}

fn view(control: &Control, call: &Call, workspace: &Workspace, id: &str) -> Result<Subscription, ControlError> {
    let profile = control.profile_for(Some(workspace.name()));
    let state = workspace.lock();
    let record = state.subscriptions.get(id).ok_or_else(|| unknown(id))?;
    Ok(shown(record, workspace, &profile, call.redactor()))
}

fn shown(
    record: &SubscriptionRecord,
    workspace: &Workspace,
    profile: &Profile,
    redactor: Redactor<'_>,
) -> Subscription {
    Subscription {
        id: record.id.as_str().into(),
        url: record.url.clone(),
        events: record.events.clone(),
        description: record.description.clone(),
        status: if record.disabled { SubscriptionState::Disabled } else { SubscriptionState::Active },
        created_at: timestamp_of(&record.id, record.created_at, profile.time.precision).into(),
        signing_secrets: record.signing_secrets(workspace.clock().now()).len(),
        workspace: workspace.id().into(),
        key: redactor.key(workspace.name()).into_owned(),
    }
}

/// Subscribes a URL for a key, with the validation of the emulated API but without counting a request. The answer has the secret
/// only if it was generated.
pub(super) fn create(control: &Control, input: &Input<api::CreateSubscription>) -> Result<Created, ControlError> {
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
pub(super) fn change(control: &Control, input: &Input<api::ChangeSubscription>) -> Result<Subscription, ControlError> {
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
    let changed = state.change_subscription(id, checked, disabled, &profile);
    drop(state);
    changed.ok_or_else(|| unknown(id))?.map_err(refused)?;
    view(control, input, &workspace, id)
}

pub(super) fn delete(control: &Control, input: &Input<api::DeleteSubscription>) -> Result<Deleted, ControlError> {
    let workspace = owner(control, input)?;
    workspace.lock().delete_subscription(&input.segment);
    Ok(Deleted { deleted: input.segment.as_str().into() })
}

/// Gives the subscription a new secret and returns it; the old one keeps signing for the grace period.
pub(super) fn rotate(control: &Control, input: &Input<api::RotateSecret>) -> Result<Rotated, ControlError> {
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
    let secret = state.rotate_secret(&input.segment, given, grace.get(), now);
    let record = state.subscriptions.get(&input.segment);
    let (Some(secret), Some(record)) = (secret, record) else { return Err(unknown(&input.segment)) };
    Ok(Rotated {
        subscription: shown(record, &workspace, &profile, input.redactor()),
        secret: secret.map_err(refused)?.reveal().to_owned(),
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
        ControlError::not_found(format!("there is no subscription `{}`{}", id.escape_debug(), scope.owner()))
    })
}

fn unknown(id: &str) -> ControlError {
    ControlError::not_found(format!("there is no subscription `{}`", id.escape_debug()))
}
