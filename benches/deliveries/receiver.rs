//! The receiver: this executable run again as its own process, answering 204 to whatever is posted, and a GET with how
//! many posts there were.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
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
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Marks the run that is the receiver.
pub(crate) const FLAG: &str = "--receiver";

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Plain.
    Http,
    /// Over TLS.
    Https,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(crate) fn parse(name: &str) -> Self {
        if name == Self::Https.name() { Self::Https } else { Self::Http }
    }
}

/// A running receiver; ended when dropped.
pub(crate) struct Receiver {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

impl Receiver {
    pub(crate) fn start(protocol: Protocol) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let child = Command::new(std::env::current_exe()?)
            .arg(FLAG)
            .arg(folder.path())
            .arg(protocol.name())
            .stdin(Stdio::null())
            .spawn()?;
        let mut receiver = Self { child, folder, protocol, port: 0 };
        for _ in 0..1000 {
            if let Ok(text) = std::fs::read_to_string(receiver.folder.path().join("port")) {
                receiver.port = text.trim().parse().map_err(io::Error::other)?;
                return Ok(receiver);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("the receiver did not start"))
    }

    /// The authority that signed its certificate.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs as the receiver until it is ended.
pub(crate) fn run(folder: &Path, protocol: Protocol) -> io::Result<()> {
    let tls = match protocol {
        Protocol::Http => None,
        Protocol::Https => Some(certificate(folder)?),
    };
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
            let (tls, posts) = (tls.clone(), Arc::clone(&posts));
            tokio::spawn(async move {
                match tls {
                    None => serve(stream, &posts).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, &posts).await;
                        }
                    }
                }
            });
        }
    })
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, posts: &AtomicU64) {
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

fn certificate(folder: &Path) -> io::Result<TlsAcceptor> {
    let other = io::Error::other::<rcgen::Error>;
    let mut ca = rcgen::CertificateParams::new(Vec::new()).map_err(other)?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().map_err(other)?;
    let authority = ca.self_signed(&ca_key).map_err(other)?;
    std::fs::write(folder.join("ca.pem"), authority.pem())?;
    let served = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(other)?;
    let key = rcgen::KeyPair::generate().map_err(other)?;
    let certificate = served.signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).map_err(other)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key))
        .map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
