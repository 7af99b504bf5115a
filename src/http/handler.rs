//! What a connection asks of the API that it serves: an answer to each request, and one to bytes that are not a request.

use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;

use crate::clock::Now;
use crate::http::connection::Progress;
use crate::http::outgoing::Outgoing;

/// The answer to plain HTTP on a TLS port.
pub const PLAIN_ON_TLS: &str = "this is plain HTTP on a TLS port: use https://";

/// What answers requests. Always behind `dyn`, so that the code of a connection is compiled once.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request; never fails and never panics.
    fn handle(&self, request: Request<Incoming>, progress: &Arc<Progress>) -> Answering;

    /// The time for an entry of the journal.
    fn now(&self) -> Now;

    /// Its wall time alone.
    fn wall(&self) -> Timestamp;

    /// Answers bytes that hyper refused to parse, with this status, or that it was never given. Returns the answer's head and body
    /// as bytes; the connection ends after them.
    fn refuse(&self, status: StatusCode, sent: Sent) -> Bytes;
}

/// An answer that is ready, or one that has to be waited for. Most are ready, and spare hyper a large future.
pub enum Answering {
    /// It is ready.
    Ready(Response<Outgoing>),
    /// It has to be waited for.
    Later(Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>),
}

/// What was sent in place of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Bytes that are not a request.
    Garbage,
    /// A TLS handshake on a port without TLS.
    Tls,
    /// Plain HTTP on a TLS port.
    PlainHttp,
}
