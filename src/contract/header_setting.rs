//! The name of a header as a setting gives it: sent and compared as HTTP does, without regard to case, and shown as written.

use hyper::header::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(with = "String")]
#[serde(try_from = "String")]
pub struct HeaderSetting {
    as_written: String,
    name: HeaderName,
}

impl HeaderSetting {
    pub fn as_written(&self) -> &str {
        &self.as_written
    }

    pub fn name(&self) -> &HeaderName {
        &self.name
    }
}

impl TryFrom<String> for HeaderSetting {
    type Error = String;

    fn try_from(as_written: String) -> Result<Self, String> {
        let name = HeaderName::from_bytes(as_written.as_bytes())
            .map_err(|_| format!("expected an HTTP field name, found \"{}\"", as_written.escape_debug()))?;
        Ok(Self { as_written, name })
    }
}
