//! Environment variables: every flag of every command can be set by a variable. Those that pipelines set for all jobs alike have the
//! flag's name, and stand with the flags; any other is named after its command too, so that none means two things.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command};

/// Gives every flag without a variable one: `WRS_EMULATOR_`, the command's words, the flag.
pub(super) fn with_environment(command: Command) -> Command {
    twinned(command, "WRS_EMULATOR")
}

fn twinned(mut command: Command, before: &str) -> Command {
    let flags: Vec<_> =
        command.get_arguments().filter(|flag| lacks_twin(flag)).map(|flag| flag.get_id().clone()).collect();
    for id in flags {
        command = command.mut_arg(id, |argument| {
            let variable = format!("{before}_{}", shouted(argument.get_long().unwrap_or_default()));
            // The rule is said once, below the program's help.
            argument.env(variable).hide_env(true)
        });
    }
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let below = format!("{before}_{}", shouted(&name));
        command.mut_subcommand(name, |inner| twinned(inner, &below))
    })
}

fn lacks_twin(argument: &Arg) -> bool {
    argument.get_long().is_some()
        && argument.get_env().is_none()
        && !matches!(argument.get_id().as_str(), "help" | "help-all" | "version")
}

fn shouted(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// An empty variable counts as none, as pipelines pass unset ones so; a switch takes 1, yes and on as well as true.
pub(super) fn settled(mut command: Command) -> Command {
    let empty = |argument: &Arg| {
        argument.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
    };
    let arguments: Vec<_> =
        command.get_arguments().map(|argument| (argument.get_id().clone(), empty(argument))).collect();
    for (id, empty) in arguments {
        command = command.mut_arg(id, |argument| {
            let argument = if empty { argument.env(None::<&'static str>) } else { argument };
            let switch = argument.get_env().is_some() && matches!(argument.get_action(), ArgAction::SetTrue);
            if switch { argument.value_parser(BoolishValueParser::new()) } else { argument }
        });
    }
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, settled))
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
                let expected = format!("WRS_EMULATOR_{}", shouted(flag));
                assert_eq!(variable.and_then(|name| name.to_str()), Some(expected.as_str()), "{name} --{flag}");
            }
        }
    }

    /// A variable stands for one flag, whichever commands have it, and no flag is without.
    #[test]
    fn every_flag_has_a_twin_that_means_nothing_else() {
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
            // What `exec` calls the verdict's format is, in a command of that name, the format.
            flags.remove("verdict-format");
            assert!(flags.len() <= 1, "{variable} stands for {flags:?}");
        }
    }
}
