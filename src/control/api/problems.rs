//! The answer to a refused call.

use serde::{Deserialize, Serialize};

use super::{DeliveryRow, Diagnostic, FiredEvent, Request};

/// A refused call: the error envelope of the emulated API without a request id, and further fields that help.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Error {
    pub(crate) error: ErrorText,
    /// The requests or deliveries nearest to what was awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nearest: Option<Vec<Nearest>>,
    /// What is wrong with a scenario or setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) diagnostics: Option<Vec<Diagnostic>>,
    /// Events that were fired but matched no subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<FiredEvent>>,
    /// The number of the generation of scenarios and settings in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
    /// The wrong parameter, if it is `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
}

/// What was wrong.
#[derive(Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct ErrorText {
    /// Stable.
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A request or delivery that was nearly what was awaited.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Nearest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<Request>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<DeliveryRow>,
    /// Field by field.
    pub(crate) differs: Vec<String>,
}
