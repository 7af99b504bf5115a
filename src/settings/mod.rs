//! The profile: one typed value for everything the published contract leaves open ("not shown").
//!
//! Reading order: `contract::setting` (how a setting is declared), `sections` (the settings, most of which are the contract's own, and
//! what a whole profile must keep to), `api_document` (the OpenAPI document under a profile), `layers` (a profile in force, and the presets), `draft` (changes on top of one), `ledger` (how it
//! is shown), `readings` (changes of what is not promised, one at a time).
//! Nothing here reads files or the command line.

pub mod api_document;
mod draft;
mod forwards;
mod layers;
mod ledger;
mod messages;
mod paths;
mod readings;
mod sections;

pub use crate::contract::setting::Setting;
pub use draft::{Draft, OverlaySettings};
pub use forwards::{Forward, Forwards, MAX_FORWARDS, target_url, with_rest};
pub use layers::{Layered, PRESETS, Preset, ProfileProblem};
pub use ledger::{LedgerRow, default_text, file_schema, ledger, ledger_markdown, schema};
pub(crate) use messages::{SyntaxProblem, is_json, syntax_problems};
pub use paths::setting_path;
pub(crate) use readings::UNPROMISED;
pub use sections::{
    DeliveryOrder, ForwardHost, Framing, Hello, Profile, Retry, RetryPreset, SETTINGS, SignatureTime, Status,
    SubscriptionSettings, Upsert, Webhooks,
};
