//! The entries of the journal: requests, events, delivery attempts and notices.

use std::sync::Arc;

use jiff::Timestamp;

use super::RequestRecord;
use crate::state::workspace::{AttemptRecord, EventRecord};

#[derive(Clone, Debug)]
pub enum Entry {
    Request(Arc<RequestRecord>),
    Event(Arc<EventRecord>),
    Attempt(Arc<AttemptRecord>),
    /// Something the emulator itself did, such as a reload or an eviction.
    Notice(Arc<Notice>),
    /// In place of an entry that was cleared, so that numbers stay gapless.
    Gone,
}

/// Something the emulator itself did.
#[derive(Clone, Debug)]
pub struct Notice {
    pub at: Timestamp,
    /// The workspace concerned; `None` if it concerns the whole emulator.
    pub workspace: Option<Arc<str>>,
    pub message: String,
    pub warning: bool,
}

impl Entry {
    /// The workspace concerned; `None` for requests without a valid key and for notices about the whole emulator.
    pub fn workspace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Request(request) => request.workspace.as_ref().map(|workspace| workspace.name()),
            Self::Event(event) => Some(&event.workspace),
            Self::Attempt(attempt) => Some(&attempt.event.workspace),
            Self::Notice(notice) => notice.workspace.as_ref(),
            Self::Gone => None,
        }
    }

    /// Roughly the bytes that the entry takes in memory.
    pub(super) fn bytes(&self) -> usize {
        const FIXED: usize = 512;
        FIXED
            + match self {
                Self::Request(request) => request.bytes(),
                Self::Attempt(attempt) => attempt.bytes(),
                Self::Notice(notice) => notice.message.len(),
                // An event has a charge of its own, which all of its records share.
                Self::Event(_) | Self::Gone => 0,
            }
    }
}
