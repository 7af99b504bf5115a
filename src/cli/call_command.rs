//! Commands that make one call of the control API: how the list of calls adds them to the command line, and how the answer is printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, FromArgMatches as _, value_parser};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments::{CallArgs, LAST, examples};
use super::client::ControlClient;
use super::failure::{Failure, FailureCode, note, warn};
use super::output::{cell, compact, end_line, lines, optional, print, print_as_is, print_json, try_print};
use crate::clock::machine;
use crate::control::api::{self, CallCommand, CommandGroup, Missed, Restarted, Sent, StreamedAttempt};
use crate::control::commands;
use crate::redact::visible_lines;

/// How often an emulator that cannot be reached yet is called again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Adds the commands to the command line.
pub(super) fn with_calls(whole: clap::Command) -> clap::Command {
    // Leaves positions after each.
    let spread = |inner: clap::Command| {
        let position = inner.get_display_order();
        inner.display_order(10 * position)
    };
    let mut whole = whole.mut_subcommands(spread);
    for (position, command) in commands().iter().enumerate() {
        let (word, inner) =
            command.name.split_once(' ').map_or((command.name, None), |(word, inner)| (word, Some(inner)));
        if whole.find_subcommand(word).is_none() {
            let before = command.after.and_then(|after| whole.find_subcommand(after));
            let at = before.map_or(LAST, |before| before.get_display_order() + 1);
            whole = whole.subcommand(clap::Command::new(word).display_order(at));
        }
        whole = whole.mut_subcommand(word, |outer| match inner {
            None => {
                let at = outer.get_display_order();
                define(command, outer, at)
            }
            Some(inner) => described(command, outer).subcommand(define(command, clap::Command::new(inner), position)),
        });
    }
    whole
}

/// The group of a command, as the command describes it if it leads the group.
fn described(command: &CallCommand, group: clap::Command) -> clap::Command {
    let group = group.subcommand_required(true).arg_required_else_help(true);
    match command.group {
        Some(CommandGroup { about, examples: lines }) => group.about(about).after_help(examples(lines)),
        None => group,
    }
}

/// Adds the arguments and examples of a command.
fn define(command: &CallCommand, empty: clap::Command, position: usize) -> clap::Command {
    let mut defined = CallArgs::augment_args(empty);
    if command.follows.is_some() {
        let own = (command.define)(clap::Command::new("of its own"));
        let paged = own.get_arguments().map(Arg::get_id).filter(|id| *id != "key" && *id != "limit");
        let follow = Arg::new("follow").long("follow").action(ArgAction::SetTrue).conflicts_with_all(paged);
        defined = defined.arg(follow.help("Print records as they happen, until interrupted"));
    }
    if command.reads_runs {
        let help = "Read a file made by `run save` or `exec --report` instead of a running emulator; `-` is stdin";
        let from = Arg::new("from").long("from").value_name("RUN").value_parser(value_parser!(PathBuf));
        let since = Arg::new("since").long("since").value_name("RUN").value_parser(value_parser!(PathBuf));
        let compared = "Compare with this earlier saved run: the first request or delivery of each test that differs";
        defined = defined
            .arg(from.help(help).display_order(LAST - 1))
            .arg(since.help(compared).conflicts_with("id").display_order(LAST - 1));
    }
    (command.define)(defined).after_help(examples(command.examples)).display_order(position)
}

/// The command that was named, if it is one of these, with its arguments.
pub(super) fn find(matches: &ArgMatches) -> Option<(CallCommand, &ArgMatches)> {
    let (mut words, mut matches) = (Vec::new(), matches);
    while let Some((name, inner)) = matches.subcommand() {
        words.push(name);
        matches = inner;
    }
    let path = words.join(" ");
    commands().into_iter().find(|command| command.name == path).map(|command| (command, matches))
}

/// Makes the call and prints the answer.
pub(super) fn run(command: &CallCommand, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let usage = |error: clap::Error| Failure::usage(error.to_string());
    let common = CallArgs::from_arg_matches(matches).map_err(usage)?;
    if let Some(kind) = command.follows.filter(|_| matches.get_flag("follow")) {
        return follow(&common, kind, matches.get_one::<String>("key").map_or("*", String::as_str));
    }
    let is_typed = |argument: &str| {
        matches.try_contains_id(argument).is_ok() && matches.value_source(argument) == Some(ValueSource::CommandLine)
    };
    let mut sent = (command.sent)(matches).map_err(usage)?;
    // An id names one thing, whichever key it belongs to; a key in the environment must not restrict that.
    if sent.segment.as_ref().is_some_and(|(name, _)| is_typed(name)) && !is_typed("key") {
        sent.query.remove("key");
    }
    if let Some(([one, other], hint)) = command.excludes.filter(|(options, _)| options.iter().all(|it| is_typed(it))) {
        return Err(Failure::usage(format!("`--{one}` and `--{other}` exclude each other")).with_hint(hint));
    }
    let mut call = ControlClient::new(&common.target);
    // Longer than the emulator waits, so that its own timeout is reported.
    if let Some(timeout) = sent.timeout {
        call = call.limit(timeout.saturating_add(Duration::from_secs(20)));
    }
    let began = machine::monotonic();
    let text = loop {
        match print_answer(call.clone(), &sent, common.json) {
            Err(failure) if failure.is_unreachable() && began.elapsed() < sent.patience => sleep(POLL_INTERVAL),
            answered => break answered.map_err(|failure| with_nearest(&sent, failure))?,
        }
    };
    let mut filters = sent.query.keys().filter(|name| !matches!(name.as_str(), "key" | "limit" | "cursor"));
    // The head of a table alone.
    let is_empty = !common.json && command.follows.is_some() && text.lines().count() == 1;
    if is_empty && filters.next().is_some() {
        note(&format!("no {} match", command.name.split(' ').next().unwrap_or_default()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a call and prints its answer, which is returned: the text that the emulator makes of it, or JSON.
pub(super) fn print_answer(call: ControlClient<'_>, sent: &Sent, json: bool) -> Result<String, Failure> {
    let call = if json { call } else { call.text() };
    let text = String::from_utf8_lossy(&call.exchange(sent)?).into_owned();
    if json {
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let is_listing = answer.get("data").is_some_and(Value::is_array);
        if is_listing { print_as_is(&lines(answer)) } else { print_json(&answer) }
    } else {
        // The emulator's text is escaped already; another program's is not.
        print(&text);
    }
    Ok(text)
}

/// The answer to a wait that timed out: the nearest records.
#[derive(Default, Deserialize)]
struct TimedOut {
    nearest: Vec<Near>,
}

#[derive(Deserialize)]
struct Near {
    request: Option<NearRecord>,
    delivery: Option<NearRecord>,
    differs: Vec<String>,
}

#[derive(Deserialize)]
struct NearRecord {
    id: String,
}

/// The failure of a call that waited, with the nearest records.
fn with_nearest(sent: &Sent, failure: Failure) -> Failure {
    let answer = failure.answer.as_deref().cloned().unwrap_or_default();
    let error: TimedOut = serde_json::from_value(answer).unwrap_or_default();
    let line = |near: &Near| {
        let id = near.request.as_ref().or(near.delivery.as_ref()).map(|record| &record.id);
        let differs: Vec<String> = near.differs.iter().map(cell).collect();
        let differs = if differs.is_empty() { "matches".to_owned() } else { differs.join("; ") };
        format!("  {}: {differs}", optional(id))
    };
    let lines = error.nearest.iter().map(line).collect();
    let is_check = failure.code == FailureCode::TimedOut && sent.path.ends_with("/wait");
    Failure { status: if is_check { 1 } else { failure.status }, lines, ..failure }
}

/// Prints each record of this kind as it happens, until interrupted: as a JSON object a line, or as a line of text.
fn follow(common: &CallArgs, kind: &str, key: &str) -> Result<ExitCode, Failure> {
    let (json, mut truncated, mut shown) = (common.json, false, 0);
    ControlClient::new(&common.target).follow(key.into(), |found, data| {
        let gap = match found {
            "skipped" => read(data).map(|Missed { missed }| format!("{missed} records were missed")),
            "restarted" => read(data).map(|Restarted { message }| message),
            _ => None,
        };
        let line = match (gap, found) {
            (Some(gap), _) if json => {
                truncated = true;
                warn(&gap);
                return true;
            }
            (Some(gap), _) => format!("… {gap}"),
            (None, found) if found != kind => return true,
            (None, _) if json => read::<Value>(data).map_or_else(|| compact(&data), |data| compact(&data)),
            (None, "request") => read(data).map_or_else(|| cell(data), |row: api::Request| row.columns().join("  ")),
            // A record of an unknown form is printed as received.
            (None, _) => read(data).map_or_else(|| cell(data), |attempt: StreamedAttempt| attempt.line()),
        };
        shown += 1;
        try_print(&(visible_lines(&line) + "\n"))
    })?;
    if json {
        print_as_is(&end_line(truncated, shown, Map::new()));
    }
    Ok(ExitCode::SUCCESS)
}

fn read<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_slice(data.as_bytes()).ok()
}
