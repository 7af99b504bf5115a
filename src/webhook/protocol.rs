//! The protocol of a server that does not speak HTTP/1.1, recognised by its first bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::egress::{DialProblem, DialTarget};
use crate::redact::Redactor;
use crate::state::workspace::FailureReason;

/// How many of the first bytes are kept at most.
const MAX_FIRST: usize = 128;

/// A connection that keeps the first bytes which the server sends.
#[derive(Debug)]
pub(super) struct Overheard<S> {
    stream: S,
    first: FirstBytes,
    /// How many more are kept.
    room: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl<S> Overheard<S> {
    pub(super) fn new(stream: S) -> (Self, FirstBytes) {
        let first = FirstBytes::default();
        (Self { stream, first: first.clone(), room: MAX_FIRST }, first)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Overheard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if self.room > 0 {
            let read = &buf.filled()[before..];
            let kept = read.len().min(self.room);
            self.first.0.lock().extend_from_slice(&read[..kept]);
            self.room -= kept;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Overheard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    Tls,
    Other(&'static str),
    Unknown,
}

/// The first bytes of servers of other protocols, sent unasked or because they do not understand the request.
const GREETINGS: [(&[u8], &str); 14] = [
    (b"SSH-", "SSH"),
    (b"220 ", "SMTP or FTP"),
    (b"220-", "SMTP or FTP"),
    (b"* OK", "IMAP"),
    (b"+OK", "POP3"),
    (b"-ERR", "Redis"),
    (b"-NOAUTH", "Redis"),
    (b"-DENIED", "Redis"),
    (b"ERROR\r\n", "memcached"),
    (b"INFO {", "NATS"),
    (b"AMQP", "AMQP"),
    (b"RFB ", "VNC"),
    // Errors of its versions 3 and 2.
    (b"E\x00\x00\x00", "PostgreSQL"),
    (b"EFATAL", "PostgreSQL"),
];

impl Protocol {
    /// `None` if nothing was received.
    fn of(first: &[u8]) -> Option<Self> {
        // The length of a frame is three bytes; SETTINGS and GOAWAY are about the connection, which is stream 0.
        const SETTINGS: u8 = 4;
        const GOAWAY: u8 = 7;
        let name = GREETINGS.iter().find(|(greeting, _)| first.starts_with(greeting));
        Some(match first {
            [] => return None,
            // An alert or a handshake.
            [0x15 | 0x16, 3, ..] => Self::Tls,
            [0, _, _, SETTINGS | GOAWAY, _, 0, 0, 0, 0, ..] => Self::Http2,
            // A greeting of version 10, or an error.
            [_, _, 0, 0, 0x0a | 0xff, ..] => Self::Other("MySQL"),
            _ if name.is_some() => Self::Other(name?.1),
            _ if is_http(first.trim_ascii_start()) => Self::Http1,
            _ => Self::Unknown,
        })
    }
}

/// True for the beginning of an answer, which may be cut anywhere.
fn is_http(first: &[u8]) -> bool {
    let name = b"HTTP/";
    first.starts_with(name) || name.starts_with(first)
}

impl FirstBytes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Why the server did not answer, if it speaks something other than HTTP/1.1, with or without TLS as `target` says.
    pub(super) fn other_protocol(&self, target: &DialTarget) -> Option<DialProblem> {
        let first = self.0.lock();
        let (reason, detail) = match Protocol::of(&first)? {
            Protocol::Http1 => return None,
            Protocol::Tls if target.url.scheme() == "https" => return None,
            Protocol::Tls => {
                let problem = DialProblem::new(FailureReason::TlsExpected, "the receiver expects TLS there");
                return Some(problem.with_hint(Some(target.over_other_scheme())));
            }
            Protocol::Http2 => {
                let what = "the receiver speaks HTTP/2 there, and deliveries are sent over HTTP/1.1: let it accept HTTP/1.1 as well";
                (FailureReason::NotHttp, what.to_owned())
            }
            Protocol::Other(name) => {
                (FailureReason::NotHttp, format!("{name} answers there, not HTTP; is the port right?"))
            }
            Protocol::Unknown => {
                let begin = quoted(&first);
                (FailureReason::NotHttp, format!("the answer is not HTTP: it begins with {begin}; is the port right?"))
            }
        };
        Some(DialProblem::new(reason, detail).with_hint(target.elsewhere()))
    }

    /// The line with which an answer begins.
    pub(super) fn quoted(&self) -> String {
        quoted(&self.0.lock())
    }
}

/// The first line of an answer that HTTP or JSON would explain, the first word of any other text, or else bytes. The further words of
/// a protocol that is not known may be a password, such as those of `AUTH`.
fn quoted(first: &[u8]) -> String {
    // A character may be cut at the end.
    let text = std::str::from_utf8(first).or_else(|error| match error.error_len() {
        None => std::str::from_utf8(&first[..error.valid_up_to()]),
        Some(_) => Err(error),
    });
    let is_control = |c: char| c.is_control() && !c.is_ascii_whitespace();
    let line = text.ok().filter(|text| !text.contains(is_control)).and_then(|text| {
        // A credential that was cut is not recognised, so the word at the cut is left out.
        let whole = if first.len() < MAX_FIRST { text } else { text.rsplit_once(char::is_whitespace)?.0 };
        let line = Redactor::default().first_line(whole.as_bytes())?;
        let is_known = is_http(line.as_bytes()) || line.starts_with(['{', '[', '<']);
        match line.split_once(char::is_whitespace).filter(|_| !is_known) {
            Some((word, _)) => Some(format!("`{word} …`")),
            None => Some(format!("`{line}`")),
        }
    });
    line.unwrap_or_else(|| {
        let bytes = first.iter().take(8).map(|byte| format!("{byte:02x}"));
        format!("the bytes {}", bytes.collect::<Vec<_>>().join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_known_by_their_first_bytes() {
        for (first, expected) in [
            (&b""[..], None),
            (b"HTTP/1.1 200 OK\r\n", Some(Protocol::Http1)),
            (b"\r\nHT", Some(Protocol::Http1)),
            (b"\x15\x03\x01\x00\x02\x02\x46", Some(Protocol::Tls)),
            (b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", Some(Protocol::Http2)),
            (b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", Some(Protocol::Http2)),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Some(Protocol::Other("SSH"))),
            (b"220 mail.example.com ESMTP\r\n", Some(Protocol::Other("SMTP or FTP"))),
            (b"-ERR unknown command 'POST'\r\n", Some(Protocol::Other("Redis"))),
            (b"E\x00\x00\x00\x8fSFATAL\x00", Some(Protocol::Other("PostgreSQL"))),
            (b"J\x00\x00\x00\x0a8.0.36\x00", Some(Protocol::Other("MySQL"))),
            (b"AMQP\x00\x00\x09\x01", Some(Protocol::Other("AMQP"))),
            (b"<html>", Some(Protocol::Unknown)),
            (b"\x80\x81", Some(Protocol::Unknown)),
        ] {
            assert_eq!(Protocol::of(first), expected, "{}", first.escape_ascii());
        }
    }

    #[test]
    fn what_a_server_sent_is_quoted_as_text_or_as_bytes() {
        for (first, expected) in [
            (&b"hello\nworld"[..], "`hello`"),
            (b"sk_live_0123456789abcdef is your key", "`sk_live_…cdef …`"),
            (b"AUTH hunter2\r\n", "`AUTH …`"),
            (b"334 aHVudGVyMg==\r\n", "`334 …`"),
            (b"<title>Please log in</title>", "`<title>Please log in</title>`"),
            (b"{\"error\": \"no\", \"token\": \"hunter2\"}\n", "`{\"error\":\"no\",\"token\":\"…\"}`"),
            ("caf\u{e9}".as_bytes().split_last().expect("bytes").1, "`caf`"),
            (b"a\x00b", "the bytes 61 00 62"),
            (
                format!("{} https://user:hunter2", "z".repeat(MAX_FIRST - 21)).as_bytes(),
                &*format!("`{}`", "z".repeat(MAX_FIRST - 21)),
            ),
            (b"\x80\x81\x82\x83\x84\x85\x86\x87\x88", "the bytes 80 81 82 83 84 85 86 87"),
        ] {
            assert_eq!(quoted(first), expected);
        }
    }
}
