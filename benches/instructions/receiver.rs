//! The receiver: this executable run again as its own process, answering 204 to whatever is posted, and a GET with how
//! many posts there were.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Marks the run that is the receiver.
pub(crate) const FLAG: &str = "--receiver";

/// A running receiver; ended when dropped.
pub(crate) struct Receiver {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Receiver {
    pub(crate) fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let child = Command::new(std::env::current_exe()?).arg(FLAG).arg(folder.path()).stdin(Stdio::null()).spawn()?;
        let mut receiver = Self { child, folder, port: 0 };
        for _ in 0..1000 {
            if let Ok(text) = std::fs::read_to_string(receiver.folder.path().join("port")) {
                receiver.port = text.trim().parse().map_err(io::Error::other)?;
                return Ok(receiver);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("the receiver did not start"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs as the receiver until it is ended.
pub(crate) fn run(folder: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        // Renamed into place, so that nobody reads half of it.
        std::fs::write(folder.join("port.new"), port.to_string())?;
        std::fs::rename(folder.join("port.new"), folder.join("port"))?;
        let posts = Arc::new(AtomicU64::new(0));
        loop {
            let (stream, _) = listener.accept().await?;
            let _ = stream.set_nodelay(true);
            let posts = Arc::clone(&posts);
            tokio::spawn(async move { serve(stream, &posts).await });
        }
    })
}

async fn serve(stream: TcpStream, posts: &AtomicU64) {
    let service = service_fn(|request: Request<Incoming>| async {
        let mut response = Response::new(Full::default());
        if request.method() == Method::GET {
            *response.body_mut() = Full::new(Bytes::from(posts.load(Ordering::Relaxed).to_string()));
        } else {
            *response.status_mut() = StatusCode::NO_CONTENT;
            posts.fetch_add(1, Ordering::Relaxed);
        }
        // A sender that breaks off is its own affair.
        let _ = request.into_body().collect().await;
        Ok::<_, Infallible>(response)
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
