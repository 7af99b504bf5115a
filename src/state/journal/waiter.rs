//! Selective notification: a reader that waits for requests of one kind is notified only of requests that may match, so each
//! other request costs a few comparisons of numbers.
//!
//! An [`Interest`] compares texts by their hash. A reader may therefore be notified of a request that does not match, and checks
//! each itself.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Entry;
use crate::contract::routes::Operation;

/// The requests of which a reader is notified. `None` matches any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    workspace: Option<u64>,
    operation: Option<Operation>,
    status: Option<u16>,
    path: Option<u64>,
}

impl Interest {
    /// Requests of this workspace, operation, status and path, each optional.
    pub fn new(workspace: Option<&str>, operation: Option<Operation>, status: Option<u16>, path: Option<&str>) -> Self {
        Self { workspace: workspace.map(hash), operation, status, path: path.map(hash) }
    }

    fn may_match(&self, marks: &Marks) -> bool {
        self.operation.is_none_or(|operation| marks.operation == Some(operation))
            && self.path.is_none_or(|path| marks.path == path)
            && self.status.is_none_or(|status| marks.status == status)
            && self.workspace.is_none_or(|workspace| marks.workspace == Some(workspace))
    }
}

/// The values of one request that an [`Interest`] compares.
struct Marks {
    workspace: Option<u64>,
    operation: Option<Operation>,
    status: u16,
    path: u64,
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    kept: Vec<(Interest, Arc<Notify>)>,
}

impl Waiters {
    /// Adds a waiter and returns what notifies it.
    pub(super) fn add(&mut self, interest: Interest) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.kept.push((interest, Arc::clone(&notify)));
        notify
    }

    pub(super) fn remove(&mut self, notify: &Arc<Notify>) {
        self.kept.retain(|(_, kept)| !Arc::ptr_eq(kept, notify));
    }

    /// Notifies the waiters that a new entry may match. Called under the lock that appends the entry, so that a reader that
    /// registers first and reads the journal then misses none.
    pub(super) fn notify(&self, entry: &Entry) {
        if self.kept.is_empty() {
            return;
        }
        let Entry::Request(request) = entry else { return };
        let (_, target) = request.transcript.request_line();
        let marks = Marks {
            workspace: entry.workspace().map(|name| hash(name)),
            operation: request.operation,
            status: request.status,
            path: hash(target.split('?').next().unwrap_or_default()),
        };
        for (interest, notify) in &self.kept {
            if interest.may_match(&marks) {
                notify.notify_one();
            }
        }
    }
}

/// FNV-1a. A collision costs one needless look at the journal.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hyper::header::HeaderMap;
    use hyper::{Method, Uri};

    use super::*;
    use crate::state::budget::Budget;
    use crate::state::journal::{Arrival, Journal, Reason, RequestRecord, Transcript, Wire, Written};

    fn request(target: &'static str, operation: Option<Operation>, status: u16) -> Entry {
        let (none, uri) = (HeaderMap::new(), Uri::from_static(target));
        let transcript = Transcript::new(&Wire {
            id: b"req_1",
            request: Some((&Method::GET, &uri)),
            headers: &none,
            body: &[],
            answer_headers: &|_| {},
            answer_body: &[],
        });
        Entry::Request(Arc::new(RequestRecord {
            transcript,
            at: jiff::Timestamp::UNIX_EPOCH,
            workspace: None,
            group_key: None,
            operation,
            status,
            broken: None,
            latency: std::time::Duration::ZERO,
            reason: Reason::Answered,
            quota: None,
            scripted: None,
            warnings: Vec::new(),
            generation: 1,
            config: std::sync::Weak::<()>::new(),
            instant: crate::clock::Instant::default(),
            arrival: Arrival::default(),
            written: Written::default(),
        }))
    }

    #[test]
    fn waiters_are_notified_of_what_may_match() {
        let journal = Arc::new(Journal::new(100, &Budget::default()));
        let check = |interest: Interest, entry: Entry, notified: bool| {
            let waiter = journal.waiter(interest);
            journal.append(entry);
            assert_eq!(waiter.notified().now_or_never().is_some(), notified, "{interest:?}");
            assert!(waiter.notified().now_or_never().is_none(), "each entry notifies once");
        };
        let hello = || request("/v1/hello?x=1", Some(Operation::Hello), 200);
        check(Interest::default(), hello(), true);
        check(Interest::new(None, Some(Operation::Hello), Some(200), Some("/v1/hello")), hello(), true);
        check(Interest::new(None, Some(Operation::SystemStatus), None, None), hello(), false);
        check(Interest::new(None, None, Some(422), None), hello(), false);
        check(Interest::new(None, None, None, Some("/v1/hell")), hello(), false);
        check(Interest::new(Some("sk_test_a"), None, None, None), hello(), false);
        check(Interest::new(None, Some(Operation::Hello), None, None), request("/v1/nothing", None, 404), false);
        assert!(journal.log.lock().waiters.kept.is_empty(), "a dropped waiter is removed");
    }
}
