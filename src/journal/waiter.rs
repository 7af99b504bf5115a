//! Readers that wait for requests of one kind: they are notified of what may match and sleep through everything else, so a call
//! that waits costs a request that it does not wait for a few comparisons of numbers.
//!
//! What is singled out stands in [`Interest`] as numbers made once; texts are compared by a hash, so a reader may be notified
//! of an entry that does not match, and looks for itself. Why somebody waits is none of its business.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::{Entry, Journal};
use crate::contract::routes::Operation;

/// What requests a reader is notified of. `None` matches any.
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
        self.operation.is_none_or(|wanted| marks.operation == Some(wanted))
            && self.path.is_none_or(|wanted| marks.path == wanted)
            && self.status.is_none_or(|wanted| marks.status == wanted)
            && self.workspace.is_none_or(|wanted| marks.workspace == Some(wanted))
    }
}

/// A request in the terms of an [`Interest`].
struct Marks {
    workspace: Option<u64>,
    operation: Option<Operation>,
    status: u16,
    path: u64,
}

/// The waiters of one journal.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    kept: Vec<(Interest, Arc<Notify>)>,
}

impl Waiters {
    /// Notifies those whom a new entry may concern. For the lock under which entries are added: whoever looks at the journal
    /// after it began to wait misses nothing.
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

/// Somebody who waits for requests of one kind, with a cursor of its own.
#[derive(Debug)]
pub struct Waiter {
    journal: Arc<Journal>,
    notify: Arc<Notify>,
}

impl Journal {
    /// Becomes a reader that is notified of requests that may be of interest, and of nothing else.
    pub fn waiter(self: &Arc<Self>, interest: Interest) -> Waiter {
        let notify = Arc::new(Notify::new());
        self.log.lock().waiters.kept.push((interest, Arc::clone(&notify)));
        Waiter { journal: Arc::clone(self), notify }
    }
}

impl Waiter {
    /// The journal that is read.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Completes when a request that may be of interest came since the last call, or since the reader began.
    pub fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.journal.log.lock().waiters.kept.retain(|(_, notify)| !Arc::ptr_eq(notify, &self.notify));
    }
}

/// FNV-1a: short texts, and nobody gains by a collision but a needless look.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use hyper::header::HeaderMap;
    use hyper::{Method, Uri};

    use super::*;
    use crate::journal::{MOST_BYTES, Reason, RequestRecord, Transcript, Wire};

    fn request(target: &'static str, operation: Option<Operation>, status: u16) -> Entry {
        let (none, uri) = (HeaderMap::new(), Uri::from_static(target));
        let transcript = Transcript::new(&Wire {
            id: "req_1",
            request: Some((&Method::GET, &uri)),
            headers: &none,
            body: &[],
            answer_headers: &none,
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
        }))
    }

    #[test]
    fn only_what_may_match_is_told() {
        let journal = Arc::new(Journal::new(100, MOST_BYTES));
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
        assert!(journal.log.lock().waiters.kept.is_empty(), "who is gone is forgotten");
    }
}
