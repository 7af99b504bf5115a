//! The command line: flags, environment variables, one file per subcommand. Overview.
//!
//! Data goes to stdout, messages go to stderr. Commands other than `serve` are clients of the control API.

mod arguments;
mod banner;
mod client;
mod clock;
mod command;
mod deliveries;
mod documents;
mod environment;
mod exec;
mod explain;
mod failure;
mod forwards;
mod har;
mod health;
mod help;
mod json_flag;
mod junit;
mod listen;
mod log;
mod markdown;
mod mcp;
mod mistakes;
mod output;
mod problems;
mod profile;
mod profile_source;
mod records;
mod requests;
mod reset;
mod review;
mod run;
mod run_file;
mod scenarios;
mod serve;
mod shorthand;
mod sign;
mod signals;
mod signing;
mod snapshot;
mod subscriptions;
mod target;
mod trigger;
mod value;
mod verdict;
mod verify;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use environment::{PREFIX, lenient, variable, with_variables};
use failure::report;
use help::{brief, examples, with_help};
use json_flag::with_json;
pub(crate) use listen::MOST_CONNECTIONS as LISTEN_CONNECTIONS;
pub(crate) use mcp::limits as mcp_limits;

const EXAMPLES: &str = "\
Examples:
  wrs-emulator                                       serve on 127.0.0.1:9770
  wrs-emulator --scenario rate-limit-burst --set rate_limit.window=10s
  wrs-emulator --forward https://app.example.com=http://localhost:3000
  wrs-emulator listen --forward-to localhost:3000/hooks
  wrs-emulator trigger workflow.completed --wait     fire a webhook
  wrs-emulator exec --fail-on unmatched -- npm test  run tests against it
  wrs-emulator explain req_01k...                    why this answer

Keys: without --key, WRS_API_KEY is used (not for clock, review, run and
verdict). If neither is there, listen, reset, subscriptions create and trigger
use sk_test_local; all others use all keys.

Exit status: 0 done, 1 a check found problems or what is named does not exist,
2 wrong usage or an invalid file, 3 no emulator answers. With --json, lists are
one record per line; errors are JSON. Every flag has a variable: --listen is
WRS_EMULATOR_LISTEN, --json of `clock advance` WRS_EMULATOR_CLOCK_ADVANCE_JSON.";

/// Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).
///
/// Serves the whole v1 contract from memory, plays scenario files, keeps a quota per API key, and delivers signed
/// webhooks. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "wrs-emulator", version, after_help = EXAMPLES, help_template = help::TEMPLATE, args_conflicts_with_subcommands = true, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    serve: serve::ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the emulated API (what happens without a command).
    #[command(after_help = examples([
        "serve --listen 127.0.0.1:0 --port-file url.txt",
        "serve --scenario rate-limit-burst --set rate_limit.window=10s",
        "serve --forward https://app.example.com=http://localhost:3000",
    ]))]
    Serve(Box<serve::ServeArgs>),
    /// Serve while a command runs, and exit with its code.
    Exec(Box<exec::ExecArgs>),
    /// Fire an event at the matching subscriptions now.
    Trigger(trigger::TriggerArgs),
    /// Receive webhooks: verify, print, and pass them on.
    Listen(listen::ListenArgs),
    /// Print the headers that sign a body.
    Sign(sign::SignArgs),
    /// Check the signature of a delivery, and what is wrong with it.
    Verify(verify::VerifyArgs),
    /// List, show, wait for and export requests.
    #[command(subcommand)]
    Requests(requests::RequestsCommand),
    /// List, show, wait for and repeat deliveries.
    #[command(subcommand)]
    Deliveries(deliveries::DeliveriesCommand),
    /// List, create and change subscriptions.
    #[command(subcommand)]
    Subscriptions(subscriptions::SubscriptionsCommand),
    /// List, add and remove forwards of deliveries.
    #[command(subcommand)]
    Forwards(forwards::ForwardsCommand),
    /// Explain an answer, an event or a delivery.
    Explain(explain::ExplainArgs),
    /// Report problems: unmatched, undelivered, forged, unfinished.
    Verdict(verdict::VerdictArgs),
    /// Review an integration: its traffic, and how a receiver verifies.
    #[command(subcommand)]
    Review(review::ReviewCommand),
    /// List, show, choose, reload and write scenarios.
    #[command(subcommand)]
    Scenarios(scenarios::ScenariosCommand),
    /// Check scenario files, and profiles with --profile.
    Check(scenarios::CheckArgs),
    /// Show, stop or move the emulator's clock.
    #[command(subcommand)]
    Clock(clock::ClockCommand),
    /// Save the state of a key, or all, and load it.
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Save what happened as a file or a page, and view it.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// Forget what a key did, or everything.
    Reset(reset::ResetArgs),
    /// Show and change settings while the emulator runs.
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// List what the contract leaves open, and what is assumed.
    Assumptions(documents::AssumptionsArgs),
    /// Print the OpenAPI document of the emulated or the control API.
    Openapi(documents::OpenapiArgs),
    /// Print a completion script for a shell.
    Completions(documents::CompletionsArgs),
    /// Serve tools for agents on stdin and stdout (MCP).
    Mcp(mcp::McpArgs),
    /// Exit with 0 when the emulator is ready.
    Health(health::HealthArgs),
}

/// The definition of the command line, with what the derives cannot express.
fn definition() -> clap::Command {
    completed(derived(), PREFIX, &|_| true, &|command| command)
}

/// The definition without what every command has.
fn derived() -> clap::Command {
    // Several jobs on one machine may run `exec` at a time, so each takes a free port.
    let free_port = |listen: clap::Arg| listen.default_value("127.0.0.1:0");
    let command = Cli::command().mut_subcommand("exec", |exec| exec.mut_arg("listen", free_port));
    command.mut_subcommand("review", |review| {
        // Each run has a new emulator, which prints nothing.
        let hide = |command: clap::Command, flag| command.mut_arg(flag, |flag| flag.hide(true));
        review.mut_subcommand("differential", |differential| {
            let differential = differential
                .mut_arg("listen", free_port)
                .mut_arg("json", |json| json.help("Print the results as JSON").hide_short_help(false));
            ["port_file", "state", "log", "quiet", "grace"].into_iter().fold(differential, hide)
        })
    })
}

/// Adds `--json`, the variables and the help to this command and those below it for which `is_wanted` is true; `further` changes
/// each of them. `before` is what the names of its variables begin with.
fn completed(
    command: clap::Command,
    before: &str,
    is_wanted: &dyn Fn(&str) -> bool,
    further: &dyn Fn(clap::Command) -> clap::Command,
) -> clap::Command {
    let command = further(with_help(with_variables(with_json(command), before)));
    command.mut_subcommands(|inner| {
        if !is_wanted(inner.get_name()) {
            return inner;
        }
        let before = variable(before, inner.get_name());
        completed(inner, &before, is_wanted, further)
    })
}

/// Parses the process's arguments; an error is reported.
fn parsed() -> Result<Cli, ExitCode> {
    let arguments = shorthand::expanded(std::env::args_os().collect());
    let shows_all_help = arguments.iter().any(|argument| argument == help::ALL);
    let definition = |is_wanted: &dyn Fn(&str) -> bool| {
        completed(derived(), PREFIX, is_wanted, &|command| {
            lenient(if shows_all_help { command } else { brief(command) })
        })
    };
    // A command that was not typed cannot be meant, and completing every command would take most of the start-up time.
    let mut command = definition(&|name| arguments.iter().any(|argument| argument == name));
    let mut matches = command.try_get_matches_from_mut(&arguments);
    if matches.is_err() {
        command = definition(&|_| true);
        matches = command.try_get_matches_from_mut(&arguments);
    }
    failure::set_json(json_flag::is_requested(&command, &arguments));
    let cli = matches.and_then(|matches| {
        note_key_of_environment(&command, &matches);
        Cli::from_arg_matches(&matches)
    });
    cli.map_err(|error| match mistakes::failure(&error, &command, &arguments) {
        Some(failure) => report(&failure),
        None => error.exit(),
    })
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        None => serve::run(cli.serve),
        Some(Command::Serve(args)) => serve::run(*args),
        Some(Command::Exec(args)) => exec::run(*args),
        Some(Command::Trigger(args)) => trigger::run(args),
        Some(Command::Listen(args)) => listen::run(args),
        Some(Command::Sign(args)) => sign::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        Some(Command::Requests(command)) => requests::run(command),
        Some(Command::Deliveries(command)) => deliveries::run(command),
        Some(Command::Subscriptions(command)) => subscriptions::run(command),
        Some(Command::Forwards(command)) => forwards::run(command),
        Some(Command::Explain(args)) => explain::run(args),
        Some(Command::Verdict(args)) => verdict::run(&args),
        Some(Command::Review(command)) => review::run(command),
        Some(Command::Scenarios(command)) => scenarios::run(command),
        Some(Command::Check(args)) => scenarios::check(&args),
        Some(Command::Clock(command)) => clock::run(command),
        Some(Command::Snapshot(command)) => snapshot::run(command),
        Some(Command::Run(command)) => run::run(command),
        Some(Command::Reset(args)) => reset::run(&args),
        Some(Command::Profile(command)) => profile::run(command),
        Some(Command::Assumptions(args)) => documents::assumptions(args),
        Some(Command::Openapi(args)) => documents::openapi(&args),
        Some(Command::Completions(args)) => Ok(documents::completions(&args, definition())),
        Some(Command::Mcp(args)) => Ok(mcp::run(args)),
        Some(Command::Health(args)) => health::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Prints a note if a key in the environment restricts a command that would show all keys without it.
fn note_key_of_environment(mut command: &clap::Command, mut matches: &ArgMatches) {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(below) = command.find_subcommand(name) else { return };
        (command, matches) = (below, inner);
    }
    let shows_all = |key: &clap::Arg| match key.get_default_values() {
        _ if key.get_id() != "key" => false,
        [] => matches!(command.get_name(), "list" | "show"),
        [default, ..] => default == "*",
    };
    if command.get_arguments().any(shows_all)
        && matches.value_source("key") == Some(ValueSource::EnvVariable)
        && let Some(key) = matches.get_one::<String>("key").filter(|key| *key != "*")
    {
        failure::note(&format!("only what belongs to {key}, the key in WRS_API_KEY; `--key '*'` means every key"));
    }
}

/// This command and every one below it, each by its words without the program's name.
#[cfg(test)]
fn every_command(command: &clap::Command) -> Vec<(String, &clap::Command)> {
    let below = command.get_subcommands().flat_map(|inner| {
        let paths = every_command(inner).into_iter();
        paths.map(|(path, found)| (format!("{} {path}", inner.get_name()).trim().to_owned(), found))
    });
    std::iter::once((String::new(), command)).chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        definition().debug_assert();
    }

    /// The paragraph about keys in the program's help is true of every command that has `--key`.
    #[test]
    fn the_help_names_the_commands_without_a_key_of_their_own() {
        let paragraph = EXAMPLES.split("\n\n").find(|text| text.starts_with("Keys: ")).expect("a paragraph");
        let (of_variable, of_default) = paragraph.split_once("If neither").expect("two halves");
        for (path, command) in every_command(&definition()) {
            let Some(key) = command.get_arguments().find(|known| known.get_long() == Some("key")) else { continue };
            let default = key.get_default_values().first().and_then(|value| value.to_str()).unwrap_or("*");
            let is_shared = key.get_env().is_some_and(|name| name == "WRS_API_KEY");
            let group = path.split(' ').next().unwrap_or_default();
            assert_eq!(of_variable.contains(group), !is_shared, "{path}: WRS_API_KEY");
            assert_eq!(of_default.contains(&path), default == crate::contract::keys::SAMPLE_KEY, "{path}: {default}");
        }
    }

    #[test]
    fn serve_has_its_port_and_exec_takes_a_free_one() {
        let command = definition();
        for (arguments, expected) in [
            (&["wrs-emulator", "serve"][..], "127.0.0.1:9770"),
            (&["wrs-emulator", "exec", "--", "true"], "127.0.0.1:0"),
            (&["wrs-emulator", "exec", "--listen", ":8080", "--", "true"], ":8080"),
        ] {
            let matches = command.clone().try_get_matches_from(arguments).expect("arguments that are right");
            let (_, inner) = matches.subcommand().expect("a command");
            assert_eq!(inner.get_one::<String>("listen").map(String::as_str), Some(expected), "{arguments:?}");
        }
    }
}
