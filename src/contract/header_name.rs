//! Names of headers that a setting gives: any valid HTTP field name, or none; and what a request has under a name.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// The values of a request's headers of this name. A request has few headers: comparing names costs less than hashing one.
pub fn values_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h HeaderValue> {
    headers.iter().filter_map(move |(found, value)| (*found == *name).then_some(value))
}

/// A text that is a valid HTTP field name; compared without regard to case, shown as written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct HeaderNameText {
    text: String,
    name: HeaderName,
}

impl HeaderNameText {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn name(&self) -> &HeaderName {
        &self.name
    }
}

impl TryFrom<String> for HeaderNameText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match HeaderName::from_bytes(text.as_bytes()) {
            // Names known to the program are copied without touching a counter that all processors share.
            Ok(_) if text.eq_ignore_ascii_case(LIMIT.as_str()) => Ok(Self { text, name: LIMIT }),
            Ok(_) if text.eq_ignore_ascii_case(REMAINING.as_str()) => Ok(Self { text, name: REMAINING }),
            Ok(name) => Ok(Self { text, name }),
            Err(_) => Err(format!("expected an HTTP field name, found \"{}\"", text.escape_debug())),
        }
    }
}

/// The name of a header that is sent only if it has a name; empty means none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String")]
pub struct OptionalHeaderName(Option<HeaderNameText>);

impl OptionalHeaderName {
    pub fn get(&self) -> Option<&HeaderNameText> {
        self.0.as_ref()
    }
}

impl TryFrom<String> for OptionalHeaderName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() { Ok(Self(None)) } else { HeaderNameText::try_from(text).map(|name| Self(Some(name))) }
    }
}
