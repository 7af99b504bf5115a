//! `scenarios list|show|use|off|new|reload|schema` and `check`.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::Target;
use super::client::{SHORT, call, segment};
use super::failure::{Failure, colored, warn};
use super::output::{cell, counted, generation, plain, print, print_json, print_table, whose};
use super::profile_source::load_profile;
use crate::diagnostic::Diagnostic;
use crate::redact::{Redactor, visible};
use crate::scenario::{STARTER_TEXT, check_text, read_directory, read_file, schema};

/// `scenarios …`
#[derive(Debug, Subcommand)]
pub(super) enum ScenariosCommand {
    /// List the scenarios there are and which are active.
    List(CommonArgs),
    /// Show one scenario's text.
    Show(ShowArgs),
    /// Make these scenarios the active ones, in order.
    Use(UseArgs),
    /// Turn scenarios off.
    Off(OffArgs),
    /// Write a new scenario file to start from.
    New(NewArgs),
    /// Read the scenario folders again now.
    Reload(CommonArgs),
    /// Print the JSON Schema of scenario files, for editors.
    Schema,
}

/// Arguments of every call.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `scenarios show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The scenario's name.
    #[arg(value_parser = name)]
    name: String,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `scenarios use`.
#[derive(Debug, Args)]
pub(super) struct UseArgs {
    /// Names, in order; the first rule that applies decides. Several may be joined by commas.
    #[arg(required = true, value_delimiter = ',', value_parser = name)]
    names: Vec<String>,
    /// Only for this key, or workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    key: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `scenarios off`.
#[derive(Debug, Args)]
pub(super) struct OffArgs {
    /// Only for this key, or workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", hide_env_values = true)]
    key: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `scenarios new`.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The scenario's name: the file will be NAME.toml.
    name: String,
    /// The folder to write it to.
    #[arg(long, default_value = "scenarios", value_name = "DIR")]
    folder: PathBuf,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 no errors, 1 a file is broken, 2 a path cannot be read.")]
pub(super) struct CheckArgs {
    /// Scenario files, or folders of them; ./scenarios if neither these nor --profile are given.
    paths: Vec<PathBuf>,
    /// A profile file to check.
    #[arg(long, value_name = "FILE")]
    profile: Vec<PathBuf>,
    /// Let warnings count as errors.
    #[arg(long, value_name = "WHAT", value_parser = ["warnings"])]
    deny: Option<String>,
    /// Print the diagnostics as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: ScenariosCommand) -> Result<ExitCode, Failure> {
    match command {
        ScenariosCommand::List(args) => list(&args),
        ScenariosCommand::Show(args) => show(&args),
        ScenariosCommand::Use(args) => {
            let wish = json!({ "active": args.names, "key": args.key });
            let body =
                call(&args.common.target, Method::POST, "scenarios/active", &[], Some(&wish), SHORT)?.success()?;
            warn_of(&body);
            let names = args.names.join(", ");
            let text = format!("active{}: {names} ({})\n", whose(&body), generation(&body));
            Ok(told(&body, &args.common, &text))
        }
        ScenariosCommand::Off(args) => {
            let wish = json!({ "active": [], "key": args.key });
            let body =
                call(&args.common.target, Method::POST, "scenarios/active", &[], Some(&wish), SHORT)?.success()?;
            let text = format!("no scenario is active{} ({})\n", whose(&body), generation(&body));
            Ok(told(&body, &args.common, &text))
        }
        ScenariosCommand::New(args) => new(&args),
        ScenariosCommand::Reload(args) => {
            let body = call(&args.target, Method::POST, "scenarios/reload", &[], Some(&json!({})), SHORT)?.success()?;
            let changes = body["changes"].as_array().into_iter().flatten().map(|change| format!("{}\n", plain(change)));
            let text = format!(
                "{} read, {}\n{}",
                counted(body["files"].as_u64().unwrap_or_default(), "file"),
                generation(&body),
                changes.collect::<String>()
            );
            warn_of(&body);
            Ok(told(&body, &args, &text))
        }
        ScenariosCommand::Schema => {
            print_json(&schema());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The name of a scenario, also where its file is named: `scenarios/story.toml` is `story`.
fn name(text: &str) -> Result<String, String> {
    let file = Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or(text);
    match file.strip_suffix(".toml").unwrap_or(file) {
        "" => Err("expected the name of a scenario, found nothing".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Prints what was found in files beside what a command did.
fn warn_of(body: &Value) {
    for problem in body["diagnostics"].as_array().into_iter().flatten() {
        warn(&format!("{}{}", place(problem), cell(problem, "message")));
    }
}

/// Where in a file a problem is, with a colon.
fn place(problem: &Value) -> String {
    match (problem["file"].as_str(), problem["line"].as_u64().unwrap_or_default()) {
        (None, _) => String::new(),
        (Some(file), 0) => format!("{}: ", visible(file)),
        (Some(file), line) => format!("{}:{line}:{}: ", visible(file), cell(problem, "column")),
    }
}

fn told(body: &Value, args: &CommonArgs, text: &str) -> ExitCode {
    if args.json {
        print_json(body);
    } else {
        print(text);
    }
    ExitCode::SUCCESS
}

fn list(args: &CommonArgs) -> Result<ExitCode, Failure> {
    let body = call(&args.target, Method::GET, "scenarios", &[], None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = body["data"].as_array().into_iter().flatten().map(|row| {
        let active = if row["active"] == true { "*" } else { "" };
        let held_back = match row["state"].as_str() {
            Some(state @ ("broken" | "deleted")) => format!(" ({state})"),
            _ => String::new(),
        };
        vec![active.to_owned(), cell(row, "name"), cell(row, "title"), cell(row, "origin") + &held_back]
    });
    print_table(&["", "NAME", "TITLE", "ORIGIN"], &rows.collect::<Vec<_>>());
    for problem in body["diagnostics"].as_array().into_iter().flatten() {
        let (severity, message, hint) = (cell(problem, "severity"), cell(problem, "message"), cell(problem, "hint"));
        print(&format!("\n{severity}: {}{message}\n  hint: {hint}\n", place(problem)));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let path = format!("scenarios/{}", segment(&args.name));
    let body = call(&args.common.target, Method::GET, &path, &[], None, SHORT)?.success()?;
    let text = body["text"].as_str().unwrap_or_default().to_owned();
    Ok(told(&body, &args.common, &text))
}

fn new(args: &NewArgs) -> Result<ExitCode, Failure> {
    let path = Path::new(&args.name);
    let is_path = path.parent().is_some_and(|folder| folder != Path::new(""));
    let has_ending =
        path.extension().is_some_and(|ending| ["toml", "yaml", "yml", "json"].iter().any(|known| ending == *known));
    let stem = if has_ending { path.file_stem() } else { path.file_name() };
    if let Some(plain) = stem.and_then(|stem| stem.to_str()).filter(|_| is_path || has_ending) {
        let message =
            format!("expected a name without an ending, found `{}`: the file will be {plain}.toml", args.name);
        return Err(Failure::usage(message)
            .with_hint(format!("use `wrs-emulator scenarios new {plain}`; --folder names another folder")));
    }
    let (_, found) = check_text(&args.name, STARTER_TEXT);
    if let Some(problem) = found.iter().find(|problem| problem.is_error()) {
        return Err(Failure::usage(problem.message.clone()).with_hint(problem.hint.clone()));
    }
    let path = args.folder.join(format!("{}.toml", args.name));
    let cannot = |error: std::io::Error| Failure::usage(format!("cannot write `{}`: {error}", path.display()));
    std::fs::create_dir_all(&args.folder).map_err(cannot)?;
    // Never writes over a file that is there.
    let mut file = std::fs::File::create_new(&path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::usage(format!("`{}` exists already", path.display())).with_hint("edit it, or choose another name")
        }
        _ => cannot(error),
    })?;
    file.write_all(STARTER_TEXT.as_bytes()).map_err(cannot)?;
    // The path alone on stdout, for whoever passes it on; what comes next is for people.
    print(&format!("{}\n", path.display()));
    let _ = writeln!(
        std::io::stderr(),
        "next: edit it, `wrs-emulator check {}`, then `wrs-emulator scenarios use {}`",
        path.display(),
        args.name
    );
    Ok(ExitCode::SUCCESS)
}

pub(super) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut files = 0;
    let usual = [PathBuf::from("scenarios")];
    let paths = if args.paths.is_empty() && args.profile.is_empty() { &usual[..] } else { &args.paths };
    if paths == usual && !usual[0].is_dir() {
        return Err(Failure::usage("there is no folder ./scenarios here").with_hint("name files or folders to check"));
    }
    for path in paths {
        for (file, text) in texts(path, &mut found)? {
            files += 1;
            let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let shown = file.display().to_string();
            found.extend(check_text(&name, &text).1.into_iter().map(|problem| problem.in_file(shown.clone())));
        }
    }
    for path in &args.profile {
        files += 1;
        load_profile(Some(path), &[]).map_err(|failure| match failure {
            Failure::Usage { message, hint } if message.starts_with("the profile is not valid") => {
                Failure::Short { message, hint }
            }
            other => other,
        })?;
    }
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let warnings = found.len() - errors;
    if args.json {
        let mut view = json!({ "files": files, "errors": errors, "warnings": warnings, "diagnostics": found });
        Redactor::default().value(&mut view);
        print_json(&view);
    } else {
        if !found.is_empty() {
            let mut stderr = std::io::stderr().lock();
            for problem in &found {
                let _ = writeln!(stderr, "{}", problem.render(colored()));
            }
        }
        let counts = [(files, "file"), (errors, "error"), (warnings, "warning")];
        print(&format!("{}\n", counts.map(|(count, what)| counted(count as u64, what)).join(", ")));
    }
    let short = errors > 0 || (args.deny.is_some() && warnings > 0);
    Ok(if short { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The texts of a file or a folder. A file that is named must be readable; one in a folder is a diagnostic like any other.
fn texts(path: &Path, found: &mut Vec<Diagnostic>) -> Result<Vec<(PathBuf, String)>, Failure> {
    if !path.is_dir() {
        let text = read_file(path).map_err(|problem| {
            Failure::usage(format!("{}: {} [{}]", path.display(), problem.message, problem.code))
                .with_hint(problem.hint)
        })?;
        return Ok(vec![(path.to_owned(), text)]);
    }
    let mut readable = Vec::new();
    for (file, text) in read_directory(path) {
        match text {
            Ok(text) => readable.push((file, text)),
            Err(problem) => {
                let shown = file.display().to_string();
                found.push(Diagnostic::from(problem).in_file(shown));
            }
        }
    }
    Ok(readable)
}
