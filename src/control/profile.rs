//! `GET assumptions`, `GET profile`, `GET openapi.json`: what is assumed, and what follows from it.

use serde_json::json;

use super::{Call, Control, ControlError, Reply, ok};
use crate::contract::openapi;
use crate::contract::profile::ledger;

pub(super) fn assumptions(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let generation = control.library.load();
    let setup = generation.setup_for(call.query("key").as_deref());
    Ok(ok(&json!({ "data": ledger(&setup.layered) })))
}

pub(super) fn profile(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&["key"])?;
    let generation = control.library.load();
    let setup = generation.setup_for(call.query("key").as_deref());
    Ok(ok(&json!({ "data": setup.layered.settings() })))
}

pub(super) fn openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    call.allow_queries(&[])?;
    let generation = control.library.load();
    Ok(ok(&openapi::document(&generation.setup_for(None).profile)))
}
