//! The command line as a client of the control API.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url, form_urlencoded};

use super::address::address;
use super::failure::Failure;
use super::{DEFAULT_URL, Target};
use crate::webhook::tls::Trust;

/// One answer of the control API.
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Value,
}

impl Answer {
    /// The body of a successful answer; a 404 is a failed check, anything else is the caller's mistake.
    pub(super) fn success(self) -> Result<Value, Failure> {
        let message = self.body["error"]["message"].as_str().unwrap_or("the emulator refused the call").to_owned();
        match self.status {
            200..=299 => Ok(self.body),
            404 => Err(Failure::short(message)),
            _ => Err(Failure::usage(message)),
        }
    }
}

/// Calls the control API and waits for the answer at most for `limit`.
pub(super) fn call(
    target: &Target,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
    limit: Duration,
) -> Result<Answer, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::usage(format!("cannot start: {error}")))?;
    let url = base(&target.url)?;
    let exchange = exchange(&url, target, method, path, query, body);
    let result = runtime.block_on(async { tokio::time::timeout(limit, exchange).await });
    result
        .map_err(|_| unreachable(target, &format!("no answer within {} s", limit.as_secs())))?
        .map_err(|cause| unreachable(target, &cause))
}

/// The base URL of an emulator, as people type it: `localhost:9770` has no scheme.
fn base(text: &str) -> Result<Url, Failure> {
    let port = text.split('/').next().and_then(|authority| authority.rsplit_once(':')).map(|(_, port)| port);
    let is_address = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let spelled = if is_address { format!("http://{text}") } else { text.to_owned() };
    let url = Url::parse(&spelled).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    url.ok_or_else(|| {
        let hint = match text.parse::<u16>() {
            Ok(port) => format!("use `--url http://127.0.0.1:{port}`"),
            Err(_) => format!("for example `--url {DEFAULT_URL}`"),
        };
        Failure::usage(format!("--url: expected the address of an emulator, found `{text}`")).with_hint(hint)
    })
}

async fn exchange(
    url: &Url,
    target: &Target,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Answer, String> {
    let response = send(url, target, method, path, query, body).await?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let body = serde_json::from_slice(&bytes)
        .map_err(|_| format!("status {status} with a body that is not JSON; is that a wrs-emulator?"))?;
    Ok(Answer { status, body })
}

async fn send(
    url: &Url,
    target: &Target,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Response<Incoming>, String> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let mut sender = if url.scheme() == "https" {
        let trust = Trust::new(&target.ca, target.insecure).map_err(|problem| format!("--ca: {problem}"))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let connected = TlsConnector::from(trust.config().await).connect(name, stream).await;
        open(connected.map_err(|error| format!("{error}; {}", distrusted(url, target)))?).await?
    } else {
        open(stream).await?
    };
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    // A reverse proxy may serve the emulator below a path.
    let below = url.path().trim_end_matches('/');
    let target_text = format!("{below}/_emulator/{path}?{}", pairs.extend_pairs(query).finish());
    let bytes = body.map(Value::to_string).unwrap_or_default();
    let mut request = Request::builder()
        .method(method)
        .uri(target_text.trim_end_matches('?'))
        .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = &target.control_token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(bytes))).map_err(|error| error.to_string())?;
    sender.send_request(request).await.map_err(|error| error.to_string())
}

/// What makes a certificate trusted.
fn distrusted(url: &Url, target: &Target) -> String {
    let base = url.as_str().trim_end_matches('/');
    if target.ca.is_empty() {
        format!("its authority: --ca FILE (from {base}/_emulator/ca.pem), or --insecure")
    } else {
        format!("no authority in the file given signed it; the present one is at {base}/_emulator/ca.pem")
    }
}

async fn open<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Follows the event stream and hands each event on with its kind, until the emulator ends it.
pub(super) fn events(target: &Target, key: &str, mut each: impl FnMut(&str, &Value)) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::usage(format!("cannot start: {error}")))?;
    let url = base(&target.url)?;
    runtime.block_on(async {
        let query = [("key", key)];
        let response = send(&url, target, Method::GET, "stream", &query, None);
        let mut response = response.await.map_err(|cause| unreachable(target, &cause))?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            let bytes =
                response.into_body().collect().await.map_err(|error| unreachable(target, &error.to_string()))?;
            let body = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
            return Answer { status, body }.success().map(drop);
        }
        let mut text = Vec::new();
        while let Some(frame) = response.frame().await {
            let Ok(frame) = frame else { break };
            let Ok(data) = frame.into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.windows(2).position(|window| window == b"\n\n") {
                let block: Vec<u8> = text.drain(..end + 2).collect();
                let block = String::from_utf8_lossy(&block);
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
                    each(kind, &serde_json::from_str(data).unwrap_or_default());
                }
            }
        }
        Ok(())
    })
}

fn unreachable(target: &Target, cause: &str) -> Failure {
    let listen = target.url.split("//").last().unwrap_or_default().trim_end_matches('/');
    let hint = if target.url == DEFAULT_URL {
        "start it with `wrs-emulator`, or name another with --url or WRS_EMULATOR_URL".to_owned()
    } else if address("--listen", listen).is_ok() {
        format!("start it there with `wrs-emulator --listen {listen}`")
    } else {
        "start it there, or correct the address".to_owned()
    };
    Failure::Unreachable { message: format!("cannot reach the emulator at {}: {cause}", target.url), hint: Some(hint) }
}

/// The same URL with an address that can be dialled, where it names every interface.
pub(super) fn reachable(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) if address.is_unspecified() => "127.0.0.1",
        Some(Host::Ipv6(address)) if address.is_unspecified() => "[::1]",
        _ => return text.to_owned(),
    };
    match url.set_host(Some(loopback)) {
        Ok(()) => url.as_str().trim_end_matches('/').to_owned(),
        Err(_) => text.to_owned(),
    }
}

/// The URL of an emulator that answers at this address; `None` if none does.
pub(super) fn emulator_at(address: SocketAddr) -> Option<String> {
    ["http", "https"].into_iter().find_map(|scheme| {
        let url = reachable(&format!("{scheme}://{address}"));
        let target = Target { url: url.clone(), control_token: None, ca: Vec::new(), insecure: true };
        let body = call(&target, Method::GET, "health", &[], None, Duration::from_secs(1)).ok()?.body;
        // Where the control API has a port of its own, the emulated one refuses the path.
        let is_one = body["status"] == "ready" || body["error"]["request_id"].is_string();
        is_one.then_some(url)
    })
}

/// A path segment with everything escaped that could end it.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// How long commands wait that ask for something at hand.
pub(super) const SHORT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interface_is_reached_by_loopback() {
        for (url, expected) in [
            ("http://127.0.0.1:9770", "http://127.0.0.1:9770"),
            ("http://0.0.0.0:9770", "http://127.0.0.1:9770"),
            ("https://[::]:9770", "https://[::1]:9770"),
            ("http://10.0.0.7:80", "http://10.0.0.7:80"),
        ] {
            assert_eq!(reachable(url), expected);
        }
    }

    #[test]
    fn an_address_needs_no_scheme() {
        for (text, expected) in [
            ("http://127.0.0.1:9770", Some("http://127.0.0.1:9770/")),
            ("localhost:9770", Some("http://localhost:9770/")),
            ("emulator:80/sub/path", Some("http://emulator/sub/path")),
            ("[::1]:9770", Some("http://[::1]:9770/")),
            ("https://emulator/sub/", Some("https://emulator/sub/")),
            ("nowhere", None),
            ("localhost:", None),
            ("ftp://localhost:9770", None),
            ("localhost:port", None),
        ] {
            assert_eq!(base(text).ok().map(|url| url.to_string()).as_deref(), expected, "{text}");
        }
    }
}
