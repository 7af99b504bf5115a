//! The client to compare with: signs and posts, and nothing else. One connection for each delivery in flight.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{IN_FLIGHT, moment};

const BODY: &str = r#"{"id":"evt_01kg9p6je0vr8r2ej1960613z0","type":"workflow.completed","created_at":"2026-01-31T09:30:00.000Z","data":{"workflow_id":"wf_01kg9p6je0vr8r2ej1960613z0","status":"completed"}}"#;

/// Posts `count` events on each connection to a receiver on this port, over TLS if an authority is given; gives the time it took.
pub(crate) async fn post(port: u16, authority: Option<&Path>, count: usize) -> Duration {
    let mut senders = Vec::new();
    for _ in 0..IN_FLIGHT {
        senders.push(connect(port, authority).await);
    }
    let started = moment();
    let tasks: Vec<_> = senders.into_iter().map(|sender| tokio::spawn(post_all(sender, count))).collect();
    for task in tasks {
        task.await.expect("every post is answered");
    }
    started.elapsed()
}

async fn post_all(mut sender: SendRequest<Full<Bytes>>, count: usize) {
    for number in 0..count {
        let id = format!("evt_{number}");
        let signature = sign(&id, 1_769_851_800);
        let request = Request::post("/hooks")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", "1769851800")
            .header("webhook-signature", signature)
            .body(Full::new(Bytes::from_static(BODY.as_bytes())))
            .expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        assert!(response.status().is_success());
        response.into_body().collect().await.expect("a whole answer");
    }
}

fn sign(id: &str, timestamp: i64) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"a secret of thirty-two bytes....").expect("a key of any length");
    mac.update(format!("{id}.{timestamp}.{BODY}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

async fn connect(port: u16, authority: Option<&Path>) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the receiver listens");
    let _ = stream.set_nodelay(true);
    match authority {
        None => open(stream).await,
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            let authority = rustls::pki_types::CertificateDer::from_pem_file(authority).expect("a certificate");
            roots.add(authority).expect("an authority");
            let config =
                rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .expect("protocol versions")
                    .with_root_certificates(roots)
                    .with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            open(TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")).await
        }
    }
}

async fn open<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> SendRequest<Full<Bytes>> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(async move { drop(connection.await) });
    sender
}
