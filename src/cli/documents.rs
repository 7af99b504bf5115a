//! `assumptions`, `openapi`, `profile schema`, `completions`: print documents generated from the profile or from the definition of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;

use super::failure::Failure;
use super::help::examples;
use super::output::{print, print_as_is, print_json, show_list};
use super::profile_source::load_profile;
use crate::contract::openapi::document;
use crate::control::api::{Assumption, List};
use crate::control::openapi_document;
use crate::control::render::Row as _;
use crate::profile::{file_schema, ledger, ledger_markdown};
use crate::redact::Redactor;

/// The profile that a document is made for.
#[derive(Debug, Args)]
struct ProfileArgs {
    /// A preset (`contract`, `friendly`, `hostile`) or a profile file (TOML).
    #[arg(long, env, value_name = "NAME|FILE")]
    profile: Option<PathBuf>,
    /// Set one setting of the profile. Repeatable.
    #[arg(long, env, value_name = "PATH=VALUE", value_delimiter = ';')]
    set: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "assumptions",
    "assumptions --set rate_limit.requests=5 --json",
    "assumptions --profile hostile",
    "assumptions --markdown",
]))]
pub(super) struct AssumptionsArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the built-in ledger as a Markdown page.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "openapi > openapi.json",
    "openapi --set preview.enabled=true",
    "openapi --control > control.json",
]))]
pub(super) struct OpenapiArgs {
    #[command(flatten)]
    profile: ProfileArgs,
    /// Print the document of the control API instead.
    #[arg(long, conflicts_with_all = ["profile", "set"])]
    control: bool,
}

pub(super) fn assumptions(args: AssumptionsArgs) -> Result<ExitCode, Failure> {
    if args.markdown {
        print(&ledger_markdown());
        return Ok(ExitCode::SUCCESS);
    }
    let rows = ledger(&load_profile(args.profile.profile.as_deref(), &args.profile.set)?);
    let mut rows: Vec<Assumption> = rows.into_iter().map(Assumption::from).collect();
    for row in &mut rows {
        Redactor::default().setting(&row.knob, &mut row.value);
    }
    let ledger = List { data: rows };
    Ok(show_list(args.json, &ledger, || Assumption::table(&ledger.data)))
}

/// `profile …`, besides those in `calls`.
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["profile set rate_limit.requests=5", "profile unset rate_limit.requests"]))]
pub(super) enum ProfileCommand {
    /// Print the JSON Schema of profile files, for editors.
    #[command(display_order = 100, after_help = examples(["profile schema > profile.schema.json"]))]
    Schema,
}

pub(super) fn profile(command: ProfileCommand) -> ExitCode {
    let ProfileCommand::Schema = command;
    print_json(&file_schema());
    ExitCode::SUCCESS
}

pub(super) fn openapi(args: &OpenapiArgs) -> Result<ExitCode, Failure> {
    if args.control {
        print_json(&openapi_document());
        return Ok(ExitCode::SUCCESS);
    }
    let profile = load_profile(args.profile.profile.as_deref(), &args.profile.set)?;
    print_json(&document(&profile.profile().api_shape()));
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "completions bash > ~/.local/share/bash-completion/completions/wrs-emulator",
    "completions zsh > ~/.zfunc/_wrs-emulator",
    "completions fish > ~/.config/fish/completions/wrs-emulator.fish",
]))]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs, mut definition: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "wrs-emulator", &mut script);
    print_as_is(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
