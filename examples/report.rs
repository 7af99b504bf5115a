//! A report of everything that happened, as one HTML file for the artefacts of a build.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::fs;

use wrs_emulator::Emulator;

/// Makes a few calls and returns the report.
fn run(base: &str, control: &str) -> Result<String, ureq::Error> {
    for path in ["/v1/hello", "/v1/helo"] {
        ureq::get(format!("{base}{path}")).config().http_status_as_error(false).build().call()?;
    }
    ureq::get(format!("{control}/_emulator/report.html?key=*")).call()?.body_mut().read_to_string()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let emulator = Emulator::builder().start().await?;
    let (base, control) = (emulator.base_url(), emulator.control_url());
    let report = tokio::task::spawn_blocking(move || run(&base, &control)).await??;
    assert!(report.contains("/v1/helo"));
    let file = std::env::temp_dir().join("wrs-emulator-report.html");
    fs::write(&file, report)?;
    println!("{}", file.display());
    emulator.stop().await?;
    Ok(())
}
