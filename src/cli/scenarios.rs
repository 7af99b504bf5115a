//! `scenarios new`, `scenarios schema` and `check`.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::{LAST, examples};
use super::failure::{Failure, FailureCode, colored, note, warn};
use super::output::{print, print_json, show};
use super::profile::load_profile;
use super::stream::Stream;
use crate::diagnostic::Diagnostic;
use crate::redact::Redactor;
use crate::scenario::{STARTER_TEXT, built_in, built_in_names, check_text, read_file, read_folder};
use crate::util::wording::{any_of, counted, shell_word};

#[derive(Debug, Subcommand)]
pub(super) enum ScenariosCommand {
    /// Write a new scenario file to start from.
    #[command(display_order = 100, after_help = examples(["scenarios new quota-runs-out", "scenarios new mine --folder tests/stories"]))]
    New(NewArgs),
    /// Print the JSON Schema of scenario files, for editors.
    #[command(display_order = 100, after_help = examples(["scenarios schema > scenarios/scenario.schema.json"]))]
    Schema,
}

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The scenario's name: the file will be NAME.toml.
    name: String,
    /// The folder to write it to.
    #[arg(long, default_value = "scenarios", value_name = "DIR")]
    folder: PathBuf,
    /// Print the file's path as JSON.
    #[arg(long, display_order = LAST)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "check",
    "check scenarios/mine.toml",
    "check --deny warnings scenarios",
    "check --profile profile.toml",
]) + "\n\nExit status: 0 no errors, 1 a file is broken, 2 a path cannot be read.")]
pub(super) struct CheckArgs {
    /// Scenario files, or folders of them; ./scenarios if neither these nor --profile are given.
    paths: Vec<PathBuf>,
    /// A profile file to check.
    #[arg(long, value_name = "FILE")]
    profile: Vec<PathBuf>,
    /// Treat warnings as errors.
    #[arg(long, value_name = "WHAT", value_parser = ["warnings"])]
    deny: Option<String>,
    /// Print the diagnostics as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn new(args: &NewArgs) -> Result<ExitCode, Failure> {
    let path = Path::new(&args.name);
    let is_path = path.parent().is_some_and(|folder| folder != Path::new(""));
    let has_ending =
        path.extension().is_some_and(|ending| ["toml", "yaml", "yml", "json"].iter().any(|known| ending == *known));
    let stem = if has_ending { path.file_stem() } else { path.file_name() };
    if let Some(plain) = stem.and_then(|stem| stem.to_str()).filter(|_| is_path || has_ending) {
        let message =
            format!("expected a name without an ending, found `{}`: the file will be {plain}.toml", args.name);
        return Err(Failure::usage(message).with_hint(format!(
            "use `wrs-emulator scenarios new {}`; --folder names another folder",
            shell_word(plain)
        )));
    }
    let (_, found) = check_text(&args.name, STARTER_TEXT);
    if let Some(problem) = found.iter().find(|problem| problem.is_error()) {
        return Err(Failure::usage(problem.message.clone()).with_hint(problem.hint.clone()));
    }
    let path = args.folder.join(format!("{}.toml", args.name));
    let cannot = |error: std::io::Error| Failure::io(format!("cannot write `{}`: {error}", path.display()));
    std::fs::create_dir_all(&args.folder).map_err(cannot)?;
    // Never overwrites a file.
    let mut file = std::fs::File::create_new(&path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::io(format!("`{}` exists already", path.display())).with_hint("edit it, or choose another name")
        }
        _ => cannot(error),
    })?;
    file.write_all(STARTER_TEXT.as_bytes()).map_err(cannot)?;
    if built_in_names().any(|name| name == args.name) {
        warn(&format!("a scenario called `{}` is built in; the file replaces it", args.name));
    }
    let shown = path.display().to_string();
    // Only the path goes to stdout, so that scripts can use it.
    let code = show(args.json, &json!({ "file": shown }), || format!("{shown}\n"));
    if !args.json {
        let name = &args.name;
        let file = shell_word(&shown);
        Stream::Err
            .write(format!("next: edit it, `wrs-emulator check {file}`, then `wrs-emulator scenarios use {name}`\n"));
    }
    Ok(code)
}

pub(super) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut files = 0;
    let mut replaced: Vec<String> = Vec::new();
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
            let (scenario, problems) = check_text(&name, &text);
            found.extend(problems.into_iter().map(|problem| problem.in_file(shown.clone())));
            if scenario.is_some() && built_in(&name).is_some() {
                replaced.push(name);
            }
        }
    }
    if files == 0 && !paths.is_empty() && !found.iter().any(Diagnostic::is_error) {
        if !args.json {
            render(&found);
        }
        let shown: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(Failure::usage(format!("no scenario files in {}", any_of(&shown)))
            .with_hint("their names end in .toml; `wrs-emulator scenarios new NAME` writes one to begin with"));
    }
    for path in &args.profile {
        files += 1;
        load_profile("--profile", Some(path), &[]).map_err(|failure| {
            if failure.code == FailureCode::InvalidFile { Failure { status: 1, ..failure } } else { failure }
        })?;
    }
    let errors = found.iter().filter(|problem| problem.is_error()).count();
    let warnings = found.len() - errors;
    if args.json {
        let checked = json!({ "files": files, "errors": errors, "warnings": warnings, "diagnostics": found });
        print_json(&Redactor::default().shown(&checked));
    } else {
        render(&found);
        for name in replaced {
            note(&format!("`{name}.toml` replaces the built-in scenario of that name"));
        }
        let counts = [(files, "file"), (errors, "error"), (warnings, "warning")];
        print(&format!("{}\n", counts.map(|(count, what)| counted(count, what)).join(", ")));
    }
    let fails = errors > 0 || (args.deny.is_some() && warnings > 0);
    Ok(if fails { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn render(found: &[Diagnostic]) {
    for problem in found {
        Stream::Err.write(format!("{}\n", problem.render(colored(&std::io::stderr()))));
    }
}

/// The texts of a file or a folder. A named file must be readable; an unreadable file in a folder becomes a diagnostic.
fn texts(path: &Path, found: &mut Vec<Diagnostic>) -> Result<Vec<(PathBuf, String)>, Failure> {
    if !path.is_dir() {
        let text = read_file(path).map_err(|problem| {
            Failure::io(format!("{}: {} [{}]", path.display(), problem.message, problem.code)).with_hint(problem.hint)
        })?;
        return Ok(vec![(path.to_owned(), text)]);
    }
    let mut readable = Vec::new();
    for (file, text) in read_folder(path) {
        match text {
            Ok(text) => readable.push((file, text)),
            Err(problem) => {
                let shown = file.display().to_string();
                found.push(problem.in_file(shown));
            }
        }
    }
    Ok(readable)
}
