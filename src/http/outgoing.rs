//! The body of a message that is sent, an answer or a request: the counterpart of hyper's `Incoming`. One type, so that the code
//! of a connection is compiled once. A scenario may slow a body down or break it off.

use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use futures_util::Stream;
use futures_util::stream::unfold;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::clock::Clock;
use crate::clock::agenda::Slot;
use crate::state::workspace::Workspace;

/// Most bytes handed to hyper at a time. It copies them behind the head, so that one write takes both, and a connection keeps
/// the buffer for as long as it lives.
const PIECE: usize = 8 * 1024;

#[derive(Default)]
pub struct Outgoing {
    rest: Bytes,
    /// What comes after it.
    stream: Option<Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>>,
}

impl Outgoing {
    /// A body that is still being made; an error breaks the message off.
    pub fn stream(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self { stream: Some(Box::pin(pieces)), ..Self::default() }
    }

    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }
}

impl<B: Into<Bytes>> From<B> for Outgoing {
    fn from(bytes: B) -> Self {
        Self { rest: bytes.into(), ..Self::default() }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("rest", &self.rest)
            .field("is_stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while self.rest.is_empty() {
            let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
            match ready!(stream.as_mut().poll_next(cx)) {
                Some(Ok(piece)) => self.rest = piece,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.stream = None,
            }
        }
        let size = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_stream() { SizeHint::default() } else { SizeHint::with_exact(self.rest.len() as u64) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Truncate(usize),
    Stall(usize, Option<Duration>),
    /// This many bytes at a time with this interval between them, until the body is complete.
    Drip(usize, Duration),
}

pub(super) fn paced(body: Bytes, pace: Pace, workspace: &Workspace) -> Outgoing {
    let (clock, slot) = (workspace.clock().clone(), workspace.agenda().slot());
    let paced = PacedBody { rest: body, has_begun: false, pace, clock, slot };
    Outgoing::stream(unfold(paced, PacedBody::next))
}

struct PacedBody {
    rest: Bytes,
    has_begun: bool,
    pace: Pace,
    clock: Clock,
    /// When the present wait ends. The slot stays due until the next wait or the end of the body.
    slot: Slot,
}

impl PacedBody {
    /// The next piece with what follows it; `None` at the end.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let piece = match self.pace {
            Pace::Truncate(most) | Pace::Stall(most, _) if !self.has_begun && most > 0 && !self.rest.is_empty() => {
                Ok(self.take(most))
            }
            Pace::Truncate(_) => {
                // Lets hyper flush what was sent so far.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(self.broken_off())
            }
            Pace::Stall(_, pause) => {
                match pause {
                    Some(pause) => self.wait(pause).await,
                    None => pending().await,
                }
                Err(self.broken_off())
            }
            Pace::Drip(..) if self.rest.is_empty() => return None,
            Pace::Drip(size, interval) => {
                if self.has_begun {
                    self.wait(interval).await;
                }
                let part = self.take(size.max(1));
                if self.rest.is_empty() {
                    self.slot.set(None);
                }
                Ok(part)
            }
        };
        Some((piece, self))
    }

    async fn wait(&mut self, pause: Duration) {
        let until = self.clock.instant().plus(pause);
        self.slot.set(Some(until));
        self.clock.sleep_until(until).await;
    }

    fn take(&mut self, most: usize) -> Bytes {
        self.has_begun = true;
        self.rest.split_to(most.min(self.rest.len()))
    }

    fn broken_off(&mut self) -> io::Error {
        self.slot.set(None);
        io::Error::new(io::ErrorKind::ConnectionAborted, "a scenario broke this answer off")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::iter;
    use http_body_util::BodyExt as _;

    use super::*;

    /// The sizes of the frames of a body, and how it ends.
    async fn frames(mut body: Outgoing) -> (Vec<usize>, Option<io::ErrorKind>) {
        let mut sizes = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => sizes.push(frame.into_data().expect("bytes").len()),
                Err(error) => return (sizes, Some(error.kind())),
            }
        }
        assert!(body.is_end_stream());
        (sizes, None)
    }

    #[tokio::test]
    async fn bodies_come_in_bounded_pieces() {
        assert_eq!(frames(Outgoing::default()).await, (vec![], None));
        let whole = Outgoing::from(vec![0; 2 * PIECE + 1]);
        assert_eq!(whole.size_hint().exact(), Some(2 * PIECE as u64 + 1));
        assert_eq!(frames(whole).await, (vec![PIECE, PIECE, 1], None));
        let pieces = [vec![1; 3], vec![], vec![2; PIECE + 1]];
        let stream = Outgoing::stream(iter(pieces.map(|piece| Ok(Bytes::from(piece)))));
        assert_eq!((stream.is_stream(), stream.size_hint().exact()), (true, None));
        assert_eq!(frames(stream).await, (vec![3, PIECE, 1], None));
        let broken = Outgoing::stream(iter([Ok(Bytes::from_static(b"a")), Err(io::ErrorKind::BrokenPipe.into())]));
        assert_eq!(frames(broken).await, (vec![1], Some(io::ErrorKind::BrokenPipe)));
    }
}
