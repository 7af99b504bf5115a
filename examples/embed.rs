//! An emulator inside a Rust test: it starts on a free port, and each test has one to itself.

use std::error::Error;

use wrs_emulator::Emulator;

/// The code under test: the status of one status check.
fn status(base: &str, key: &str) -> Result<u16, ureq::Error> {
    let request = ureq::get(format!("{base}/v1/system/status")).header("authorization", format!("Bearer {key}"));
    Ok(request.config().http_status_as_error(false).build().call()?.status().as_u16())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let emulator = Emulator::builder().seed(7).set("rate_limit.requests=1").start().await?;
    for expected in [200, 429] {
        let base = emulator.base_url();
        let answered = tokio::task::spawn_blocking(move || status(&base, "sk_test_embed")).await??;
        assert_eq!(answered, expected);
    }
    emulator.stop().await?;
    Ok(())
}
