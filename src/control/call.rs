//! One call of the control API as it was read: its query parameters, its body, and the key that it names.
//!
//! Every call takes `key` as query parameter, and as field of a JSON body. What the key means is `scope`'s business.

use std::ops::Deref;
use std::sync::Arc;

use hyper::Method;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::ControlError;
use super::api::Endpoint;
use crate::profile::Profile;
use crate::redact::Redactor;

/// One call, read.
pub(crate) struct Call {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    /// The variable segment of the path, percent-decoded.
    pub(super) segment: String,
    /// By whose rules keys are shown.
    pub(super) profile: Arc<Profile>,
}

/// A call with its query and body as types. It has what a [`Call`] has.
pub(crate) struct Input<E: Endpoint> {
    call: Call,
    pub(super) query: E::Query,
    pub(super) body: E::Body,
}

impl<E: Endpoint> Deref for Input<E> {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl<E: Endpoint> Input<E> {
    /// Reads a call. A body that was sent where none is taken is not looked at.
    pub(super) fn read(call: Call) -> Result<Self, ControlError> {
        let query = call.query_as()?;
        let body = if E::METHOD == Method::GET { from_json(b"")? } else { from_json(&call.body)? };
        Ok(Self { call, query, body })
    }
}

impl Call {
    /// Masks what the call's answer shows.
    pub(super) fn redactor(&self) -> Redactor<'_> {
        Redactor::new(&self.profile.keys)
    }

    /// The key that the call names: in its body, else in its query; `None` if it names none.
    pub(super) fn key(&self) -> Result<Option<String>, ControlError> {
        #[derive(Deserialize)]
        struct Named {
            key: Option<String>,
        }
        // A body of another form has no fields; what is wrong with it is reported by whoever reads it whole.
        let in_body = match serde_json::from_slice::<Named>(&self.body) {
            Ok(named) if self.is_object() => named.key,
            Err(error) if self.is_object() && error.is_data() => {
                return Err(ControlError::invalid("body: key: expected a string"));
            }
            _ => None,
        };
        Ok(in_body.or_else(|| self.query("key")))
    }

    fn is_object(&self) -> bool {
        self.body.trim_ascii_start().starts_with(b"{")
    }

    /// The last value of a query parameter.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let pairs = form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes());
        pairs.filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
    }

    /// The query parameters beside `key`; refuses those that the call does not have. Each is text, or absent.
    pub(super) fn query_as<Q: DeserializeOwned + Serialize>(&self) -> Result<Q, ControlError> {
        let read =
            |fields: Map<String, Value>| Q::deserialize(Value::from(fields)).expect("each field is text or absent");
        let known = serde_json::to_value(read(Map::new())).unwrap_or_default();
        let mut fields = Map::new();
        for (name, value) in form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes()) {
            if known.get(name.as_ref()).is_some() {
                fields.insert(name.into_owned(), value.into_owned().into());
            } else if name != "key" {
                let known = known.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
                let known: Vec<&str> = ["key"].into_iter().chain(known).collect();
                let (found, known) = (name.escape_debug(), known.join(", "));
                return Err(ControlError::invalid(format!("unknown query parameter `{found}`; known: {known}")));
            }
        }
        Ok(read(fields))
    }
}

/// A body as a typed value; an empty one counts as `{}`.
fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ControlError> {
    let bytes = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(bytes).map_err(|error| ControlError::invalid(format!("body: {error}")))
}
