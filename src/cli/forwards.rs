//! `forwards list|add|remove`: redirects deliveries while the emulator runs.
//!
//! Forwards are the setting `webhooks.forwards`; these commands are a shorter way to change it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::arguments::CallArgs;
use super::client::{Call, SHORT};
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, show, show_list};
use super::target::Target;
use crate::control::api::{self, Patched};
use crate::control::render::of_key;
use crate::settings::Forward;

const SETTING: &str = "webhooks.forwards";

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["forwards", "forwards add https://app.example.com=http://localhost:3000"]))]
pub(super) enum ForwardsCommand {
    /// List the forwards in force (what happens without a command).
    #[command(after_help = examples(["forwards list", "forwards list --key sk_test_a --json"]))]
    List(SettingsArgs),
    /// Deliver webhooks elsewhere from now on, including pending retries.
    #[command(after_help = examples([
        "forwards add https://app.example.com=http://localhost:3000",
        "forwards add https://app.example.com/hooks=http://localhost:4000/in --key sk_test_a",
    ]))]
    Add(AddArgs),
    /// Deliver to the subscribed URL again.
    #[command(after_help = examples(["forwards remove https://app.example.com"]))]
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
pub(super) struct SettingsArgs {
    #[command(flatten)]
    common: CallArgs,
    /// Only for this key, or workspace `ws_…`; by default for all keys.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// The subscribed URL and where to deliver instead: `https://app.example.com=http://localhost:3000`.
    #[arg(required = true, value_name = "FROM=TO")]
    rules: Vec<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// The subscribed URL, as listed.
    #[arg(required = true, value_name = "FROM")]
    urls: Vec<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn list(args: &SettingsArgs) -> Result<ExitCode, Failure> {
    let rules = in_force(&args.common.target, args.key.as_deref(), SHORT)?;
    let data = json!({ "data": rules.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect::<Vec<_>>() });
    Ok(show_list(args.common.json, &data, || {
        let lines: String = rules.iter().map(|(from, to)| format!("{from} -> {}\n", cell(to))).collect();
        if lines.is_empty() { "no forwards\n".to_owned() } else { lines }
    }))
}

pub(super) fn add(args: &AddArgs) -> Result<ExitCode, Failure> {
    let rules: Result<Vec<Forward>, String> = args.rules.iter().map(|rule| Forward::parse(rule)).collect();
    let rules = rules.map_err(|problem| match args.rules.as_slice() {
        [from, to] if !from.contains('=') => {
            Failure::usage(problem).with_hint(format!("join both by `=`: `wrs-emulator forwards add {from}={to}`"))
        }
        _ => Failure::usage(problem),
    })?;
    let requested = rules.iter().map(|rule| (rule.from().to_owned(), rule.to().into())).collect();
    let patched = patch(&args.settings, requested)?;
    let lines = rules.iter().map(|rule| format!("{} -> {}", rule.from(), rule.to()));
    Ok(print(&args.settings, &patched, lines))
}

pub(super) fn remove(args: &RemoveArgs) -> Result<ExitCode, Failure> {
    let given = &args.settings;
    let before = in_force(&given.common.target, given.key.as_deref(), SHORT)?;
    let urls: Vec<&str> = args.urls.iter().map(|url| url.trim_end_matches('/')).collect();
    if let Some(unknown) = urls.iter().find(|url| !before.contains_key(**url)) {
        let failure = Failure::not_found(format!("unknown forward `{unknown}`"));
        return Err(failure.with_hint("`wrs-emulator forwards` lists those in force; --key shows those of one key"));
    }
    let mut patched = patch(given, urls.iter().map(|url| ((*url).to_owned(), Value::Null)).collect())?;
    // A forward from a lower layer, such as --forward, is still in force: an empty target overrides it.
    let after = in_force(&given.common.target, given.key.as_deref(), SHORT)?;
    let overrides: Map<String, Value> =
        urls.iter().filter(|url| after.contains_key(**url)).map(|url| ((*url).to_owned(), "".into())).collect();
    if !overrides.is_empty() {
        patched = patch(given, overrides)?;
    }
    Ok(print(given, &patched, urls.iter().map(|url| format!("{url} is no longer forwarded"))))
}

fn patch(args: &SettingsArgs, rules: Map<String, Value>) -> Result<Patched, Failure> {
    args.common.call::<api::PatchProfile>().key(args.key.as_deref()).body(&api::Patch(settings(rules))).send()
}

fn print(args: &SettingsArgs, patched: &Patched, lines: impl Iterator<Item = String>) -> ExitCode {
    let whose = of_key(patched.key.as_deref());
    show(args.common.json, patched, || lines.map(|line| format!("{line}{whose}\n")).collect())
}

pub(super) fn in_force(
    target: &Target,
    key: Option<&str>,
    limit: Duration,
) -> Result<BTreeMap<String, String>, Failure> {
    let profile = Call::<api::ShowProfile>::to(target).key(key).limit(limit).send()?;
    let setting = profile.data.iter().find(|row| row.knob == SETTING);
    let rules = setting.and_then(|setting| setting.value.as_object()).into_iter().flatten();
    let rules = rules.filter_map(|(from, to)| Some((from.clone(), to.as_str()?.to_owned())));
    Ok(rules.filter(|(_, to)| !to.is_empty()).collect())
}

/// Forwards as a patch of settings; null removes one.
pub(super) fn settings(rules: Map<String, Value>) -> Map<String, Value> {
    let group = Map::from_iter([("forwards".to_owned(), Value::Object(rules))]);
    Map::from_iter([("webhooks".to_owned(), Value::Object(group))])
}
