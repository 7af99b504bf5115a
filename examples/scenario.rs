//! A scenario written in the test that needs it: the first status check fails, and the client tries again.

use std::error::Error;

use wrs_emulator::Emulator;

const OUTAGE: &str = r#"
[[rule]]
when = { operation = "system.status" }
times = 1
reply = { status = 503, body = { error = { code = "unavailable", message = "try again" } } }
"#;

fn status(url: &str) -> Result<u16, ureq::Error> {
    let request = ureq::get(url).header("authorization", "Bearer sk_test_scenario");
    Ok(request.config().http_status_as_error(false).build().call()?.status().as_u16())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let emulator = Emulator::builder().scenario_text(OUTAGE).start().await?;
    let url = format!("{}/v1/system/status", emulator.base_url());
    let answers = tokio::task::spawn_blocking(move || [status(&url), status(&url)]).await?;
    for (answered, expected) in answers.into_iter().zip([503, 200]) {
        assert_eq!(answered?, expected);
    }
    emulator.stop().await?;
    Ok(())
}
