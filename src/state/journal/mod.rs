//! The journal: a bounded, ordered log of requests, events, delivery attempts and notices. The server and the engine append to
//! it; the control API and the log output read from it, each reader with its own cursor.
//!
//! Bounded by entries and by the budget; evicted entries are counted. The journal does not know its readers.
//! `request` is the largest kind of entry, `record` is how entries are shown.

pub(crate) mod record;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub use request::{ConnectionInfo, DecidingRule, KEPT_BODY, RawExchange, Reason, RequestRecord, Transcript, WrittenAt};

use crate::contract::keys::Keys;
use crate::contract::routes::{Operation, plain_path};
use crate::state::budget::{Budget, History};
use crate::state::workspace::{AttemptRecord, EventRecord, Workspace};

pub const MAX_ENTRIES: usize = 10_000;

/// The newest entries, which are not evicted for others: they explain why something else is refused.
const LEAST: usize = 64;

#[derive(Clone, Debug)]
pub enum Entry {
    Request(Arc<RequestRecord>),
    Event(Arc<EventRecord>),
    Attempt(Arc<AttemptRecord>),
    /// Something the emulator itself did, such as a reload or an eviction.
    Notice(Arc<Notice>),
    /// In place of an entry that was cleared, so that numbers stay gapless.
    Cleared,
}

#[derive(Clone, Debug)]
pub struct Notice {
    pub kind: NoticeKind,
    pub at: Timestamp,
    /// The workspace concerned; `None` if it concerns the whole emulator.
    pub workspace: Option<Arc<str>>,
    pub message: String,
    pub warning: bool,
}

/// The meaning of a notice, where a program needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The workspace of this name was reset; `None` stands for all of them.
    Reset(Option<Arc<str>>),
    SnapshotLoaded,
    /// The test of the workspace concerned ended.
    TestEnded,
    /// Only people read it.
    Other,
}

impl NoticeKind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reset(_) => "reset",
            Self::SnapshotLoaded => "snapshot_loaded",
            Self::TestEnded => "test_ended",
            Self::Other => "other",
        }
    }
}

impl Entry {
    /// The workspace concerned; `None` for requests without a valid key and for notices about the whole emulator.
    pub fn workspace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Request(request) => request.workspace.as_ref().map(|workspace| workspace.name()),
            Self::Event(event) => Some(&event.workspace),
            Self::Attempt(attempt) => Some(&attempt.event.workspace),
            Self::Notice(notice) => notice.workspace.as_ref(),
            Self::Cleared => None,
        }
    }

    /// True if it belongs to the workspace of this name. A request belongs to the key that it carried, valid or not checked.
    pub fn is_of(&self, name: &str, keys: &Keys) -> bool {
        match self {
            Self::Request(request) => request.owner(keys).is_some_and(|owner| owner == name),
            _ => self.workspace().is_some_and(|owner| **owner == *name),
        }
    }
}

#[derive(Debug)]
pub struct Journal {
    most_entries: usize,
    budget: Budget,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    entries: VecDeque<Entry>,
    /// The number of the oldest entry kept; entries are numbered from 1 without gaps.
    first: u64,
    evicted: u64,
    readers: Vec<(Interest, Arc<Notify>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    pub entries: usize,
    /// Entries evicted so far; cleared entries are not counted.
    pub evicted: u64,
}

impl Journal {
    pub fn new(most_entries: usize, budget: &Budget) -> Self {
        let log = Log { entries: VecDeque::new(), first: 1, evicted: 0, readers: Vec::new() };
        Self { most_entries: most_entries.max(1), budget: budget.clone(), log: Mutex::new(log) }
    }

    /// The budget of everything that one emulator keeps.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Appends an entry. The oldest entries are evicted when a bound is exceeded. An entry of a workspace that was reset
    /// meanwhile is not kept.
    pub fn append(&self, entry: Entry) {
        self.append_of(None, entry);
    }

    /// Appends a notice; `workspace` is `None` if it concerns the whole emulator.
    pub fn note(&self, at: Timestamp, workspace: Option<Arc<str>>, message: impl Into<String>, warning: bool) {
        self.notify(Notice { kind: NoticeKind::Other, at, workspace, message: message.into(), warning });
    }

    pub fn notify(&self, notice: Notice) {
        self.append(Entry::Notice(Arc::new(notice)));
    }

    /// Appends an entry of the workspace `owner`. For a request, the workspace in its record is used instead.
    pub fn append_of(&self, owner: Option<&Workspace>, entry: Entry) {
        // An entry for which nothing can be evicted is kept until the next one.
        let _ = self.budget.room();
        // Dropped after the lock is released.
        let evicted = {
            let mut log = self.log.lock();
            // Under the lock, so that a reader that registers first and reads then misses none.
            if !log.readers.is_empty() {
                log.notify(&entry);
            }
            // Checked under the lock: a reset marks the workspace before it clears the entries, so that none is
            // appended after the clearing.
            let owner = match &entry {
                Entry::Request(request) => request.workspace.as_deref(),
                _ => owner,
            };
            if owner.is_some_and(Workspace::was_reset) {
                return;
            }
            log.entries.push_back(entry);
            if log.entries.len() > self.most_entries { log.evict() } else { None }
        };
        drop(evicted);
    }

    /// Entries numbered from `from` on, oldest first, at most `most`, each with its number.
    pub fn read(&self, from: u64, most: usize) -> Vec<(u64, Entry)> {
        let log = self.log.lock();
        let skip = from.saturating_sub(log.first);
        let Ok(skip) = usize::try_from(skip) else { return Vec::new() };
        let first = log.first + skip as u64;
        log.entries.iter().skip(skip).take(most).zip(first..).map(|(entry, number)| (number, entry.clone())).collect()
    }

    /// The results of `pick` for entries numbered below `before`, newest first, at most `most` results. The lock is held for a
    /// few entries at a time; entries appended during the search are ignored.
    pub fn search<T>(
        &self,
        before: Option<u64>,
        most: usize,
        mut pick: impl FnMut(u64, &Entry) -> Option<T>,
    ) -> Vec<T> {
        const PIECE: u64 = 256;
        let (first, next) = {
            let log = self.log.lock();
            (log.first, log.first + log.entries.len() as u64)
        };
        let mut found = Vec::new();
        let mut end = before.unwrap_or(next).min(next);
        while found.len() < most && end > first {
            let start = end.saturating_sub(PIECE).max(first);
            let piece = self.read(start, usize::try_from(end - start).unwrap_or(usize::MAX));
            let picked = piece.iter().rev().filter(|(number, _)| *number < end);
            found.extend(picked.filter_map(|(number, entry)| pick(*number, entry)).take(most - found.len()));
            end = start;
        }
        found
    }

    /// The number that the next entry will have.
    pub fn next_number(&self) -> u64 {
        let log = self.log.lock();
        log.first + log.entries.len() as u64
    }

    pub fn reader(self: &Arc<Self>, interest: Interest) -> Reader {
        let notify = Arc::new(Notify::new());
        self.log.lock().readers.push((interest, Arc::clone(&notify)));
        Reader { journal: Arc::clone(self), notify }
    }

    pub fn clear_all(&self) {
        let mut log = self.log.lock();
        log.first += log.entries.len() as u64;
        log.entries = VecDeque::new();
    }

    pub fn clear(&self, is_meant: impl Fn(&Entry) -> bool) {
        for entry in &mut self.log.lock().entries {
            if is_meant(entry) {
                *entry = Entry::Cleared;
            }
        }
    }

    pub fn fill(&self) -> Fill {
        let log = self.log.lock();
        Fill { entries: log.entries.len(), evicted: log.evicted }
    }
}

impl Log {
    fn notify(&self, entry: &Entry) {
        for (interest, notify) in &self.readers {
            let is_meant = match (interest, entry) {
                (Interest::Everything, _) => true,
                (Interest::Requests(wanted), Entry::Request(request)) => wanted.matches(request),
                (Interest::Requests(_), _) => false,
            };
            if is_meant {
                notify.notify_one();
            }
        }
    }

    fn evict(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.evicted += 1;
        Some(entry)
    }
}

impl History for Journal {
    fn evict_until(&self, is_enough: &dyn Fn() -> bool) {
        let mut log = self.log.lock();
        // Entries are dropped one by one: an event is freed with the last record that shares it.
        while !is_enough() && log.entries.len() > LEAST && log.evict().is_some() {}
    }
}

/// The entries of which a reader is notified.
#[derive(Debug)]
pub enum Interest {
    Everything,
    Requests(RequestInterest),
}

/// `None` matches any.
#[derive(Debug)]
pub struct RequestInterest {
    pub workspace: Option<Arc<str>>,
    pub operation: Option<Operation>,
    pub status: Option<u16>,
    pub path: Option<String>,
}

impl RequestInterest {
    fn matches(&self, request: &RequestRecord) -> bool {
        let workspace = || request.workspace.as_ref().map(|workspace| workspace.name());
        let path = || request.transcript.request_line().1.split('?').next().map(plain_path);
        self.operation.is_none_or(|operation| request.operation == Some(operation))
            && self.status.is_none_or(|status| request.status == status)
            // Without a workspace it may belong to any: the reader looks at the key that it carries.
            && self.workspace.as_ref().is_none_or(|name| workspace().is_none_or(|known| known == name))
            && self.path.as_deref().is_none_or(|expected| path() == Some(plain_path(expected)))
    }
}

/// A reader of the journal as it grows. It keeps its own cursor.
#[derive(Debug)]
pub struct Reader {
    pub journal: Arc<Journal>,
    notify: Arc<Notify>,
}

impl Reader {
    /// Completes when an entry of interest was appended since the last call, or since the reader was made.
    pub fn appended(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.journal.log.lock().readers.retain(|(_, kept)| !Arc::ptr_eq(kept, &self.notify));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn append(journal: &Journal, count: usize) {
        for _ in 0..count {
            journal.note(Timestamp::UNIX_EPOCH, None, "x", false);
        }
    }

    fn numbers(journal: &Journal, before: Option<u64>, most: usize) -> Vec<u64> {
        journal.search(before, most, |number, _| Some(number))
    }

    #[test]
    fn eviction_keeps_the_bounds_and_the_numbering() {
        let journal = Journal::new(1_000, &Budget::default());
        append(&journal, 1_500);
        assert_eq!((journal.fill().entries, journal.fill().evicted), (1_000, 500));
        assert_eq!(journal.read(0, 2).iter().map(|(number, _)| *number).collect::<Vec<_>>(), [501, 502]);
        assert_eq!((journal.read(1_500, 9).len(), journal.read(1_501, 9).len()), (1, 0));
        assert_eq!(numbers(&journal, None, 2), [1_500, 1_499]);
        assert_eq!(numbers(&journal, Some(1_400), usize::MAX), (501..1_400).rev().collect::<Vec<u64>>());
        journal.clear_all();
        append(&journal, 1);
        assert_eq!((numbers(&journal, None, 9), journal.fill().evicted), (vec![1_501], 500));
    }

    #[test]
    fn all_but_the_newest_entries_give_way() {
        let journal = Journal::new(100, &Budget::default());
        append(&journal, 90);
        let asked = AtomicUsize::new(0);
        journal.evict_until(&|| asked.fetch_add(1, Ordering::Relaxed) == 3);
        assert_eq!((journal.fill().entries, journal.fill().evicted), (87, 3));
        journal.evict_until(&|| false);
        assert_eq!((journal.fill().entries, numbers(&journal, None, 1)), (LEAST, vec![90]));
    }
}
