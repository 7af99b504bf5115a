//! One connection's bytes, with the deadlines that hyper does not have and a better answer where hyper gives an empty one.
//!
//! - A header block must be complete in time, counted from the connect or from its first byte.
//! - A peer must take bytes in time.
//! - hyper answers what it cannot parse by itself, with an empty body; [`Refusals`] puts the error envelope in its place.
//!
//! The timers are made only when a read or write has to wait, so a request that arrives whole costs nothing here.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::http::fault::Break;
use crate::http::limits::Limits;

/// What the connection and the service on it tell each other.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicU64,
    answered: AtomicU64,
    breaks: AtomicBool,
    how: Mutex<Option<Break>>,
}

impl Progress {
    /// A request's header block was complete.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer was handed to hyper.
    pub fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection is to do something else in place of writing the answer.
    pub fn break_off(&self, how: Break) {
        *self.how.lock() = Some(how);
        self.breaks.store(true, Ordering::Release);
    }

    fn is_broken(&self) -> bool {
        self.breaks.load(Ordering::Acquire)
    }

    /// Requests begun so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn is_between_requests(&self) -> bool {
        self.answered.load(Ordering::Relaxed) == self.begun()
    }
}

/// Gives the answer to a request that hyper refused to parse: its status in, the whole answer's bytes out.
pub trait Refusals: Send + Sync + 'static {
    /// The answer, head and body, ending the connection.
    fn refuse(&self, status: StatusCode) -> Bytes;
}

/// A stream whose connection can be reset on purpose.
pub trait Resettable {
    /// Lets the next close be a reset.
    fn reset_on_close(&self);
}

impl Resettable for TcpStream {
    fn reset_on_close(&self) {
        // If it cannot be had, the peer sees an orderly close, which breaks the answer off as well.
        let _ = self.set_zero_linger();
    }
}

impl Resettable for tokio_rustls::server::TlsStream<TcpStream> {
    fn reset_on_close(&self) {
        self.get_ref().0.reset_on_close();
    }
}

/// A stream with deadlines.
pub struct TimedStream<S, R> {
    stream: S,
    progress: Arc<Progress>,
    refusals: Arc<R>,
    header_timeout: Duration,
    write_timeout: Duration,
    /// The number of requests begun when bytes of a further header block came: while it stays, the block is incomplete.
    head_began_at: Option<u64>,
    head_deadline: Option<Pin<Box<Sleep>>>,
    write_deadline: Option<Pin<Box<Sleep>>>,
    /// What is left to write of an answer that replaces hyper's.
    replacement: Option<Bytes>,
    /// Nothing more is written once the replacement is out.
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Resettable + Unpin, R: Refusals> TimedStream<S, R> {
    /// Wraps a fresh connection.
    pub fn new(stream: S, progress: Arc<Progress>, refusals: Arc<R>, limits: &Limits) -> Self {
        Self {
            stream,
            progress,
            refusals,
            header_timeout: limits.header_timeout,
            write_timeout: limits.write_timeout,
            head_began_at: Some(0),
            head_deadline: None,
            write_deadline: None,
            replacement: None,
            ended: false,
        }
    }

    /// While a header block is incomplete, waits no longer than the deadline.
    fn poll_head_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.head_began_at != Some(self.progress.begun()) {
            self.head_deadline = None;
            return Poll::Pending;
        }
        let timeout = self.header_timeout;
        let deadline = self.head_deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(Future::poll(deadline.as_mut(), cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the header block did not arrive in time")))
    }

    /// Passes a finished write on; lets one that has to wait do so no longer than the deadline.
    fn bound_write<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.write_deadline = None;
            return result;
        }
        let timeout = self.write_timeout;
        let deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(Future::poll(deadline.as_mut(), cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not take bytes in time")))
    }

    /// What becomes of a write when the connection is to break off: the bytes of the answer go nowhere.
    fn divert(&mut self, size: usize) -> Option<Poll<io::Result<usize>>> {
        let broken_off = || io::Error::new(io::ErrorKind::BrokenPipe, "a scenario ended this connection");
        if self.ended {
            return Some(Poll::Ready(Err(broken_off())));
        }
        if !self.progress.is_broken() {
            return None;
        }
        match self.progress.how.lock().take() {
            Some(Break::Garbage(bytes)) => {
                self.replacement = Some(bytes);
                Some(Poll::Ready(Ok(size)))
            }
            Some(Break::Reset) => {
                self.stream.reset_on_close();
                self.ended = true;
                Some(Poll::Ready(Err(broken_off())))
            }
            Some(Break::Empty) => {
                self.ended = true;
                Some(Poll::Ready(Err(broken_off())))
            }
            // The garbage was taken over and is on its way; the rest of the answer follows it nowhere.
            None => Some(Poll::Ready(Ok(size))),
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
        if self.replacement.take().is_some() && self.progress.is_broken() {
            self.ended = true;
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "a scenario ended this connection")));
        }
        Poll::Ready(Ok(()))
    }
}

/// The status of an answer that hyper wrote by itself. The service never sends one of these without a body.
fn status_of_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4")?;
    let status = StatusCode::from_bytes(bytes.get(9..12)?).ok()?;
    let empty = rest.ends_with(b"\r\n\r\n")
        && rest.windows(19).any(|window| window.eq_ignore_ascii_case(b"content-length: 0\r\n"));
    empty.then_some(status)
}

impl<S: AsyncRead + AsyncWrite + Resettable + Unpin, R: Refusals> AsyncRead for TimedStream<S, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                let begun = self.progress.begun();
                if self.progress.is_between_requests() && self.head_began_at != Some(begun) {
                    self.head_began_at = Some(begun);
                    self.head_deadline = None;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Pending => self.poll_head_deadline(cx),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Resettable + Unpin, R: Refusals> AsyncWrite for TimedStream<S, R> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(result) = self.divert(bytes.len()) {
            return result;
        }
        if let Some(status) = status_of_refusal(bytes) {
            self.replacement = Some(self.refusals.refuse(status));
            return Poll::Ready(Ok(bytes.len()));
        }
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound_write(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // hyper's own answers are one slice; a served answer has its body beside its head.
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        if let Some(result) = self.divert(slices.iter().map(|slice| slice.len()).sum()) {
            return result;
        }
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bound_write(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match self.poll_replacement(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_flush(cx),
            other => other,
        };
        self.bound_write(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match self.poll_replacement(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_shutdown(cx),
            other => other,
        };
        self.bound_write(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_empty_answers_of_hyper_are_replaced() {
        let status = |text: &str| status_of_refusal(text.as_bytes()).map(|status| status.as_u16());
        assert_eq!(
            status(
                "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n"
            ),
            Some(431)
        );
        assert_eq!(status("HTTP/1.1 400 Bad Request\r\ncontent-length: 20\r\n\r\n{}"), None);
        assert_eq!(status("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(status("HTTP/1.1 4"), None);
    }
}
