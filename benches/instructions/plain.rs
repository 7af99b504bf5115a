//! The client to compare with: signs and posts, and nothing else. One connection for each delivery in flight.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tokio::net::TcpStream;

const BODY: &str = r#"{"id":"evt_01kg9p6je0vr8r2ej1960613z0","type":"workflow.completed","created_at":"2026-01-31T09:30:00.000Z","data":{"workflow_id":"wf_01kg9p6je0vr8r2ej1960613z0","status":"completed"}}"#;

/// Connections: the deliveries in flight.
pub(crate) const IN_FLIGHT: usize = 64;

/// Posts `count` events on each connection to a receiver on this port.
pub(crate) async fn post(port: u16, count: usize) {
    let mut senders = Vec::new();
    for _ in 0..IN_FLIGHT {
        senders.push(connect(port).await);
    }
    let tasks: Vec<_> = senders.into_iter().map(|sender| tokio::spawn(post_all(sender, count))).collect();
    for task in tasks {
        task.await.expect("every post is answered");
    }
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

async fn connect(port: u16) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the receiver listens");
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(async move { drop(connection.await) });
    sender
}
