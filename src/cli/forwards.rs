//! `forwards list|add|remove`: where deliveries really go, changed while the emulator runs.
//!
//! Forwards are the setting `webhooks.forwards`; this file only makes them shorter to type.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Target;
use super::client::SHORT;
use super::failure::Failure;
use super::output::{plain, print, print_json, whose};
use super::profile::{SettingsArgs, patched, settings_of};
use crate::profile::Forward;

/// The setting that they are.
const SETTING: &str = "webhooks.forwards";

/// `forwards …`
#[derive(Debug, Subcommand)]
pub(super) enum ForwardsCommand {
    /// List the forwards in force (what happens without a command).
    List(SettingsArgs),
    /// Deliver webhooks elsewhere from now on, also those that wait for a retry.
    Add(AddArgs),
    /// Deliver to the URL subscribed again.
    Remove(RemoveArgs),
}

/// Arguments of `forwards add`.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// What is subscribed and where it goes: `https://app.example.com=http://localhost:3000`.
    #[arg(required = true, value_name = "FROM=TO")]
    rules: Vec<String>,
    #[command(flatten)]
    common: SettingsArgs,
}

/// Arguments of `forwards remove`.
#[derive(Debug, Args)]
pub(super) struct RemoveArgs {
    /// What is subscribed, as listed.
    #[arg(required = true, value_name = "FROM")]
    urls: Vec<String>,
    #[command(flatten)]
    common: SettingsArgs,
}

pub(super) fn run(command: ForwardsCommand) -> Result<ExitCode, Failure> {
    match command {
        ForwardsCommand::List(args) => list(&args),
        ForwardsCommand::Add(args) => add(&args),
        ForwardsCommand::Remove(args) => remove(&args),
    }
}

fn list(args: &SettingsArgs) -> Result<ExitCode, Failure> {
    let rules = in_force(&args.target, args.key.as_deref(), SHORT)?;
    if args.json {
        let data: Vec<Value> = rules.iter().map(|(from, to)| json!({ "from": from, "to": to })).collect();
        print_json(&json!({ "data": data }));
    } else if rules.is_empty() {
        print("no forwards\n");
    } else {
        for (from, to) in rules {
            print(&format!("{from} -> {}\n", plain(&to)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &AddArgs) -> Result<ExitCode, Failure> {
    let rules: Result<Vec<Forward>, String> = args.rules.iter().map(|rule| Forward::parse(rule)).collect();
    let rules = rules.map_err(Failure::usage)?;
    let wanted = rules.iter().map(|rule| (rule.from().to_owned(), rule.to().into())).collect();
    let body = patch(&args.common, wanted)?;
    if args.common.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    for rule in &rules {
        print(&format!("{} -> {}{}\n", rule.from(), rule.to(), whose(&body)));
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(args: &RemoveArgs) -> Result<ExitCode, Failure> {
    let before = in_force(&args.common.target, args.common.key.as_deref(), SHORT)?;
    let urls: Vec<&str> = args.urls.iter().map(|url| url.trim_end_matches('/')).collect();
    if let Some(unknown) = urls.iter().find(|url| !before.contains_key(**url)) {
        let failure = Failure::short(format!("unknown forward `{unknown}`"));
        return Err(failure.with_hint("`wrs-emulator forwards` lists those in force; --key shows those of one key"));
    }
    let mut body = patch(&args.common, urls.iter().map(|url| ((*url).to_owned(), Value::Null)).collect())?;
    // One that another layer made, such as --forward, stays until an empty target covers it.
    let after = in_force(&args.common.target, args.common.key.as_deref(), SHORT)?;
    let stay: Map<String, Value> =
        urls.iter().filter(|url| after.contains_key(**url)).map(|url| ((*url).to_owned(), "".into())).collect();
    if !stay.is_empty() {
        body = patch(&args.common, stay)?;
    }
    if args.common.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    for url in urls {
        print(&format!("{url} is no longer forwarded{}\n", whose(&body)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The forwards in force, by what is subscribed.
pub(super) fn in_force(
    target: &Target,
    key: Option<&str>,
    limit: Duration,
) -> Result<BTreeMap<String, Value>, Failure> {
    let body = settings_of(target, key, limit)?;
    let row = body["data"].as_array().into_iter().flatten().find(|row| row["knob"] == SETTING);
    let rules = row.and_then(|row| row["value"].as_object()).into_iter().flatten();
    Ok(rules.filter(|(_, to)| *to != "").map(|(from, to)| (from.clone(), to.clone())).collect())
}

fn patch(args: &SettingsArgs, rules: Map<String, Value>) -> Result<Value, Failure> {
    patched(args, &json!({ "webhooks": { "forwards": rules } }))
}
