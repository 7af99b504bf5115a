//! Errors of the argument parser as failures of this program: what is wrong, then what to type instead.
//!
//! `table` lists names that people know from other programs, `line` corrects the line that was typed. Must not run anything.

mod line;
mod table;

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::failure::Failure;
use super::value;
use crate::contract::nearest;
use line::{Line, flag};

/// What is wrong, and what to type instead if that is known.
type Answer = (String, Option<String>);

/// The failure to report for an error of the argument parser; `None` for help and version, which are not errors.
pub(super) fn failure(error: &Error, definition: &Command, arguments: &[OsString]) -> Option<Failure> {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        return None;
    }
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let line = Line::new(definition, &words);
    let part = |kind| context(error, kind).unwrap_or_default();
    let (message, hint) = match error.kind() {
        ErrorKind::UnknownArgument => unknown_argument(&line, &first_word(part(ContextKind::InvalidArg))),
        ErrorKind::InvalidSubcommand => unknown_command(&line, &part(ContextKind::InvalidSubcommand)),
        ErrorKind::ArgumentConflict if error.get(ContextKind::InvalidSubcommand).is_some() => {
            misplaced_command(&line, definition, &part(ContextKind::InvalidSubcommand))
        }
        ErrorKind::ValueValidation => {
            wrong_value(error, &line, &part(ContextKind::InvalidArg), &part(ContextKind::InvalidValue))
        }
        ErrorKind::InvalidValue => (first_paragraph(error), listed_value_hint(error, &line)),
        _ => (first_paragraph(error), None),
    };
    let hint = hint.unwrap_or_else(|| {
        let command = [&["wrs-emulator"], &line.path[..]].concat().join(" ");
        format!("`{command} --help` shows how it is used")
    });
    Some(Failure::usage(message).with_hint(hint))
}

/// A command that does not exist.
fn unknown_command(line: &Line<'_>, name: &str) -> Answer {
    let known = line.command.get_subcommands().map(Command::get_name);
    let near = || nearest(name, known).map(|near| format!("did you mean `{near}`?"));
    (format!("there is no command `{name}`"), table::hint(&line.path, name).map(str::to_owned).or_else(near))
}

/// A command after flags, which belong to `serve` if they come first.
fn misplaced_command(line: &Line<'_>, definition: &Command, name: &str) -> Answer {
    let (Some(_), Some(at)) = (definition.find_subcommand(name), line.words.iter().position(|word| word == name))
    else {
        return unknown_command(line, name);
    };
    let (corrected, foreign) = line.with_command_first(definition, at);
    match foreign {
        None => (format!("`{name}` comes after flags"), Some(format!("put the command first: `{corrected}`"))),
        Some(foreign) => {
            let hint = match (foreign, line.value_of(foreign)) {
                ("--listen", Some(address)) => {
                    format!("for an emulator that listens there, use `wrs-emulator {name} --url http://{address}`")
                }
                _ => format!("`wrs-emulator {name} --help` lists the flags of `{name}`"),
            };
            (format!("there is no `{foreign}` for `{name}`"), Some(hint))
        }
    }
}

/// An argument that the command does not have.
fn unknown_argument(line: &Line<'_>, argument: &str) -> Answer {
    if !argument.starts_with('-') {
        let hint = line.first_value().filter(|at| line.words[*at] == argument).and_then(|at| {
            let joined = line.with_joined_values(at).map(|line| format!("join several values with commas: `{line}`"));
            let dashes = || format!("put `--` before the command: `{}`", line.with_dashes(at));
            joined.or_else(|| matches!(line.path[..], ["exec"] | ["review", "differential"]).then(dashes))
        });
        return (format!("unexpected argument `{argument}`"), hint);
    }
    if line.path == ["clock", "advance"] && argument.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
        let hint = "`wrs-emulator clock set TIME` changes what timestamps show";
        return ("time only moves forward".to_owned(), Some(hint.to_owned()));
    }
    // The parser reads `-fail-on` as `-f -a …`.
    let long = line.words.iter().find(|word| {
        word.starts_with(argument) && !word.starts_with("--") && flag(line.command, &format!("-{word}")).is_some()
    });
    if let Some(long) = long.and_then(|word| word.split('=').next()) {
        return (format!("there is no `{long}`"), Some(format!("did you mean `-{long}`?")));
    }
    let names = line.command.get_arguments().filter_map(clap::Arg::get_long);
    let near = || nearest(argument.trim_start_matches('-'), names).map(|near| format!("did you mean `--{near}`?"));
    let known = table::hint(&line.path, argument)
        .map(|hint| hint.replace("{value}", line.value_of(argument).unwrap_or("VALUE")))
        .or_else(|| address_flag(line, argument));
    (format!("there is no `{argument}`"), known.or_else(near))
}

/// `--port` and `--host`, for commands that listen and for those that call.
fn address_flag(line: &Line<'_>, argument: &str) -> Option<String> {
    let default_of = |name: &str| flag(line.command, name)?.get_default_values().first()?.to_str();
    match argument {
        "--port" | "-p" => {
            let port = line.value_of(argument).unwrap_or("PORT");
            let listens = default_of("--listen").map(|_| format!("use `--listen 127.0.0.1:{port}`"));
            listens.or_else(|| default_of("--url").map(|_| format!("use `--url http://127.0.0.1:{port}`")))
        }
        "--host" | "--bind" | "--address" => default_of("--listen").map(|address| {
            let port = address.rsplit(':').next().unwrap_or_default();
            format!("use `--listen {}:{port}`", line.value_of(argument).unwrap_or("ADDRESS"))
        }),
        _ => None,
    }
}

/// A value of the wrong form for its flag.
fn wrong_value(error: &Error, line: &Line<'_>, argument: &str, value: &str) -> Answer {
    let name = argument.split(' ').next().unwrap_or_default();
    let known = flag(line.command, name).or_else(|| {
        let is_named = |known: &&clap::Arg| known.is_positional() && known.to_string() == name;
        line.command.get_arguments().find(is_named)
    });
    let hint = known.map(|known| {
        let corrected = value::corrected(known, value);
        let line = line.with_value(value, &corrected);
        line.map_or_else(|| format!("for example `{name} {corrected}`"), |line| format!("for example `{line}`"))
    });
    (format!("invalid value `{value}` for `{argument}`: {}", value::expected(error, value)), hint)
}

/// The hint for a value that is not in the list of its flag: the nearest one, or several values joined by commas.
fn listed_value_hint(error: &Error, line: &Line<'_>) -> Option<String> {
    let value = context(error, ContextKind::InvalidValue)?;
    let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else { return None };
    let parts: Vec<&str> = value.split([' ', ';', '|', '+']).filter(|part| !part.is_empty()).collect();
    if parts.len() > 1 && parts.iter().all(|part| known.iter().any(|known| known == part)) {
        let line = line.with_value(&value, &parts.join(","))?;
        return Some(format!("join several values with commas: `{line}`"));
    }
    context(error, ContextKind::SuggestedValue).map(|near| format!("did you mean `{near}`?"))
}

/// A part of an error as text, the first of several.
fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// `--listen` of `--listen <ADDRESS>`.
fn first_word(text: String) -> String {
    text.split(' ').next().map(str::to_owned).unwrap_or(text)
}

/// The parser's message, without usage and tips.
fn first_paragraph(error: &Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.trim_start_matches("error: ").lines().map(str::trim).collect();
    in_backticks(&lines.join(" "))
}

/// Turns the parser's `'…'` into backticks; an apostrophe within a word stays.
fn in_backticks(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let is_edge = |at: Option<usize>| {
        at.and_then(|at| chars.get(at)).is_none_or(|c| c.is_whitespace() || ":,;.()[]".contains(*c))
    };
    let marked = chars.iter().enumerate().map(|(at, c)| match c {
        '\'' if is_edge(at.checked_sub(1)) || is_edge(Some(at + 1)) => '`',
        c => *c,
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_become_backticks_and_apostrophes_stay() {
        for (text, expected) in [
            ("invalid value 'x' for '--log <LOG>': why", "invalid value `x` for `--log <LOG>`: why"),
            ("the scheme's 'a b', not 'c'", "the scheme's `a b`, not `c`"),
            ("", ""),
        ] {
            assert_eq!(in_backticks(text), expected);
        }
    }

    /// Everything that is offered instead of another exists, and the other does not.
    #[test]
    fn what_is_offered_exists() {
        let definition = super::super::definition();
        for (command, names, hint) in table::MISTAKES {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            let typed = Line::new(&definition, &words);
            assert_eq!(typed.path.join(" "), *command, "{hint}");
            for name in *names {
                let exists = typed.command.find_subcommand(name).is_some() || flag(typed.meant(), name).is_some();
                assert!(!exists, "`{command} {name}` exists");
            }
            for part in hint.split('`').skip(1).step_by(2) {
                let Some((_, line)) = part.split_once("wrs-emulator ") else { continue };
                let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
                let offered = Line::new(&definition, &words);
                assert!(!offered.path.is_empty() || line == "--version", "{hint}");
                for word in words.iter().filter(|word| word.len() > 2 && word.starts_with("--")) {
                    assert!(line == "--version" || flag(offered.meant(), word).is_some(), "{word}: {hint}");
                }
            }
            // A flag in place of another belongs to the same command.
            if let Some(word) = hint.strip_prefix("use `").and_then(|rest| rest.split(['`', ' ']).next())
                && word.starts_with("--")
            {
                assert!(flag(typed.meant(), word).is_some(), "{hint}");
            }
        }
    }
}
