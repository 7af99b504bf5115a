//! `GET assumptions`, `GET profile`, `PATCH profile`, `GET v1/openapi.json`: what is assumed, what follows from it, and knobs
//! changed while running.

use std::sync::Arc;

use super::api::{self, Assumption, List, Patched, Setting};
use super::call::Input;
use super::scenarios::refused;
use super::scope::scope_or_all;
use super::{Call, Control, ControlError, Reply};
use crate::contract::openapi;
use crate::contract::profile::{KnobSetting, LedgerRow, ledger};
use crate::scenario::{KnobPatch, Setup};

pub(super) fn assumptions(
    control: &Control,
    input: &Input<api::Assumptions>,
) -> Result<List<Assumption>, ControlError> {
    let setup = setup(control, scope_or_all(control, input)?.key());
    let row = |row: LedgerRow| Assumption {
        knob: row.knob.to_owned(),
        contract: row.contract.to_owned(),
        assumed: row.assumed.to_owned(),
        values: row.values.to_owned(),
        default: row.default,
        value: row.value,
        source: row.source,
    };
    Ok(List { data: ledger(&setup.layered).into_iter().map(row).collect() })
}

pub(super) fn show(control: &Control, input: &Input<api::ShowProfile>) -> Result<api::Profile, ControlError> {
    let name = scope_or_all(control, input)?.key();
    let settings = setup(control, name.clone()).layered.settings();
    let setting =
        |setting: KnobSetting| Setting { knob: setting.knob.to_owned(), value: setting.value, source: setting.source };
    let patches = control.library.patches();
    let own = name.and_then(|name| patches.keys.get(&name).cloned()).unwrap_or_default();
    Ok(api::Profile {
        data: settings.into_iter().map(setting).collect(),
        patch: patches.global.entries().clone(),
        key_patch: own.entries().clone(),
    })
}

/// Changes settings for all keys, or for one: nested like a scenario's `[profile]`, by dotted names, or both; `null` takes a
/// change back. `key`, beside the settings or as query parameter, names one key.
pub(super) fn patch(control: &Control, input: &Input<api::PatchProfile>) -> Result<Patched, ControlError> {
    let mut settings = input.body.0.clone();
    // `keys` is a group of settings, `key` is none.
    settings.remove("key");
    if settings.is_empty() {
        return Err(ControlError::invalid("body: expected settings, such as {\"rate_limit\": {\"requests\": 5}}"));
    }
    let name = scope_or_all(control, input)?.key();
    let now = control.registry.clock().now().moment;
    let generation = control.library.patch_profile(name.as_deref(), &settings, now).map_err(|found| refused(&found))?;
    let patches = control.library.patches();
    let patch: Arc<KnobPatch> = match &name {
        None => patches.global,
        Some(name) => patches.keys.get(name).cloned().unwrap_or_default(),
    };
    let key = name.as_deref().map(|name| input.redactor().key(name).into_owned());
    Ok(Patched { generation, key, patch: patch.entries().clone() })
}

fn setup(control: &Control, name: Option<Arc<str>>) -> Arc<Setup> {
    Arc::clone(control.library.load().setup_for(name.as_deref()))
}

/// The document of the emulated API, as the profile of the key named makes it.
pub(super) fn emulated_openapi(control: &Control, call: &Call) -> Result<Reply, ControlError> {
    Ok(Reply::plain(&openapi::document(&setup(control, scope_or_all(control, call)?.key()).profile)))
}
