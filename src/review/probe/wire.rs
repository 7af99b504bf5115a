//! One request to a receiver, on a connection of its own, so that no case depends on how another one left it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{HOST, LOCATION, USER_AGENT};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::case::Transfer;
use super::delivery::Made;
use super::reply::ProbeReply;
use crate::http::outgoing::Outgoing;
use crate::webhook::dial::{DialProblem, Reach, dial_stream};
use crate::webhook::egress::Target;
use crate::webhook::link::{ByteStream, open};
use crate::workspace::FailureReason;

/// How many pieces a slow body is cut into, and the pause before each but the first.
const PIECES: usize = 8;
const PAUSE: Duration = Duration::from_millis(125);
/// Most bytes of an answer's body that are kept.
const MOST_TEXT: usize = 512;

/// Sends a request and reads the answer. The caller limits how long this may take.
pub(super) async fn exchange(
    target: &Target,
    addresses: &[SocketAddr],
    reach: &Reach,
    connect_timeout: Duration,
    made: Made,
) -> Result<ProbeReply, DialProblem> {
    let stream = dial_stream(target, addresses, reach, connect_timeout).await?;
    Ok(answer(stream, target, made).await.unwrap_or_else(|error| {
        let (reason, what) = if error.is_parse() {
            (FailureReason::InvalidAnswer, "the answer is not valid HTTP")
        } else {
            (FailureReason::ConnectionReset, "the connection was closed before there was an answer")
        };
        ProbeReply::Failed { reason, detail: format!("{what}: {error}") }
    }))
}

async fn answer(stream: Box<dyn ByteStream>, target: &Target, made: Made) -> Result<ProbeReply, hyper::Error> {
    let names = if made.transfer == Transfer::UpperCaseNames { Part::FirstLine } else { Part::Untouched };
    let mut sender = open(Box::new(UpperCaseNames { stream, part: names })).await?;
    let response = sender.send_request(request(target, made)).await?;
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut body = response.into_body();
    let mut text = Vec::new();
    // Only the status counts; a body that does not end in time must not change it.
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(frame.data_ref().map_or(&[][..], Bytes::as_ref));
            if text.len() >= MOST_TEXT {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(PAUSE, read).await;
    text.truncate(MOST_TEXT);
    Ok(ProbeReply::Answered { status, location, text: String::from_utf8_lossy(&text).into_owned() })
}

fn request(target: &Target, made: Made) -> Request<Outgoing> {
    let body = match made.transfer {
        Transfer::InPieces => in_pieces(made.body),
        Transfer::AtOnce | Transfer::UpperCaseNames => made.body.into(),
    };
    let mut request = Request::builder().method(made.method).uri(target.uri.clone()).header(HOST, target.host.clone());
    request = request.header(USER_AGENT, concat!("wrs-emulator/", env!("CARGO_PKG_VERSION"), " probe"));
    for (name, value) in made.headers {
        request = request.header(name, value);
    }
    request.body(body).expect("ids, numbers and signatures are valid in headers")
}

fn in_pieces(body: Bytes) -> Outgoing {
    let size = body.len().div_ceil(PIECES).max(1);
    let pieces = stream::unfold((body, true), move |(mut rest, is_first)| async move {
        if rest.is_empty() {
            return None;
        }
        if !is_first {
            tokio::time::sleep(PAUSE).await;
        }
        let piece = rest.split_to(size.min(rest.len()));
        Some((Ok(piece), (rest, false)))
    });
    Outgoing::stream(pieces)
}

/// The part of a request that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    FirstLine,
    Name,
    Value,
    Untouched,
}

impl Part {
    /// The byte to write in place of this one, and the part that the next one belongs to.
    fn step(self, byte: u8) -> (u8, Self) {
        match (self, byte) {
            (Self::FirstLine | Self::Value, b'\n') => (byte, Self::Name),
            (Self::Name, b'\r' | b'\n') => (byte, Self::Untouched),
            (Self::Name, b':') => (byte, Self::Value),
            (Self::Name, _) => (byte.to_ascii_uppercase(), self),
            _ => (byte, self),
        }
    }
}

/// A stream that writes the names of headers in upper case: hyper writes them in lower case, and HTTP/1.1 clients of other
/// languages do not.
struct UpperCaseNames {
    stream: Box<dyn ByteStream>,
    part: Part,
}

impl AsyncRead for UpperCaseNames {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for UpperCaseNames {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.part == Part::Untouched {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let mut part = self.part;
        // What follows after each byte is kept, as the stream may take only some of them.
        let changed: Vec<(u8, Part)> = bytes
            .iter()
            .map(|byte| {
                let (byte, next) = part.step(*byte);
                part = next;
                (byte, next)
            })
            .collect();
        let written: Vec<u8> = changed.iter().map(|(byte, _)| *byte).collect();
        let result = Pin::new(&mut self.stream).poll_write(cx, &written);
        if let Poll::Ready(Ok(count @ 1..)) = result {
            self.part = changed[count - 1].1;
        }
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_headers_are_changed() {
        let mut part = Part::FirstLine;
        let changed: Vec<u8> = b"POST /a:b HTTP/1.1\r\nhost: x:1\r\nwebhook-id: evt_a\r\n\r\nbody: x\nb: y"
            .iter()
            .map(|byte| {
                let (byte, next) = part.step(*byte);
                part = next;
                byte
            })
            .collect();
        assert_eq!(
            String::from_utf8(changed).expect("text"),
            "POST /a:b HTTP/1.1\r\nHOST: x:1\r\nWEBHOOK-ID: evt_a\r\n\r\nbody: x\nb: y"
        );
    }
}
