//! Bodies, each direction within a budget of memory: those that are read, limited in size and time, and those that are sent,
//! which a scenario may slow down or break off.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use futures_util::Stream;
use futures_util::stream::unfold;
use hyper::Version;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;
use crate::clock::agenda::{Running, Slot};
use crate::contract::error::ErrorKind;
use crate::state::journal::KEPT_BODY;
use crate::state::workspace::Workspace;
use crate::util::tasks::Busy;
use crate::util::wording::shorten;

/// Bytes of each body that do not count towards the budget of all bodies. The contract's bodies are smaller, so large bodies that
/// never end do not delay ordinary requests. The limit on connections bounds the sum of these.
const FREE: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body did not arrive within {} s", .0.as_secs_f64())]
    TooSlow(Duration),
    #[error("the body is malformed: a bad chunk, or it ended early")]
    Malformed,
    #[error("the only transfer coding accepted is chunked")]
    TransferCoding,
    #[error("Content-Encoding `{0}` is not supported; send the body uncompressed")]
    ContentCoding(String),
}

impl BodyProblem {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge(_) => ErrorKind::PayloadTooLarge,
            Self::TooSlow(_) => ErrorKind::RequestTimeout,
            Self::Malformed => ErrorKind::BadRequest,
            Self::TransferCoding => ErrorKind::NotImplemented,
            Self::ContentCoding(_) => ErrorKind::UnsupportedMediaType,
        }
    }
}

/// The body of a request. The handler may read it; the rest is dropped before the answer is sent, so that
/// the fate of the connection depends on the request and not on how its bytes arrive. A body that the client only sends once it is asked
/// (`Expect: 100-continue`) is not dropped but left unasked: hyper asks for it when it is first read.
#[derive(Clone, Debug, Default)]
pub struct RequestBody(Option<Arc<Mutex<Unread>>>);

#[derive(Debug)]
struct Unread {
    body: Incoming,
    /// Bytes that were read so far.
    read: usize,
    /// It is malformed, or did not arrive in time.
    is_lost: bool,
    /// The client waits to be asked for it.
    is_unasked: bool,
}

impl RequestBody {
    pub fn new(body: Incoming, version: Version, headers: &HeaderMap) -> Self {
        if body.is_end_stream() {
            return Self(None);
        }
        let (is_lost, is_unasked) = (has_other_transfer_coding(headers), expects_continue(version, headers));
        Self(Some(Arc::new(Mutex::new(Unread { body, read: 0, is_lost, is_unasked }))))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Its next bytes; `None` at its end.
    async fn next(&self) -> Option<Result<Bytes, BodyProblem>> {
        let unread = self.0.as_ref()?;
        unread.lock().is_unasked = false;
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut unread.lock().body).poll_frame(cx)).await?;
            let Ok(frame) = frame else {
                self.lose();
                return Some(Err(BodyProblem::Malformed));
            };
            if let Ok(data) = frame.into_data() {
                unread.lock().read += data.len();
                return Some(Ok(data));
            }
        }
    }

    fn lose(&self) {
        if let Some(unread) = &self.0 {
            unread.lock().is_lost = true;
        }
    }

    /// True if it is known to be longer than `most`, or its end will not be seen, as of one that nobody asked for.
    fn is_beyond(&self, most: usize) -> bool {
        self.0.as_ref().is_some_and(|unread| {
            let unread = unread.lock();
            unread.is_lost
                || unread.is_unasked
                || unread.body.size_hint().lower().saturating_add(unread.read as u64) > most as u64
        })
    }

    /// Reads and drops the rest. False if it is longer than `most`, or did not arrive whole in time: then the connection
    /// cannot be used again.
    pub(super) async fn drop_rest(&self, most: usize, timeout: Duration) -> bool {
        let dropped = async { while !self.is_beyond(most) && self.next().await.is_some() {} };
        tokio::time::timeout(timeout, dropped).await.is_ok() && !self.is_beyond(most)
    }
}

/// Reads bodies within the limits, and charges large ones that are sent; one for all connections.
#[derive(Debug)]
pub struct BodyReader {
    most: usize,
    timeout: Duration,
    /// The bytes of all bodies that are read, beyond the first [`FREE`] of each.
    budget: Arc<Semaphore>,
    /// The same of those that are sent. Apart from the other: a peer that reads nothing must not keep others from sending.
    sent: Arc<Semaphore>,
    in_all: usize,
}

impl BodyReader {
    pub(super) fn new(most: usize, in_all: usize, timeout: Duration) -> Self {
        // A body larger than the budget would wait forever.
        let in_all = in_all.max(most).min(Semaphore::MAX_PERMITS);
        let share = || Arc::new(Semaphore::new(in_all));
        Self { most, timeout, budget: share(), sent: share(), in_all }
    }

    pub async fn read(&self, headers: &HeaderMap, body: &RequestBody) -> Result<Bytes, BodyProblem> {
        self.read_up_to(self.most, headers, body).await
    }

    /// Reads a body without content coding. `most` replaces the reader's limit; the budget of all bodies applies in any case.
    pub async fn read_content(
        &self,
        most: Option<usize>,
        headers: &HeaderMap,
        body: &RequestBody,
    ) -> Result<Bytes, BodyProblem> {
        match content_coding(headers) {
            Some(coding) if !body.is_empty() => Err(BodyProblem::ContentCoding(coding)),
            _ => self.read_up_to(most.unwrap_or(self.most), headers, body).await,
        }
    }

    async fn read_up_to(&self, most: usize, headers: &HeaderMap, body: &RequestBody) -> Result<Bytes, BodyProblem> {
        if has_other_transfer_coding(headers) {
            body.lose();
            return Err(BodyProblem::TransferCoding);
        }
        let declared = match declared_length(headers).map(usize::try_from) {
            // Chunks have no declared length, and hyper accepts only numbers as one.
            None => most,
            Some(Ok(length)) if length <= most => length,
            Some(_) => return Err(BodyProblem::TooLarge(most)),
        };
        if body.is_empty() {
            return Ok(Bytes::new());
        }
        tokio::time::timeout(self.timeout, self.collect(body, most, declared)).await.unwrap_or_else(|_| {
            body.lose();
            Err(BodyProblem::TooSlow(self.timeout))
        })
    }

    async fn collect(&self, body: &RequestBody, most: usize, declared: usize) -> Result<Bytes, BodyProblem> {
        // Even a single frame is copied, because it would keep hyper's whole read buffer alive.
        let mut joined: Vec<u8> = Vec::new();
        let mut held: Option<OwnedSemaphorePermit> = None;
        while let Some(data) = body.next().await {
            let data = data?;
            let size = joined.len() + data.len();
            if size > most {
                return Err(BodyProblem::TooLarge(most));
            }
            if size > FREE && held.is_none() {
                // Acquired for the whole body at once: bodies that wait for more while they hold a part could deadlock.
                let budget = Arc::clone(&self.budget);
                let permits = self.permits(declared.max(size));
                held = Some(budget.acquire_many_owned(permits).await.expect("the semaphore is never closed"));
            }
            joined.extend_from_slice(&data);
        }
        let body = Bytes::from(joined.into_boxed_slice());
        Ok(match held {
            // A request may be delayed for long, so its body counts until it is answered.
            Some(held) if body.len() > KEPT_BODY => Bytes::from_owner(BudgetedBytes { body, _held: held }),
            // The journal keeps and counts bodies of this size.
            _ => body,
        })
    }

    /// Charges a body that is about to be sent until its peer has taken it: one that reads nothing keeps it in memory. Fails if there
    /// is no room. The emulated API's own answers are smaller than what the system buffers for a connection.
    pub fn charge(&self, sent: ResponseBody) -> Result<ResponseBody, Busy> {
        let body = sent.rest;
        if body.len() <= FREE {
            return Ok(ResponseBody { rest: body, ..sent });
        }
        let held = Arc::clone(&self.sent).try_acquire_many_owned(self.permits(body.len())).map_err(|_| Busy)?;
        Ok(ResponseBody { rest: Bytes::from_owner(BudgetedBytes { body, _held: held }), ..sent })
    }

    fn permits(&self, size: usize) -> u32 {
        u32::try_from(size.min(self.in_all) - FREE).unwrap_or(u32::MAX)
    }
}

struct BudgetedBytes {
    body: Bytes,
    _held: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The content codings of a body as sent; `None` for `identity`.
fn content_coding(headers: &HeaderMap) -> Option<String> {
    const MAX_SHOWN: usize = 64;
    let values: Vec<&[u8]> = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let mut codings = values.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let is_coded = codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    is_coded.then(|| shorten(&values.join(&b", "[..]).escape_ascii().to_string(), MAX_SHOWN).into_owned())
}

/// True if the body has any transfer coding but `chunked`, once; several lines are one list (RFC 9110 §5.3). hyper itself refuses a list
/// that does not end with `chunked`: the end of such a body cannot be known.
pub fn has_other_transfer_coding(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(TRANSFER_ENCODING).iter().map(HeaderValue::as_bytes);
    let codings = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut codings = codings.filter(|coding| !coding.is_empty());
    codings.next().is_some_and(|first| !first.eq_ignore_ascii_case(b"chunked") || codings.next().is_some())
}

/// True if the client sends the body only when it is asked for it, by the rules that hyper has.
fn expects_continue(version: Version, headers: &HeaderMap) -> bool {
    let last = headers.get_all(EXPECT).iter().next_back();
    version > Version::HTTP_10 && last.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Maximum bytes handed to hyper at a time. It copies them behind the head, so that one write sends both, and a connection keeps
/// the buffer for as long as it lives.
const PIECE: usize = 8 * 1024;

/// The body of a message that is sent, an answer or a request: the counterpart of hyper's `Incoming`. One type, so that the code of
/// a connection is compiled once.
#[derive(Default)]
pub struct ResponseBody {
    rest: Bytes,
    stream: Option<Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>>,
}

impl ResponseBody {
    /// A body that is still being made; an error breaks the message off.
    pub fn stream(pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self { stream: Some(Box::pin(pieces)), ..Self::default() }
    }

    /// A body that is complete and sent in two chunks, as one whose length is not known.
    pub fn chunked(mut body: Bytes) -> Self {
        let first = body.split_to(body.len() / 2);
        Self::stream(futures_util::stream::iter([first, body].into_iter().filter(|piece| !piece.is_empty()).map(Ok)))
    }

    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }
}

impl<B: Into<Bytes>> From<B> for ResponseBody {
    fn from(bytes: B) -> Self {
        Self { rest: bytes.into(), ..Self::default() }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody")
            .field("rest", &self.rest)
            .field("is_stream", &self.is_stream())
            .finish_non_exhaustive()
    }
}

impl Body for ResponseBody {
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

pub(super) fn paced(body: Bytes, pace: Pace, workspace: &Workspace) -> ResponseBody {
    let (clock, slot) = (workspace.clock().clone(), workspace.agenda().slot());
    let running = clock.is_auto().then(|| workspace.agenda().begin_request());
    let paced = PacedBody {
        rest: body,
        has_begun: false,
        pace,
        clock,
        slot,
        _running: running,
        _held: workspace.agenda().hold(),
    };
    ResponseBody::stream(unfold(paced, PacedBody::next))
}

struct PacedBody {
    rest: Bytes,
    has_begun: bool,
    pace: Pace,
    clock: Clock,
    /// When the present wait ends. The slot stays due until the next wait or the end of the body.
    slot: Slot,
    /// An automatic clock stands still while the body is sent.
    _running: Option<Running>,
    _held: Running,
}

impl PacedBody {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let piece = match self.pace {
            Pace::Truncate(most) | Pace::Stall(most, _) if !self.has_begun && most > 0 && !self.rest.is_empty() => {
                Ok(self.take(most))
            }
            Pace::Truncate(_) => {
                // Lets hyper flush everything sent so far.
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
        if self.clock.is_auto() {
            return tokio::time::sleep(pause).await;
        }
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
    use super::*;

    #[test]
    fn answers_that_nobody_reads_leave_room_for_bodies_that_come_in() {
        let (size, bodies) = (64 * 1024, BodyReader::new(64 * 1024, 64 * 1024, Duration::from_secs(1)));
        let unread = bodies.charge(vec![0; 4 * size].into()).expect("there is room for one of any size");
        assert!(bodies.charge(vec![0; size].into()).is_err());
        assert_eq!(bodies.budget.available_permits(), size);
        drop(unread);
        assert!(bodies.charge(vec![0; size].into()).is_ok());
    }
}
