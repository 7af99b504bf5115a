//! Pages of a listing: `limit` (20, at most 1,000) and `cursor`, newest first.

use serde_json::{Value, json};

use super::{Call, ControlError};

/// The page that a call asks for.
pub(super) struct Page {
    /// Most entries.
    pub(super) limit: usize,
    /// Only entries with a number below this.
    pub(super) before: Option<u64>,
}

impl Page {
    pub(super) fn read(call: &Call) -> Result<Self, ControlError> {
        let limit = match call.query("limit") {
            None => 20,
            Some(text) => match text.parse() {
                Ok(limit @ 1..=1000) => limit,
                _ => {
                    return Err(ControlError::invalid(format!(
                        "limit: expected 1 to 1000, found `{}`",
                        text.escape_debug()
                    )));
                }
            },
        };
        let before = match call.query("cursor") {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                ControlError::invalid(format!(
                    "cursor: expected the `next_cursor` of another page, found `{}`",
                    text.escape_debug()
                ))
            })?),
        };
        Ok(Self { limit, before })
    }

    /// The page as an object. Ask for one entry more than `limit`; `entries` are numbered.
    pub(super) fn wrap(&self, mut entries: Vec<(u64, Value)>) -> Value {
        let has_more = entries.len() > self.limit;
        entries.truncate(self.limit);
        let next = entries.last().filter(|_| has_more).map(|(number, _)| number.to_string());
        let data: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
        json!({ "data": data, "has_more": has_more, "next_cursor": next })
    }
}
