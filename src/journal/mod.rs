//! The journal: a bounded, ordered log of requests, events, delivery attempts and notices. The one hand-over between the
//! parts that do something, which append, and control and the log, which read; each reader keeps its own cursor.
//!
//! Bounded by entries and by bytes; what is evicted is counted. Who reads is none of its business.

mod request;
mod tally;
mod waiter;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use request::{Reason, RequestRecord, Scripted, Transcript, Wire};
pub use tally::{LATENCY_BOUNDS, Tally};
pub use waiter::{Interest, Waiter};

use crate::workspace::{AttemptRecord, EventRecord, Workspace};
use waiter::Waiters;

/// Most entries kept.
pub const MOST_ENTRIES: usize = 10_000;
/// Most bytes kept.
pub const MOST_BYTES: usize = 64 * 1024 * 1024;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A request and its answer.
    Request(Arc<RequestRecord>),
    /// An event was fired.
    Event(Arc<EventRecord>),
    /// A delivery was attempted.
    Attempt(Arc<AttemptRecord>),
    /// Something the emulator itself did, in words: a reload, an eviction.
    Notice(Arc<Notice>),
    /// In place of an entry that was cleared, so that numbers stay gapless.
    Gone,
}

/// Something the emulator itself did.
#[derive(Clone, Debug)]
pub struct Notice {
    /// When.
    pub at: Timestamp,
    /// The workspace concerned, if one is.
    pub workspace: Option<Arc<str>>,
    /// What, in one line.
    pub message: String,
    /// Whether it wants attention.
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

    /// Roughly what the entry holds in memory.
    fn bytes(&self) -> usize {
        const FIXED: usize = 512;
        FIXED
            + match self {
                Self::Request(request) => request.bytes(),
                Self::Event(event) => event.body.len() + 256 * (event.deliveries.len() + event.skipped.len()),
                Self::Attempt(attempt) => attempt.bytes(),
                Self::Notice(notice) => notice.message.len(),
                Self::Gone => 0,
            }
    }
}

/// The log itself.
#[derive(Debug)]
pub struct Journal {
    most_entries: usize,
    most_bytes: usize,
    log: Mutex<Log>,
    /// Readers that are notified of each entry; without any, an entry notifies nobody.
    readers: AtomicUsize,
    appended: Notify,
}

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<(usize, Entry)>,
    /// The number of the oldest entry kept; entries are numbered from 1 without gaps.
    first: u64,
    bytes: usize,
    tally: Tally,
    waiters: Waiters,
}

/// How full the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Entries kept.
    pub entries: usize,
    /// Bytes they hold, roughly.
    pub bytes: usize,
    /// Entries that had to leave so far; what was cleared does not count.
    pub evicted: u64,
}

impl Journal {
    /// A journal of at most this many entries and bytes.
    pub fn new(most_entries: usize, most_bytes: usize) -> Self {
        let log = Log { first: 1, ..Log::default() };
        Self {
            most_entries: most_entries.max(1),
            most_bytes,
            log: Mutex::new(log),
            readers: AtomicUsize::new(0),
            appended: Notify::new(),
        }
    }

    /// Appends an entry; returns its number. The oldest entries leave when a bound is passed. What a workspace still has to
    /// tell after it was reset is counted but not kept, and has the number 0.
    pub fn append(&self, entry: Entry) -> u64 {
        self.append_of(None, entry)
    }

    /// Appends a line about what happened at this time, of this workspace or of none.
    pub fn note(&self, at: Timestamp, workspace: Option<Arc<str>>, message: impl Into<String>, warning: bool) {
        self.append(Entry::Notice(Arc::new(Notice { at, workspace, message: message.into(), warning })));
    }

    /// Appends an entry of this workspace, which a request has by itself.
    pub fn append_of(&self, owner: Option<&Workspace>, entry: Entry) -> u64 {
        let bytes = entry.bytes();
        // Evicted entries are dropped after the lock is released; usually there is one at most.
        let mut evicted = [None, None];
        let mut more = Vec::new();
        let number = {
            let mut log = self.log.lock();
            log.tally.count(&entry);
            log.waiters.notify(&entry);
            // Looked at under the lock: a workspace is forgotten first and its entries are cleared then, so none comes late.
            let owner = match &entry {
                Entry::Request(request) => request.workspace.as_deref(),
                _ => owner,
            };
            if owner.is_some_and(Workspace::is_forgotten) {
                return 0;
            }
            log.entries.push_back((bytes, entry));
            log.bytes += bytes;
            let mut count = 0;
            while log.entries.len() > 1 && (log.entries.len() > self.most_entries || log.bytes > self.most_bytes) {
                let Some((bytes, entry)) = log.entries.pop_front() else { break };
                log.bytes -= bytes;
                log.first += 1;
                log.tally.evicted += 1;
                match evicted.get_mut(count) {
                    Some(place) => *place = Some(entry),
                    None => more.push(entry),
                }
                count += 1;
            }
            log.first + log.entries.len() as u64 - 1
        };
        if self.readers.load(Ordering::SeqCst) > 0 {
            self.appended.notify_waiters();
        }
        number
    }

    /// Entries numbered from `from` on, oldest first, at most `most`, each with its number.
    pub fn read(&self, from: u64, most: usize) -> Vec<(u64, Entry)> {
        let log = self.log.lock();
        let skip = from.saturating_sub(log.first);
        let Ok(skip) = usize::try_from(skip) else { return Vec::new() };
        let first = log.first + skip as u64;
        log.entries
            .iter()
            .skip(skip)
            .take(most)
            .zip(first..)
            .map(|((_, entry), number)| (number, entry.clone()))
            .collect()
    }

    /// Entries numbered below `before`, newest first, for which `pick` gives something, at most `most`. The lock is held for a
    /// few entries at a time; what is appended meanwhile is not looked at.
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

    /// Becomes a reader that is notified of each entry.
    pub fn reader(self: &Arc<Self>) -> Reader {
        self.readers.fetch_add(1, Ordering::SeqCst);
        Reader { journal: Arc::clone(self) }
    }

    /// Forgets all entries.
    pub fn clear_all(&self) {
        let mut log = self.log.lock();
        log.first += log.entries.len() as u64;
        log.entries.clear();
        log.bytes = 0;
    }

    /// Forgets the entries of the workspaces whose name is meant.
    pub fn clear(&self, is_meant: impl Fn(&Arc<str>) -> bool) {
        let mut log = self.log.lock();
        let mut bytes = 0;
        for (size, entry) in &mut log.entries {
            if entry.workspace().is_some_and(&is_meant) {
                *entry = Entry::Gone;
                *size = entry.bytes();
            }
            bytes += *size;
        }
        log.bytes = bytes;
    }

    /// How full the journal is.
    pub fn fill(&self) -> Fill {
        let log = self.log.lock();
        Fill { entries: log.entries.len(), bytes: log.bytes, evicted: log.tally.evicted }
    }

    /// Counts of everything that was ever appended.
    pub fn tally(&self) -> Tally {
        self.log.lock().tally.clone()
    }
}

/// Somebody who reads the journal as it grows, with a cursor of its own.
#[derive(Debug)]
pub struct Reader {
    journal: Arc<Journal>,
}

impl Reader {
    /// The journal that is read.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Returns when something was appended after the call. To miss nothing: make and enable the future, read, then await it.
    pub fn appended(&self) -> tokio::sync::futures::Notified<'_> {
        self.journal.appended.notified()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.journal.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// At most this much of a body is kept in the journal.
pub const KEPT_BODY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(text: &str) -> Entry {
        let (at, message) = (Timestamp::UNIX_EPOCH, text.to_owned());
        Entry::Notice(Arc::new(Notice { at, workspace: None, message, warning: false }))
    }

    fn texts(entries: &[(u64, Entry)]) -> Vec<(u64, String)> {
        let text = |entry: &Entry| match entry {
            Entry::Notice(notice) => notice.message.clone(),
            _ => unreachable!("only notices are appended here"),
        };
        entries.iter().map(|(number, entry)| (*number, text(entry))).collect()
    }

    #[test]
    fn the_bounds_hold_and_numbers_go_on() {
        let journal = Journal::new(2, MOST_BYTES);
        for text in ["a", "b", "c"] {
            journal.append(notice(text));
        }
        assert_eq!(texts(&journal.read(0, 10)), [(2, "b".to_owned()), (3, "c".to_owned())]);
        assert_eq!(texts(&journal.read(3, 10)), [(3, "c".to_owned())]);
        assert_eq!(journal.read(4, 10).len(), 0);
        assert_eq!(journal.search(None, 1, |number, _| Some(number)), [3]);
        assert_eq!(journal.search(Some(3), 9, |number, _| Some(number)), [2]);
        assert_eq!(journal.fill().evicted, 1);
        let small = Journal::new(100, 1100);
        for _ in 0..5 {
            small.append(notice("x"));
        }
        assert_eq!(small.fill().entries, 2);
        let long = Journal::new(1_000, MOST_BYTES);
        for _ in 0..1_500 {
            long.append(notice("x"));
        }
        let found = long.search(Some(1_400), usize::MAX, |number, _| Some(number));
        assert_eq!(found, (501..1_400).rev().collect::<Vec<u64>>(), "each entry once, newest first");
        journal.clear_all();
        assert_eq!((journal.append(notice("d")), journal.fill().evicted), (4, 1));
    }
}
