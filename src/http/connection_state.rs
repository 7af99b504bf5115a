//! What a connection and the requests on it record of each other: where the present request has got to, and what becomes of the
//! connection. The stream records its reads and writes, the service its answers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hyper::body::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Now;
use crate::state::journal::{ConnectionInfo, RequestRecord};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Resets: the peer sees `ECONNRESET`.
    Reset,
    /// Closes in order, without a byte.
    Empty,
    Garbage(Bytes),
}

impl ConnectionFault {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Empty => "empty",
            Self::Garbage(_) => "garbage",
        }
    }
}

#[derive(Debug, Default)]
pub struct ConnectionState {
    peer: Option<IpAddr>,
    number: u64,
    requests: AtomicU64,
    arriving: Mutex<ArrivingHead>,
    record: Mutex<Weak<RequestRecord>>,
    has_body: AtomicBool,
    stopping: AtomicBool,
    answers: AtomicU64,
    streams: AtomicBool,
    fault: OnceLock<ConnectionFault>,
    given_up: Notify,
    is_disconnected: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct ArrivingHead {
    number: u64,
    first_byte: Option<Timestamp>,
    last_read: Option<Now>,
}

impl ConnectionState {
    /// A fresh connection of this peer; `number` counts those of the listener from 1.
    pub fn new(peer: IpAddr, number: u64) -> Self {
        Self { peer: Some(peer), number, ..Self::default() }
    }

    /// Bytes of the next request were read; `at` is `None` if they came together with the request before.
    pub(super) fn record_bytes(&self, at: Option<Now>) {
        let next = self.request_count() + 1;
        let mut arriving = self.arriving.lock();
        if arriving.number == next {
            arriving.last_read = at;
        } else {
            *arriving = ArrivingHead { number: next, first_byte: at.map(|at| at.wall), last_read: at };
        }
    }

    /// When the last bytes of the head of the request being answered were read; `None` if it came together with another.
    pub(crate) fn head_read_at(&self) -> Option<Now> {
        let arriving = self.arriving.lock();
        arriving.last_read.filter(|_| arriving.number == self.request_count())
    }

    pub(crate) fn arrival(&self) -> ConnectionInfo {
        let sequence = self.request_count();
        let arriving = self.arriving.lock();
        let first_byte = arriving.first_byte.filter(|_| arriving.number == sequence);
        ConnectionInfo { connection: self.number, sequence, first_byte }
    }

    pub(crate) fn set_record(&self, record: &Arc<RequestRecord>) {
        *self.record.lock() = Arc::downgrade(record);
    }

    pub(super) fn record_written(&self, now: impl FnOnce() -> Timestamp) {
        if self.is_between_requests()
            && let Some(record) = self.record.lock().upgrade()
        {
            record.written.note(now());
        }
    }

    /// Makes room for another: a connection that has sent no request ends.
    pub fn give_up(&self) {
        self.given_up.notify_one();
    }

    pub async fn wait_given_up(&self) {
        loop {
            self.given_up.notified().await;
            if self.request_count() == 0 {
                return;
            }
        }
    }

    pub(super) fn record_disconnect(&self) {
        self.is_disconnected.store(true, Ordering::Relaxed);
    }

    /// True if the peer has closed its sending side, as far as it was noticed.
    pub fn is_disconnected(&self) -> &Arc<AtomicBool> {
        &self.is_disconnected
    }

    pub fn peer(&self) -> IpAddr {
        self.peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// A request's header block was complete; `has_body` if more of the request follows.
    pub fn record_request(&self, has_body: bool) {
        self.has_body.store(has_body, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer was handed to hyper; `streams` if its body is still being made.
    pub fn record_answer(&self, streams: bool) {
        self.streams.store(streams, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn record_fault(&self, fault: ConnectionFault) {
        // A connection ends with its first fault.
        let _ = self.fault.set(fault);
    }

    /// The listener stops: a connection without a request under way ends at once.
    pub fn record_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_have_more(&self) -> bool {
        self.has_body() && !self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn fault(&self) -> Option<&ConnectionFault> {
        self.fault.get()
    }

    pub(super) fn has_body(&self) -> bool {
        self.has_body.load(Ordering::Relaxed)
    }

    pub fn request_count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// True while hyper waits for an answer or for its body, and so may read nothing.
    pub(super) fn is_answering(&self) -> bool {
        !self.is_between_requests() || self.streams.load(Ordering::Relaxed)
    }

    pub(super) fn is_between_requests(&self) -> bool {
        self.answers.load(Ordering::Relaxed) == self.request_count()
    }
}
