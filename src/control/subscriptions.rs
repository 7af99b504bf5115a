//! `GET`/`POST subscriptions`, `GET`/`PUT`/`DELETE subscriptions/{id}`, `POST subscriptions/{id}/rotate`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::call::KeyField;
use super::scope::{scope, scope_or_all, workspace};
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::error::Error;
use crate::contract::profile::Profile;
use crate::contract::rules::parse_subscribe;
use crate::contract::signature::SigningKey;
use crate::contract::types::SubscriptionStatus;
use crate::workspace::Workspace;

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let scope = scope(control, call)?;
    let mut data: Vec<Value> = Vec::new();
    for workspace in scope.workspaces(control) {
        let (profile, now) = (profile_of(control, &workspace), workspace.clock().now());
        for view in workspace.lock().subscription_views(&profile, now) {
            let mut view = json!(view);
            owned_by(&mut view, &workspace, call);
            data.push(view);
        }
    }
    Ok(ok(json!({ "data": data })))
}

pub(super) fn show(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let workspace = owner(control, call)?;
    let view = view(control, call, &workspace, &call.segment)?;
    Ok(ok(view))
}

fn view(control: &Control, call: &Call, workspace: &Workspace, id: &str) -> Result<Value, ControlError> {
    let (profile, now) = (profile_of(control, workspace), workspace.clock().now());
    let view = workspace.lock().subscription_view(id, &profile, now).ok_or_else(|| unknown(id))?;
    let mut view = json!(view);
    owned_by(&mut view, workspace, call);
    Ok(view)
}

/// Adds whose subscription it is.
fn owned_by(view: &mut Value, workspace: &Workspace, call: &Call) {
    view["workspace"] = workspace.id().into();
    view["key"] = call.redactor().key(workspace.name()).into();
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    url: String,
    /// Every type that can be subscribed, if left out.
    events: Option<Vec<String>>,
    secret: Option<String>,
    description: Option<String>,
    #[serde(default, rename = "key")]
    _key: KeyField,
}

/// Subscribes a URL for a key, by the rules of a client's subscribe; no request of the key is counted. The answer carries the
/// secret if one was generated, once.
pub(super) fn create(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Create = call.json()?;
    let workspace = workspace(control, call.key()?.as_deref())?;
    let profile = profile_of(control, &workspace);
    let events = wish.events.unwrap_or_else(|| profile.event_types().map(str::to_owned).collect());
    let mut request = json!({ "url": wish.url, "events": events });
    for (field, value) in [("secret", wish.secret), ("description", wish.description)] {
        if let Some(value) = value {
            request[field] = value.into();
        }
    }
    let refused = |error: Error| ControlError::invalid(error.message);
    let checked = parse_subscribe(request.to_string().as_bytes(), &profile).map_err(refused)?;
    let now = workspace.clock().now();
    let subscribed = workspace.lock().subscribe(checked, &profile, now).map_err(refused)?;
    let secret = subscribed.body.get(&profile.subscriptions.secret_field);
    let view = view(control, call, &workspace, &subscribed.id)?;
    Ok(Reply::plain(&json!({ "subscription": view, "secret": secret, "created": subscribed.created })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    #[serde(default, rename = "key")]
    _key: KeyField,
    url: Option<String>,
    events: Option<Vec<String>>,
    /// Null takes the description away; left out, it stays.
    #[serde(default, deserialize_with = "present")]
    description: Option<Value>,
    status: Option<SubscriptionState>,
}

/// The states that a subscription can be put in.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SubscriptionState {
    Active,
    Disabled,
}

/// Tells a field that is null from one that is not there.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// Changes a subscription; what is left out stays. The rules are those of a client's subscribe, and so are the reasons.
pub(super) fn change(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Change = call.json()?;
    let workspace = owner(control, call)?;
    let profile = profile_of(control, &workspace);
    // The lock is held from reading to writing, so that two changes at a time do not undo each other.
    let mut state = workspace.lock();
    let Some(known) = state.subscriptions.get(&call.segment) else { return Err(unknown(&call.segment)) };
    let request = json!({
        "url": wish.url.as_ref().unwrap_or(&known.url),
        "events": wish.events.as_ref().unwrap_or(&known.events),
        "description": wish.description.unwrap_or_else(|| json!(known.description)),
    });
    let status = match wish.status {
        None => known.status,
        Some(SubscriptionState::Active) => SubscriptionStatus::Active,
        Some(SubscriptionState::Disabled) => SubscriptionStatus::Disabled,
    };
    let refused = |error: Error| ControlError::invalid(error.message);
    let checked = parse_subscribe(request.to_string().as_bytes(), &profile).map_err(refused)?;
    let changed = state.change_subscription(&call.segment, checked, status, &profile);
    drop(state);
    changed.ok_or_else(|| unknown(&call.segment))?.map_err(refused)?;
    Ok(ok(view(control, call, &workspace, &call.segment)?))
}

pub(super) fn delete(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    call.no_body()?;
    let workspace = owner(control, call)?;
    workspace.lock().delete_subscription(&call.segment);
    Ok(ok(json!({ "deleted": call.segment })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    #[serde(default, rename = "key")]
    _key: KeyField,
    secret: Option<String>,
}

/// Gives the subscription a new secret; the old one signs on for the grace period. The answer carries the secret, once.
pub(super) fn rotate(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let wish: Rotate = call.json()?;
    let workspace = owner(control, call)?;
    let (profile, now) = (profile_of(control, &workspace), workspace.clock().now());
    if let Some(secret) = &wish.secret {
        for scheme in profile.schemes() {
            SigningKey::read(secret, &scheme, profile.webhooks.secret_key)
                .map_err(|problem| ControlError::invalid(format!("secret: {problem}")))?;
        }
    }
    let grace = profile.webhooks.rotation_grace;
    let mut state = workspace.lock();
    let secret = state.rotate_secret(&call.segment, wish.secret, grace.get(), now);
    let view = state.subscription_view(&call.segment, &profile, now);
    drop(state);
    let (Some(secret), Some(view)) = (secret, view) else { return Err(unknown(&call.segment)) };
    let secret = secret.map_err(|error| ControlError::invalid(error.message))?;
    Ok(Reply::plain(
        &json!({ "subscription": view, "secret": secret.reveal(), "old_secret_signs_for": grace.to_string() }),
    ))
}

fn profile_of(control: &Control, workspace: &Workspace) -> Arc<Profile> {
    Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile)
}

/// The workspace that holds the subscription that a call names: ids are unique, so no key is needed.
fn owner(control: &Control, call: &Call) -> Result<Arc<Workspace>, ControlError> {
    let (scope, id) = (scope_or_all(control, call)?, &call.segment);
    let holds = |workspace: &Arc<Workspace>| workspace.lock().subscriptions.get(id).is_some();
    let found = scope.workspaces(control).into_iter().find(holds);
    found.ok_or_else(|| {
        ControlError::not_found(format!("there is no subscription `{}`{}", id.escape_debug(), scope.owner()))
    })
}

fn unknown(id: &str) -> ControlError {
    ControlError::not_found(format!("there is no subscription `{}`", id.escape_debug()))
}
