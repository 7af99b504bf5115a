//! A client that sends any bytes, and what it expects of answers.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wrs_emulator::Emulator;

use crate::support::{Answer, PATIENCE, view};

/// A small request that is answered with 200 and keeps its connection.
pub(crate) const GOOD: &[u8] = b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// One connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Peer {
    pub(crate) async fn connect(emulator: &Emulator) -> Self {
        Self::connect_to(emulator.base_url().trim_start_matches("http://")).await
    }

    pub(crate) async fn connect_to(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the emulator listens");
        Self { stream, read: Vec::new() }
    }

    /// Connects and sends.
    pub(crate) async fn sending(emulator: &Emulator, bytes: impl AsRef<[u8]>) -> Self {
        let mut peer = Self::connect(emulator).await;
        peer.send(bytes).await;
        peer
    }

    /// Sends; the emulator may have had enough before everything is out.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = timeout(PATIENCE, self.stream.write_all(bytes.as_ref())).await.expect("the bytes are taken in time");
    }

    async fn read_more(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await.expect("an answer or the end in time");
        read.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&self.read))) > 0
    }

    /// The head of the next answer; its body, if it has one, is read by [`Peer::answer`].
    pub(crate) async fn head(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_more().await, "the end before an answer: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head: Vec<u8> = self.read.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head of text");
        let mut lines = head.split("\r\n");
        let line = lines.next().expect("a status line");
        assert!(line.starts_with("HTTP/1."), "{line}");
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            let name: HeaderName = name.parse().expect("a header name");
            headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        }
        Answer { status: line[9..12].parse().expect("a status"), headers, body: hyper::body::Bytes::new() }
    }

    /// The next answer, with as much body as its `Content-Length` says.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let size: usize = head.header("content-length").map_or(0, |text| text.parse().expect("a number"));
        while self.read.len() < size {
            assert!(self.read_more().await, "the end within a body");
        }
        let body: Vec<u8> = self.read.drain(..size).collect();
        Answer { body: body.into(), ..head }
    }

    /// Everything that has come once this text has.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            let read = String::from_utf8_lossy(&self.read).into_owned();
            if read.contains(text) {
                return read;
            }
            assert!(self.read_more().await, "the end before {text:?}: {read}");
        }
    }

    /// Everything up to an orderly end, whatever it is.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.read_more().await {}
        std::mem::take(&mut self.read)
    }

    /// The connection ends in order and nothing more comes.
    pub(crate) async fn ends(&mut self) {
        let rest = self.rest().await;
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }

    /// The connection ends, in order or by a reset, and nothing more comes.
    pub(crate) async fn is_gone(&mut self) {
        let mut byte = [0];
        let read = timeout(PATIENCE, self.stream.read(&mut byte)).await.expect("the end in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{byte:?}");
    }

    /// The connection ends, in order or by a reset, whatever comes before.
    pub(crate) async fn has_ended(&mut self) {
        let read = timeout(PATIENCE, self.stream.read_to_end(&mut self.read)).await.expect("the end in time");
        drop(read);
    }

    /// Nothing has come so far.
    pub(crate) fn has_nothing(&self) {
        let mut byte = [0];
        let read = self.stream.try_read(&mut byte);
        assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{byte:?}");
    }
}

/// The answer is an error in the envelope with the id of its header, as JSON.
pub(crate) fn assert_error(answer: &Answer, status: u16, code: &str, what: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(answer.code(), code, "{what}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
    let body = answer.json();
    let error = body["error"].as_object().expect("an object");
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "request_id"], "{what}");
    assert!(error["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{what}");
    assert_eq!(error["request_id"].as_str(), answer.header("x-emulator-request-id"), "{what}");
}

/// The journal has the answer, with the same status and headers.
pub(crate) async fn assert_journaled(emulator: &Emulator, answer: &Answer) {
    let id = answer.header("x-emulator-request-id").expect("an id");
    let shown = view(emulator, &format!("requests/{id}")).await;
    assert_eq!(shown["answer"]["status"], answer.status, "{shown}");
    // Some that hyper adds are not in the journal.
    let headers = shown["answer"]["headers"].as_array().expect("headers");
    assert!(headers.iter().any(|header| header[0] == "x-emulator-request-id"), "{shown}");
    for header in headers {
        let name = header[0].as_str().expect("a name");
        assert_eq!(answer.header(name), header[1].as_str(), "{name}: {shown}");
    }
}

/// Another client gets its answer meanwhile.
pub(crate) async fn others_are_served(emulator: &Emulator) {
    assert_eq!(crate::support::get(emulator, "/v1/hello").await.status, 200);
}
