//! What is answered to bytes that are not a request: plain garbage, or the wrong one of plain HTTP and TLS. Who answers decides how it
//! looks; `connection` and the listener say what was sent.

use hyper::StatusCode;
use hyper::body::Bytes;

/// What plain HTTP is answered where TLS is spoken.
pub const PLAIN_ON_TLS: &str = "this is plain HTTP on a TLS port: use https://";

/// What was sent in place of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Bytes that are not a request.
    Garbage,
    /// A TLS handshake, where nobody speaks TLS.
    Tls,
    /// Plain HTTP, where TLS is spoken.
    PlainHttp,
}

/// Gives the answer to what hyper refused to parse, or was never shown: its status in, the whole answer's bytes out.
pub trait Refusals: Send + Sync + 'static {
    /// The answer, head and body, ending the connection.
    fn refuse(&self, status: StatusCode, sent: Sent) -> Bytes;
}
