//! The definition of the command line and the parsing of arguments: environment variables of flags, default commands of groups, and
//! clap's errors as failures of this program.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::call_command::with_calls;
use super::failure::{Failure, colored, note, report, set_json, warn};
use super::stream::Stream;
use crate::contract::{DEFAULT_PORT, nearest};
use crate::control::commands;
use crate::util::wording::shell_word;

const PREFIX: &str = "WRS_EMULATOR";

/// The commands that `--help` shows; `--help-all` shows the others as well.
const FIRST_COMMANDS: [&str; 12] = [
    "serve",
    "exec",
    "start",
    "trigger",
    "listen",
    "explain",
    "verdict",
    "scenarios",
    "clock",
    "run",
    "profile",
    "doctor",
];
const FIRST_OPTIONS: [&str; 12] = [
    "listen",
    "profile",
    "set",
    "seed",
    "clock",
    "quiet",
    "forward",
    "scenarios",
    "scenario",
    "help",
    "help-all",
    "version",
];

/// Groups of commands, each with the command that runs when the group is named alone.
pub(super) fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    let leading = commands().into_iter().filter(|command| command.group.is_some());
    leading.filter_map(|command| command.name.split_once(' ')).chain([("forwards", "list")])
}

/// The definition of the command line, with what the derives cannot express.
pub(super) fn definition(command: Command) -> Command {
    with_variables(completed(command), PREFIX, false, &mut BTreeSet::new())
}

fn completed(command: Command) -> Command {
    // Several jobs on one machine may run `exec` at a time, so each uses a free port.
    let free_port = |listen: Arg| listen.default_value("127.0.0.1:0");
    let command = with_calls(command).mut_subcommand("exec", |exec| exec.mut_arg("listen", free_port));
    defaults().fold(command, |command, (group, _)| {
        command.mut_subcommand(group, |inner| inner.override_usage(format!("wrs-emulator {group} [OPTIONS] [COMMAND]")))
    })
}

/// Gives every flag an environment variable. A flag that a pipeline sets for all jobs alike is declared with `env`, and its variable is
/// named after the flag alone; all others are named after the command and the flag, so that no variable has two meanings. Empty
/// variables are ignored, which is how pipelines pass unset ones, and blanks and line ends around a value are. If `is_brief`, help shows
/// no variable whose name follows from its flag, because the program's help states that rule once. Adds the names of all variables to `known`.
fn with_variables(command: Command, before: &str, is_brief: bool, known: &mut BTreeSet<String>) -> Command {
    let command = command.mut_args(|flag| {
        let declared = flag.get_env().and_then(OsStr::to_str).map(str::to_owned);
        let Some(long) = flag.get_long() else { return flag };
        let (name, is_hidden) = match declared {
            Some(whole) if whole.starts_with("WRS_") => (whole, false),
            Some(declared) => (format!("{PREFIX}_{declared}"), is_brief),
            None if matches!(flag.get_action(), ArgAction::HelpShort | ArgAction::HelpLong) => return flag,
            None => (variable(before, long), true),
        };
        known.insert(name.clone());
        let value = std::env::var(&name).ok();
        let trimmed = value.as_deref().map(str::trim);
        if trimmed.is_some_and(str::is_empty) {
            return flag.env(None::<&str>);
        }
        let flag = match flag.get_action() {
            ArgAction::SetTrue => flag.value_parser(BoolishValueParser::new()),
            _ => flag,
        };
        // A secret read from a file often ends with a newline, which no header can carry. clap would read the variable unchanged, so the
        // trimmed value becomes the flag's default.
        if let Some(trimmed) = trimmed.filter(|trimmed| value.as_deref() != Some(trimmed)) {
            return flag.env(None::<&str>).default_value(trimmed.to_owned()).hide_default_value(true);
        }
        flag.env(name).hide_env(is_hidden)
    });
    command.mut_subcommands(|inner| {
        let before = variable(before, inner.get_name());
        with_variables(inner, &before, is_brief, known)
    })
}

/// The program with the commands and options that `--help` shows, in one list each.
fn first_week(command: Command) -> Command {
    let command = command.disable_help_subcommand(true).mut_args(|flag| {
        let is_shown = flag.get_long().is_some_and(|name| FIRST_OPTIONS.contains(&name));
        flag.hide_short_help(!is_shown).help_heading(None)
    });
    command.mut_subcommands(|inner| {
        let is_shown = FIRST_COMMANDS.contains(&inner.get_name());
        inner.hide(!is_shown)
    })
}

fn variable(before: &str, name: &str) -> String {
    format!("{before}_{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// Parses the process's arguments; an error is reported.
pub(super) fn parsed(command: Command) -> Result<ArgMatches, ExitCode> {
    let arguments = expanded(std::env::args_os().collect());
    let is_brief = !arguments.iter().any(|argument| argument == "--help-all");
    let mut known = BTreeSet::new();
    let mut command = with_variables(completed(command), PREFIX, is_brief, &mut known);
    if is_brief && arguments.get(1).is_none_or(|word| word != "help") {
        command = first_week(command);
    }
    let matches = command.try_get_matches_from_mut(&arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::DisplayVersion => {
            // Help without a request for it is an error.
            let (stream, has_colors, status) = if error.use_stderr() {
                (Stream::Err, colored(&std::io::stderr()), 2)
            } else {
                (Stream::Out, colored(&std::io::stdout()), 0)
            };
            let text = error.render();
            stream.write(if has_colors { text.ansi().to_string() } else { text.to_string() });
            ExitCode::from(status)
        }
        _ => {
            set_json(is_json_typed(&arguments) || is_json_set(&command, &arguments));
            report(&usage(&command, &arguments, error))
        }
    })?;
    let (leaf, of_leaf) = leaf(&command, &matches);
    let is_json =
        |flag| of_leaf.try_get_raw(flag).ok().flatten().is_some_and(|mut values| values.any(|it| it == "json"));
    set_json(of_leaf.get_flag("json") || is_json("format") || is_json("log"));
    if let Some(failure) = file_and_emulator(leaf, of_leaf) {
        return Err(report(&failure));
    }
    note_key_of_environment(leaf, of_leaf);
    warn_of_unknown_variables(&known);
    Ok(matches)
}

/// Inserts the default command that was left out: `requests --status 404` is `requests list --status 404`.
fn expanded(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    let is_flag = word(2).is_none_or(|word| word.starts_with('-') && !matches!(word, "-h" | "--help" | "--help-all"));
    if let Some((_, default)) = defaults().find(|(group, _)| is_flag && word(1) == Some(group)) {
        arguments.insert(2, default.into());
    }
    arguments
}

/// True if the arguments ask for JSON, known before they are parsed, so that their mistakes are also reported as JSON.
fn is_json_typed(arguments: &[OsString]) -> bool {
    let words: Vec<&OsString> = arguments.iter().take_while(|word| *word != "--").collect();
    words.iter().any(|word| ["--json", "--format=json", "--log=json"].iter().any(|flag| *word == flag))
        || words.windows(2).any(|pair| (pair[0] == "--format" || pair[0] == "--log") && pair[1] == "json")
}

/// True if the variable of `--json` is set for the command that these arguments name.
fn is_json_set(command: &Command, arguments: &[OsString]) -> bool {
    let leaf = arguments.iter().fold(command, |command, word| command.find_subcommand(word).unwrap_or(command));
    let json = leaf.get_arguments().find(|flag| flag.get_id() == "json");
    json.and_then(Arg::get_env).and_then(std::env::var_os).is_some_and(|value| value != "0" && value != "false")
}

/// An error of clap: its message, with its tips or the usage as a hint.
fn usage(command: &Command, arguments: &[OsString], mut error: clap::Error) -> Failure {
    // Removed, because clap would write them below the message.
    let (tips, usage) = (take_tips(&mut error), error.remove(ContextKind::Usage));
    let text = error.to_string();
    let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").trim_end();
    let message = naming_variable(command, arguments, &error, message);
    // Only clap's own line ends begin a line, not those of an argument.
    let has_lines = !arguments.iter().any(|word| word.to_string_lossy().contains('\n'));
    let (message, lines) = match message.split_once('\n').filter(|_| has_lines) {
        Some((first, rest)) => (first.to_owned(), rest.lines().map(str::to_owned).collect()),
        None => (message, Vec::new()),
    };
    let failure = Failure::usage(message).with_lines(lines);
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|word| word.to_str()).collect();
    if let (ErrorKind::InvalidValue, Some(ContextValue::String(value))) =
        (error.kind(), error.get(ContextKind::InvalidValue))
        && value.contains(',')
        && let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
    {
        let flag = flag.split(' ').next().unwrap_or_default();
        return failure.with_hint(format!("{flag} takes one value at a time"));
    }
    if let Some(hint) = way_out(command, &words, &error) {
        return failure.with_hint(hint);
    }
    failure.with_hint(match usage {
        _ if !tips.is_empty() => tips.join("; "),
        Some(ContextValue::StyledStr(usage)) => {
            let usage = usage.to_string();
            format!("`{}`; --help shows more", usage.lines().next().unwrap_or_default().trim_start_matches("Usage: "))
        }
        _ => "--help shows the flags and their values".to_owned(),
    })
}

/// Suggestions, for instance `a similar argument exists: '--json'`.
fn take_tips(error: &mut clap::Error) -> Vec<String> {
    let kinds = [
        (ContextKind::SuggestedSubcommand, "subcommand"),
        (ContextKind::SuggestedArg, "argument"),
        (ContextKind::SuggestedValue, "value"),
        (ContextKind::Suggested, ""),
    ];
    let tips = kinds.into_iter().flat_map(|(kind, what)| match error.remove(kind) {
        Some(ContextValue::String(name)) => vec![format!("a similar {what} exists: '{name}'")],
        Some(ContextValue::Strings(names)) if names.len() == 1 => {
            vec![format!("a similar {what} exists: '{}'", names[0])]
        }
        Some(ContextValue::Strings(names)) => vec![format!("some similar {what}s exist: '{}'", names.join("', '"))],
        Some(ContextValue::StyledStrs(tips)) => tips.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    });
    // A flag that a command does not have is hardly ever meant as a value.
    tips.filter(|tip| !tip.contains("as a value, use")).collect()
}

/// The argument that an error is about, as clap names it.
fn invalid_argument(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(argument) => Some(argument),
        _ => None,
    }
}

/// The message with the environment variable instead of the flag, where the value came from there.
fn naming_variable(command: &Command, arguments: &[OsString], error: &clap::Error, message: &str) -> String {
    let variable = || {
        let shown = invalid_argument(error)?;
        let flag = shown.split([' ', '=']).next().filter(|flag| flag.starts_with("--"))?;
        let is_typed = |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some(flag));
        let leaf = arguments.iter().fold(command, |command, word| command.find_subcommand(word).unwrap_or(command));
        let known = leaf.get_arguments().find(|known| known.get_long() == flag.strip_prefix("--"))?;
        let variable = known.get_env().and_then(OsStr::to_str).filter(|_| !arguments.iter().any(is_typed))?;
        Some(message.replace(&format!("'{shown}'"), variable))
    };
    variable().unwrap_or_else(|| message.to_owned())
}

/// The correct command where clap's own tip is misleading.
fn way_out(command: &Command, words: &[&str], error: &clap::Error) -> Option<String> {
    let found = invalid_argument(error).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let whole = words.iter().find(|word| word.starts_with(found))?;
    if found == "--port" {
        let after = words.iter().skip_while(|word| *word != whole).nth(1);
        let port = whole.strip_prefix("--port=").or(after.copied()).filter(|port| port.parse::<u16>().is_ok());
        let leaf = words.iter().fold(command, |command, word| command.find_subcommand(word).unwrap_or(command));
        let flag = if has_flag(leaf, "listen") { "--listen 127.0.0.1" } else { "--url http://127.0.0.1" };
        return Some(format!("use `{flag}:{}`", port.map_or_else(|| DEFAULT_PORT.to_string(), str::to_owned)));
    }
    let leaf = || words.iter().fold(command, |command, word| command.find_subcommand(word).unwrap_or(command));
    if found == "--key" && leaf().get_positionals().any(|argument| argument.get_id() == "id") {
        return Some("leave `--key` out: an id names one thing, whichever key it belongs to".to_owned());
    }
    if words.first() == Some(&"exec") && !found.starts_with('-') && !words.contains(&"--") {
        return Some(format!("put `--` before the command: `wrs-emulator exec -- {}`", shell_word(whole)));
    }
    if whole[1..].starts_with(|digit: char| digit.is_ascii_digit()) {
        return Some("values are not negative; `clock set TIME` moves a clock back".to_owned());
    }
    let name = found.strip_prefix("--")?;
    let inner = words.iter().find_map(|word| command.find_subcommand(word))?;
    (words[0].starts_with('-') && has_flag(inner, name))
        .then(|| format!("write `{found}` after the command: `wrs-emulator {} {found} …`", inner.get_name()))
}

fn has_flag(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|flag| flag.get_long() == Some(name))
        || command.get_subcommands().any(|inner| has_flag(inner, name))
}

/// Warns of variables that look like a flag's and are none: a misspelt one would be ignored.
fn warn_of_unknown_variables(known: &BTreeSet<String>) {
    let set =
        std::env::vars_os().filter(|(_, value)| !value.is_empty()).filter_map(|(name, _)| name.into_string().ok());
    for name in set.filter(|name| name.starts_with("WRS_EMULATOR_") && !known.contains(name)) {
        let near = nearest(&name, known.iter().map(String::as_str));
        let hint =
            near.map_or_else(|| "--help-all shows the variables".to_owned(), |near| format!("did you mean {near}?"));
        warn(&format!("{name} is set, but no flag has this variable; {hint}"));
    }
}

fn leaf<'a>(mut command: &'a Command, mut matches: &'a ArgMatches) -> (&'a Command, &'a ArgMatches) {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(below) = command.find_subcommand(name) else { break };
        (command, matches) = (below, inner);
    }
    (command, matches)
}

/// The failure of a command that is to read a saved run and to ask an emulator.
// Not by clap, for which a flag that `exec` sets by its variable conflicts like a typed one.
fn file_and_emulator(command: &Command, matches: &ArgMatches) -> Option<Failure> {
    let reads_run =
        |flag: &Arg| flag.get_id() == "from" && flag.get_value_names().is_some_and(|names| names == ["RUN"]);
    let is_typed = |flag: &&str| {
        matches.try_contains_id(flag).is_ok() && matches.value_source(flag) == Some(ValueSource::CommandLine)
    };
    let is_read = command.get_arguments().any(reads_run) && matches.contains_id("from");
    let flag = ["url", "control_token", "ca", "insecure"].into_iter().find(is_typed).filter(|_| is_read)?;
    let flag = flag.replace('_', "-");
    let failure = Failure::usage(format!("`--{flag}` needs a running emulator, but `--from` reads a file"));
    Some(failure.with_hint("leave one of them out"))
}

/// Prints a note if a key in the environment restricts a command that would show all keys without it.
fn note_key_of_environment(command: &Command, matches: &ArgMatches) {
    let shows_all = |key: &Arg| match key.get_default_values() {
        _ if key.get_id() != "key" => false,
        [] => matches!(command.get_name(), "list" | "show"),
        [default, ..] => default == "*",
    };
    if command.get_arguments().any(shows_all)
        && matches.value_source("key") == Some(ValueSource::EnvVariable)
        && let Some(key) = matches.get_one::<String>("key").filter(|key| *key != "*")
    {
        note(&format!("only what belongs to {key}, the key in WRS_API_KEY; `--key '*'` means every key"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;

    fn definition() -> Command {
        super::definition(crate::cli::Cli::command())
    }

    /// This command and every one below it, each by its words without the program's name.
    fn every_command(command: &Command) -> Vec<(String, &Command)> {
        let below = command.get_subcommands().flat_map(|inner| {
            let paths = every_command(inner).into_iter();
            paths.map(|(path, found)| (format!("{} {path}", inner.get_name()).trim().to_owned(), found))
        });
        std::iter::once((String::new(), command)).chain(below).collect()
    }

    /// The paragraph about keys in the program's help is true of every command that has `--key`.
    #[test]
    fn the_help_names_the_commands_without_a_key_of_their_own() {
        let text = crate::cli::NOTES;
        let paragraph = text.split("\n\n").find(|text| text.starts_with("Keys: ")).expect("a paragraph");
        let (of_variable, of_default) = paragraph.split_once("; else").expect("two halves");
        for (path, command) in every_command(&definition()) {
            let Some(key) = command.get_arguments().find(|known| known.get_long() == Some("key")) else { continue };
            let default = key.get_default_values().first().and_then(|value| value.to_str()).unwrap_or("*");
            let is_shared = key.get_env().is_some_and(|name| name == "WRS_API_KEY");
            let group = path.split(' ').next().unwrap_or_default();
            assert_eq!(of_variable.contains(group), !is_shared, "{path}: WRS_API_KEY");
            assert_eq!(of_default.contains(&path), default == crate::contract::keys::SAMPLE_KEY, "{path}: {default}");
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

    #[test]
    fn every_command_has_examples_and_each_is_a_command_line_that_is_taken() {
        let definition = definition();
        let found = every_command(&definition);
        assert!(found.len() > 50, "the commands were found: {}", found.len());
        for (path, command) in found.into_iter().skip(1) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = text.strip_prefix("Examples:\n").and_then(|text| text.split("\n\n").next()).unwrap_or_default();
            for line in lines.lines() {
                let words = words(line).into_iter().map(OsString::from).collect();
                let taken = definition.clone().try_get_matches_from(expanded(words));
                assert!(taken.is_ok(), "{path}: `{line}`: {}", taken.expect_err("it is refused"));
            }
            let first = path.split(' ').next().unwrap_or_default();
            assert!(
                lines.lines().any(|line| words(line).get(1).is_some_and(|word| word == first)),
                "{path}: {lines:?}"
            );
        }
    }
}
