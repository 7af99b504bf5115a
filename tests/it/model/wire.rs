//! The ways of the model test: one kept connection to the emulator, and a receiver behind a socket that answers as it is told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use wrs_emulator::Emulator;

use super::commands::KEYS;
use crate::support::{Answer, Client};

/// The calls that the test makes.
pub(super) struct Wire(Client);

impl Wire {
    pub(super) fn new(emulator: &Emulator) -> Self {
        Self(Client::new(emulator))
    }

    /// A request of the emulated API.
    pub(super) async fn api(&mut self, key: &str, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.0.send_as(key, method, path, text).await
    }

    /// A status check, which names the scenario `two` if wanted.
    pub(super) async fn status(&mut self, key: &str, path: &str, named: bool) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("x-emulator-scenario", "two")];
        self.0.send("GET", path, &headers[..if named { 2 } else { 1 }], String::new()).await
    }

    pub(super) async fn issue_token(&mut self, key: &str) -> Answer {
        let form = format!("grant_type=client_credentials&client_id=c&client_secret={key}");
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        self.0.send("POST", "/v1/oauth/token", &headers, form).await
    }

    /// A call of the control API.
    pub(super) async fn control(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.0.send(method, &format!("/_emulator/{path}"), &[("content-type", "application/json")], text).await
    }

    pub(super) async fn put_toml(&mut self, path: &str, text: &str) -> Answer {
        self.0
            .send("PUT", &format!("/_emulator/{path}"), &[("content-type", "application/toml")], text.to_owned())
            .await
    }
}

/// One delivery as it came over the socket.
#[derive(Clone, Debug)]
pub(super) struct Got {
    pub(super) id: String,
    pub(super) second: i64,
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) signatures: usize,
}

/// A receiver behind a socket: the first part of the path says for which key.
pub(super) struct Outside {
    pub(super) address: SocketAddr,
    hooks: Hooks,
    task: tokio::task::JoinHandle<()>,
}

type Hooks = Arc<Mutex<[Hook; KEYS]>>;

#[derive(Debug, Default)]
struct Hook {
    answers: VecDeque<(u16, Option<u64>)>,
    got: Vec<Got>,
}

impl Outside {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let hooks = Hooks::default();
        let shared = Arc::clone(&hooks);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let hooks = Arc::clone(&shared);
                let service = service_fn(move |request| receive(request, Arc::clone(&hooks)));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, hooks, task }
    }

    /// Sets the next answers for a key: statuses, and seconds after which to come again.
    pub(super) fn answer(&self, key: usize, answers: &[(u16, Option<u64>)]) {
        self.hooks.lock().expect("no panic with the lock")[key].answers = answers.iter().copied().collect();
    }

    pub(super) fn got(&self, key: usize) -> Vec<Got> {
        self.hooks.lock().expect("no panic with the lock")[key].got.clone()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(request: Request<Incoming>, hooks: Hooks) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let key: usize = parts.uri.path().trim_matches('/').parse().expect("a key's number");
    let mut hooks = hooks.lock().expect("no panic with the lock");
    let (status, wish) = hooks[key].answers.pop_front().unwrap_or((200, None));
    hooks[key].got.push(Got {
        id: header("webhook-id").to_owned(),
        second: header("webhook-timestamp").parse().unwrap_or_default(),
        status,
        kind: body["type"].as_str().unwrap_or_default().to_owned(),
        signatures: header("webhook-signature").split(' ').count(),
    });
    let response = Response::builder().status(status);
    let response = match wish {
        Some(seconds) => response.header("retry-after", seconds),
        None => response,
    };
    Ok(response.body(Full::default()).expect("an answer"))
}
