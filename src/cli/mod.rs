//! The command line: flags, environment variables, one file per subcommand. Overview.
//!
//! Data goes to stdout, messages go to stderr. Commands other than `serve` are clients of the control API.

pub(crate) mod arguments;
mod background;
mod call_command;
mod child;
mod ci;
pub(crate) mod client;
mod completions;
mod doctor;
mod document;
mod exec;
mod explain;
pub(crate) mod failure;
mod findings;
mod har;
mod judging;
mod listen;
mod log;
mod mcp;
pub(crate) mod output;
mod parse;
pub(crate) mod profile;
pub(crate) mod report;
mod run;
mod scenarios;
mod serve;
pub(crate) mod signals;
pub(crate) mod signatures;
mod since;
mod started;
mod stream;
mod trigger;
mod trust;
mod under;
mod verdict;

use std::process::ExitCode;

#[doc(hidden)]
pub use har::try_document;

use clap::{ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use arguments::{LAST, examples};
use failure::{Failure, ended, report};
use output::print_document;
use profile::{ForwardsCommand, ProfileCommand};
use run::{RequestsCommand, RunCommand, SnapshotCommand};
use scenarios::ScenariosCommand;
use trigger::DeliveriesCommand;

use crate::clock::machine::check_machine;
use crate::lab;

const EXAMPLES: &str = "\
Examples:
  wrs-emulator                                      serve on 127.0.0.1:9770
  wrs-emulator --scenario rate-limit-burst          serve with a scenario active
  wrs-emulator listen --forward-to localhost:3000/hooks
  wrs-emulator trigger workflow.completed --wait    fire a webhook
  wrs-emulator explain                              explain the latest answer
  wrs-emulator clock advance 30s                    move time, without waiting
  wrs-emulator exec --report report.html -- pytest  run tests against it

`wrs-emulator --help-all` shows every command and option, and what the exit
status means; `wrs-emulator COMMAND --help` shows one command.";

const NOTES: &str = "\
Keys: --key, else WRS_API_KEY (not for clock, review, run and verdict); else
listen, reset, sign, subscriptions create and trigger use sk_test_local,
others all.

Exit status: 0 done, 1 a check found problems or a named thing does not exist,
2 wrong usage or an invalid file, 3 no emulator answers. With --json, lists are
one record a line; errors are JSON. Flags are variables: WRS_EMULATOR_LISTEN.";

/// The template of the program's own help, with examples before the usage.
const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";

/// Offline emulator of the Workflow Reference Service API (v1.0, sandbox beta).
///
/// Serves the whole v1 contract from memory, plays scenario files, keeps a quota per API key, and delivers signed
/// webhooks. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "wrs-emulator", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{NOTES}"), help_template = TEMPLATE, args_conflicts_with_subcommands = true, disable_help_flag = true, max_term_width = 110)]
struct Cli {
    /// Print help.
    #[arg(short, long, global = true, action = ArgAction::HelpShort, display_order = LAST + 1)]
    help: Option<bool>,
    /// Print the complete help, with limits and environment variables.
    #[arg(long, global = true, action = ArgAction::HelpLong, display_order = LAST + 2)]
    help_all: Option<bool>,
    #[command(flatten)]
    serve: serve::ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands besides those that make one call of the control API, which `control` declares with the call. A group without a
/// description has commands of both kinds, and is described there.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the emulated API (the default without a command).
    #[command(after_help = examples([
        "serve --listen 127.0.0.1:0 --port-file url.txt",
        "serve --scenario rate-limit-burst --set rate_limit.window=10s",
        "serve --forward https://app.example.com=http://localhost:3000",
    ]))]
    Serve(Box<serve::ServeArgs>),
    /// Serve while a command runs, and exit with its code.
    Exec(Box<exec::ExecArgs>),
    /// Serve in the background; returns once it is ready.
    Start(Box<background::StartArgs>),
    /// Stop the emulator in the background, and wait for its end.
    Stop(background::StopArgs),
    /// Show whether the emulator in the background serves.
    Status(background::StatusArgs),
    /// Print the variables by which programs find it.
    Env(background::EnvArgs),
    /// Print the log of the emulator in the background.
    Logs(background::LogsArgs),
    /// Fire an event at the matching subscriptions now.
    Trigger(trigger::TriggerArgs),
    /// Receive webhooks: verify, print, and pass them on.
    Listen(listen::ListenArgs),
    /// Print the headers that sign a body, or an event.
    Sign(Box<signatures::SignArgs>),
    /// Check the signature of a delivery, and explain a wrong one.
    Verify(signatures::VerifyArgs),
    #[command(subcommand)]
    Requests(RequestsCommand),
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// List, add and remove forwards of deliveries.
    #[command(subcommand)]
    Forwards(ForwardsCommand),
    /// Report problems: unmatched, undelivered, forged, unfinished.
    Verdict(verdict::VerdictArgs),
    /// Review an integration: its traffic, and how a receiver verifies.
    #[command(subcommand)]
    Review(ReviewCommand),
    /// Find out what the real service does where the contract is silent.
    Calibrate(Box<lab::calibrate::command::CalibrateArgs>),
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Check scenario files, and profiles with --profile.
    Check(scenarios::CheckArgs),
    /// Save the state of a key, or all, and load it.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Save what happened as a file or a page, and view it.
    #[command(subcommand)]
    Run(RunCommand),
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// List the assumptions where the contract is silent.
    Assumptions(profile::AssumptionsArgs),
    /// Print the OpenAPI document of the emulated or the control API.
    Openapi(profile::OpenapiArgs),
    /// Print the code with which a shell completes commands and names.
    Completions(completions::CompletionsArgs),
    /// Serve tools for agents on stdin and stdout (MCP).
    Mcp(mcp::McpArgs),
    /// Check your set-up, and print what to type.
    Doctor(doctor::DoctorArgs),
}

#[derive(Debug, Subcommand)]
#[command(after_help = examples([
    "review findings",
    "review findings --accept accepted.txt",
    "review probe http://localhost:3000/hooks --secret whsec_...",
]))]
enum ReviewCommand {
    /// Report mistakes of the client and its receivers, found in the traffic.
    Findings(findings::FindingsArgs),
    /// Send a receiver deliveries, genuine and forged, and judge its answers. Needs no running emulator.
    Probe(Box<lab::probe::command::ProbeArgs>),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    report::begin();
    ended(dispatch())
}

fn dispatch() -> ExitCode {
    if completions::answered(|| parse::definition(Cli::command())) {
        return ExitCode::SUCCESS;
    }
    let matches = match parse::parsed(Cli::command()) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    if let Err(problem) = check_machine() {
        return report(&Failure::io(problem.to_string()));
    }
    if let Some((command, matches)) = call_command::find(&matches) {
        let file = |option| explain::file(option, &command, matches);
        let done = match (file("since"), file("from")) {
            (Some(earlier), _) => since::compare(earlier, matches),
            (None, Some(file)) => explain::saved(file, matches),
            (None, None) => call_command::run(&command, matches),
        };
        return done.unwrap_or_else(|failure| report(&failure));
    }
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return report(&Failure::usage(error.to_string())),
    };
    let result = match cli.command {
        None => serve::run(cli.serve),
        Some(Command::Serve(args)) => serve::run(*args),
        Some(Command::Exec(args)) if !args.under.is_empty() => under::run(&args),
        Some(Command::Exec(args)) => exec::run(*args),
        Some(Command::Start(args)) => background::start(&args, &matches),
        Some(Command::Stop(args)) => background::stop(&args),
        Some(Command::Status(args)) => background::status(&args),
        Some(Command::Env(args)) => background::env(&args),
        Some(Command::Logs(args)) => background::logs(&args),
        Some(Command::Trigger(args)) => trigger::run(args),
        Some(Command::Listen(args)) => listen::run(args),
        Some(Command::Sign(args)) => signatures::run_sign(&args),
        Some(Command::Verify(args)) => signatures::run_verify(&args),
        Some(Command::Requests(RequestsCommand::Export(args))) => run::export(&args),
        Some(Command::Deliveries(DeliveriesCommand::Redeliver(args))) => trigger::redeliver(&args),
        Some(Command::Forwards(command)) => profile::forwards(&command),
        Some(Command::Verdict(args)) => verdict::run(&args),
        Some(Command::Review(ReviewCommand::Findings(args))) => findings::run(&args),
        Some(Command::Review(ReviewCommand::Probe(args))) => lab::probe::command::run(*args),
        Some(Command::Calibrate(args)) => lab::calibrate::command::run(*args),
        Some(Command::Scenarios(ScenariosCommand::New(args))) => scenarios::new(&args),
        Some(Command::Scenarios(ScenariosCommand::Schema)) => Ok(print_document(&crate::scenario::schema())),
        Some(Command::Check(args)) => scenarios::check(&args),
        Some(Command::Snapshot(SnapshotCommand::Save(args))) => run::save_state(&args),
        Some(Command::Snapshot(SnapshotCommand::Load(args))) => run::load_state(&args),
        Some(Command::Run(RunCommand::Save(args))) => run::save(&args),
        Some(Command::Run(RunCommand::View(args))) => run::view(&args),
        Some(Command::Run(RunCommand::Schema)) => Ok(print_document(&crate::control::run_schema())),
        Some(Command::Profile(command)) => Ok(profile::profile(&command)),
        Some(Command::Assumptions(args)) => profile::assumptions(&args),
        Some(Command::Openapi(args)) => profile::openapi(&args),
        Some(Command::Completions(args)) => Ok(completions::completions(&args)),
        Some(Command::Mcp(args)) => Ok(mcp::run(args)),
        Some(Command::Doctor(args)) => doctor::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}
