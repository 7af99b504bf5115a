//! Reading request bodies: bounded in size, in time, and in what all of them together hold.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::limits::Limits;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyProblem {
    /// Larger than the limit.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// Not all of it came in time.
    #[error("the body did not arrive within {} s", .0.as_secs_f64())]
    TooSlow(Duration),
    /// A malformed chunk, or an end before its length.
    #[error("the body is malformed: a bad chunk, or it ended early")]
    Malformed,
    /// A transfer coding other than `chunked`.
    #[error("the only transfer coding taken is chunked")]
    TransferCoding,
}

/// Reads bodies within the limits; one for all connections.
#[derive(Debug)]
pub struct BodyReader {
    most: usize,
    timeout: Duration,
    budget: Arc<Semaphore>,
}

impl BodyReader {
    /// A reader with these limits.
    pub fn new(limits: &Limits) -> Self {
        let in_all = limits.body_bytes_in_all.max(limits.body_bytes).min(Semaphore::MAX_PERMITS);
        Self { most: limits.body_bytes, timeout: limits.body_timeout, budget: Arc::new(Semaphore::new(in_all)) }
    }

    /// Reads a body whole. One that declares too great a length is refused unread.
    pub async fn read(&self, headers: &HeaderMap, mut body: Incoming) -> Result<Bytes, BodyProblem> {
        if has_other_transfer_coding(headers) {
            return Err(BodyProblem::TransferCoding);
        }
        if declared_length(headers).is_some_and(|length| length > self.most as u64) {
            return Err(BodyProblem::TooLarge(self.most));
        }
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        match tokio::time::timeout(self.timeout, self.collect(&mut body)).await {
            Ok(read) => read,
            Err(_) => Err(BodyProblem::TooSlow(self.timeout)),
        }
    }

    async fn collect(&self, body: &mut Incoming) -> Result<Bytes, BodyProblem> {
        let mut first = Bytes::new();
        let mut joined: Vec<u8> = Vec::new();
        // Given back when the body is read: from then on the connection's one request at a time bounds it.
        let mut held: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyProblem::Malformed)?.into_data() else { continue };
            if first.len() + joined.len() + data.len() > self.most {
                return Err(BodyProblem::TooLarge(self.most));
            }
            let size = u32::try_from(data.len()).map_err(|_| BodyProblem::TooLarge(self.most))?;
            let permit =
                Arc::clone(&self.budget).acquire_many_owned(size).await.expect("the semaphore is never closed");
            match &mut held {
                Some(held) => held.merge(permit),
                None => held = Some(permit),
            }
            // Most bodies come in one piece.
            match (first.is_empty(), joined.is_empty()) {
                (true, true) => first = data,
                (false, _) => {
                    joined.reserve(first.len() + data.len());
                    joined.extend_from_slice(&std::mem::take(&mut first));
                    joined.extend_from_slice(&data);
                }
                (true, false) => joined.extend_from_slice(&data),
            }
        }
        Ok(if joined.is_empty() { Bytes::copy_from_slice(&first) } else { Bytes::from(joined) })
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn has_other_transfer_coding(headers: &HeaderMap) -> bool {
    headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}
