//! Files of what happened and of the state: `run save|view|schema`, `requests export` and `snapshot save|load`.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::arguments::{CallArgs, LAST, Target, address, bound, examples, since};
use super::client::{Call, runtime};
use super::failure::{Code, Failure, note};
use super::har::archive;
use super::output::{print, print_as_is, print_json, ready_line, show};
use super::signals::Signals;
use crate::control::api::{
    self, Attempt, DOCUMENT_BOUND, DeliveryWhole, RUN_FORMAT, RUN_VERSION, Request, Run, RunStart, Time, WorkspaceId,
};
use crate::control::render::Text as _;
use crate::control::{Access, Viewer, operation_named};
use crate::http::handler::Limits;
use crate::http::serve;
use crate::redact::{Redactor, visible_json};
use crate::ui::{DATA_END, DATA_START, report};
use crate::util::file::{self, FileProblem};
use crate::util::wording::counted;

/// How long the emulator may take.
const LIMIT: Duration = Duration::from_mins(1);
/// How long a running request may delay the end of `run view`.
const GRACE: Duration = Duration::from_millis(500);
/// Most bytes of a file that is read: more than is written, and than the emulator accepts.
const LARGEST: u64 = 64 * 1024 * 1024;

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["run save run.json", "run save report.html", "run save run.har", "run view run.json"]))]
pub(super) enum RunCommand {
    /// Write what happened to a file: requests, deliveries, problems, scenarios, settings; as JSON, as a page, or as HAR.
    #[command(after_help = examples([
        "run save run.json",
        "run save report.html  # a page that any browser opens",
        "run save run.har  # requests and attempts for tools that read HTTP archives",
        "run save a.html --key sk_test_a  # one key",
        "run save - | jq .verification.counts",
    ]))]
    Save(SaveArgs),
    /// Show a saved file in the browser, read-only, without an emulator.
    #[command(after_help = examples([
        "run view run.json  # opens the browser",
        "run view report.html --listen 127.0.0.1:8080",
    ]) + "\n\nExit status: 0 when it is ended by Ctrl-C or SIGTERM, 2 wrong usage or a file that cannot be shown.")]
    View(ViewArgs),
    /// Print the JSON Schema of saved files.
    #[command(after_help = examples(["run schema > run.schema.json"]))]
    Schema,
}

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["requests --status 404", "requests show req_01k...", "requests export --har requests.har"]))]
pub(super) enum RequestsCommand {
    /// Write requests and their answers to an HTTP archive (HAR 1.2), oldest first.
    #[command(display_order = 100, after_help = examples([
        "requests export --har requests.har",
        "requests export --har failed.har --operation events.subscribe --status 422",
        "requests export --har - --key sk_test_mine --deliveries | jq '.log.entries[].request.url'",
        "requests export --har old.har --from run.json  # of a saved run",
    ]))]
    Export(ExportArgs),
}

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["snapshot save before.json", "snapshot load before.json"]))]
pub(super) enum SnapshotCommand {
    /// Write the state of one key, or everything, to a file: subscriptions, counters, scenarios, clock, random source.
    #[command(after_help = examples([
        "snapshot save before.json  # everything",
        "snapshot save a.json --key sk_test_a  # one key",
        "snapshot save -  # on stdout",
    ]))]
    Save(SaveStateArgs),
    /// Load a saved state, which replaces the present state of its keys.
    #[command(after_help = examples(["snapshot load before.json", "snapshot load - < before.json"]))]
    Load(LoadStateArgs),
}

#[derive(Debug, Args)]
pub(super) struct SaveArgs {
    /// The file: a page if it ends in `.html`, an HTTP archive if in `.har`, else JSON; `-` is JSON on stdout. It has no secrets and no live keys.
    file: PathBuf,
    #[command(flatten)]
    common: CallArgs,
    /// Only this key, or workspace `ws_…`; by default all keys and requests without one.
    // Not from WRS_API_KEY, for the same reason as in `verdict`.
    #[arg(long, default_value = "*")]
    key: String,
}

#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    /// A file of `run save` or `exec --report`, JSON or page; `-` is stdin.
    file: PathBuf,
    /// Where to serve the page; port 0 takes a free one.
    #[arg(long, env = "WRS_EMULATOR_RUN_VIEW_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: String,
    /// Only print the address. The browser is opened at a terminal alone, and not where `CI` is set.
    #[arg(long)]
    no_open: bool,
    /// Print the address as JSON.
    #[arg(long, display_order = LAST)]
    json: bool,
}

pub(super) fn save(args: &SaveArgs) -> Result<ExitCode, Failure> {
    // A file that cannot be written is reported before the emulator is asked.
    let file = (!is_stream(&args.file)).then(|| RunFile::at("", &args.file)).transpose()?;
    let run = Call::new(&args.common.target).key(&*args.key).limit(LIMIT).send::<api::ShowRun>()?;
    let Some(file) = file else {
        print_as_is(&visible_json(&as_json(&run)));
        return Ok(ExitCode::SUCCESS);
    };
    file.write(&run)?;
    let left_out = run.omitted.requests + run.omitted.deliveries + run.omitted.events + run.omitted.notices;
    let (requests, deliveries) = (run.requests.len(), run.deliveries.len());
    let saved = json!({ "requests": requests, "deliveries": deliveries, "omitted": left_out });
    Ok(show(args.common.json, &saved, || {
        let (requests, deliveries) = (counted(requests, "request"), counted(deliveries, "delivery"));
        let omitted = match left_out {
            0 => String::new(),
            omitted => format!("; {} left out, as {DOCUMENT_BOUND}", counted(omitted, "older record")),
        };
        format!("{requests} and {deliveries} saved{omitted}\n")
    }))
}

pub(super) fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let mut run = read(&args.file)?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str());
    run.viewing = Some(name.to_string_lossy().into_owned());
    let (listen, document) = (address("--listen", &args.listen)?, as_json(&run));
    drop(run);
    let runtime = runtime(Builder::new_current_thread())?;
    runtime.block_on(serve_view(args, listen, document))
}

/// Serves the page over a document until a signal comes.
async fn serve_view(args: &ViewArgs, listen: SocketAddr, document: String) -> Result<ExitCode, Failure> {
    // Installed before the address is printed, as a signal may follow it at once.
    let mut signals = Signals::install()?;
    let (listener, local) = bound(listen)?;
    let url = format!("http://{local}/_emulator/");
    if args.json {
        print(&ready_line(json!({ "url": url })));
    } else {
        print(&format!("{} is shown at {url} until Ctrl-C\n", args.file.display()));
        if !args.no_open && has_viewer() {
            open(&url);
        }
    }
    let (stop, stopping) = watch::channel(false);
    let viewer = Arc::new(Viewer::new(Access::new(None, &[]), document));
    let served = tokio::spawn(serve(listener, viewer, None, Limits::default(), stopping, GRACE));
    signals.wait().await;
    let _ = stop.send(true);
    // It ends within the grace period; a panic in it no longer matters.
    let _ = served.await;
    Ok(ExitCode::SUCCESS)
}

/// Whether somebody is likely to look: at a terminal, and on a screen.
fn has_viewer() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    // Without a screen `xdg-open` starts a browser that takes the terminal.
    let has_screen = cfg!(any(windows, target_os = "macos")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    std::io::stdout().is_terminal() && has_screen && !is_set("CI")
}

/// Opens an address in the browser. The address is printed already, so nothing is reported if there is no browser.
fn open(url: &str) {
    let (program, arguments): (&str, &[&str]) = if cfg!(windows) {
        // What `start` finds in quotes first is a title.
        ("cmd", &["/C", "start", ""])
    } else if cfg!(target_os = "macos") {
        ("open", &[])
    } else {
        ("xdg-open", &[])
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C must not end a browser that was started here.
    #[cfg(unix)]
    command.process_group(0);
    let _ = command.spawn();
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The file to write; `-` is stdout. It has no secrets and no live keys.
    #[arg(long, value_name = "FILE")]
    har: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Only requests of this key, or workspace `ws_…`; by default all, also those without a key.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    /// Only this operation, such as system.status.
    #[arg(long)]
    operation: Option<String>,
    /// Only answers with this status.
    #[arg(long)]
    status: Option<u16>,
    /// Only this method.
    #[arg(long)]
    method: Option<String>,
    /// Only this path.
    #[arg(long)]
    path: Option<String>,
    /// Only from this time on: a timestamp, or `now`.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<String>,
    /// At most this many, the newest; by default all that a run document has room for.
    #[arg(long)]
    limit: Option<usize>,
    /// Also the delivery attempts of the same key and time.
    #[arg(long)]
    deliveries: bool,
    /// Read a file made by `run save` or `exec --report` instead of a running emulator; `-` is stdin.
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    if let Some(operation) = &args.operation {
        operation_named(operation).map_err(|problem| Failure::usage(format!("--{problem}")))?;
    }
    if args.since.as_deref() == Some("now") {
        let failure = Failure::usage("--since now: nothing has happened since then");
        return Err(failure.with_hint("pass a timestamp such as 2026-01-31T09:30:00Z"));
    }
    let file = (!is_stream(&args.har)).then(|| RunFile::at("--har", &args.har)).transpose()?;
    let run = match &args.from {
        Some(path) => read(path)?,
        None => Call::new(&args.target).key(&*args.key).limit(LIMIT).send::<api::ShowRun>()?,
    };
    // Checked when the flag was read.
    let since: Option<Timestamp> = args.since.as_ref().and_then(|since| since.parse().ok());
    // A running emulator returns only the requests of the key.
    let is_chosen_here = args.from.is_some() && args.key != "*";
    let chosen = is_chosen_here.then(|| workspace_of(&args.key, &run)).transpose()?;
    let covers = |workspace: Option<&WorkspaceId>, at: &Time| {
        chosen.is_none_or(|chosen| workspace == Some(chosen))
            && since.is_none_or(|since| at.0.parse::<Timestamp>().is_ok_and(|at| at >= since))
    };
    let mut left = args.limit.unwrap_or(usize::MAX);
    let takes_request = |request: &Request| {
        let takes = left > 0
            && covers(request.workspace.as_ref(), &request.at)
            && args.operation.as_ref().is_none_or(|operation| request.operation.as_ref() == Some(operation))
            && args.status.is_none_or(|status| request.status == status)
            && args.method.as_ref().is_none_or(|method| request.method.eq_ignore_ascii_case(method))
            && args.path.as_ref().is_none_or(|path| request.path == *path);
        left -= usize::from(takes);
        takes
    };
    let takes_attempt = |delivery: &DeliveryWhole, attempt: &Attempt| {
        args.deliveries && covers(delivery.workspace.as_ref(), &attempt.at)
    };
    let chosen = archive(&run, takes_request, takes_attempt);
    let requests = counted(chosen.requests, "request");
    let exported =
        if args.deliveries { format!("{requests} and {}", counted(chosen.attempts, "attempt")) } else { requests };
    match file {
        Some(file) => {
            file.write_text(chosen.json)?;
            print(&format!("{exported} exported\n"));
        }
        None => print_as_is(&visible_json(&chosen.json)),
    }
    if chosen.requests == 0 {
        note(&format!("no request matches, of {}", counted(run.requests.len(), "request")));
    }
    if run.omitted.requests > 0 {
        let older = counted(run.omitted.requests, "older request");
        note(&format!("{older} left out, as {DOCUMENT_BOUND}; `--key` leaves more room for one key"));
    }
    Ok(ExitCode::SUCCESS)
}

fn workspace_of<'r>(key: &str, run: &'r Run) -> Result<&'r WorkspaceId, Failure> {
    let shown = Redactor::default().key(key);
    let known = run.keys.iter().find(|known| known.key == shown || known.workspace.0 == key);
    known.map(|known| &known.workspace).ok_or_else(|| {
        Failure::check_failed(format!("--key: the run has no `{shown}`"))
            .with_hint("without --key, the requests of all its keys are exported")
    })
}

#[derive(Debug, Args)]
pub(super) struct SaveStateArgs {
    /// The file, or `-` for stdout.
    file: PathBuf,
    #[command(flatten)]
    common: CallArgs,
    /// Only this key, or workspace `ws_…`; by default everything.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
}

#[derive(Debug, Args)]
pub(super) struct LoadStateArgs {
    /// The file, or `-` for stdin.
    file: PathBuf,
    #[command(flatten)]
    common: CallArgs,
}

pub(super) fn save_state(args: &SaveStateArgs) -> Result<ExitCode, Failure> {
    let snapshot = Call::new(&args.common.target).key(&*args.key).limit(LIMIT).send::<api::SaveSnapshot>()?;
    if is_stream(&args.file) {
        print_json(&snapshot);
        return Ok(ExitCode::SUCCESS);
    }
    let text = serde_json::to_string_pretty(&snapshot).expect("JSON values always serialise");
    let shown = args.file.display();
    file::write_whole(&args.file, text).map_err(|error| Failure::io(format!("cannot write `{shown}`: {error}")))?;
    let workspaces = snapshot.0.get("workspaces").and_then(Value::as_array);
    let saved = workspaces.map_or(0, Vec::len);
    Ok(show(args.common.json, &json!({ "saved": saved }), || format!("{} saved\n", counted(saved, "workspace"))))
}

pub(super) fn load_state(args: &LoadStateArgs) -> Result<ExitCode, Failure> {
    let unreadable = |cause: String| Failure::io(format!("cannot read `{}`: {cause}", args.file.display()));
    let bytes = file::read_input(&args.file, LARGEST).map_err(|problem| unreadable(problem.to_string()))?;
    let snapshot: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure { code: Code::InvalidFile, ..unreadable(format!("it is not JSON: {error}")) })?;
    let loaded = Call::new(&args.common.target).body(&snapshot).limit(LIMIT).send::<api::LoadSnapshot>()?;
    Ok(show(args.common.json, &loaded, || loaded.text()))
}

fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A file that a command will write when it ends, such as a run document.
#[derive(Debug)]
pub(super) struct RunFile {
    path: PathBuf,
    /// The flag that names it, for messages; empty for an argument.
    flag: &'static str,
}

impl RunFile {
    /// Refuses a path that cannot be written. `flag` names it in messages, unless it is empty.
    pub(super) fn at(flag: &'static str, path: &Path) -> Result<Self, Failure> {
        let found = Self { path: path.to_owned(), flag };
        file::check_whole(path).map_err(|problem| found.unwritable(&problem))?;
        Ok(found)
    }

    /// Removes an older file, which would be taken for the new one if that is never written.
    pub(super) fn cleared(self) -> Result<Self, Failure> {
        file::remove(&self.path).map_err(|problem| self.unwritable(&problem))?;
        Ok(self)
    }

    /// Writes the document: as a report if the name ends in `.html` or `.htm`, as an archive if in `.har`, else as JSON.
    pub(super) fn write(&self, run: &Run) -> Result<(), Failure> {
        let end = self.path.extension().map(OsStr::to_ascii_lowercase);
        let text = match end.as_deref().and_then(OsStr::to_str) {
            Some("html" | "htm") => report(&as_json(run)),
            Some("har") => archive(run, |_| true, |_, _| true).json,
            _ => as_json(run),
        };
        self.write_text(text)
    }

    pub(super) fn write_text(&self, text: String) -> Result<(), Failure> {
        file::write_shared(&self.path, text).map_err(|error| self.unwritable(&error.into()))
    }

    fn unwritable(&self, problem: &FileProblem) -> Failure {
        let flag = if self.flag.is_empty() { String::new() } else { format!("{}: ", self.flag) };
        let failure = Failure::io(format!("{flag}cannot write `{}`: {problem}", self.path.display()));
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if problem.is_missing() => {
                failure.with_hint(format!("create the folder first: mkdir -p {0}", folder.display()))
            }
            _ => failure,
        }
    }
}

/// The document as JSON, ending with a line end.
fn as_json(run: &Run) -> String {
    let mut text = serde_json::to_string(run).expect("texts and numbers always serialise");
    text.push('\n');
    text
}

/// Reads a document, whether it was saved as JSON or within a report. Refuses one of another version of the format.
fn read(path: &Path) -> Result<Run, Failure> {
    let refused = |cause: &str, hint: &str| {
        Failure::invalid_file(format!("cannot use `{}`: {cause}", path.display())).with_hint(hint)
    };
    let bytes = file::read_input(path, LARGEST).map_err(|problem| match problem {
        FileProblem::TooLarge(_) => refused(
            &problem.to_string(),
            "files of `wrs-emulator run save` and `exec --report` are smaller; is it another file?",
        ),
        problem => Failure { code: Code::Io, hint: None, ..refused(&problem.to_string(), "") },
    })?;
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text", SAVE))?;
    let json = document_in(&text).map_err(|cause| refused(cause, SAVE))?;
    let start: RunStart = match serde_json::from_slice(json.as_bytes()) {
        Ok(start) => start,
        Err(error) if error.is_eof() => return Err(refused("it is cut off", "save or copy it again")),
        Err(error) if error.is_data() => RunStart::default(),
        Err(error) => return Err(refused(&format!("it is not JSON: {error}"), SAVE)),
    };
    if start.format.as_deref() != Some(RUN_FORMAT) {
        return Err(refused("it is not a run of wrs-emulator", SAVE));
    }
    let writer = start.emulator.map_or_else(
        || "use the wrs-emulator that saved it".to_owned(),
        |emulator| format!("use wrs-emulator {}, which saved it", emulator.version),
    );
    if start.version != Some(RUN_VERSION) {
        let version = start.version.unwrap_or_default();
        let own = env!("CARGO_PKG_VERSION");
        let cause =
            format!("it has version {version} of the format, and wrs-emulator {own} reads version {RUN_VERSION}");
        return Err(refused(&cause, &writer));
    }
    serde_json::from_slice(json.as_bytes())
        .map_err(|error| refused(&format!("it is not as it was saved: {error}"), &format!("{writer}; or {SAVE}")))
}

/// How to get a file that can be shown.
const SAVE: &str = "save one with `wrs-emulator run save FILE`, or with `wrs-emulator exec --report FILE -- CMD`";

/// The JSON of a file: all of it, or what a report contains.
fn document_in(text: &str) -> Result<&str, &'static str> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err("it is empty");
    }
    if !text.starts_with('<') {
        return Ok(text);
    }
    let (_, rest) = text.split_once(DATA_START).ok_or("it is a page, but no report of wrs-emulator")?;
    let (json, _) = rest.split_once(DATA_END).ok_or("it is cut off")?;
    Ok(json)
}
