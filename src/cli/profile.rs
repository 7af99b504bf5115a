//! `profile show|set|unset|schema`: shows settings, changes them while the emulator runs, and describes files of them.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::arguments::CallArgs;
use super::client::{Answer, Call, SHORT};
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, print_json, show_list, whose};
use super::target::Target;
use crate::control::api::{self, Setting};
use crate::profile::file_schema;
use crate::scenario::generation_text;

/// `profile …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["profile set rate_limit.requests=5", "profile unset rate_limit.requests"]))]
pub(super) enum ProfileCommand {
    /// Show every setting with its value and where it comes from.
    #[command(after_help = examples(["profile show", "profile show --key sk_test_a --json"]))]
    Show(ShowArgs),
    /// Change settings: `rate_limit.requests=5`. A value that is not valid TOML is taken as a string.
    #[command(after_help = examples([
        "profile set rate_limit.requests=5 rate_limit.window=10s",
        "profile set webhooks.scheme=stripe --key sk_test_a",
    ]))]
    Set(SetArgs),
    /// Undo changes to a setting, or to a group of settings such as `rate_limit`.
    #[command(after_help = examples(["profile unset rate_limit.requests"]))]
    Unset(UnsetArgs),
    /// Print the JSON Schema of profile files, for editors.
    #[command(after_help = examples(["profile schema > profile.schema.json"]))]
    Schema,
}

/// Arguments of every call about settings.
#[derive(Debug, Args)]
pub(super) struct SettingsArgs {
    #[command(flatten)]
    pub(super) common: CallArgs,
    /// Only for this key, or workspace `ws_…`; by default for all keys.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    pub(super) key: Option<String>,
}

/// Arguments of `profile show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Only settings whose names begin with this.
    prefix: Option<String>,
    /// Only settings that differ from their default.
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Arguments of `profile set`.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// The settings to change.
    #[arg(required = true, value_name = "PATH=VALUE")]
    assignments: Vec<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Arguments of `profile unset`.
#[derive(Debug, Args)]
pub(super) struct UnsetArgs {
    /// The settings, or groups of them, to restore.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(command: ProfileCommand) -> Result<ExitCode, Failure> {
    match command {
        ProfileCommand::Show(args) => show(&args),
        ProfileCommand::Set(args) => {
            let settings: Result<Map<String, Value>, Failure> =
                args.assignments.iter().map(|setting| parsed(setting)).collect();
            patch(&args.settings, settings?)
        }
        ProfileCommand::Unset(args) => {
            patch(&args.settings, args.paths.iter().map(|path| (path.clone(), Value::Null)).collect())
        }
        ProfileCommand::Schema => {
            print_json(&file_schema());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let mut profile = settings_of(&args.settings.common.target, args.settings.key.as_deref(), SHORT)?;
    let prefix = args.prefix.as_deref().unwrap_or_default();
    profile.data.retain(|row| row.knob.starts_with(prefix) && (!args.changed || row.source != "default"));
    if profile.data.is_empty() && !args.changed {
        let failure = Failure::not_found(format!("no setting begins with `{}`", prefix.escape_debug()));
        return Err(failure.with_hint("`wrs-emulator profile show` lists all"));
    }
    let line = |Setting { knob, value, source }: &Setting| {
        let from = if source == "default" { String::new() } else { format!("   (from {})", cell(source)) };
        format!("{} = {value}{from}\n", cell(knob))
    };
    Ok(show_list(args.settings.common.json, &profile, || profile.data.iter().map(line).collect()))
}

fn patch(args: &SettingsArgs, settings: Map<String, Value>) -> Result<ExitCode, Failure> {
    Ok(patched(args, settings)?.print(|api::Patched { generation, key, changes, unchanged, .. }| {
        let texts = |texts: &[String]| texts.iter().map(cell).collect::<Vec<_>>().join(", ");
        let changes = if changes.is_empty() { "nothing".to_owned() } else { texts(changes) };
        let unchanged = if unchanged.is_empty() { String::new() } else { format!("; {}", texts(unchanged)) };
        let whose = whose(key.as_deref());
        format!("changed{whose}: {changes}{unchanged} ({})\n", generation_text(*generation))
    }))
}

/// The settings in force for one key, or for keys without settings of their own.
pub(super) fn settings_of(target: &Target, key: Option<&str>, limit: Duration) -> Result<api::Profile, Failure> {
    Ok(Call::<api::ShowProfile>::to(target).key(key).limit(limit).send()?.body)
}

/// Changes settings.
pub(super) fn patched(args: &SettingsArgs, settings: Map<String, Value>) -> Result<Answer<api::PatchProfile>, Failure> {
    args.common.call().key(args.key.as_deref()).body(&api::Patch(settings)).send()
}

/// An assignment as a path and a JSON value.
fn parsed(setting: &str) -> Result<(String, Value), Failure> {
    let Some((path, text)) = setting.split_once('=') else {
        let message = format!("expected PATH=VALUE, found `{}`", setting.escape_debug());
        return Err(Failure::usage(message).with_hint("for example rate_limit.requests=5"));
    };
    let (path, text) = (path.trim(), text.trim());
    let as_toml = toml::from_str::<toml::Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1);
    // JSON has no dates: they stay strings.
    let value = as_toml
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !value.is_datetime())
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or_else(|| Value::from(text));
    Ok((path.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_toml_or_plain_strings() {
        for (setting, path, value) in [
            ("rate_limit.requests=5", "rate_limit.requests", json!(5)),
            ("rate_limit.window = 30s", "rate_limit.window", json!("30s")),
            ("keys.list=[\"a\"]", "keys.list", json!(["a"])),
            ("a.b={ c = 1 }", "a.b", json!({ "c": 1 })),
            ("a=2026-01-31", "a", json!("2026-01-31")),
            ("a=1\nb = 2", "a", json!("1\nb = 2")),
            ("a=", "a", json!("")),
        ] {
            assert_eq!(parsed(setting).ok(), Some((path.to_owned(), value)), "{setting}");
        }
        assert!(parsed("rate_limit.requests").is_err());
    }
}
