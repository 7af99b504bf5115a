//! Reads request bodies, limited in size, in time, and in the memory of all of them together.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contract::error::ErrorKind;
use crate::http::limits::Limits;
use crate::state::journal::KEPT_BODY;

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
    #[error("the content coding `{0}` is not read; send the body as it is, without Content-Encoding")]
    ContentCoding(String),
}

impl BodyProblem {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge(_) => ErrorKind::PayloadTooLarge,
            Self::TooSlow(_) => ErrorKind::RequestTimeout,
            Self::Malformed => ErrorKind::BadRequest,
            Self::TransferCoding | Self::ContentCoding(_) => ErrorKind::UnsupportedMediaType,
        }
    }
}

/// Reads bodies within the limits; one for all connections.
#[derive(Debug)]
pub struct BodyReader {
    most: usize,
    timeout: Duration,
    budget: Arc<Semaphore>,
}

impl BodyReader {
    pub fn new(limits: &Limits) -> Self {
        // A body larger than the budget would wait forever.
        let in_all = limits.body_bytes_in_all.max(limits.body_bytes).min(Semaphore::MAX_PERMITS);
        Self { most: limits.body_bytes, timeout: limits.body_timeout, budget: Arc::new(Semaphore::new(in_all)) }
    }

    pub async fn read(&self, headers: &HeaderMap, body: Incoming) -> Result<Bytes, BodyProblem> {
        self.read_up_to(self.most, headers, body).await
    }

    /// Reads a body without content coding. `most` replaces the reader's limit; the budget of all bodies applies in any case.
    pub async fn read_content(
        &self,
        most: Option<usize>,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Bytes, BodyProblem> {
        match content_coding(headers) {
            Some(coding) if !body.is_end_stream() => Err(BodyProblem::ContentCoding(coding)),
            _ => self.read_up_to(most.unwrap_or(self.most), headers, body).await,
        }
    }

    async fn read_up_to(&self, most: usize, headers: &HeaderMap, mut body: Incoming) -> Result<Bytes, BodyProblem> {
        if has_other_transfer_coding(headers) {
            return Err(BodyProblem::TransferCoding);
        }
        let declared = match declared_length(headers).map(usize::try_from) {
            // Chunks have no declared length, and hyper accepts only numbers as one.
            None => most,
            Some(Ok(length)) if length <= most => length,
            Some(_) => return Err(BodyProblem::TooLarge(most)),
        };
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        match tokio::time::timeout(self.timeout, self.collect(&mut body, most, declared)).await {
            Ok(read) => read,
            Err(_) => Err(BodyProblem::TooSlow(self.timeout)),
        }
    }

    async fn collect(&self, body: &mut Incoming, most: usize, declared: usize) -> Result<Bytes, BodyProblem> {
        // Even a single frame is copied, as it would keep hyper's whole read buffer alive.
        let mut joined: Vec<u8> = Vec::new();
        let mut held: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyProblem::Malformed)?.into_data() else { continue };
            let size = joined.len() + data.len();
            if size > most {
                return Err(BodyProblem::TooLarge(most));
            }
            if size > FREE && held.is_none() {
                // Acquired for the whole body at once: bodies that wait for more while they hold a part could deadlock.
                let parts = u32::try_from(declared.max(size) - FREE).unwrap_or(u32::MAX);
                let budget = Arc::clone(&self.budget);
                held = Some(budget.acquire_many_owned(parts).await.expect("the semaphore is never closed"));
            }
            joined.extend_from_slice(&data);
        }
        let body = Bytes::from(joined.into_boxed_slice());
        Ok(match held {
            // A request may be delayed for long, so its body counts until it is answered.
            Some(held) if body.len() > KEPT_BODY => Bytes::from_owner(Counted { body, _held: held }),
            // The journal keeps and counts bodies of this size.
            _ => body,
        })
    }
}

struct Counted {
    body: Bytes,
    _held: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The content codings of a body as sent; `None` for `identity`.
fn content_coding(headers: &HeaderMap) -> Option<String> {
    const MOST_SHOWN: usize = 64;
    let values: Vec<&[u8]> = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let mut codings = values.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let is_coded = codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    is_coded.then(|| values.join(&b", "[..]).escape_ascii().to_string().chars().take(MOST_SHOWN).collect())
}

fn has_other_transfer_coding(headers: &HeaderMap) -> bool {
    headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}
