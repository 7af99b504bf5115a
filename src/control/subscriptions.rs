//! `GET subscriptions`, `DELETE subscriptions/{id}`, `POST subscriptions/{id}/rotate`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::scope::scope;
use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::profile::Profile;
use crate::contract::signature::SigningKey;
use crate::workspace::Workspace;

pub(super) fn list(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let scope = scope(control, call.query("key").as_deref())?;
    let mut data: Vec<Value> = Vec::new();
    for workspace in scope.workspaces(control) {
        let (profile, now) = (profile_of(control, &workspace), workspace.clock().now());
        for view in workspace.lock().subscription_views(&profile, now) {
            let mut view = json!(view);
            view["workspace"] = json!(workspace.id());
            data.push(view);
        }
    }
    Ok(ok(&json!({ "data": data })))
}

pub(super) fn delete(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let workspace = owner(control, &call.segment)?;
    workspace.lock().delete_subscription(&call.segment);
    Ok(ok(&json!({ "deleted": call.segment })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    secret: Option<String>,
}

/// Gives the subscription a new secret; the old one signs on for the grace period. The answer carries the secret, once.
pub(super) fn rotate(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let wish: Rotate = call.json()?;
    let workspace = owner(control, &call.segment)?;
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
    Ok(ok(&json!({ "subscription": view, "secret": secret.reveal(), "old_secret_signs_for": grace.to_string() })))
}

fn profile_of(control: &Control, workspace: &Workspace) -> Arc<Profile> {
    Arc::clone(&control.library.load().setup_for(Some(workspace.name())).profile)
}

/// The workspace that holds a subscription: ids are unique, so no key is needed.
fn owner(control: &Control, id: &str) -> Result<Arc<Workspace>, ControlError> {
    let holds = |workspace: &Arc<Workspace>| workspace.lock().subscriptions.get(id).is_some();
    control.registry.all().into_iter().find(holds).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> ControlError {
    ControlError::not_found(format!("there is no subscription `{}`", id.escape_debug()))
}
