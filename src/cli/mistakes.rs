//! What the argument parser refuses, in the style of every other failure: what is wrong, then what to type instead.
//!
//! Flags and commands that people know from other programs have their counterparts here. Must not run anything.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::failure::Failure;

/// Commands that do not exist here, with what to use instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["start", "up", "server"], "use `wrs-emulator serve`"),
    (&["run"], "use `wrs-emulator exec -- CMD`"),
    (&["logs", "log", "tail"], "use `wrs-emulator requests --follow`"),
    (&["stop", "down", "kill"], "end it with Ctrl-C, or with SIGTERM"),
    (&["status", "ping", "ready"], "use `wrs-emulator health`"),
    (&["fire", "send", "emit", "publish"], "use `wrs-emulator trigger`"),
    (&["events", "webhooks", "hooks"], "use `wrs-emulator deliveries`"),
    (&["replay", "resend", "retry"], "use `wrs-emulator deliveries redeliver ID`"),
    (&["subscribe"], "use `wrs-emulator subscriptions create`"),
    (&["config", "settings"], "use `wrs-emulator profile`"),
    (&["report"], "use `wrs-emulator verdict`"),
    (&["lint", "validate"], "use `wrs-emulator check`"),
    (&["time"], "use `wrs-emulator clock`"),
    (&["version"], "use `wrs-emulator --version`"),
];

/// The failure to report for an error of the argument parser; `None` for help and version, which are no errors.
pub(super) fn failure(error: &Error, definition: &Command, arguments: &[OsString]) -> Option<Failure> {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    if matches!(error.kind(), DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion) {
        return None;
    }
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (command, path) = command_of(definition, &words);
    let (message, hint) = match (error.kind(), context(error, ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(argument)) => unknown_argument(&argument, command, &path, &words),
        (ErrorKind::InvalidSubcommand, _) => {
            let name = context(error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let known = COMMANDS.iter().find(|(names, _)| path.is_empty() && names.contains(&name.as_str()));
            (format!("there is no command `{name}`"), known.map(|(_, hint)| (*hint).to_owned()))
        }
        _ => (first_paragraph(error), None),
    };
    let hint = hint.or_else(|| suggested(error)).unwrap_or_else(|| {
        let command = [&["wrs-emulator"], &path[..]].concat().join(" ");
        format!("`{command} --help` shows how it is used")
    });
    Some(Failure::usage(message).with_hint(hint))
}

/// The command that the arguments name, and its path below the program.
fn command_of<'c>(definition: &'c Command, words: &'c [String]) -> (&'c Command, Vec<&'c str>) {
    let (mut command, mut path) = (definition, Vec::new());
    for word in words {
        let Some(inner) = command.find_subcommand(word) else { break };
        command = inner;
        path.push(inner.get_name());
    }
    (command, path)
}

/// An argument that the command does not have, and what to type instead where that is known.
fn unknown_argument(argument: &str, command: &Command, path: &[&str], words: &[String]) -> (String, Option<String>) {
    let default_of = |name: &str| {
        let found = command.get_arguments().find(|known| known.get_long() == Some(name))?;
        found.get_default_values().first()?.to_str()
    };
    let value = || {
        let at = words.iter().position(|word| word.split('=').next() == Some(argument))?;
        words[at].split_once('=').map(|(_, value)| value.to_owned()).or_else(|| words.get(at + 1).cloned())
    };
    let hint = match (argument, path) {
        ("--port" | "-p", _) => {
            let port = value().unwrap_or_else(|| "PORT".to_owned());
            let listens = default_of("listen").map(|_| format!("use `--listen 127.0.0.1:{port}`"));
            listens.or_else(|| default_of("url").map(|_| format!("use `--url http://127.0.0.1:{port}`")))
        }
        ("--host" | "--bind" | "--address", _) => default_of("listen").map(|address| {
            let port = address.rsplit(':').next().unwrap_or_default();
            format!("use `--listen {}:{port}`", value().unwrap_or_else(|| "ADDRESS".to_owned()))
        }),
        (word, ["exec"]) if !word.starts_with('-') => {
            Some(format!("put `--` before the command: `wrs-emulator exec -- {word}`"))
        }
        (word, ["clock", "advance"]) if word.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
            let hint = "`wrs-emulator clock set TIME` changes what timestamps show";
            return ("time only moves forward".to_owned(), Some(hint.to_owned()));
        }
        _ => None,
    };
    let is_flag = argument.starts_with('-');
    (if is_flag { format!("there is no `{argument}`") } else { format!("unexpected argument `{argument}`") }, hint)
}

/// What the parser itself suggests.
fn suggested(error: &Error) -> Option<String> {
    let nearest = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let nearest = nearest.into_iter().find_map(|kind| context(error, kind));
    nearest.map(|name| format!("did you mean `{name}`?")).or_else(|| {
        let Some(ContextValue::StyledStrs(texts)) = error.get(ContextKind::Suggested) else { return None };
        texts.first().map(|text| in_backticks(&text.to_string()))
    })
}

/// A part of an error as text, the first of several.
fn context(error: &Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.split(' ').next().unwrap_or_default().to_owned()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

/// What is wrong, without usage and tips.
fn first_paragraph(error: &Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.trim_start_matches("error: ").lines().map(str::trim).collect();
    in_backticks(&lines.join(" "))
}

/// `'…'` as the parser writes it, with the marks used everywhere else; an apostrophe within a word stays.
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

    /// Every command that is offered instead of another exists.
    #[test]
    fn what_is_offered_exists() {
        let definition = super::super::definition();
        for (names, hint) in COMMANDS {
            for name in *names {
                assert!(definition.find_subcommand(name).is_none(), "`{name}` exists");
            }
            let Some(line) = hint.split('`').nth(1) else { continue };
            let words: Vec<String> = line.split(' ').skip(1).map(str::to_owned).collect();
            assert!(words[0].starts_with("--") || !command_of(&definition, &words).1.is_empty(), "{hint}");
        }
    }
}
