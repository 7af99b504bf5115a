//! Faults carried out: an answer that breaks off, stalls or drips as a body, and what must happen below HTTP as an order to
//! the connection. Why a fault happens is none of this file's business.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Either};
use hyper::Response;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderValue};

use crate::agenda::Slot;
use crate::clock::{Clock, Instant};
use crate::http::answer::AnswerBody;
use crate::workspace::Workspace;

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

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This many bytes, then the connection ends.
    Truncate(usize),
    /// This many bytes, then silence so long (for ever if absent), then the connection ends.
    Stall(usize, Option<Duration>),
    /// So many bytes at a time with this interval between them; whole in the end.
    Drip(usize, Duration),
}

/// Sends the body of an answer at a pace, by the workspace's clock. `Content-Length` still promises the whole body.
pub fn paced(response: Response<AnswerBody>, body: Bytes, pace: Pace, workspace: &Workspace) -> Response<AnswerBody> {
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let promised = body.len() as u64;
    let (clock, slot) = (workspace.clock().clone(), workspace.agenda().slot());
    let paced = PacedBody { rest: body, sent: 0, pace, promised, clock, slot, wait: None, silent: false };
    Response::from_parts(parts, Either::Right(paced.boxed_unsync()))
}

struct PacedBody {
    rest: Bytes,
    sent: usize,
    pace: Pace,
    promised: u64,
    clock: Clock,
    /// Until when it waits: due from then on, until it waits again or ends.
    slot: Slot,
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    silent: bool,
}

impl PacedBody {
    fn sleep(&mut self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = self.clock.clone();
        let until: Instant = clock.now().instant.plus(pause);
        self.slot.set(Some(until));
        Box::pin(async move { clock.sleep_until(until).await })
    }

    fn take(&mut self, most: usize) -> Frame<Bytes> {
        let part = self.rest.split_to(most.min(self.rest.len()));
        self.sent += part.len();
        Frame::data(part)
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        match self.pace {
            Pace::Truncate(most) | Pace::Stall(most, _) if self.sent < most && !self.rest.is_empty() => {
                let room = most - self.sent;
                Poll::Ready(Some(Ok(self.take(room))))
            }
            Pace::Truncate(_) | Pace::Stall(..) if self.silent => {
                self.slot.set(None);
                let broken = "a scenario broke this answer off";
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, broken))))
            }
            Pace::Truncate(_) => {
                // What was sent so far must leave hyper's buffer before the end.
                self.silent = true;
                self.wait = Some(Box::pin(tokio::time::sleep(Duration::from_millis(5))));
                self.poll_frame(cx)
            }
            Pace::Stall(_, pause) => {
                self.silent = true;
                self.wait = Some(match pause {
                    Some(pause) => self.sleep(pause),
                    None => Box::pin(std::future::pending()),
                });
                self.poll_frame(cx)
            }
            Pace::Drip(..) if self.rest.is_empty() => {
                self.slot.set(None);
                Poll::Ready(None)
            }
            Pace::Drip(size, interval) => {
                if self.sent > 0 && !self.silent {
                    self.silent = true;
                    self.wait = Some(self.sleep(interval));
                    return self.poll_frame(cx);
                }
                self.silent = false;
                let part = self.take(size.max(1));
                if self.rest.is_empty() {
                    self.slot.set(None);
                }
                Poll::Ready(Some(Ok(part)))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.promised - self.sent as u64)
    }
}
