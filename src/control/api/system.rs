//! The emulator itself: whether it is ready, whom to trust, this document.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Form, Nothing, endpoint};
use crate::control::render::Text;
use crate::scenario::generation_text;

endpoint! {
    /// Whether the emulator is ready.
    Health: GET "health", Form::Masked, Nothing, Nothing => Ready;
    /// The authority made for --tls self-signed.
    CaPem: GET "ca.pem", Form::Other("application/x-pem-file"), Nothing, Nothing => String;
    /// This document.
    OpenApi: GET "openapi.json", Form::Plain, Nothing, Nothing => Map<String, Value>;
}

/// The emulator is ready.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Ready {
    #[cfg_attr(test, schemars(extend("const" = "ready")))]
    pub(crate) status: String,
    pub(crate) version: String,
    pub(crate) generation: u64,
    /// Whether all scenarios match their saved files.
    #[cfg_attr(test, schemars(extend("enum" = ["as saved", "last good"])))]
    pub(crate) scenarios: String,
}

impl Text for Ready {
    fn text(&self) -> String {
        let Self { status, version, generation, scenarios } = self;
        format!("{status} (version {version}, {}, scenarios {scenarios})\n", generation_text(*generation))
    }
}
