//! A client of HTTP/1.1 over the simulated network, which shares no code with the emulator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use wrs_emulator::util::net::simulated::TcpStream;

pub(crate) const PORT: u16 = 9770;
/// No answer in the world lasts as long.
const PATIENCE: Duration = Duration::from_secs(400);

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn id(&self) -> Option<String> {
        self.header("x-emulator-request-id").map(str::to_owned)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub(crate) fn emulator() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
}

/// A connection, and what was read of the next message.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) fn of(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn open(from: IpAddr) -> Option<Self> {
        TcpStream::connect_from(from, emulator()).await.ok().map(Self::of)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Option<()> {
        timeout(PATIENCE, self.stream.write_all(bytes)).await.ok()?.ok()
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    async fn more(&mut self) -> Option<()> {
        let mut piece = [0; 4096];
        let size = timeout(PATIENCE, self.stream.read(&mut piece)).await.ok()?.ok().filter(|size| *size > 0)?;
        self.read.extend_from_slice(&piece[..size]);
        Some(())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.read.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).ok();
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, size: usize) -> Option<Vec<u8>> {
        while self.read.len() < size {
            self.more().await?;
        }
        Some(self.read.drain(..size).collect())
    }

    /// The first line and the headers, names in small letters.
    pub(crate) async fn head(&mut self) -> Option<(String, Vec<(String, String)>)> {
        let first = self.line().await?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some((first, headers));
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    pub(crate) async fn sized_body(&mut self, headers: &[(String, String)]) -> Option<Vec<u8>> {
        let size = headers.iter().find(|(name, _)| name == "content-length");
        self.exactly(size.map_or(Some(0), |(_, size)| size.parse().ok())?).await
    }

    /// The next answer; `None` if the connection broke off, or what came is no answer.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let (first, headers) = self.head().await?;
        let status = first.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_chunked {
            let mut body = Vec::new();
            while let Some(chunk) = self.chunk().await? {
                body.extend(chunk);
            }
            body
        } else {
            self.sized_body(&headers).await?
        };
        Some(Answer { status, headers, body })
    }

    /// The next chunk of a body; within, `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line().await?, 16).ok()?;
        let chunk = self.exactly(size).await?;
        self.line().await?;
        Some((size > 0).then_some(chunk))
    }
}

/// Makes a call of the control API.
pub(crate) async fn control(method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
    let mut connection = Connection::open(Ipv4Addr::LOCALHOST.into()).await?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} /_emulator/{path} HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection.send(request.as_bytes()).await?;
    connection.answer().await
}
