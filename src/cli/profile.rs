//! The profile named on the command line, a preset or a file and then assignments, with every problem of a file at its position;
//! and the documents generated from it: `assumptions`, `openapi`, `profile schema`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::failure::Failure;
use super::help::examples;
use super::output::{print, print_document, show_list};
use crate::control::api::{Assumption, List};
use crate::control::openapi_document;
use crate::control::render::Row as _;
use crate::diagnostic::{Diagnostic, Level};
use crate::redact::Redactor;
use crate::settings::openapi::document;
use crate::settings::{Draft, Forward, Layered, Preset, ProfileProblem, ledger, ledger_markdown};
use crate::util::file;

/// Merges the built-in defaults, a preset or a file, and assignments, in this order, and then validates the result.
pub(super) fn load_profile(named: Option<&Path>, assignments: &[String]) -> Result<Layered, Failure> {
    let mut draft = Draft::of(&Layered::default());
    let mut file = None;
    if let Some(named) = named {
        if let Some(name) = preset_name(named) {
            draft.preset(name);
        } else {
            let (shown, text) = (named.display().to_string(), read_profile(named)?);
            draft.text(&text, &shown);
            file = Some((shown, text));
        }
    }
    for assignment in assignments {
        draft.assignment(assignment, "--set");
    }
    draft.finish().map_err(|problems| refused(&problems, file.as_ref()))
}

/// Adds forwards, as `--forward` has them, to a profile.
pub(super) fn with_forwards(mut layered: Layered, rules: &[String]) -> Result<Layered, Failure> {
    for rule in rules {
        let rule = Forward::parse(rule).map_err(|problem| Failure::usage(format!("--forward: {problem}")))?;
        let added = layered.with(|draft| draft.forward(&rule, "--forward"));
        layered = added.map_err(|problems| Failure::usage(format!("--forward: {}", problems[0].message)))?;
    }
    Ok(layered)
}

/// The failure that reports every problem with its origin: a position in the file, an assignment, or the preset.
fn refused(problems: &[ProfileProblem], file: Option<&(String, String)>) -> Failure {
    let place = |problem: &ProfileProblem| match file {
        _ if *problem.source == *"--set" => Err(format!("--set {}", problem.written)),
        Some((shown, text)) if **shown == *problem.source => {
            let at = Diagnostic::at(Level::Error, problem.code, text, problem.span.clone(), "", "");
            Ok(format!("{shown}:{}:{}", at.line, at.column))
        }
        _ => Err("--profile".to_owned()),
    };
    if let [problem] = problems
        && let Err(flag) = place(problem)
    {
        return Failure::usage(format!("{flag}: {}", problem.message)).with_hint(problem.hint.clone());
    }
    let line = |problem: &ProfileProblem| {
        let (place, code) = match place(problem) {
            Ok(place) => (place, format!(" [{}]", problem.code)),
            Err(flag) => (flag, String::new()),
        };
        format!("{place}: {}{code}\n  hint: {}", problem.message, problem.hint)
    };
    let lines: Vec<String> = problems.iter().map(line).collect();
    Failure::invalid_file(format!("the profile is not valid\n{}", lines.join("\n")))
}

/// The text if it names a preset, or cannot be a path: it has no separator or dot, and no such file exists.
fn preset_name(named: &Path) -> Option<&str> {
    let text = named.to_str()?;
    let is_path = text.contains(['/', '\\', '.']) || named.exists();
    (Preset::named(text).is_some() || !is_path).then_some(text)
}

fn read_profile(path: &Path) -> Result<String, Failure> {
    const LARGEST: u64 = 1024 * 1024;
    let unreadable = |cause: String| Failure::io(format!("--profile: cannot read `{}`: {cause}", path.display()));
    let bytes = file::read(path, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))
}

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
        row.note = Redactor::default().text(&row.note).into_owned();
    }
    let ledger = List { data: rows };
    Ok(show_list(args.json, &ledger, || Assumption::table(&ledger.data)))
}

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["profile set rate_limit.requests=5", "profile unset rate_limit.requests"]))]
pub(super) enum ProfileCommand {
    /// Print the JSON Schema of profile files, for editors.
    #[command(display_order = 100, after_help = examples(["profile schema > profile.schema.json"]))]
    Schema,
}

pub(super) fn openapi(args: &OpenapiArgs) -> Result<ExitCode, Failure> {
    if args.control {
        return Ok(print_document(&openapi_document()));
    }
    let profile = load_profile(args.profile.profile.as_deref(), &args.profile.set)?;
    Ok(print_document(&document(profile.profile())))
}
