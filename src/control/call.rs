//! One call of the control API as it was read: its query parameters, its body, and the key that it names.
//!
//! Every call takes `key` as query parameter, and as field of a JSON body. What the key means is `scope`'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Bytes;
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use url::form_urlencoded;

use super::ControlError;
use crate::contract::profile::Profile;
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

/// Counts what may have changed the state of the emulator without a trace in the journal.
#[derive(Clone, Debug, Default)]
pub struct Writes(Arc<AtomicU64>);

impl Writes {
    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Begins one, which is counted when what is returned is dropped: after the change, so that whoever reads the count first
    /// and then the state misses nothing.
    #[must_use]
    pub fn begin(&self) -> Writing {
        Writing(self.clone())
    }
}

/// A change that is being made.
#[derive(Debug)]
pub struct Writing(Writes);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The field `key` of a typed body. [`Call::key`] reads it; here it is only known, so that it is not refused.
#[derive(Debug, Default)]
pub(super) struct KeyField;

impl<'de> Deserialize<'de> for KeyField {
    fn deserialize<D: Deserializer<'de>>(field: D) -> Result<Self, D::Error> {
        Option::<String>::deserialize(field).map(|_| Self)
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

    /// Refuses query parameters that the call does not have; each has `key`.
    pub(super) fn allow_queries(&self, known: &[&str]) -> Result<(), ControlError> {
        for (name, _) in form_urlencoded::parse(self.parts.uri.query().unwrap_or_default().as_bytes()) {
            if name != "key" && !known.contains(&name.as_ref()) {
                let known = [&["key"], known].concat().join(", ");
                let found = name.escape_debug();
                return Err(ControlError::invalid(format!("unknown query parameter `{found}`; known: {known}")));
            }
        }
        Ok(())
    }

    /// Refuses a body with anything but `key`, where the call takes nothing else.
    pub(super) fn no_body(&self) -> Result<(), ControlError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {
            #[serde(default, rename = "key")]
            _key: KeyField,
        }
        self.json::<Nothing>().map(drop)
    }

    /// The body as a typed value; an empty body counts as `{}`.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, ControlError> {
        let bytes: &[u8] = if self.body.trim_ascii().is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(bytes).map_err(|error| ControlError::invalid(format!("body: {error}")))
    }
}
