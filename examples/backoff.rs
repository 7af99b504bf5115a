//! A client that survives 429: it doubles its pause after each refusal, and waits longer if `Retry-After` says so.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use ureq::http::Response;
use ureq::{Body, get};
use wrs_emulator::Emulator;

/// The answer to a GET, after as many attempts as it takes, at most six.
fn get_with_backoff(url: &str, key: &str) -> Result<Response<Body>, ureq::Error> {
    let mut pause = Duration::from_millis(50);
    for _ in 1..6 {
        let request = get(url).header("authorization", format!("Bearer {key}"));
        let answer = request.config().http_status_as_error(false).build().call()?;
        if answer.status() != 429 {
            return Ok(answer);
        }
        let asked = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        sleep(pause.max(Duration::from_secs(asked.unwrap_or(0))));
        pause *= 2;
    }
    get(url).header("authorization", format!("Bearer {key}")).call()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Two requests in 200 ms: the third is refused until the window is over.
    let emulator = Emulator::builder().set("rate_limit.requests=2").set("rate_limit.window=200ms").start().await?;
    let url = format!("{}/v1/system/status", emulator.base_url());
    for _ in 0..5 {
        let url = url.clone();
        let answer = tokio::task::spawn_blocking(move || get_with_backoff(&url, "sk_test_backoff")).await??;
        assert_eq!(answer.status(), 200);
    }
    emulator.stop().await?;
    Ok(())
}
