//! The command line as a client of the control API.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use super::Target;
use super::failure::Failure;

/// One answer of the control API.
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The body.
    pub(super) body: Value,
}

impl Answer {
    /// The body of a successful answer; a 404 falls short, anything else is the caller's mistake.
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
    let unreachable = |cause: String| {
        let message = format!("cannot reach the emulator at {}: {cause}", target.url);
        Failure::Unreachable {
            message,
            hint: Some("start it with `wrs-emulator`, or name another with --url or WRS_EMULATOR_URL".to_owned()),
        }
    };
    let exchange = exchange(&url, target, method, path, query, body);
    let result = runtime.block_on(async { tokio::time::timeout(limit, exchange).await });
    result.map_err(|_| unreachable(format!("no answer within {} s", limit.as_secs())))?.map_err(unreachable)
}

fn base(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).map_err(|error| Failure::usage(format!("--url: `{text}` is not a URL: {error}")))?;
    if url.scheme() != "http" || url.host().is_none() {
        return Err(Failure::usage(format!(
            "--url: expected an address such as http://127.0.0.1:9770, found `{text}`"
        )));
    }
    Ok(url)
}

async fn exchange(
    url: &Url,
    target: &Target,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Answer, String> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move { drop(connection.await) });
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    let target_text = format!("/_emulator/{path}?{}", pairs.extend_pairs(query).finish());
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
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let body = serde_json::from_slice(&bytes)
        .map_err(|_| format!("status {status} with a body that is not JSON; is that a wrs-emulator?"))?;
    Ok(Answer { status, body })
}

/// A path segment with everything escaped that could end it.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// How long commands wait that ask for something at hand.
pub(super) const SHORT: Duration = Duration::from_secs(10);
