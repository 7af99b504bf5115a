//! The profile: one typed value for everything the published contract leaves open ("not shown").
//!
//! `sections.rs` has the sections; most are the contract's own. The defaults are in `default.toml`; `ledger.rs` says for each
//! knob what the contract states and what is assumed; `draft.rs` puts a user's changes on top of `layers.rs`, `presets.rs` sets of changes by name.
//! Nothing here reads files or the command line.

mod check;
mod draft;
mod forwards;
mod layers;
mod ledger;
mod paths;
mod plain;
mod presets;
mod sections;

pub use draft::{Draft, Settings};
pub use forwards::{Forward, Forwards, MOST_FORWARDS};
pub use layers::{KnobSetting, Layered, ProfileProblem};
pub use ledger::{KNOBS, Knob, LedgerRow, ledger, ledger_markdown};
pub use paths::{knob_path, setting_group};
pub(crate) use plain::syntax_problem;
pub use presets::{PRESETS, Preset};
pub use sections::{
    DeliveryOrder, Fraction, Hello, Profile, Retry, RetryPreset, SignatureTime, Status, Subscriptions, Upsert, Webhooks,
};

/// The commented text of the built-in profile.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");
