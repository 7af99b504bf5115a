//! What one connection and the service on it share: how far its requests are, and what the connection is to do.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::body::Bytes;
use tokio::sync::Notify;

/// What a connection does in place of writing an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// Resets: the peer sees `ECONNRESET`.
    Reset,
    /// Closes in order, without a byte.
    Empty,
    /// Writes these bytes, then closes.
    Garbage(Bytes),
}

impl ConnectionFault {
    /// The name that scenarios, the journal and the log have for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Empty => "empty",
            Self::Garbage(_) => "garbage",
        }
    }
}

/// What a connection and the service on it share.
#[derive(Debug, Default)]
pub struct Progress {
    peer: Option<IpAddr>,
    begun: AtomicU64,
    has_body: AtomicBool,
    stopping: AtomicBool,
    answered: AtomicU64,
    streams: AtomicBool,
    fault: OnceLock<ConnectionFault>,
    given_up: Notify,
}

impl Progress {
    /// A fresh connection of this peer.
    pub fn of(peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..Self::default() }
    }

    /// Makes room for another: a connection that has sent no request ends.
    pub fn give_up(&self) {
        self.given_up.notify_one();
    }

    /// Returns once the connection is to make room and no request has begun on it.
    pub async fn given_up(&self) {
        loop {
            self.given_up.notified().await;
            if self.begun() == 0 {
                return;
            }
        }
    }

    /// Who is connected.
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

    /// The connection is to do something else in place of writing the answer.
    pub fn break_off(&self, fault: ConnectionFault) {
        // A connection ends with its first fault.
        let _ = self.fault.set(fault);
    }

    /// The listener stops: a connection without a request under way ends at once.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the peer may be sending still when the connection is shut down.
    pub(super) fn may_have_more(&self) -> bool {
        self.has_body() && !self.stopping.load(Ordering::Relaxed)
    }

    /// What the connection is to do in place of writing the answer.
    pub(super) fn fault(&self) -> Option<&ConnectionFault> {
        self.fault.get()
    }

    /// Whether the last request had a body.
    pub(super) fn has_body(&self) -> bool {
        self.has_body.load(Ordering::Relaxed)
    }

    /// Requests begun so far.
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
