//! The body of a message that is sent, an answer or a request: the counterpart of hyper's `Incoming`. One type, so that the code
//! of a connection is compiled once.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use hyper::body::{Body, Bytes, Frame, SizeHint};

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
