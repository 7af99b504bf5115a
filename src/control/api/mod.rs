//! The requests and responses of the control API: its one definition, as types.
//!
//! One file for each resource: the calls, what each takes and what it answers. The server, the command line and the `OpenAPI`
//! document are made from these types; they know neither the emulator's parts nor HTTP.

mod activity;
mod clock;
mod deliveries;
mod events;
mod explain;
mod problems;
mod profile;
mod requests;
mod scenarios;
mod subscriptions;
mod system;
mod text;
mod verification;

use hyper::Method;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

pub(crate) use activity::*;
pub(crate) use clock::*;
pub(crate) use deliveries::*;
pub(crate) use events::*;
pub(crate) use explain::*;
pub(crate) use problems::*;
pub(crate) use profile::*;
pub(crate) use requests::*;
pub(crate) use scenarios::*;
pub(crate) use subscriptions::*;
pub(crate) use system::*;
pub(crate) use text::*;
pub(crate) use verification::*;

/// One call: its place in HTTP, and the types of what it takes and answers.
pub(crate) trait Endpoint: 'static {
    /// The method. Calls that write take a body, even if it is empty.
    const METHOD: Method;
    /// The path below `/_emulator/`, with at most one variable segment such as `{id}`.
    const PATH: &'static str;
    /// What it does, in one line.
    const SUMMARY: &'static str;
    /// How the answer goes out.
    const FORM: Form;
    /// The query parameters beside `key`.
    type Query: Serialize + DeserializeOwned + JsonSchema + Send + Sync;
    /// The body.
    type Body: Serialize + DeserializeOwned + JsonSchema + Send + Sync;
    /// The body of a successful answer.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + Sync;
}

/// How an answer goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON in which credentials are masked.
    Masked,
    /// JSON as it is: documents, and secrets that are handed over once.
    Plain,
    /// Another media type.
    Other(&'static str),
}

/// Declares a call: `Name: METHOD "path", form, Query, Body => Answer`. Its documentation is its summary.
macro_rules! endpoint {
    ($(#[doc = $summary:literal] $name:ident: $method:ident $path:literal, $form:expr, $query:ty, $body:ty => $answer:ty;)+) => {
        $(
            #[doc = $summary]
            #[derive(Debug)]
            pub(crate) struct $name;

            impl $crate::control::api::Endpoint for $name {
                const METHOD: hyper::Method = hyper::Method::$method;
                const PATH: &'static str = $path;
                const SUMMARY: &'static str = $summary;
                const FORM: $crate::control::api::Form = $form;
                type Query = $query;
                type Body = $body;
                type Answer = $answer;
            }
        )+
    };
}
pub(crate) use endpoint;

/// No query parameter beside `key`, or no body at all.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// A body without fields of its own.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Empty {
    #[serde(default, skip_serializing, rename = "key")]
    pub(crate) _key: KeyField,
}

/// How long the call waits for outcomes before it answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Wait {
    /// At most 300s.
    pub(crate) wait: Option<DurationInput>,
}

/// The field `key` of a body: whom the call means. It is read from the text before the rest is; here it is only known, so
/// that it is not refused. Clients send it as query parameter.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(inline)]
pub(crate) struct KeyField(#[allow(dead_code, reason = "for the schema")] Option<String>);

impl<'de> Deserialize<'de> for KeyField {
    fn deserialize<D: Deserializer<'de>>(field: D) -> Result<Self, D::Error> {
        Option::deserialize(field).map(Self)
    }
}

/// A listing that is shown whole.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct List<T> {
    pub(crate) data: Vec<T>,
}

/// A page of a listing, newest first.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) has_more: bool,
    /// The `cursor` of the next page.
    pub(crate) next_cursor: Option<String>,
}
