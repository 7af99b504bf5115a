//! `reset`: one key, or everything, as it was before the first request.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde_json::json;

use super::Target;
use super::client::{SHORT, call};
use super::failure::Failure;
use super::output::{counted, plain, print, print_json};
use crate::contract::keys::SAMPLE_KEY;

/// Arguments of `reset`.
#[derive(Debug, Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    target: Target,
    /// Whose workspace: a key, or `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    key: String,
    /// Every workspace, the journal, what was said over the control API, and the clock.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ResetArgs) -> Result<ExitCode, Failure> {
    let key = if args.all { "*" } else { &args.key };
    let body = call(&args.target, Method::POST, "reset", &[], Some(&json!({ "key": key })), SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let keys: Vec<String> = body["keys"].as_array().into_iter().flatten().map(plain).collect();
    if args.all {
        let count = counted(keys.len() as u64, "workspace");
        print(&format!("{count} reset, with scenarios, settings and clock as at the start\n"));
    } else {
        print(&format!("{} reset; `wrs-emulator reset --all` resets every key\n", keys.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}
