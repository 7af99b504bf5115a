//! `snapshot save`, `snapshot load`: write the state of one key, or everything, to a file, and load it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::arguments::CallArgs;
use super::failure::{Code, Failure};
use super::help::examples;
use super::output::{print_json, show};
use crate::control::api;
use crate::util::file::{self, write_whole};
use crate::util::wording::counted;

const LIMIT: Duration = Duration::from_mins(1);
/// Most bytes of a file. More than the emulator accepts, as `snapshot save` writes indented JSON.
const LARGEST: u64 = 64 * 1024 * 1024;

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["snapshot save before.json", "snapshot load before.json"]))]
pub(super) enum SnapshotCommand {
    /// Write the state of one key, or everything, to a file: subscriptions, counters, scenarios, clock, random source.
    #[command(after_help = examples([
        "snapshot save before.json  # everything",
        "snapshot save a.json --key sk_test_a  # one key",
        "snapshot save -  # on stdout",
    ]))]
    Save(SaveArgs),
    /// Load a saved state, which replaces the present state of its keys.
    #[command(after_help = examples(["snapshot load before.json", "snapshot load - < before.json"]))]
    Load(LoadArgs),
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// The file, or `-` for stdout.
    file: PathBuf,
    #[command(flatten)]
    common: CallArgs,
    /// Only this key, or workspace `ws_…`; by default everything.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
}

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// The file, or `-` for stdin.
    file: PathBuf,
    #[command(flatten)]
    common: CallArgs,
}

pub(super) fn save(args: &SaveArgs) -> Result<ExitCode, Failure> {
    let snapshot = args.common.call::<api::SaveSnapshot>().key(&*args.key).limit(LIMIT).send()?;
    if is_stream(&args.file) {
        print_json(&snapshot);
        return Ok(ExitCode::SUCCESS);
    }
    let text = serde_json::to_string_pretty(&snapshot).expect("JSON values always serialise");
    write_whole(&args.file, text)
        .map_err(|error| Failure::io(format!("cannot write `{}`: {error}", args.file.display())))?;
    let workspaces = snapshot.0.get("workspaces").and_then(Value::as_array);
    let saved = workspaces.map_or(0, Vec::len);
    Ok(show(args.common.json, &json!({ "saved": saved }), || format!("{} saved\n", counted(saved, "workspace"))))
}

pub(super) fn load(args: &LoadArgs) -> Result<ExitCode, Failure> {
    let call = args.common.call::<api::LoadSnapshot>().body(&read(&args.file)?).limit(LIMIT);
    Ok(args.common.show(&call.send()?))
}

fn read(file: &Path) -> Result<api::Snapshot, Failure> {
    let unreadable = |cause: String| Failure::io(format!("cannot read `{}`: {cause}", file.display()));
    let bytes = file::read_input(file, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    let parsed = serde_json::from_slice(&bytes);
    let invalid = |error| Failure { code: Code::InvalidFile, ..unreadable(format!("it is not JSON: {error}")) };
    match parsed.map_err(invalid)? {
        Value::Object(fields) => Ok(api::Snapshot(fields)),
        // The emulator refuses it and explains what it expects.
        _ => Ok(api::Snapshot(Map::new())),
    }
}

fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}
