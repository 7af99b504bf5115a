//! One exchange: the request that is sent all the time, and an answer read whole. Knows nothing of load or servers.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// A request as a small client would send it: `GET /v1/system/status` with a Bearer key.
pub(crate) const REQUEST: &[u8] = b"GET /v1/system/status HTTP/1.1\r\n\
    host: 127.0.0.1\r\n\
    user-agent: bench/1\r\n\
    accept: application/json\r\n\
    authorization: Bearer sk_test_local\r\n\r\n";

/// Room for an answer and then some.
pub(crate) const ROOM: usize = 4096;

/// What every answer begins with: nothing else counts as served.
const SERVED: &[u8] = b"HTTP/1.1 200 ";

/// The longest wait for an answer before the server is taken for broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer with status 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Names and values, without the two that hyper adds by itself (`content-length`, `date`).
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

/// Where an answer's parts end, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The end of the empty line.
    pub(crate) head: usize,
    /// The end of the body.
    pub(crate) whole: usize,
}

impl Layout {
    /// Finds the parts of an answer, as far as it has arrived. `None` while the head is incomplete.
    pub(crate) fn find(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes[..head]).map_err(io::Error::other)?;
        let length = fields(text).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: Option<usize> = length.and_then(|(_, value)| value.parse().ok());
        let length = length.ok_or_else(|| io::Error::other(format!("an answer without a length:\n{text}")))?;
        Ok(Some(Self { head, whole: head + length }))
    }

    /// True if these bytes are a served answer of just this layout: all that is looked at while measuring.
    pub(crate) fn matches(self, bytes: &[u8]) -> bool {
        bytes.len() == self.whole && bytes.starts_with(SERVED) && bytes[..self.head].ends_with(b"\r\n\r\n")
    }
}

impl Answer {
    /// The answer as a text to hand to another process.
    pub(crate) fn to_text(&self) -> String {
        json!({ "headers": self.headers, "body": self.body }).to_string()
    }

    /// Reads what [`Self::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> io::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let headers = serde_json::from_value(value["headers"].clone())?;
        let body = serde_json::from_value(value["body"].clone())?;
        Ok(Self { headers, body })
    }
}

fn fields(head: &str) -> impl Iterator<Item = (&str, &str)> {
    head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "))
}

/// Asks once over a fresh connection, and waits for the whole answer.
pub(crate) fn ask(address: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST)?;
    let mut bytes = [0; ROOM];
    let mut filled = 0;
    let layout = loop {
        filled += match stream.read(&mut bytes[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => count,
        };
        match Layout::find(&bytes[..filled])? {
            Some(layout) if filled >= layout.whole => break layout,
            _ => {}
        }
    };
    let text = String::from_utf8_lossy(&bytes[..filled]).into_owned();
    if !layout.matches(&bytes[..filled]) {
        return Err(io::Error::other(format!("not the answer expected:\n{text}")));
    }
    let (head, body) = text.split_at(layout.head);
    let headers = fields(head)
        .filter(|(name, _)| !["content-length", "date"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Ok(Answer { headers, body: body.to_owned() })
}
