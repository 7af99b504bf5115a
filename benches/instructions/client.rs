//! The load: 16 keep-alive connections in step. Each round writes one request to every connection, then reads every answer.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Connections in all.
pub(crate) const CONNECTIONS: usize = 16;
/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// An answer: its head, with the status line, and its body.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// Names and values without the two that hyper adds by itself.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(name, _)| !["content-length", "date"].contains(name))
    }
}

/// Sends `count` requests, rounded down to a multiple of the connections, and gives the last answer; each must have this status.
pub(crate) fn send(port: u16, count: usize, status: u16, request: impl Fn(usize) -> String) -> io::Result<Answer> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(port)?);
    }
    let mut last = None;
    for round in 0..count / CONNECTIONS {
        for (place, connection) in connections.iter_mut().enumerate() {
            connection.stream.write_all(request(round * CONNECTIONS + place).as_bytes())?;
        }
        for connection in &mut connections {
            let answer = connection.read()?;
            if answer.status() != status {
                return Err(io::Error::other(format!("expected {status}, got:\n{}{}", answer.head, answer.body)));
            }
            last = Some(answer);
        }
    }
    last.ok_or_else(|| io::Error::other("no request was sent"))
}

/// One request over its own connection.
pub(crate) fn ask(port: u16, request: &str) -> io::Result<Answer> {
    let mut connection = Connection::open(port)?;
    connection.stream.write_all(request.as_bytes())?;
    connection.read()
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    fn read(&mut self) -> io::Result<Answer> {
        self.buffer.clear();
        loop {
            if let Some(answer) = complete(&self.buffer) {
                return Ok(answer);
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                size => self.buffer.extend_from_slice(&piece[..size]),
            }
        }
    }
}

/// The answer, if all of it has arrived.
fn complete(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap_or_default());
    (body.len() >= length).then(|| Answer { head: head.to_owned(), body: body.to_owned() })
}
