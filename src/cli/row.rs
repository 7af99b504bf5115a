//! Commands that are one call of the control API: how their arguments become the call, and how its answer is printed. `table` has
//! them.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments::{CallArgs, examples};
use super::client::{Call, CallPath, SHORT};
use super::failure::{Code, Failure, note, warn};
use super::output::{cell, compact, end_line, lines, optional, print, print_as_is, print_json, try_print};
use crate::clock::machine;
use crate::control::api::{self, Missed, Restarted, StreamedAttempt};
use crate::redact::visible_lines;
use crate::util::duration::parse_duration;

/// How often an emulator that cannot be reached yet is called again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct Row {
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) route: CallPath,
    /// An argument is the variable segment of the path if that has its name; else a parameter of the query if the call reads, or a
    /// field of the body. The key is always in the query.
    pub(super) arguments: fn() -> Vec<Arg>,
    /// Fields of the body that are the same in every call, as JSON.
    fixed: &'static [(&'static str, &'static str)],
    /// The events of the stream that `--follow` prints.
    follows: Option<&'static str>,
    examples: &'static [&'static str],
}

impl Row {
    pub(super) const fn new(name: &'static str, about: &'static str, route: CallPath) -> Self {
        Self { name, about, route, arguments: Vec::new, fixed: &[], follows: None, examples: &[] }
    }

    pub(super) const fn arguments(self, arguments: fn() -> Vec<Arg>) -> Self {
        Self { arguments, ..self }
    }

    pub(super) const fn fixed(self, fixed: &'static [(&'static str, &'static str)]) -> Self {
        Self { fixed, ..self }
    }

    pub(super) const fn follows(self, event: &'static str) -> Self {
        Self { follows: Some(event), ..self }
    }

    pub(super) const fn examples(self, examples: &'static [&'static str]) -> Self {
        Self { examples, ..self }
    }

    /// Adds its arguments and examples to a command.
    pub(super) fn define(&self, command: Command, position: usize) -> Command {
        let arguments = (self.arguments)();
        let mut command = CallArgs::augment_args(command);
        command = command.about(self.about).after_help(examples(self.examples)).display_order(position);
        if self.follows.is_some() {
            let paged = arguments.iter().map(Arg::get_id).filter(|id| *id != "key" && *id != "limit");
            let follow = Arg::new("follow").long("follow").action(ArgAction::SetTrue).conflicts_with_all(paged);
            command = command.arg(follow.help("Print records as they happen, until interrupted"));
        }
        command.args(arguments)
    }
}

/// A flag, named as the parameter or field.
pub(super) fn field(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).value_name(name.to_uppercase())
}

/// An argument without a flag. Its id is in upper case, as `url` and others are flags of every command.
pub(super) fn positional(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name.to_uppercase()).help(help).value_name(name.to_uppercase())
}

/// The name of the parameter or field.
pub(super) fn field_name(argument: &Arg) -> String {
    argument.get_id().as_str().to_lowercase()
}

/// What was typed, or the default.
fn given(argument: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = argument.get_id().as_str();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then_some(Value::Bool(true));
    }
    if let Ok(number) = matches.try_get_one::<i64>(id) {
        return number.copied().map(Value::from);
    }
    if let Ok(settings) = matches.try_get_many::<Setting>(id) {
        return settings.map(|settings| Value::Object(settings.cloned().collect()));
    }
    let mut texts = matches.get_many::<String>(id)?.map(|text| Value::from(text.as_str()));
    if takes_list(argument) { Some(texts.collect()) } else { texts.next() }
}

pub(super) fn takes_list(argument: &Arg) -> bool {
    argument.get_value_delimiter().is_some()
}

/// Makes the call and prints the answer.
pub(super) fn run(row: &Row, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let common = CallArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(kind) = row.follows.filter(|_| matches.get_flag("follow")) {
        return follow(&common, kind, matches.get_one::<String>("key").map_or("*", String::as_str));
    }
    let arguments = (row.arguments)();
    let call = call_of(row, &arguments, matches, &common)?;
    let patience = matches.try_get_one::<String>("wait").ok().flatten();
    let patience = patience.and_then(|wait| parse_duration(wait).ok()).unwrap_or_default();
    let began = machine::monotonic();
    let text = loop {
        match print_answer(call.clone(), row.route, common.json) {
            Err(failure) if failure.is_unreachable() && began.elapsed() < patience => sleep(POLL_INTERVAL),
            answered => break answered.map_err(|failure| with_nearest(row, failure))?,
        }
    };
    let is_filter = |argument: &Arg| !matches!(argument.get_id().as_str(), "key" | "limit" | "cursor");
    let mut filters = arguments.iter().filter(|argument| is_filter(argument));
    // The head of a table alone.
    let is_empty = !common.json && row.follows.is_some() && text.lines().count() == 1;
    if is_empty && filters.any(|filter| given(filter, matches).is_some()) {
        note(&format!("no {} match", row.name.split(' ').next().unwrap_or_default()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The call, with what was given for its arguments.
fn call_of<'a>(row: &Row, arguments: &[Arg], matches: &ArgMatches, common: &'a CallArgs) -> Result<Call<'a>, Failure> {
    let is_typed = |argument: &Arg| matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
    let is_segment = |name: &str| row.route.1.contains(&format!("{{{name}}}"));
    // An id names one thing, whichever key it belongs to; a key in the environment must not restrict that.
    let names_one = arguments.iter().any(|argument| is_segment(&field_name(argument)) && is_typed(argument));
    let (mut call, mut body) = (Call::new(&common.target), Map::new());
    for argument in arguments {
        let Some(value) = given(argument, matches) else { continue };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match (field_name(argument).as_str(), value) {
            ("key", _) if names_one && !is_typed(argument) => {}
            ("all", _) => {
                if arguments.iter().any(|argument| argument.get_id() == "key" && is_typed(argument)) {
                    let hint = "leave one out: `--all` resets every key, `--key KEY` one";
                    return Err(Failure::usage("`--all` and `--key` exclude each other").with_hint(hint));
                }
                // The last value counts.
                call = call.key("*");
            }
            // It is for this program.
            ("wait", _) => {}
            (name, _) if is_segment(name) => call = call.id(&text),
            (name, _) if row.route.reads() || name == "key" => call = call.parameter(name, &text),
            ("settings", Value::Object(settings)) => body.extend(settings),
            (name, value) => drop(body.insert(name.to_owned(), value)),
        }
    }
    for (name, json) in row.fixed {
        body.insert((*name).to_owned(), serde_json::from_str(json).expect("the table has JSON"));
    }
    // Longer than the emulator waits, so that its own timeout is reported.
    if let Some(timeout) = matches.try_get_one::<String>("timeout").ok().flatten() {
        call = call.limit(parse_duration(timeout).unwrap_or(SHORT).saturating_add(Duration::from_secs(20)));
    }
    Ok(if row.route.reads() { call } else { call.body(&body) })
}

/// Makes a call and prints its answer, which is returned: the text that the emulator makes of it, or JSON.
pub(super) fn print_answer(call: Call<'_>, route: CallPath, json: bool) -> Result<String, Failure> {
    let call = if json { call } else { call.text() };
    let text = String::from_utf8_lossy(&call.send_to(route)?).into_owned();
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
    request: Option<Named>,
    delivery: Option<Named>,
    differs: Vec<String>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The failure of a call that waited, with the nearest records.
fn with_nearest(row: &Row, failure: Failure) -> Failure {
    let answer = failure.answer.as_deref().cloned().unwrap_or_default();
    let error: TimedOut = serde_json::from_value(answer).unwrap_or_default();
    let mut message = failure.message.clone();
    for near in &error.nearest {
        let id = near.request.as_ref().or(near.delivery.as_ref()).map(|record| &record.id);
        let differs: Vec<String> = near.differs.iter().map(cell).collect();
        message.push_str(&format!("\n  {}: {}", optional(id), differs.join("; ")));
    }
    let is_check = failure.code == Code::TimedOut && row.route.1.ends_with("/wait");
    Failure { status: if is_check { 1 } else { failure.status }, message, ..failure }
}

/// The path of a setting, and its value; null to restore it.
pub(super) type Setting = (String, Value);

/// A setting's path and its value: TOML, or else a string.
pub(super) fn assignment(text: &str) -> Result<Setting, String> {
    let Some((path, value)) = text.split_once('=') else {
        return Err("expected PATH=VALUE, for example rate_limit.requests=5".to_owned());
    };
    let (path, text) = (path.trim(), value.trim());
    let as_toml = toml::from_str::<toml::Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1);
    // JSON has no dates: they stay strings.
    let value = as_toml
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !value.is_datetime())
        .and_then(|value| serde_json::to_value(value).ok())
        .unwrap_or_else(|| Value::from(text));
    Ok((path.to_owned(), value))
}

/// Prints each record of this kind as it happens, until interrupted: as a JSON object a line, or as a line of text.
fn follow(common: &CallArgs, kind: &str, key: &str) -> Result<ExitCode, Failure> {
    let (json, mut truncated, mut shown) = (common.json, false, 0);
    Call::new(&common.target).key(key).follow(|found, data| {
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
            assert_eq!(assignment(setting).ok(), Some((path.to_owned(), value)), "{setting}");
        }
        assert!(assignment("rate_limit.requests").is_err());
    }
}
