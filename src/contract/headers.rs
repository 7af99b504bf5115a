//! Names of headers: those that HTTP, a delivery or an answer sends itself, so that no setting and no scenario may send them; and one as a
//! setting gives it, sent and compared as HTTP does, without regard to case, and shown as written.

use crate::util::wording::quoted;
use hyper::header::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

/// Headers of a message's framing: another value would break the connection.
pub const FRAMING: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"];
/// The prefix of the emulator's own headers.
pub const OWN_PREFIX: &str = "x-emulator-";

/// Further headers of every message.
const OF_MESSAGES: [&str; 5] = ["content-encoding", "content-type", "keep-alive", "proxy-connection", "te"];
const OF_DELIVERIES: [&str; 3] = ["expect", "host", "user-agent"];
const OF_ANSWERS: [&str; 7] =
    ["allow", "date", "location", "ratelimit", "ratelimit-policy", "retry-after", "www-authenticate"];

/// True if a script may not set the header: it belongs to the framing, or the emulator names its answers with it.
pub fn is_unscriptable(name: &HeaderName) -> bool {
    FRAMING.contains(&name.as_str()) || name.as_str().starts_with(OWN_PREFIX)
}

/// True if every delivery may have the header already.
pub fn is_of_deliveries(name: &HeaderName) -> bool {
    is_of_messages(name) || OF_DELIVERIES.contains(&name.as_str())
}

/// True if an answer may have the header already.
pub fn is_of_answers(name: &HeaderName) -> bool {
    is_of_messages(name) || OF_ANSWERS.contains(&name.as_str())
}

fn is_of_messages(name: &HeaderName) -> bool {
    is_unscriptable(name) || OF_MESSAGES.contains(&name.as_str())
}

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
            .map_err(|_| format!("expected an HTTP field name, found \"{}\"", quoted(&as_written)))?;
        Ok(Self { as_written, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_message_has_its_headers() {
        for (name, expected) in [
            ("content-length", [true, true, true]),
            ("x-emulator-delivery", [true, true, true]),
            ("content-type", [false, true, true]),
            ("user-agent", [false, true, false]),
            ("retry-after", [false, false, true]),
            ("x-mine", [false, false, false]),
        ] {
            let header = HeaderName::from_static(name);
            assert_eq!(
                [is_unscriptable(&header), is_of_deliveries(&header), is_of_answers(&header)],
                expected,
                "{name}"
            );
        }
    }
}
