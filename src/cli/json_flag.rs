//! `--json`: every command has it, and whether it was given is known before the arguments are parsed, so that what is wrong with
//! them is reported as JSON, too.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::help::LAST;

/// Adds `--json` to a command whose output is the same with and without it.
pub(super) fn with_json(command: Command) -> Command {
    let is_leaf = command.get_subcommands().next().is_none();
    let has_it = command.get_arguments().any(|flag| flag.get_id() == "json");
    if !is_leaf || has_it {
        return command;
    }
    let flag = Arg::new("json").long("json").action(ArgAction::SetTrue).display_order(LAST);
    command.arg(flag.help("Print errors as JSON"))
}

/// Whether these arguments, or the environment, ask for JSON: by `--json`, `--format json` or `--log json`.
pub(super) fn is_requested(definition: &Command, arguments: &[OsString]) -> bool {
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let mut command = definition;
    for word in &words {
        let Some(inner) = command.find_subcommand(word) else { break };
        command = inner;
    }
    words.contains(&"--json") || command.get_arguments().any(|flag| asks(flag, &words))
}

/// Whether a flag is given a value that means JSON.
fn asks(flag: &Arg, words: &[&str]) -> bool {
    let values: &[&str] = match flag.get_id().as_str() {
        "json" => &["1", "true", "yes", "on", "t", "y"],
        "format" | "log" => &["json"],
        _ => return false,
    };
    let long = format!("--{}", flag.get_id());
    let typed = words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(&long)?.strip_prefix('=') {
        Some(value) => Some(value),
        None if *word == long => words.get(at + 1).copied(),
        None => None,
    });
    let of_environment = || std::env::var(flag.get_env()?).ok();
    let value = typed.map(str::to_owned).or_else(of_environment);
    value.is_some_and(|value| values.contains(&value.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::{definition, every_command, shorthand::expanded};
    use super::*;

    #[test]
    fn json_is_asked_for_by_flags_even_if_others_are_wrong() {
        let definition = definition();
        for (line, expected) in [
            ("x requests --json", true),
            ("x requests --nope --json", true),
            ("x nope --json", true),
            ("x --json", true),
            ("x verdict --format json", true),
            ("x verdict --format=json", true),
            ("x verdict --format junit", false),
            ("x --log json --nope", true),
            ("x serve --log text", false),
            ("x exec --json -- y", true),
            ("x exec -- y --json", false),
            ("x requests", false),
        ] {
            let words = expanded(line.split(' ').map(OsString::from).collect());
            assert_eq!(is_requested(&definition, &words), expected, "{line}");
        }
    }

    #[test]
    fn every_command_has_the_flag() {
        for (path, command) in every_command(&definition()) {
            let has_it = command.get_arguments().any(|flag| flag.get_long() == Some("json"));
            assert!(has_it || command.get_subcommands().next().is_some(), "{path}");
        }
    }
}
