//! The server to compare with: hyper on tokio with a timer, giving one fixed answer to everything.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::Answer;

/// The argument that makes a process of this executable the bare server: `FLAG PORT_FILE ANSWER`.
pub(crate) const FLAG: &str = "--bare-server";

/// The answer as a text to hand to the process.
pub(crate) fn text(answer: &Answer) -> String {
    let headers: Vec<_> = answer.headers().collect();
    json!({ "status": answer.status(), "headers": headers, "body": answer.body }).to_string()
}

/// Serves the answer on a free port, whose URL is written to the file, until the process is ended.
pub(crate) fn run(port_file: &Path, answer: &str) -> io::Result<()> {
    let answer: Value = serde_json::from_str(answer)?;
    let status = serde_json::from_value::<u16>(answer["status"].clone())?;
    let status = StatusCode::from_u16(status).map_err(io::Error::other)?;
    let mut headers = HeaderMap::new();
    for (name, value) in serde_json::from_value::<Vec<(String, String)>>(answer["headers"].clone())? {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
        headers.append(name, HeaderValue::from_str(&value).map_err(io::Error::other)?);
    }
    let body = Bytes::from(serde_json::from_value::<String>(answer["body"].clone())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        std::fs::write(port_file, format!("http://{}\n", listener.local_addr()?))?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (headers, body) = (headers.clone(), body.clone());
            tokio::spawn(async move {
                let service = service_fn(|request: Request<Incoming>| {
                    let (headers, body) = (headers.clone(), body.clone());
                    async move {
                        // A body is read whole, as any server reads it.
                        if request.method() != hyper::Method::GET {
                            let _ = request.into_body().collect().await;
                        }
                        let mut response = Response::new(Full::new(body));
                        *response.status_mut() = status;
                        *response.headers_mut() = headers;
                        Ok::<_, Infallible>(response)
                    }
                });
                let server =
                    http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
                // A client that goes away is no concern here.
                let _ = server.await;
            });
        }
    })
}
