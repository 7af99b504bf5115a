//! The profile: one typed value for everything the published contract leaves open ("not shown").
//!
//! Reading order: `contract::setting` (how a setting is declared), `sections` (the settings, most of which are the contract's own, and
//! what a whole profile must keep to), `api_document` (the OpenAPI document under a profile), `paths` (settings by their names), `layers`
//! (a profile in force, the presets, and the layers on top), `patch` (changes while running), `ledger` (how they are shown),
//! `readings` (changes of unpromised behaviour, one at a time).
//! Nothing here reads files or the command line.

pub mod api_document;
mod forwards;
mod layers;
mod ledger;
mod patch;
mod paths;
mod readings;
mod sections;

pub use crate::contract::setting::Setting;
pub use forwards::{Forward, Forwards, MAX_FORWARDS, target_url, with_rest};
pub use layers::{Draft, Layer, Layered, PRESETS, Preset};
pub use ledger::{LedgerRow, default_text, file_schema, ledger, ledger_markdown, schema};
pub(crate) use patch::MAX_PATCH_BYTES;
pub use patch::{PATCH_SOURCE, SettingPatch};
pub use paths::ProfileProblem;
pub(crate) use readings::UNPROMISED;
pub use sections::{
    DeliveryOrder, ForwardHost, Framing, Hello, Profile, Retry, RetryPreset, SETTINGS, SignatureTime, Status,
    SubscriptionSettings, Upsert, Webhooks,
};
