//! One connection's bytes, with the deadlines that hyper does not have and a better answer where hyper gives an empty one.
//!
//! - A header block must be complete in time, counted from the connect or from its first byte.
//! - A peer must take bytes in time.
//! - A peer that has closed its sending side gets its answers, and is given up once nothing has been written for a while: it
//!   may be gone. One that resets the connection is given up at once. hyper reads nothing while it answers, so both are seen
//!   here.
//! - After an answer to a request that was not read whole, what still comes is read and dropped for a while: closing on
//!   unread bytes would reset the connection, and the peer could lose the answer.
//! - hyper answers what it cannot parse by itself, with an empty body; [`Handler::refuse`] puts the error envelope in its place.
//!
//! - A peer must send its next request in time.
//!
//! The timers are made only when a read or write has to wait, so a request that arrives whole costs nothing here.

mod deadline;
mod head;
mod progress;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::connection::deadline::{Deadline, Idle, timed_out};
use crate::http::connection::head::{PartialHead, refuse_fragment, status_of_refusal};
pub use crate::http::connection::progress::{ConnectionFault, Progress};
use crate::http::handler::{Handler, Sent};
use crate::http::limits::Limits;
use crate::http::socket::{Peer, Socket};

/// Longest that a connection is kept open after its last answer for the peer to read it.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Longest that a peer that has closed its sending side waits for the next bytes of its answers; the idle deadline if shorter.
pub(crate) const HALF_CLOSED: Duration = Duration::from_secs(10);

/// The first bytes of a TLS record with a handshake: its type and the first byte of the version.
const TLS_HANDSHAKE: &[u8] = &[22, 3];

/// What may still be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Anything.
    Open,
    /// Nothing: a scenario ended the connection.
    BrokenOff,
    /// Nothing: the sending side is closed.
    ShutDown,
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "a scenario ended this connection")
}

/// A stream with deadlines.
pub struct TimedStream {
    stream: Socket,
    progress: Arc<Progress>,
    handler: Arc<dyn Handler>,
    limits: Limits,
    /// The number of requests begun when bytes of a further header block came: while that number is unchanged, the block is incomplete.
    head_began_at: Option<u64>,
    head_deadline: Deadline,
    idle: Idle,
    /// How many lines of that block have been read whole: none while the target is incomplete.
    lines: usize,
    /// The first bytes of the connection are those of a TLS handshake on a port without TLS.
    began_tls: bool,
    /// How much of the next block the last read has brought.
    left: PartialHead,
    write_deadline: Deadline,
    linger_deadline: Deadline,
    /// What was last known of a peer from which nothing is read, and until when it may stay so.
    unread_peer: Option<(Peer, Deadline)>,
    /// An answer of hyper's own was replaced: bytes that are not a request follow, or came already.
    refused: bool,
    /// What is left to write of an answer that replaces hyper's.
    replacement: Option<Bytes>,
    phase: Phase,
}

impl TimedStream {
    /// Wraps a fresh connection.
    pub fn new(stream: Socket, progress: Arc<Progress>, handler: Arc<dyn Handler>, limits: Limits) -> Self {
        Self {
            stream,
            progress,
            handler,
            limits,
            head_began_at: Some(0),
            head_deadline: Deadline::default(),
            idle: Idle::default(),
            lines: 0,
            began_tls: false,
            left: PartialHead::Nothing,
            write_deadline: Deadline::default(),
            linger_deadline: Deadline::default(),
            unread_peer: None,
            refused: false,
            replacement: None,
            phase: Phase::Open,
        }
    }

    /// Bytes of a further header block came, the one after `begun` requests.
    fn begin_head(&mut self, begun: u64) {
        self.head_began_at = Some(begun);
        self.head_deadline.end();
        self.lines = usize::from(self.left == PartialHead::Lines);
    }

    /// While a header block is incomplete, waits no longer than the deadline.
    fn poll_head_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head_began_at != Some(self.progress.begun()) {
            self.head_deadline.end();
            return Poll::Pending;
        }
        ready!(self.head_deadline.poll(cx, self.limits.header_timeout));
        Poll::Ready(Err(timed_out("the header block did not arrive in time")))
    }

    /// Returns a finished write; one that has to wait does so no longer than the deadline.
    fn bound_write<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write_deadline.end();
            return result;
        }
        ready!(self.write_deadline.poll(cx, self.limits.write_timeout));
        Poll::Ready(Err(timed_out("the peer did not take bytes in time")))
    }

    /// While an answer is being made: fails if the peer is gone, or has closed its sending side and nothing was written for too
    /// long. What comes after unread bytes does not wake the task, so it is checked each time that the deadline has passed.
    fn check_peer(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.progress.is_answering() {
            self.unread_peer = None;
            return Ok(());
        }
        loop {
            let peer = self.stream.poll_peer(cx);
            match peer {
                Peer::Open => {
                    self.unread_peer = None;
                    return Ok(());
                }
                Peer::Gone => return Err(io::ErrorKind::ConnectionReset.into()),
                Peer::HalfClosed => self.progress.half_close(),
                Peer::HasSent => {}
            }
            if self.unread_peer.as_ref().is_none_or(|(known, _)| *known != peer) {
                self.unread_peer = None;
            }
            let (_, deadline) = self.unread_peer.get_or_insert_with(|| (peer, Deadline::default()));
            if deadline.poll(cx, self.limits.idle_timeout.min(HALF_CLOSED)).is_pending() {
                return Ok(());
            }
            if peer == Peer::HalfClosed {
                return Err(timed_out("the peer has closed its sending side"));
            }
            self.unread_peer = None;
        }
    }

    /// The result of a write when a fault takes the place of the answer: the bytes of the answer are discarded.
    fn divert(&mut self, size: usize) -> Option<Poll<io::Result<usize>>> {
        if self.phase == Phase::BrokenOff {
            return Some(Poll::Ready(Err(broken_off())));
        }
        match self.progress.fault()? {
            ConnectionFault::Garbage(bytes) => {
                self.replacement.get_or_insert_with(|| bytes.clone());
                return Some(Poll::Ready(Ok(size)));
            }
            ConnectionFault::Reset => self.stream.reset_on_close(),
            ConnectionFault::Empty => {}
        }
        self.phase = Phase::BrokenOff;
        Some(Poll::Ready(Err(broken_off())))
    }

    /// Reads and drops what still comes until the peer is done or the time is up.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // First, as a peer that never stops sending would use up the task's budget below.
        if self.linger_deadline.poll(cx, LINGER).is_ready() {
            return Poll::Ready(());
        }
        let mut dropped = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut dropped);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }

    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.replacement.as_mut().filter(|rest| !rest.is_empty()) {
            let written = Pin::new(&mut self.stream).poll_write(cx, rest);
            match ready!(written) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => drop(rest.split_to(count)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if self.replacement.take().is_some() && self.progress.fault().is_some() {
            self.phase = Phase::BrokenOff;
            return Poll::Ready(Err(broken_off()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                let begun = self.progress.begun();
                if self.progress.is_between_requests() {
                    if self.head_began_at != Some(begun) {
                        self.begin_head(begun);
                    }
                    self.progress.read(Some(self.handler.now()));
                    let read = &mut buf.filled_mut()[before..];
                    self.began_tls |= begun == 0 && read.starts_with(TLS_HANDSHAKE);
                    if self.lines == 0 {
                        refuse_fragment(read);
                    }
                    self.left = PartialHead::after_blank_line(read);
                    self.lines += memchr::memchr_iter(b'\n', read).count();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                // The block began in the same read as the request before it, which had no body to explain those bytes.
                let begun = self.progress.begun();
                if self.progress.is_between_requests() {
                    if self.left != PartialHead::Nothing
                        && self.head_began_at != Some(begun)
                        && !self.progress.has_body()
                    {
                        self.begin_head(begun);
                        self.progress.read(None);
                    }
                    let timeout = self.limits.idle_timeout;
                    self.idle.check(cx, timeout, begun)?;
                }
                self.poll_head_deadline(cx)
            }
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(result) = self.divert(bytes.len()) {
            return result;
        }
        if let Some(mut status) = status_of_refusal(bytes) {
            if status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
                status = match self.lines {
                    0 => StatusCode::URI_TOO_LONG,
                    // A complete block within its limits: hyper refuses lengths close to 2^64 in this way.
                    lines if self.left == PartialHead::Nothing && lines <= self.limits.header_fields + 2 => {
                        StatusCode::PAYLOAD_TOO_LARGE
                    }
                    _ => status,
                };
            }
            self.refused = true;
            let sent = if self.began_tls { Sent::Tls } else { Sent::Garbage };
            self.replacement = Some(self.handler.refuse(status, sent));
            return Poll::Ready(Ok(bytes.len()));
        }
        self.unread_peer = None;
        // Before the write: a client that has the answer finds the time in the journal.
        self.progress.writing(|| self.handler.wall());
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound_write(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match self.poll_replacement(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_flush(cx),
            other => other,
        };
        ready!(self.bound_write(cx, result))?;
        Poll::Ready(self.check_peer(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.phase != Phase::ShutDown {
            let result = match self.poll_replacement(cx) {
                Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_shutdown(cx),
                other => other,
            };
            ready!(self.bound_write(cx, result))?;
            self.phase = Phase::ShutDown;
        }
        if self.refused || self.progress.may_have_more() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
