//! Environment variables: every flag of every command has one. A flag that a pipeline sets for all jobs alike is declared with
//! `env`, and its variable is named after the flag alone; all others are named here after the command and the flag, so that no
//! variable has two meanings.

use std::ffi::OsStr;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Command};

/// What the names of most variables begin with.
pub(super) const PREFIX: &str = "WRS_EMULATOR";

/// Names the variable of each flag: `WRS_EMULATOR_`, then the command's words unless the flag is declared with `env`, then the
/// flag. `before` is what precedes the flag.
pub(super) fn with_variables(command: Command, before: &str) -> Command {
    command.mut_args(|argument| {
        let declared = argument.get_env().and_then(OsStr::to_str).map(str::to_owned);
        match (declared, argument.get_long()) {
            (Some(whole), _) if whole.starts_with("WRS_") => argument,
            (Some(flag), _) => argument.env(format!("{PREFIX}_{flag}")),
            (None, Some(flag)) => {
                // The program's help states the rule once.
                let variable = variable(before, flag);
                argument.env(variable).hide_env(true)
            }
            (None, _) => argument,
        }
    })
}

/// The name of a variable: `before`, then the name of a command or a flag.
pub(super) fn variable(before: &str, name: &str) -> String {
    format!("{before}_{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// Ignores empty variables, which is how pipelines pass unset ones; lets a switch accept 1, yes and on as well as true.
pub(super) fn lenient(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command.mut_args(|argument| match argument.get_env() {
        Some(name) if is_empty(name) => argument.env(None::<&'static str>),
        Some(_) if matches!(argument.get_action(), ArgAction::SetTrue) => {
            argument.value_parser(BoolishValueParser::new())
        }
        _ => argument,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::{definition, every_command};

    #[test]
    fn the_flags_of_serve_have_the_documented_variables() {
        let command = definition();
        for name in ["serve", "exec"] {
            let command = command.find_subcommand(name).expect("the command is there");
            let flags = command.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument.get_env())));
            for (flag, variable) in flags.filter(|(flag, _)| !matches!(*flag, "help" | "help-all" | "version")) {
                let expected = format!("WRS_EMULATOR_{}", flag.to_ascii_uppercase().replace('-', "_"));
                assert_eq!(variable.and_then(|name| name.to_str()), Some(expected.as_str()), "{name} --{flag}");
            }
        }
    }

    /// A variable sets one flag, whichever commands have it, and every flag has a variable.
    #[test]
    fn every_flag_has_a_variable_that_means_nothing_else() {
        let mut variables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, command) in every_command(&definition()) {
            for argument in command.get_arguments() {
                let Some(flag) = argument.get_long().filter(|flag| !matches!(*flag, "help" | "help-all" | "version"))
                else {
                    continue;
                };
                let variable = argument.get_env().unwrap_or_else(|| panic!("{path} --{flag} has no variable"));
                variables.entry(variable.to_string_lossy().into_owned()).or_default().insert(flag.to_owned());
            }
        }
        assert!(variables.len() > 100, "the variables were found: {}", variables.len());
        for (variable, mut flags) in variables {
            // `exec --verdict-format` and `verdict --format` share a variable.
            flags.remove("verdict-format");
            assert!(flags.len() <= 1, "{variable} sets {flags:?}");
        }
    }
}
