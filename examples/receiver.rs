//! A receiver of webhooks: it answers 204 if the signature is right, and 401 if not. The emulator sends it one of each.

use std::convert::Infallible;
use std::error::Error;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use standardwebhooks::Webhook;
use tokio::net::TcpListener;
use wrs_emulator::Emulator;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The code under test. The signature is over the bytes as they arrived, so they are not parsed first.
async fn receive(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let verified = Webhook::new(SECRET).and_then(|webhook| webhook.verify(&body, &head.headers));
    let mut answer = Response::new(Empty::new());
    *answer.status_mut() = if verified.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
    Ok(answer)
}

async fn serve(listener: TcpListener) -> Result<Infallible, std::io::Error> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(receive)));
    }
}

/// Calls the control API and returns the answer.
fn post(url: &str, body: &str) -> Result<String, ureq::Error> {
    ureq::post(url).content_type("application/json").send(body)?.body_mut().read_to_string()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let forward = format!("https://app.example.com=http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener));
    let emulator = Emulator::builder().forward(&forward).start().await?;
    let control = emulator.control_url();
    let outcomes = tokio::task::spawn_blocking(move || -> Result<_, ureq::Error> {
        let subscription = format!(r#"{{"url":"https://app.example.com/hooks","secret":"{SECRET}"}}"#);
        post(&format!("{control}/_emulator/subscriptions"), &subscription)?;
        let events = format!("{control}/_emulator/events?wait=10s");
        let signed = post(&events, r#"{"type":"workflow.completed"}"#)?;
        let forged = post(&events, r#"{"type":"workflow.completed","tamper":"secret"}"#)?;
        Ok([signed, forged])
    });
    let [signed, forged] = outcomes.await??;
    assert!(signed.contains("204"), "{signed}");
    assert!(forged.contains("401"), "{forged}");
    emulator.stop().await?;
    Ok(())
}
