//! The two lengths of help: `--help` is short, `--help-all` has everything. Both end with examples.

use clap::{Arg, ArgAction, Command};

use super::environment::{PREFIX, variable};

/// The display order of `--json`, after all other options.
pub(super) const LAST: usize = 900;

/// The flag that prints the long help.
pub(super) const ALL: &str = "--help-all";

/// The template of the program's own help, with examples and notes about all commands before the usage.
pub(super) const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

/// The examples below a command's help, each without the program's name; one may end in a comment, two spaces apart.
pub(super) fn examples<const N: usize>(lines: [&str; N]) -> String {
    lines
        .iter()
        .fold("Examples:".to_owned(), |text, line| format!("{text}\n  {}", format!("wrs-emulator {line}").trim_end()))
}

/// Adds both help flags. They are the last options, after `--json`.
pub(super) fn with_help(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    let all = all.help("Print help with every option, limit and environment variable");
    let both = [short.display_order(LAST + 1), all.display_order(LAST + 2)];
    command.disable_help_flag(true).args(both.map(|flag| flag.help_heading(None::<&str>)))
}

/// Hides environment variables from `--help` if they are named after their flags; the program's help states that rule once.
pub(super) fn brief(command: Command) -> Command {
    let is_named = |flag: &Arg| {
        let name = flag.get_long().map(|long| variable(PREFIX, long));
        name.is_some_and(|name| flag.get_env().is_some_and(|env| *env == *name))
    };
    command.mut_args(|flag| if is_named(&flag) { flag.hide_env(true) } else { flag })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{every_command, shorthand::expanded};
    use super::*;

    /// The words of an example as a shell would pass them on, up to a comment, a pipe or a file.
    fn words(line: &str) -> Vec<String> {
        let line = line.trim_start().split("  ").next().unwrap_or_default();
        let (mut words, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '\'' => quoted = !quoted,
                '<' | '>' | '|' if !quoted => break,
                ' ' if !quoted => words.push(String::new()),
                c => words.last_mut().expect("there is always one").push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    fn examples_of(command: &Command) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = text.strip_prefix("Examples:\n").and_then(|text| text.split("\n\n").next()).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_command_has_examples_and_each_is_a_command_line_that_is_taken() {
        let definition = super::super::definition();
        let found = every_command(&definition);
        assert!(found.len() > 51, "the commands were found: {}", found.len());
        for (path, command) in found.into_iter().skip(1) {
            let lines = examples_of(command);
            for line in &lines {
                let words = words(line).into_iter().map(OsString::from).collect();
                let taken = definition.clone().try_get_matches_from(expanded(words));
                assert!(taken.is_ok(), "{path}: `{line}`: {}", taken.expect_err("it is refused"));
            }
            let first = path.split(' ').next().unwrap_or_default();
            assert!(lines.iter().any(|line| words(line).get(1).is_some_and(|word| word == first)), "{path}: {lines:?}");
        }
        assert_eq!(words("a 'b  c' - <d"), ["a", "b"], "a comment is cut off first");
        assert_eq!(words("a 'b c' - <d  why"), ["a", "b c", "-"]);
    }
}
