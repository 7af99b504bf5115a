//! Files of what happened and of the state: `run save|view|schema`, `requests export` and `snapshot save|load`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::process::Command;
use tokio::runtime::Builder;

use super::arguments::{CallArgs, LAST, OutputFile, Target, address, bound, examples};
use super::call_command::print_answer;
use super::client::{ControlClient, MAX_SNAPSHOT, parsed, runtime};
use super::document::MAX;
use super::failure::{Failure, FailureCode, note};
use super::har::archive;
use super::log::LogFormat;
use super::output::{print, print_as_is, ready_line, show};
use super::serve::announce_token;
use super::signals::{Adopted, Signals};
use crate::app::token_for;
use crate::control::api::{
    ControlCall as _, DeliveryWhole, LoadSnapshot, Query, RecordedRun, SaveSnapshot, Since, Time, WorkspaceId,
    document_bound, plain,
};
use crate::control::{Access, Viewer, operation_named};
use crate::http::handler::Limits;
use crate::http::listener::ListenAddress;
use crate::http::serve;
use crate::redact::{Redactor, visible_json};
use crate::ui::report;
use crate::util::file;
use crate::util::flag::Flag;
use crate::util::wording::counted;

/// How long the emulator may take.
pub(super) const LIMIT: Duration = Duration::from_mins(1);
/// How long a running request may delay the end of `run view`.
const GRACE: Duration = Duration::from_millis(500);
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
    /// Where to serve the page; port 0 picks a free one.
    #[arg(long, env = "WRS_EMULATOR_RUN_VIEW_LISTEN", default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: String,
    /// The token that the page asks for.
    ///
    /// Beyond loopback one is generated and printed unless given.
    #[arg(long, env = "WRS_EMULATOR_CONTROL_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    control_token: Option<String>,
    /// Only print the address. Without it, the browser opens at a terminal unless `CI` is set.
    #[arg(long)]
    no_open: bool,
    /// Print the address as JSON.
    #[arg(long, display_order = LAST)]
    json: bool,
}

pub(super) fn save(args: &SaveArgs) -> Result<ExitCode, Failure> {
    // A file that cannot be written is reported before the emulator is asked.
    let file = (!is_stream(&args.file)).then(|| OutputFile::at("", &args.file)).transpose()?;
    let run = RecordedRun::ask(ControlClient::new(&args.common.target).limit(LIMIT), &args.key)?;
    let Some(file) = file else {
        print_as_is(&visible_json(&run.json()));
        return Ok(ExitCode::SUCCESS);
    };
    let left_out = run.omitted.records();
    let (requests, deliveries) = (run.requests.len(), run.deliveries.len());
    write_run(&file, run)?;
    let saved = json!({ "requests": requests, "deliveries": deliveries, "omitted": left_out });
    Ok(show(args.common.json, &saved, || {
        let (requests, deliveries) = (counted(requests, "request"), counted(deliveries, "delivery"));
        let omitted = match left_out {
            0 => String::new(),
            omitted => format!("; {} left out, because {}", counted(omitted, "record"), document_bound()),
        };
        format!("{requests} and {deliveries} saved{omitted}\n")
    }))
}

pub(super) fn view(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let name = args.file.file_name().unwrap_or(args.file.as_os_str());
    let viewing = Some(name.to_string_lossy().into_owned());
    let document = RecordedRun { viewing, ..RecordedRun::read(&args.file)? }.json();
    let listen = address("--listen", &args.listen)?;
    let runtime = runtime(Builder::new_current_thread())?;
    runtime.block_on(serve_view(args, listen, document))
}

/// Serves the page over a document until a signal comes.
async fn serve_view(args: &ViewArgs, listen: ListenAddress, document: String) -> Result<ExitCode, Failure> {
    // Installed before the address is printed, because a signal may follow it at once.
    let mut signals = Signals::install()?;
    Adopted::watch()?.reap_all();
    let (listener, local) = bound(listen)?;
    let url = format!("http://{local}/_emulator/");
    let token = token_for(args.control_token.clone(), listen, false);
    if let Some(token) = token.as_deref().filter(|token| args.control_token.as_deref() != Some(*token)) {
        announce_token(token, if args.json { LogFormat::Json } else { LogFormat::Text });
    }
    if args.json {
        print(&ready_line(json!({ "url": url })));
    } else {
        print(&format!("{} is shown at {url} until Ctrl-C\n", args.file.display()));
        if !args.no_open && has_viewer() {
            open(&url);
        }
    }
    let stop = Flag::default();
    let viewer = Arc::new(Viewer::new(Access::new(token, &[]), document));
    let served = tokio::spawn(serve(listener, viewer, None, Limits::default(), stop.clone(), GRACE));
    signals.wait().await;
    stop.raise();
    // It ends within the grace period; a panic in it no longer matters.
    let _ = served.await;
    Ok(ExitCode::SUCCESS)
}

/// True if a person is likely to look: at a terminal, and on a screen.
fn has_viewer() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    // Without a screen `xdg-open` starts a browser that uses the terminal.
    let has_screen = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    std::io::stdout().is_terminal() && has_screen && !is_set("CI")
}

/// Opens an address in the browser. The address is printed already, so nothing is reported if there is no browser.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C must not end a browser that was started here.
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
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
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
    if args.since.as_ref().is_some_and(|since| since.0 == "now") {
        let failure = Failure::usage("--since now: nothing has happened since then");
        return Err(failure.with_hint("pass a timestamp such as 2026-01-31T09:30:00Z"));
    }
    let file = (!is_stream(&args.har)).then(|| OutputFile::at("--har", &args.har)).transpose()?;
    let mut run = match &args.from {
        Some(path) => RecordedRun::read(path)?,
        None => RecordedRun::ask(ControlClient::new(&args.target).limit(LIMIT), &args.key)?,
    };
    let all = run.requests.len();
    args.choose(&mut run)?;
    let requests = counted(run.requests.len(), "request");
    let attempts = run.deliveries.iter().map(|delivery| delivery.record.attempts.0.len()).sum();
    let exported =
        if args.deliveries { format!("{requests} and {}", counted::<usize>(attempts, "attempt")) } else { requests };
    match file {
        Some(file) => {
            file.write_shared(archive(&run))?;
            print(&format!("{exported} exported\n"));
        }
        None => print_as_is(&visible_json(&archive(&run))),
    }
    if run.requests.is_empty() {
        note(&format!("no request matches, of {}", counted(all, "request")));
    }
    if run.omitted.requests > 0 {
        let older = counted(run.omitted.requests, "older request");
        note(&format!("{older} left out, because {}; `--key` leaves more room for one key", document_bound()));
    }
    Ok(ExitCode::SUCCESS)
}

impl ExportArgs {
    /// Leaves the chosen requests and attempts in a run.
    fn choose(&self, run: &mut RecordedRun) -> Result<(), Failure> {
        // Checked when the flag was read.
        let since: Option<Timestamp> = self.since.as_ref().and_then(|since| since.0.parse().ok());
        // A running emulator returns only the requests of the key.
        let is_chosen_here = self.from.is_some() && self.key != "*";
        let chosen = is_chosen_here.then(|| workspace_of(&self.key, run)).transpose()?;
        let covers = |workspace: &Option<WorkspaceId>, at: &Time| {
            (chosen.is_none() || *workspace == chosen)
                && since.is_none_or(|since| at.0.parse::<Timestamp>().is_ok_and(|at| at >= since))
        };
        run.requests.retain(|record| {
            let request = &record.request.row;
            covers(&request.workspace, &request.at)
                && self.operation.as_ref().is_none_or(|operation| request.operation.as_ref() == Some(operation))
                && self.status.is_none_or(|status| request.status == status)
                && self.method.as_ref().is_none_or(|method| request.method.eq_ignore_ascii_case(method))
                && self.path.as_ref().is_none_or(|path| request.path == *path)
        });
        run.requests.truncate(self.limit.unwrap_or(usize::MAX));
        for DeliveryWhole { workspace, attempts, .. } in run.deliveries.iter_mut().map(|delivery| &mut delivery.record)
        {
            attempts.0.retain(|attempt| self.deliveries && covers(workspace, &attempt.at));
        }
        Ok(())
    }
}

pub(super) fn workspace_of(key: &str, run: &RecordedRun) -> Result<WorkspaceId, Failure> {
    let shown = Redactor::default().key(key);
    let known = run.keys.iter().find(|known| known.key == shown || known.key == key || known.workspace.0 == key);
    known.map(|known| known.workspace.clone()).ok_or_else(|| {
        Failure::check_failed(format!("--key: the run has no `{shown}`"))
            .with_hint("omit --key (and unset WRS_API_KEY) to include all keys")
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

/// The part of a snapshot that is read. The rest, which may be everything that an emulator keeps, is skipped.
#[derive(Deserialize)]
struct SavedSnapshot {
    workspaces: Vec<IgnoredAny>,
}

pub(super) fn save_state(args: &SaveStateArgs) -> Result<ExitCode, Failure> {
    let call = ControlClient::new(&args.common.target).limit(LIMIT).max_answer(MAX_SNAPSHOT);
    let sent = Query { query: SaveSnapshot { key: args.key.as_str().into() } }.sent();
    let answer = call.exchange(&sent)?;
    let snapshot: SavedSnapshot = parsed(sent.path, &answer)?;
    let mut text = String::from_utf8_lossy(&answer).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if is_stream(&args.file) {
        print_as_is(&visible_json(&text));
        return Ok(ExitCode::SUCCESS);
    }
    let shown = args.file.display();
    file::write_whole(&args.file, text).map_err(|error| Failure::io(format!("cannot write `{shown}`: {error}")))?;
    let saved = snapshot.workspaces.len();
    Ok(show(args.common.json, &json!({ "saved": saved }), || format!("{} saved\n", counted(saved, "workspace"))))
}

pub(super) fn load_state(args: &LoadStateArgs) -> Result<ExitCode, Failure> {
    let unreadable = |cause: String| Failure::io(format!("cannot read `{}`: {cause}", args.file.display()));
    let bytes = file::read_input(&args.file, MAX).map_err(|problem| unreadable(problem.to_string()))?;
    serde_json::from_slice::<IgnoredAny>(&bytes).map_err(|error| Failure {
        code: FailureCode::InvalidFile,
        ..unreadable(format!("it is not JSON: {error}"))
    })?;
    let call = ControlClient::new(&args.common.target).json(bytes).limit(LIMIT);
    print_answer(call, &Query::<LoadSnapshot>::default().sent(), args.common.json).map(|_| ExitCode::SUCCESS)
}

pub(super) fn is_stream(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Writes the document: as a report if the name ends in `.html` or `.htm`, as an archive if in `.har`, else as JSON.
pub(super) fn write_run(file: &OutputFile, run: RecordedRun) -> Result<(), Failure> {
    file.write_shared(contents(file, run))
}

pub(super) fn contents(file: &OutputFile, run: RecordedRun) -> Vec<u8> {
    match file.ending().as_deref() {
        Some("html" | "htm") => {
            let plain = plain(&run.verification, run.exec.as_ref(), &file.name());
            let mut page = Vec::new();
            report(&mut page, &plain, |out| run.write(Redactor::default(), out))
                .expect("writing to memory cannot fail");
            page
        }
        Some("har") => archive(&run).into_bytes(),
        _ => run.json().into_bytes(),
    }
}
