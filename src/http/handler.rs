//! The trait that a connection serves, the limits on connections, and the state that the two share: progress of a request, and what to
//! do with the connection.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Now;
use crate::http::body::{BodyReader, Outgoing};
use crate::state::journal::{Arrival, RequestRecord};

pub const PLAIN_ON_TLS: &str = "this is plain HTTP on a TLS port: use https://";

/// What answers requests. Always behind `dyn`, so that the code of a connection is compiled once.
pub trait Handler: Send + Sync + 'static {
    fn handle(&self, request: Request<Incoming>, progress: &Arc<Progress>) -> Answering;

    fn now(&self) -> Now;

    fn wall(&self) -> Timestamp;

    /// Answers bytes that hyper refused to parse, with this status, or that it was never given. Returns the answer's head and body
    /// as bytes; the connection ends after them.
    fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes;
}

/// Most answers are ready, and spare hyper a large future.
pub enum Answering {
    Ready(Response<Outgoing>),
    Later(Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Garbage,
    /// A TLS handshake on a port without TLS.
    Tls,
    PlainHttp,
}

/// Runs a future to its end; `Err` carries the message of a panic.
pub async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// Runs a function to its end; `Err` as for [`caught`].
pub fn caught_now<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(function)).map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

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
pub struct Progress {
    peer: Option<IpAddr>,
    number: u64,
    begun: AtomicU64,
    arriving: Mutex<Arriving>,
    record: Mutex<Weak<RequestRecord>>,
    has_body: AtomicBool,
    stopping: AtomicBool,
    answered: AtomicU64,
    streams: AtomicBool,
    fault: OnceLock<ConnectionFault>,
    given_up: Notify,
    half_closed: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Arriving {
    number: u64,
    first_byte: Option<Timestamp>,
    last_read: Option<Now>,
}

impl Progress {
    /// A fresh connection of this peer; `number` counts those of the listener from 1.
    pub fn of(peer: IpAddr, number: u64) -> Self {
        Self { peer: Some(peer), number, ..Self::default() }
    }

    /// Bytes of the next request were read; `at` is `None` if they came together with the request before.
    pub(super) fn read(&self, at: Option<Now>) {
        let next = self.begun() + 1;
        let mut arriving = self.arriving.lock();
        if arriving.number == next {
            arriving.last_read = at;
        } else {
            *arriving = Arriving { number: next, first_byte: at.map(|at| at.wall), last_read: at };
        }
    }

    /// When the last bytes of the head of the request being answered were read; `None` if it came together with another.
    pub(crate) fn arrived(&self) -> Option<Now> {
        let arriving = self.arriving.lock();
        arriving.last_read.filter(|_| arriving.number == self.begun())
    }

    pub(crate) fn arrival(&self) -> Arrival {
        let sequence = self.begun();
        let arriving = self.arriving.lock();
        let first_byte = arriving.first_byte.filter(|_| arriving.number == sequence);
        Arrival { connection: self.number, sequence, first_byte }
    }

    pub(crate) fn recorded(&self, record: &Arc<RequestRecord>) {
        *self.record.lock() = Arc::downgrade(record);
    }

    pub(super) fn writing(&self, now: impl FnOnce() -> Timestamp) {
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

    pub async fn given_up(&self) {
        loop {
            self.given_up.notified().await;
            if self.begun() == 0 {
                return;
            }
        }
    }

    pub(super) fn half_close(&self) {
        self.half_closed.store(true, Ordering::Relaxed);
    }

    /// Whether the peer has closed its sending side, as far as it was noticed.
    pub fn half_closed(&self) -> &Arc<AtomicBool> {
        &self.half_closed
    }

    pub fn peer(&self) -> IpAddr {
        self.peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// A request's header block was complete; `has_body` if more of the request follows.
    pub fn begin(&self, has_body: bool) {
        self.has_body.store(has_body, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer was handed to hyper; `streams` if its body is still being made.
    pub fn answer(&self, streams: bool) {
        self.streams.store(streams, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub fn break_off(&self, fault: ConnectionFault) {
        // A connection ends with its first fault.
        let _ = self.fault.set(fault);
    }

    /// The listener stops: a connection without a request under way ends at once.
    pub fn stop(&self) {
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

    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether hyper waits for an answer or for its body, and so may read nothing.
    pub(super) fn is_answering(&self) -> bool {
        !self.is_between_requests() || self.streams.load(Ordering::Relaxed)
    }

    pub(super) fn is_between_requests(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == self.begun()
    }
}

/// Limits on each peer and on all together; each is a flag of `serve`. Deadlines follow the machine's time and not the emulator's
/// clock, as they protect the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub header_bytes: usize,
    pub header_fields: usize,
    pub uri_bytes: usize,
    /// Bytes of a request body, on every route.
    pub body_bytes: usize,
    /// Bytes of all request bodies that are being read at a time.
    pub body_bytes_in_all: usize,
    /// Connections at a time. Further ones wait in the kernel's queue, and the oldest that has sent no request is closed for them.
    pub connections: usize,
    /// For a header block, from the connect or from its first byte.
    pub header_timeout: Duration,
    /// For a request body.
    pub body_timeout: Duration,
    /// Between two requests of one connection.
    pub idle_timeout: Duration,
    /// For a peer that does not take bytes.
    pub write_timeout: Duration,
}

impl Limits {
    pub fn body_reader(&self) -> BodyReader {
        BodyReader::new(self.body_bytes, self.body_bytes_in_all, self.body_timeout)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 16 * 1024,
            header_fields: 64,
            uri_bytes: 8 * 1024,
            body_bytes: 256 * 1024,
            body_bytes_in_all: 32 * 1024 * 1024,
            connections: 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_secs(30),
        }
    }
}
