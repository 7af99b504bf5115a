//! What a connection asks of the API that it serves: an answer to each request, and one to bytes that are not a request.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use jiff::Timestamp;

use crate::clock::Now;
use crate::http::outgoing::Outgoing;
use crate::http::progress::Progress;

pub const PLAIN_ON_TLS: &str = "this is plain HTTP on a TLS port: use https://";

/// What answers requests. Always behind `dyn`, so that the code of a connection is compiled once.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request; never fails and never panics.
    fn handle(&self, request: Request<Incoming>, progress: &Arc<Progress>) -> Answering;

    fn now(&self) -> Now;

    fn wall(&self) -> Timestamp;

    /// Answers bytes that hyper refused to parse, with this status, or that it was never given. Returns the answer's head and body
    /// as bytes; the connection ends after them.
    fn refuse(&self, status: StatusCode, sent: Sent) -> Bytes;
}

/// Most answers are ready, and spare hyper a large future.
pub enum Answering {
    Ready(Response<Outgoing>),
    Later(Pin<Box<dyn Future<Output = Response<Outgoing>> + Send>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Garbage,
    /// A TLS handshake on a port without TLS.
    Tls,
    PlainHttp,
}

/// Runs a future to its end; `Err` carries the message of a panic.
pub async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// Runs a function to its end; `Err` as for [`caught`].
pub fn caught_now<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(function)).map_err(|panic| text_of(&*panic))
}

/// The message of a panic; empty where it has none.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fail(with_text: bool) -> u8 {
        // Panics after the first suspension, too.
        tokio::task::yield_now().await;
        if with_text { panic!("number {}", 7) } else { std::panic::panic_any(7) }
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_the_next_future_runs() {
        assert_eq!(caught(async { panic!("plain") }).await, Err::<u8, _>("plain".to_owned()));
        assert_eq!(caught(fail(true)).await, Err("number 7".to_owned()));
        assert_eq!(caught(fail(false)).await, Err(String::new()));
        assert_eq!(caught(async { 7 }).await, Ok(7));
        assert_eq!(caught_now(|| panic!("now")), Err::<u8, _>("now".to_owned()));
        assert_eq!(caught_now(|| 7), Ok(7));
    }
}
