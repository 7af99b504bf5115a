//! The handler of a connection, and the limits on connections.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};

use crate::clock::Now;
use crate::contract::variation::HeaderLetters;
use crate::http::body::{BodyReader, RequestBody, ResponseBody};
use crate::http::connection_state::ConnectionState;

pub const PLAIN_ON_TLS: &str = "this is plain HTTP on a TLS port: use https://";

/// Answers requests. Always behind `dyn`, so that the code of a connection is compiled once.
pub trait Handler: Send + Sync + 'static {
    fn handle(&self, request: Request<RequestBody>, connection: &Arc<ConnectionState>) -> HandlerResponse;

    fn now(&self) -> Now;

    /// The letters of header names in the answers of a connection that begins.
    fn header_names(&self) -> HeaderLetters {
        HeaderLetters::Lower
    }

    /// Logs a problem of a connection that never came to a request.
    fn warn(&self, message: &str);

    /// Answers a request that hyper could not parse or never saw, with this status. Returns the answer's head and body
    /// as bytes; the connection ends after them.
    fn refuse(&self, status: StatusCode, sent: Unreadable) -> Bytes;
}

/// Most answers are ready, and spare hyper a large future.
pub enum HandlerResponse {
    Ready(Response<ResponseBody>),
    Later(Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Garbage,
    /// A TLS handshake on a port without TLS.
    Tls,
    PlainHttp,
    /// The preface of HTTP/2, which a client sends if it expects that (RFC 9113 §3.3).
    Http2,
}

pub const NO_HTTP_2: &str = "HTTP/2 is not supported: use HTTP/1.1";

/// Limits on each peer and on all together; each is a flag of `serve`. Deadlines follow the machine's time and not the emulator's
/// clock, because they protect the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub header_bytes: usize,
    pub header_fields: usize,
    pub uri_bytes: usize,
    /// Bytes of a request body, on every route.
    pub body_bytes: usize,
    /// Bytes of all large bodies at a time: of requests that are being read, and again of answers that are being sent.
    pub body_bytes_in_all: usize,
    /// Connections at a time. Further ones wait in the kernel's queue, and the oldest that has sent no request is closed for them.
    pub connections: usize,
    /// For a header block, from the connect or from its first byte.
    pub header_timeout: Duration,
    /// For a request body.
    pub body_timeout: Duration,
    /// Between two requests of one connection.
    pub idle_timeout: Duration,
    /// For a peer that does not read bytes.
    pub write_timeout: Duration,
}

impl Limits {
    pub fn body_reader(&self) -> BodyReader {
        BodyReader::new(self.body_bytes, self.body_bytes_in_all, self.body_timeout)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 16 * 1024,
            header_fields: 64,
            uri_bytes: 8 * 1024,
            body_bytes: 256 * 1024,
            body_bytes_in_all: 32 * 1024 * 1024,
            connections: 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_secs(30),
        }
    }
}
