//! One connection's bytes, with the deadlines that hyper does not have and a better answer where hyper gives an empty one.
//!
//! - A header block must be complete in time, counted from the connect or from its first byte.
//! - A peer must read bytes in time.
//! - A peer that has closed its sending side gets its answers, and is given up once nothing has been written for a while: it
//!   may be gone. One that resets the connection is given up at once. hyper reads nothing while it answers, so both are seen
//!   here.
//! - After an answer to a request that was not read whole, what still comes is read and dropped for a while: closing on
//!   unread bytes would reset the connection, and the peer could lose the answer.
//! - hyper answers requests that it cannot parse by itself, with an empty body; [`Handler::refuse`] answers the error envelope instead.
//! - A peer must send its next request in time.
//!
//! The timers are made only when a read or write has to wait, so a request that arrives whole costs nothing here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

use crate::clock::machine::monotonic;
use crate::http::connection_state::{ConnectionFault, ConnectionState};
use crate::http::handler::{Handler, Limits, Unreadable};
use crate::util::net::TcpStream;

/// Longest that a connection is kept open after its last answer for the peer to read it.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Longest that a peer that has closed its sending side waits for the next bytes of its answers; the idle deadline if shorter.
pub(crate) const HALF_CLOSED: Duration = Duration::from_secs(10);

/// A longer timeout would overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// How a client begins that speaks HTTP/2 without having negotiated it.
const HTTP_2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// The first bytes of a TLS record with a handshake: its type and the first byte of the version.
const TLS_HANDSHAKE: &[u8] = &[22, 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// A scenario ended the connection: nothing more is written.
    BrokenOff,
    /// The sending side is closed.
    ShutDown,
}

fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "a scenario ended this connection")
}

pub struct TimedStream {
    stream: Socket,
    state: Arc<ConnectionState>,
    handler: Arc<dyn Handler>,
    limits: Limits,
    /// The number of requests begun when bytes of a further header block came: while that number is unchanged, the block is incomplete.
    head_began_at: Option<u64>,
    head_deadline: Deadline,
    idle_deadline: Deadline,
    /// After how many requests the wait for the next began.
    idle_after: u64,
    /// How many lines of the header block have been read whole: none while the target is incomplete.
    lines: usize,
    /// The blank line at the end of the header block has been read.
    is_whole: bool,
    /// The protocol of the first bytes of the connection if they are not a request.
    began_with: Unreadable,
    left: PartialHead,
    write_deadline: Deadline,
    linger_deadline: Deadline,
    /// The last known state of a peer from which nothing is read, and how long it may stay so.
    unread_peer: Option<(Peer, Deadline)>,
    /// An answer of hyper's own was replaced: bytes that are not a request follow, or came already.
    refused: bool,
    replacement: Option<Bytes>,
    phase: Phase,
}

impl TimedStream {
    pub fn new(stream: Socket, state: Arc<ConnectionState>, handler: Arc<dyn Handler>, limits: Limits) -> Self {
        Self {
            stream,
            state,
            handler,
            limits,
            head_began_at: Some(0),
            head_deadline: Deadline::after(limits.header_timeout),
            idle_deadline: Deadline::after(limits.idle_timeout),
            idle_after: 0,
            lines: 0,
            is_whole: false,
            began_with: Unreadable::Garbage,
            left: PartialHead::Nothing,
            write_deadline: Deadline::after(limits.write_timeout),
            linger_deadline: Deadline::after(LINGER),
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
        self.is_whole = false;
    }

    /// True if the block that is being read is whole. Of blocks that came in one read, only the last is known.
    fn has_whole_head(&self) -> bool {
        self.left == PartialHead::Nothing || (self.is_whole && self.head_began_at == Some(self.state.request_count()))
    }

    fn poll_head_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head_began_at != Some(self.state.request_count()) {
            self.head_deadline.end();
            return Poll::Pending;
        }
        ready!(self.head_deadline.poll(cx));
        Poll::Ready(Err(timed_out("the header block did not arrive in time")))
    }

    fn poll_idle_deadline(&mut self, cx: &mut Context<'_>, begun: u64) -> io::Result<()> {
        if self.idle_after != begun {
            self.idle_after = begun;
            self.idle_deadline.end();
        }
        match self.idle_deadline.poll(cx) {
            Poll::Ready(()) => Err(timed_out("no further request came in time")),
            Poll::Pending => Ok(()),
        }
    }

    /// Returns a finished write; one that has to wait does so no longer than the deadline.
    fn bound_write<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write_deadline.end();
            return result;
        }
        ready!(self.write_deadline.poll(cx));
        Poll::Ready(Err(timed_out("the peer did not read bytes in time")))
    }

    /// While an answer is being made: fails if the peer is gone, or has closed its sending side and nothing was written for too
    /// long. What comes after unread bytes does not wake the task, so it is checked each time that the deadline has passed.
    fn check_peer(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.state.is_answering() {
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
                Peer::Left => return Err(io::ErrorKind::ConnectionReset.into()),
                Peer::HalfClosed => self.state.record_disconnect(),
                Peer::UnreadData => {}
            }
            if self.unread_peer.as_ref().is_none_or(|(known, _)| *known != peer) {
                self.unread_peer = None;
            }
            let timeout = self.limits.idle_timeout.min(HALF_CLOSED);
            let (_, deadline) = self.unread_peer.get_or_insert_with(|| (peer, Deadline::after(timeout)));
            if deadline.poll(cx).is_pending() {
                return Ok(());
            }
            if peer == Peer::HalfClosed {
                return Err(timed_out("the peer has closed its sending side"));
            }
            self.unread_peer = None;
        }
    }

    /// The result of a write when a fault replaces the answer: the bytes of the answer are discarded.
    fn divert(&mut self, size: usize) -> Option<Poll<io::Result<usize>>> {
        if self.phase == Phase::BrokenOff {
            return Some(Poll::Ready(Err(broken_off())));
        }
        match self.state.fault()? {
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
        // First, because a peer that never stops sending would use up the task's budget below.
        if self.linger_deadline.poll(cx).is_ready() {
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
        if self.replacement.take().is_some() && self.state.fault().is_some() {
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
                let begun = self.state.request_count();
                if self.state.is_between_requests() {
                    if self.head_began_at != Some(begun) {
                        self.begin_head(begun);
                    }
                    self.state.record_bytes(Some(self.handler.now()));
                    let read = &mut buf.filled_mut()[before..];
                    if begun == 0 && read.starts_with(TLS_HANDSHAKE) {
                        self.began_with = Unreadable::Tls;
                    } else if begun == 0 && read.starts_with(HTTP_2_PREFACE) {
                        self.began_with = Unreadable::Http2;
                        // hyper closes without a word on this preface, but answers other bytes that it cannot parse.
                        read[0] = 0;
                    }
                    if self.lines == 0 {
                        refuse_fragment(read);
                    }
                    self.left = PartialHead::after_blank_line(read);
                    let end = match self.left {
                        PartialHead::Nothing => Some(read.len()),
                        _ => read.windows(3).position(|three| three == b"\n\r\n").map(|at| at + 3),
                    };
                    if !self.is_whole {
                        let head = &read[..end.unwrap_or(read.len())];
                        self.lines += head.iter().map(|byte| usize::from(*byte == b'\n')).sum::<usize>();
                        self.is_whole = end.is_some();
                    }
                }
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                // The block began in the same read as the request before it, which had no body to explain those bytes.
                let begun = self.state.request_count();
                if self.state.is_between_requests() {
                    if self.left != PartialHead::Nothing && self.head_began_at != Some(begun) && !self.state.has_body()
                    {
                        self.begin_head(begun);
                        self.state.record_bytes(None);
                    }
                    self.poll_idle_deadline(cx, begun)?;
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
                    lines if self.has_whole_head() && lines <= self.limits.header_fields + 2 => {
                        StatusCode::PAYLOAD_TOO_LARGE
                    }
                    _ => status,
                };
            }
            self.refused = true;
            self.replacement = Some(self.handler.refuse(status, self.began_with));
            return Poll::Ready(Ok(bytes.len()));
        }
        self.unread_peer = None;
        // Before the write: a client that has the answer finds the time in the journal.
        self.state.record_written(|| self.handler.now().wall);
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
        if self.refused || self.state.may_have_more() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

/// A bound on a wait. Its timer is made once and reset only when it expires too early, so a wait that ends in time costs one
/// reading of the clock.
struct Deadline {
    timeout: Duration,
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn after(timeout: Duration) -> Self {
        Self { timeout: timeout.min(MAX_TIMEOUT), due: None, timer: None }
    }

    /// Begins the wait, unless it has begun, and is ready once it took too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| monotonic() + self.timeout);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due.into())));
        loop {
            ready!(timer.as_mut().poll(cx));
            if due <= monotonic() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due.into());
        }
    }

    /// Ends the wait; the next poll begins another.
    fn end(&mut self) {
        self.due = None;
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// The bytes after the last blank line of a read: a further header block, unless it is a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartialHead {
    Nothing,
    PartOfALine,
    Lines,
}

impl PartialHead {
    fn after_blank_line(read: &[u8]) -> Self {
        if read.ends_with(b"\n\r\n") || read.ends_with(b"\n\n") {
            return Self::Nothing;
        }
        let blank = read.windows(3).rposition(|three| three == b"\n\r\n" || three.ends_with(b"\n\n"));
        match blank {
            Some(at) if !read[at + 3..].contains(&b'\n') => Self::PartOfALine,
            None if !read.contains(&b'\n') => Self::PartOfALine,
            _ => Self::Lines,
        }
    }
}

/// Makes a request line with a fragment invalid: hyper would drop `#` and what follows it, and answer for another target.
fn refuse_fragment(read: &mut [u8]) {
    let line = read.iter().position(|byte| *byte == b'\n').unwrap_or(read.len());
    if let Some(mark) = read[..line].iter_mut().find(|byte| **byte == b'#') {
        *mark = 0;
    }
}

/// The status of an answer that hyper wrote by itself: no body and, unlike any that a handler gives, no content type. hyper reports the
/// error, with its `is_parse()`, only once this is written.
fn status_of_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4").or_else(|| bytes.strip_prefix(b"HTTP/1.0 4"))?;
    let status = StatusCode::from_bytes(bytes.get(9..12)?).ok()?;
    let has = |part: &[u8]| rest.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part));
    let own = rest.ends_with(b"\r\n\r\n") && has(b"\r\ncontent-length: 0\r\n") && !has(b"\r\ncontent-type:");
    own.then_some(status)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It may send more; the task is woken when something changes.
    Open,
    /// It has sent more, which is not read yet; a change after that does not wake the task.
    UnreadData,
    HalfClosed,
    Left,
}

/// A socket, or a TLS stream over one. One type, so that the code of a connection is compiled once.
#[derive(Debug)]
pub enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// True if a peer may close its sending side and still read. Over TLS, a peer that stops sending has closed the connection;
    /// hyper keeps reading while it answers, and notices.
    pub fn half_closes(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub fn reset_on_close(&self) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        };
        // If this fails, the peer sees an orderly close, which cuts the answer off as well.
        let _ = socket.set_zero_linger();
    }

    pub fn poll_peer(&self, cx: &mut Context<'_>) -> Peer {
        let Self::Plain(socket) = self else { return Peer::Open };
        match socket.poll_read_ready(cx) {
            Poll::Pending => return Peer::Open,
            Poll::Ready(Err(_)) => return Peer::Left,
            Poll::Ready(Ok(())) => {}
        }
        match socket.ready(Interest::READABLE | Interest::WRITABLE).now_or_never() {
            // A reset closes both directions.
            Some(Ok(ready)) if ready.is_write_closed() => Peer::Left,
            Some(Ok(ready)) if ready.is_read_closed() => Peer::HalfClosed,
            Some(Err(_)) => Peer::Left,
            _ => Peer::UnreadData,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
