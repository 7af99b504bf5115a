//! The server to compare with: hyper on tokio, set up as the emulator sets it up, giving one fixed answer to everything.
//!
//! It runs as a child process, this same executable with [`FLAG`]. The answer is one that the emulator gave, so that
//! both send the same headers and as many bytes. No time is spent here that any server on hyper would not spend.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::answer::Answer;

/// The argument that makes a process of this executable the bare server: `FLAG PORT_FILE ANSWER [ADDRESS]`.
pub(crate) const FLAG: &str = "--bare-server";

/// Serves the answer at the address, by default on a free port, whose URL is written to the file, until the process is ended.
pub(crate) fn run(port_file: &Path, answer: &str, address: Option<&str>) -> io::Result<()> {
    let answer = Answer::from_text(answer)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(port_file, answer, address.unwrap_or("127.0.0.1:0")))
}

async fn serve(port_file: &Path, answer: Answer, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    std::fs::write(port_file, format!("http://{}\n", listener.local_addr()?))?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // Each connection has its own copy: no counter of references is shared between processors.
        tokio::spawn(serve_connection(stream, head(&answer)?, Bytes::from(answer.body.clone())));
    }
}

async fn serve_connection(stream: TcpStream, headers: HeaderMap, body: Bytes) {
    let service = service_fn(|_| {
        let mut response = Response::new(Full::new(body.clone()));
        *response.headers_mut() = headers.clone();
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // A client that goes away is no concern here.
    let _ = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
}

fn head(answer: &Answer) -> io::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
        headers.append(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
    }
    Ok(headers)
}
