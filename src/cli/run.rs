//! `run save|view|schema`: keeps what happened in an emulator in a file, and shows such a file in a browser.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::arguments::CallArgs;
use super::client::runtime;
use super::failure::Failure;
use super::help::{LAST, examples};
use super::output::{print, print_as_is, ready_line, show};
use super::run_file::{RunFile, as_json, read};
use super::signals::Signals;
use super::target::{address, bound};
use crate::control::{Access, Viewer, api};
use crate::http::handler::Limits;
use crate::http::serve;
use crate::redact::visible_json;
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
    let is_stream = args.file.as_os_str() == "-";
    // A file that cannot be written is reported before the emulator is asked.
    let file = (!is_stream).then(|| RunFile::at("", &args.file)).transpose()?;
    let run = args.common.call::<api::ShowRun>().key(&*args.key).limit(LIMIT).send()?;
    let Some(file) = file else {
        print_as_is(&visible_json(&as_json(&run)));
        return Ok(ExitCode::SUCCESS);
    };
    file.write(&run)?;
    let left_out = run.omitted.requests + run.omitted.deliveries + run.omitted.events + run.omitted.notices;
    let omitted = if left_out > 0 {
        format!("; {} left out, as {}", counted(left_out, "older record"), api::DOCUMENT_BOUND)
    } else {
        String::new()
    };
    let (requests, deliveries) = (run.requests.len(), run.deliveries.len());
    // Older records are not in the document.
    let saved = json!({ "requests": requests, "deliveries": deliveries, "omitted": left_out });
    Ok(show(args.common.json, &saved, || {
        let (requests, deliveries) = (counted(requests, "request"), counted(deliveries, "delivery"));
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
