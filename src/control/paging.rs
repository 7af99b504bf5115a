//! Pages of a listing: `limit` (20, at most 1,000) and `cursor`, newest first.

use super::{ControlError, api};

/// The page that a call asks for.
pub(super) struct Paging {
    /// Most entries.
    pub(super) limit: usize,
    /// Only entries with a number below this.
    pub(super) before: Option<u64>,
}

impl Paging {
    pub(super) fn read(limit: Option<&str>, cursor: Option<&str>) -> Result<Self, ControlError> {
        let limit = limit.map(|text| {
            text.parse().ok().filter(|limit| (1..=1000).contains(limit)).ok_or_else(|| {
                ControlError::invalid(format!("limit: expected 1 to 1000, found `{}`", text.escape_debug()))
            })
        });
        let before = cursor.map(|text| {
            text.parse().map_err(|_| {
                let found = text.escape_debug();
                ControlError::invalid(format!("cursor: expected the `next_cursor` of another page, found `{found}`"))
            })
        });
        Ok(Self { limit: limit.transpose()?.unwrap_or(20), before: before.transpose()? })
    }

    /// The page as it is answered. Ask for one entry more than `limit`; `entries` are numbered.
    pub(super) fn wrap<T>(&self, mut entries: Vec<(u64, T)>) -> api::Page<T> {
        let has_more = entries.len() > self.limit;
        entries.truncate(self.limit);
        let next_cursor = entries.last().filter(|_| has_more).map(|(number, _)| number.to_string());
        api::Page { data: entries.into_iter().map(|(_, entry)| entry).collect(), has_more, next_cursor }
    }
}
