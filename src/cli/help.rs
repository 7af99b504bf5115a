//! The two lengths of help: `--help` fits two screens, `--help-all` has everything.

use clap::{Arg, ArgAction, Command};

/// Asks for everything.
pub(super) const ALL: &str = "--help-all";

/// The program's own help: examples come first, and what holds for every command.
pub(super) const TEMPLATE: &str = "{about-with-newline}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

/// Gives every command both flags of help.
pub(super) fn with_help(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong);
    let all = all.help("Print help with every option, limit and environment variable");
    let command = command.disable_help_flag(true).args([short, all].map(|flag| flag.help_heading(None::<&str>)));
    on_each_below(command, with_help)
}

/// Leaves out of `--help` what is said once for all flags: an environment variable that is named after its flag.
pub(super) fn brief(command: Command) -> Command {
    let is_named = |flag: &Arg| {
        let name = flag.get_long().map(|long| format!("WRS_EMULATOR_{}", long.to_ascii_uppercase().replace('-', "_")));
        name.is_some_and(|name| flag.get_env().is_some_and(|env| *env == *name))
    };
    let command = command.mut_args(|flag| if is_named(&flag) { flag.hide_env(true) } else { flag });
    on_each_below(command, brief)
}

fn on_each_below(command: Command, change: fn(Command) -> Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, change))
}
