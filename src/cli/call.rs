//! Commands that are one call of the control API: how their arguments become the call, and how its answer is printed. `calls` lists
//! them.

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments::{self, CallArgs};
use super::client::{Call, Refusal, Route, SHORT};
use super::failure::{Code, Failure, note, warn};
use super::help::listed;
use super::output::{End, cell, compact, is_printed, lines, optional, print_as_is, print_json};
use crate::control::api::{self, Missed, Restarted, StreamedAttempt};
use crate::redact::visible_lines;
use crate::util::duration::parse_duration;

pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) route: Route,
    pub(super) arguments: &'static [Argument],
    /// Fields of the body that are the same in every call, as JSON.
    pub(super) fixed: &'static [(&'static str, &'static str)],
    /// The events of the stream that `--follow` prints.
    pub(super) follows: Option<&'static str>,
    pub(super) examples: &'static [&'static str],
}

impl Row {
    pub(super) const fn new(name: &'static str, about: &'static str, route: Route) -> Self {
        Self { name, about, route, arguments: &[], fixed: &[], follows: None, examples: &[] }
    }

    /// Adds its arguments and examples to a command.
    pub(super) fn define(&self, command: Command, position: usize) -> Command {
        let mut command = CallArgs::augment_args(command);
        command = command.about(self.about).after_help(listed(self.examples)).display_order(position);
        if self.follows.is_some() {
            let paged = self.arguments.iter().filter(|argument| argument.name != "key" && argument.name != "limit");
            let follow = Arg::new("follow").long("follow").action(ArgAction::SetTrue);
            let follow = follow.conflicts_with_all(paged.map(Argument::id));
            command = command.arg(follow.help("Print records as they happen, until interrupted"));
        }
        self.arguments.iter().fold(command, |command, argument| command.arg(argument.define()))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Argument {
    /// The name of the flag, and of the parameter or field.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    place: Place,
    value: Option<&'static str>,
    pub(super) parser: Parser,
    pub(super) default: Option<&'static str>,
    env: Option<&'static str>,
    is_positional: bool,
    pub(super) is_required: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The variable segment of the path.
    Segment,
    /// A parameter of the query if the call reads, else a field of the body; the key is always in the query.
    Field,
    /// Fields of the body, each named by a value.
    Settings,
}

/// What a value must be; all are sent as they were typed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parser {
    Text,
    Switch,
    Number(i64, i64),
    Duration,
    Time,
    Since,
    /// An id with this prefix, of such a thing.
    Id(&'static str, &'static str),
    List,
    Scenario,
    Scenarios,
    /// `PATH=VALUE`.
    Assignment,
    /// A JSON object; tools alone take it.
    Object,
}

const fn argument(name: &'static str, help: &'static str, place: Place) -> Argument {
    let (value, default, env) = (None, None, None);
    Argument { name, help, place, value, parser: Parser::Text, default, env, is_positional: false, is_required: false }
}

/// The variable segment of the path.
pub(super) const fn name(name: &'static str, help: &'static str) -> Argument {
    Argument { is_positional: true, ..argument(name, help, Place::Segment) }
}

pub(super) const fn field(name: &'static str, help: &'static str) -> Argument {
    argument(name, help, Place::Field)
}

pub(super) const fn setting(value: &'static str, help: &'static str) -> Argument {
    argument("settings", help, Place::Settings).value(value).positional()
}

impl Argument {
    pub(super) const fn value(self, name: &'static str) -> Self {
        Self { value: Some(name), ..self }
    }

    pub(super) const fn parsed(self, parser: Parser) -> Self {
        Self { parser, ..self }
    }

    pub(super) const fn switch(self) -> Self {
        self.parsed(Parser::Switch)
    }

    pub(super) const fn default(self, value: &'static str) -> Self {
        Self { default: Some(value), ..self }
    }

    pub(super) const fn env(self, name: &'static str) -> Self {
        Self { env: Some(name), ..self }
    }

    pub(super) const fn positional(self) -> Self {
        Self { is_positional: true, is_required: true, ..self }
    }

    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(super) const fn optional(self) -> Self {
        Self { is_required: false, ..self }
    }

    /// Its id among the arguments of the command; `url` and others are flags of every command.
    fn id(&self) -> String {
        if self.is_positional { self.name.to_uppercase() } else { self.name.to_owned() }
    }

    fn define(&self) -> Arg {
        let mut arg = Arg::new(self.id()).help(self.help).required(self.is_required);
        if !self.is_positional {
            arg = arg.long(self.name);
        }
        let parser: Option<ValueParser> = match self.parser {
            Parser::Switch => return arg.action(ArgAction::SetTrue),
            Parser::Text | Parser::List | Parser::Object => None,
            Parser::Number(least, most) => Some(clap::value_parser!(i64).range(least..=most).into()),
            Parser::Duration => Some(ValueParser::new(arguments::duration)),
            Parser::Time => Some(ValueParser::new(arguments::time)),
            Parser::Since => Some(ValueParser::new(arguments::since)),
            Parser::Id(prefix, what) => Some(ValueParser::new(move |text: &str| {
                let is_one = text.starts_with(prefix).then(|| text.to_owned());
                is_one.ok_or_else(|| format!("expected the id of {what}, such as {prefix}01k..."))
            })),
            Parser::Scenario | Parser::Scenarios => Some(ValueParser::new(arguments::scenario)),
            Parser::Assignment => Some(ValueParser::new(|text: &str| assignment(text).map(|_| text.to_owned()))),
        };
        if let Some(parser) = parser {
            arg = arg.value_parser(parser);
        }
        arg = match (self.value, self.parser) {
            (Some(name), _) => arg.value_name(name),
            (None, Parser::Duration) => arg.value_name("DURATION"),
            (None, _) => arg.value_name(self.name.to_uppercase()),
        };
        if let Some(default) = self.default {
            arg = arg.default_value(default);
        }
        if let Some(env) = self.env {
            arg = arg.env(env).hide_env_values(true);
        }
        match self.parser {
            Parser::List => arg.value_delimiter(','),
            Parser::Scenarios => arg.value_delimiter(',').num_args(1..),
            _ if self.place == Place::Settings => arg.num_args(1..),
            _ => arg,
        }
    }

    /// Its values as they were typed, or by default.
    fn given(&self, matches: &ArgMatches) -> Vec<String> {
        if self.parser == Parser::Switch {
            return if matches.get_flag(&self.id()) { vec!["true".to_owned()] } else { Vec::new() };
        }
        match self.parser {
            Parser::Number(..) => matches.get_one::<i64>(&self.id()).map(ToString::to_string).into_iter().collect(),
            _ => matches.get_many::<String>(&self.id()).into_iter().flatten().cloned().collect(),
        }
    }
}

/// Makes the call and prints the answer.
pub(super) fn run(row: &Row, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let common = CallArgs::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    let is_typed = |argument: &Argument| matches.value_source(&argument.id()) == Some(ValueSource::CommandLine);
    // An id names one thing, whichever key it belongs to; a key in the environment must not restrict that.
    let names_one = row.arguments.iter().any(|argument| argument.place == Place::Segment && is_typed(argument));
    let (mut call, mut body) = (Call::at(&common.target, row.route), Map::new());
    for argument in row.arguments {
        let values = argument.given(matches);
        match argument.place {
            _ if values.is_empty() || (names_one && argument.name == "key" && !is_typed(argument)) => {}
            Place::Segment => call = call.id(&values[0]),
            Place::Field if argument.name == "all" => {
                if row.arguments.iter().any(|argument| argument.name == "key" && is_typed(argument)) {
                    let hint = "leave one out: `--all` resets every key, `--key KEY` one";
                    return Err(Failure::usage("`--all` and `--key` exclude each other").with_hint(hint));
                }
                // The last value counts.
                call = call.key("*");
            }
            Place::Field if row.route.reads() || argument.name == "key" => {
                call = call.parameter(argument.name, &values[0]);
            }
            Place::Field => drop(body.insert(argument.name.to_owned(), as_json(argument.parser, values))),
            Place::Settings => body.extend(values.into_iter().map(|text| match argument.parser {
                Parser::Assignment => assignment(&text).unwrap_or_default(),
                _ => (text, Value::Null),
            })),
        }
    }
    for (name, json) in row.fixed {
        body.insert((*name).to_owned(), serde_json::from_str(json).expect("the table has JSON"));
    }
    if let Some(kind) = row.follows.filter(|_| matches.get_flag("follow")) {
        return follow(&common, kind, matches.get_one::<String>("key").map_or("*", String::as_str));
    }
    // Longer than the emulator waits, so that its own timeout is reported.
    if let Some(timeout) = matches.try_get_one::<String>("timeout").ok().flatten() {
        call = call.limit(parse_duration(timeout).unwrap_or(SHORT).saturating_add(Duration::from_secs(20)));
    }
    if !row.route.reads() {
        call = call.body(&body);
    }
    if !common.json {
        call = call.text();
    }
    let bytes = call.exchanged()?.map_err(|refusal| refused(row, refusal))?;
    if common.json {
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let is_listing = answer.get("data").is_some_and(Value::is_array);
        if is_listing { print_as_is(&lines(answer)) } else { print_json(&answer) }
    } else {
        let text = String::from_utf8_lossy(&bytes);
        print_as_is(&text);
        let mut filters = row.arguments.iter().filter(|argument| !matches!(argument.name, "key" | "limit" | "cursor"));
        // The head of a table alone.
        if row.follows.is_some() && text.lines().count() == 1 && filters.any(|filter| !filter.given(matches).is_empty())
        {
            note(&format!("no {} match", row.name.split(' ').next().unwrap_or_default()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The failure for a refused call; of a call that waited, with the nearest records.
fn refused(row: &Row, refusal: Refusal) -> Failure {
    let mut nearest = String::new();
    for near in refusal.error.nearest.iter().flatten() {
        let request = near.request.as_ref().map(|request| &request.id.0);
        let id = request.or(near.delivery.as_ref().map(|delivery| &delivery.id.0));
        let differs: Vec<String> = near.differs.iter().map(cell).collect();
        nearest.push_str(&format!("\n  {}: {}", optional(id), differs.join("; ")));
    }
    let failure = refusal.into_failure();
    let is_check = failure.code == Code::TimedOut && row.route.1.ends_with("/wait");
    Failure { status: if is_check { 1 } else { failure.status }, message: failure.message + &nearest, ..failure }
}

fn as_json(parser: Parser, mut values: Vec<String>) -> Value {
    match parser {
        Parser::List | Parser::Scenarios => values.into(),
        Parser::Number(..) => values[0].parse::<i64>().map_or(Value::Null, Value::from),
        _ => values.swap_remove(0).into(),
    }
}

/// A setting's path and its value: TOML, or else a string.
fn assignment(text: &str) -> Result<(String, Value), String> {
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
    let (json, mut end) = (common.json, End { truncated: false, shown: 0, rest: Map::new() });
    common.call::<api::Stream>().key(key).follow(|found, data| {
        let gap = match found {
            "skipped" => read(data).map(|Missed { missed }| format!("{missed} records were missed")),
            "restarted" => read(data).map(|Restarted { message }| message),
            _ => None,
        };
        let line = match (gap, found) {
            (Some(gap), _) if json => {
                end.truncated = true;
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
        end.shown += 1;
        is_printed(&(visible_lines(&line) + "\n"))
    })?;
    if json {
        print_as_is(&(compact(&end) + "\n"));
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
