//! Environment variables: every flag of every command has one. Variables that a pipeline sets for all jobs alike are declared with
//! their flags; all others are named here, after the command and the flag, so that no variable has two meanings.

use std::ffi::OsStr;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

/// Gives every flag without a variable one: `WRS_EMULATOR_`, the command's words, the flag.
pub(super) fn with_environment(command: Command) -> Command {
    with_variables(command, "WRS_EMULATOR")
}

fn with_variables(command: Command, before: &str) -> Command {
    let command = command.mut_args(|argument| match argument.get_long().filter(|_| lacks_variable(&argument)) {
        None => argument,
        Some(flag) => {
            let variable = format!("{before}_{}", in_capitals(flag));
            // The program's help states the rule once.
            argument.env(variable).hide_env(true)
        }
    });
    command.mut_subcommands(|inner| {
        let below = format!("{before}_{}", in_capitals(inner.get_name()));
        with_variables(inner, &below)
    })
}

fn lacks_variable(argument: &Arg) -> bool {
    argument.get_env().is_none() && !matches!(argument.get_id().as_str(), "help" | "help-all" | "version")
}

fn in_capitals(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// Ignores empty variables, which is how pipelines pass unset ones; lets a switch accept 1, yes and on as well as true.
pub(super) fn lenient(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|argument| match argument.get_env() {
        Some(name) if is_empty(name) => argument.env(None::<&'static str>),
        Some(_) if matches!(argument.get_action(), ArgAction::SetTrue) => {
            argument.value_parser(BoolishValueParser::new())
        }
        _ => argument,
    });
    command.mut_subcommands(lenient)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::definition;
    use super::*;

    #[test]
    fn the_flags_of_serve_have_the_documented_variables() {
        let command = definition();
        for name in ["serve", "exec"] {
            let command = command.find_subcommand(name).expect("the command is there");
            let flags = command.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument.get_env())));
            for (flag, variable) in flags.filter(|(flag, _)| !matches!(*flag, "help" | "help-all" | "version")) {
                let expected = format!("WRS_EMULATOR_{}", in_capitals(flag));
                assert_eq!(variable.and_then(|name| name.to_str()), Some(expected.as_str()), "{name} --{flag}");
            }
        }
    }

    /// A variable sets one flag, whichever commands have it, and every flag has a variable.
    #[test]
    fn every_flag_has_a_variable_that_means_nothing_else() {
        fn collect(command: &Command, variables: &mut BTreeMap<String, BTreeSet<String>>) {
            for argument in command.get_arguments() {
                let Some(flag) = argument.get_long().filter(|flag| !matches!(*flag, "help" | "help-all" | "version"))
                else {
                    continue;
                };
                let variable =
                    argument.get_env().unwrap_or_else(|| panic!("{} --{flag} has no variable", command.get_name()));
                variables.entry(variable.to_string_lossy().into_owned()).or_default().insert(flag.to_owned());
            }
            command.get_subcommands().for_each(|inner| collect(inner, variables));
        }
        let mut variables = BTreeMap::new();
        collect(&definition(), &mut variables);
        assert!(variables.len() > 100, "the variables were found: {}", variables.len());
        for (variable, mut flags) in variables {
            // `exec --verdict-format` and `verdict --format` share a variable.
            flags.remove("verdict-format");
            assert!(flags.len() <= 1, "{variable} sets {flags:?}");
        }
    }
}
