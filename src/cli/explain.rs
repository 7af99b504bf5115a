//! `explain`: why a request was answered so, where an event went, how a delivery came about.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::Target;
use super::client::{SHORT, call, segment};
use super::failure::Failure;
use super::output::{cell, print, print_json};

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery.
    id: String,
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let body =
        call(&args.target, Method::GET, &format!("explain/{}", segment(&args.id)), &[], None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: {}\n", args.id, cell(&body, "summary"));
    for step in body["steps"].as_array().into_iter().flatten() {
        let mark = match step["verdict"].as_str() {
            Some("passed") => "  ✓",
            Some("decided") => "  ▸",
            _ => "  ·",
        };
        text.push_str(&format!("{mark} {:<16} {}\n", cell(step, "check"), cell(step, "detail")));
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}
