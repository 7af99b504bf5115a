//! Small receivers that `review probe` is tried on: a sound one, and what broken ones are made of.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use standardwebhooks::Webhook;
use wrs_emulator::clock::machine;
use wrs_emulator::contract::signature::{CustomScheme, KeyReading, Message, Scheme, SchemeName, SigningKey, sign_as};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request as a receiver reads it.
pub(crate) struct Request {
    pub(crate) method: String,
    /// As they were written.
    pub(crate) lines: Vec<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether the body came with the head or right after it.
    pub(crate) at_once: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// True if the library of Standard Webhooks accepts it.
    pub(crate) fn verifies(&self) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str()).expect("a name");
            headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        }
        Webhook::new(SECRET).expect("a secret").verify(&self.body, &headers).is_ok()
    }

    /// The signature that this body, id and timestamp must have under a reading of the secret.
    pub(crate) fn expected(&self, body: &[u8], reading: KeyReading) -> String {
        let scheme = Scheme::new(SchemeName::Standard, &CustomScheme::default());
        let key = SigningKey::read(SECRET, &scheme, reading).expect("a key");
        let message = Message { id: self.header("webhook-id"), timestamp: 0, url: "", body };
        sign_as(&scheme, &[key], &message, self.header("webhook-timestamp").to_owned()).signatures.concat()
    }

    pub(crate) fn is_signed(&self, expected: &str) -> bool {
        self.header("webhook-signature").split(' ').any(|found| found == expected)
    }

    /// True if the timestamp is a number that is not far off.
    pub(crate) fn is_recent(&self) -> bool {
        let now = machine::wall_time().as_second();
        self.header("webhook-timestamp").parse::<i64>().is_ok_and(|timestamp| (now - timestamp).abs() <= 300)
    }
}

/// What a receiver does.
pub(crate) enum Does {
    Answers(u16),
    Says(u16, &'static str),
    Redirects,
    /// To the same address over https.
    RedirectsToHttps,
    Resets,
    Hangs,
}

use Does::Answers;

type Behaviour = dyn Fn(&Request) -> Does + Send + Sync;

/// Starts a receiver; it runs until the tests end.
pub(crate) fn receiver(behaviour: impl Fn(&Request) -> Does + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let behaviour: Arc<Behaviour> = Arc::new(behaviour);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behaviour = Arc::clone(&behaviour);
            thread::spawn(move || handle(stream, &*behaviour));
        }
    });
    address
}

fn handle(mut stream: TcpStream, behaviour: &Behaviour) {
    let Some(request) = read(&mut stream) else { return };
    let mut body = "from the \u{1b}receiver\n";
    let answer = match behaviour(&request) {
        Does::Resets => return,
        Does::Hangs => {
            let _ = stream.read(&mut [0; 1]);
            return;
        }
        Does::Redirects => "302 Found\r\nlocation: https://app.example.com/login".to_owned(),
        Does::RedirectsToHttps => format!("308 Permanent Redirect\r\nlocation: https://{}/", request.header("host")),
        Answers(status) => format!("{status} Whatever"),
        Does::Says(status, text) => {
            body = text;
            format!("{status} Whatever")
        }
    };
    if request.method == "HEAD" || answer.starts_with("204") {
        body = "";
    }
    let length = if answer.starts_with("204") { String::new() } else { format!("\r\ncontent-length: {}", body.len()) };
    let _ = write!(stream, "HTTP/1.1 {answer}{length}\r\nconnection: close\r\n\r\n{body}");
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let (mut bytes, mut part, mut reads) = (Vec::new(), [0; 16384], 0);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let lines: Vec<String> = head.lines().map(str::to_owned).collect();
    let named = lines[1..].iter().filter_map(|line| line.split_once(':'));
    let headers: BTreeMap<String, String> =
        named.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
    let is_chunked = headers.contains_key("transfer-encoding");
    while is_chunked && !bytes.ends_with(b"\r\n0\r\n\r\n") {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
    }
    while bytes.len() < end + 4 + length {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
        reads += 1;
    }
    let method = head.split(' ').next()?.to_owned();
    let rest = &bytes[end + 4..];
    let body = if is_chunked { joined(rest) } else { rest.to_vec() };
    Some(Request { method, lines, headers, body, at_once: reads < 3 || length > 4096 })
}

/// A body whose chunks are complete.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&chunks[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("a size");
        body.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        if size == 0 {
            return body;
        }
        chunks = &chunks[end + 2 + size + 2..];
    }
}

/// What every receiver of the documentation does.
pub(crate) fn sound(request: &Request) -> Does {
    match request.method.as_str() {
        "POST" if request.verifies() => Answers(204),
        "POST" => Answers(401),
        _ => Answers(405),
    }
}
