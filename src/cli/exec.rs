//! `exec -- CMD`: runs the emulator while a command runs, then reports problems with what the command did.
//!
//! The streams belong to the command: the emulator prints nothing to stdout, and to stderr only what flags ask for. The verdict is
//! read over the control API, as by any other client.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;

use super::client::{Call, runtime};
use super::failure::{Failure, colored, report, warn};
use super::help::examples;
use super::problems::{Kind, Verdict};
use super::run_file::RunFile;
use super::serve::{ServeArgs, Signals, settings, start};
use super::target::{Target, reachable};
use super::verdict::{VerdictFormat, render, wait};
use crate::app::{Emulator, Raised, Settings};
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{self, ExecFacts, Run};
use crate::file;
use crate::redact::Redactor;

const EXIT_STATUS: &str = "

Environment of the command: WRS_BASE_URL, WRS_API_KEY (sk_test_local unless set), WRS_EMULATOR_URL, \
WRS_EMULATOR_CONTROL_TOKEN if one is required, \
and WRS_EMULATOR_CA, a PEM file, with --tls self-signed.

Exit status: the command's, or 128 and its number for a signal; 1 if it succeeded and the verdict found problems; \
126 if it cannot be run, 127 if it is not there; 2 wrong usage.";

/// How long the emulator may take to give what a report is made of.
const REPORT_LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of a command in a report.
const SHOWN_COMMAND: usize = 16 * 1024;

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "exec -- npm test",
    "exec --fail-on unmatched,undelivered,forged -- pytest -q",
    "exec --scenario rate-limit-burst --fail-on unfinished -- ./client-test",
    "exec --verdict-format junit --verdict-file verdict.xml -- make check",
    "exec --report report.html -- npm test",
    "exec -- sh -c 'curl -s $WRS_BASE_URL/v1/hello'",
]) + EXIT_STATUS)]
pub(super) struct ExecArgs {
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Exit with 1 if the command succeeded and one of these was found; separated by commas.
    #[arg(long, env = "WRS_EMULATOR_FAIL_ON", value_enum, value_delimiter = ',', value_name = "KINDS")]
    fail_on: Vec<Kind>,
    /// The format of the verdict, `text` by default. Prints the verdict even without --fail-on.
    #[arg(long, env = "WRS_EMULATOR_VERDICT_FORMAT", value_enum)]
    verdict_format: Option<VerdictFormat>,
    /// Write the verdict to this file; without it the verdict goes to stderr, and only with --fail-on or --verdict-format.
    #[arg(long, env = "WRS_EMULATOR_VERDICT_FILE", value_name = "FILE")]
    verdict_file: Option<PathBuf>,
    /// Write what happened to this file when the command has ended, however it ended: a page if the name ends in `.html`,
    /// an HTTP archive if in `.har`, else JSON. `run view` shows a page or JSON.
    #[arg(long, env = "WRS_EMULATOR_REPORT", value_name = "FILE")]
    report: Option<PathBuf>,
    /// Before the verdict and the report, wait for planned events, deliveries and retries that are due within this time.
    #[arg(long, env = "WRS_EMULATOR_SETTLE", default_value = "5s", value_name = "DURATION", value_parser = wait)]
    settle: Duration,
    /// Write the emulator's log to stderr.
    #[arg(long, env = "WRS_EMULATOR_VERBOSE")]
    verbose: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(args: ExecArgs) -> Result<ExitCode, Failure> {
    let settings = settings(&args.serve)?;
    let raised = Raised::raise();
    let runtime = runtime(Builder::new_multi_thread())?;
    let code = runtime.block_on(exec(&args, settings, raised));
    // Tasks that are still running have nothing left to do.
    runtime.shutdown_background();
    code
}

async fn exec(args: &ExecArgs, settings: Settings, raised: Raised) -> Result<ExitCode, Failure> {
    // Installed before the command runs: a signal must never end the emulator and leave the command behind.
    let mut signals = Signals::install()?;
    // Opened before the command runs: a path that cannot be written fails at once, and no older verdict stays there.
    let mut file = args.verdict_file.as_deref().map(open).transpose()?;
    let report_file = args.report.as_deref().map(|path| RunFile::at("--report", path)).transpose()?;
    let report_file = report_file.map(RunFile::cleared).transpose()?;
    let (emulator, log) = start(&args.serve, settings, args.verbose).await?;
    if log.is_none() && !args.serve.quiet {
        emulator.control().warnings().iter().for_each(|warning| warn(warning));
    }
    let target = target(&emulator);
    let authority = Authority::write(&emulator)?;
    let path = authority.as_ref().map(|authority| authority.0.as_path());
    let mut child = match spawn(&args.command, &emulator, &target, path, raised) {
        Ok(child) => child,
        Err(failure) => {
            if let Some(file) = &report_file
                && let Err(problem) = write_report(file, &target, ExecFacts::not_run(&args.command, &failure)).await
            {
                report(&problem);
            }
            return Err(failure);
        }
    };
    let (status, was_signalled) = wait_for(&mut child, &mut signals)
        .await
        .map_err(|error| Failure::usage(format!("cannot wait for the command: {error}")))?;
    let is_requested = !args.fail_on.is_empty() || args.verdict_format.is_some() || file.is_some();
    let judged = async {
        match (is_requested, &report_file) {
            (true, _) => judge(args, target.clone(), file.as_mut()).await,
            // Only to wait, which whoever ends the command does not; the report has the verdict itself.
            (false, Some(_)) if !was_signalled => ask(target.clone(), args.settle, Vec::new()).await.map(|_| false),
            (false, _) => Ok(false),
        }
    };
    let (judged, mut signalled) = tokio::select! {
        judged = judged => (judged, None),
        number = signals.wait() => (Ok(false), Some(number)),
    };
    // Written even after a signal, as a cancelled job is the one whose report is read.
    let reported = match &report_file {
        Some(file) => write_report(file, &target, ExecFacts::of(&args.command, status)).await,
        None => Ok(()),
    };
    let finish = async {
        let stopped = emulator.stop().await;
        if let Some(log) = log {
            log.finish().await;
        }
        stopped.map_err(|problem| Failure::check_failed(problem.to_string()))
    };
    let mut stopped = Ok(());
    if signalled.is_none() {
        tokio::select! {
            done = finish => stopped = done,
            number = signals.wait() => signalled = Some(number),
        }
    }
    let code = exit_code(status);
    let mut fails = Ok(false);
    for result in [judged, reported.map(|()| false), stopped.map(|()| false)] {
        fails = match (fails, result) {
            (Ok(fails), result) => result.map(|more| fails || more),
            (Err(first), Ok(_)) => Err(first),
            (Err(first), Err(second)) => {
                report(&first);
                Err(second)
            }
        };
    }
    match (signalled, code, fails) {
        (None, 0, fails) => fails.map(|fails| if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }),
        (signalled, code, fails) => {
            // The exit code is the command's or the signal's, so a failure is only printed.
            if let Err(failure) = fails {
                report(&failure);
            }
            Ok(ExitCode::from(signalled.map_or(code, |number| 128 + number)))
        }
    }
}

/// Writes what happened to a file, with how the command ended.
async fn write_report(file: &RunFile, target: &Target, facts: ExecFacts) -> Result<(), Failure> {
    let (target, unreadable) = (target.clone(), |problem: Failure| {
        Failure::usage(format!("--report: the run cannot be read: {}", problem.message))
    });
    // The client blocks its thread, and the emulator must keep answering.
    let run = tokio::task::spawn_blocking(move || {
        Ok(Call::<api::ShowRun>::to(&target).key("*").limit(REPORT_LIMIT).send()?.body)
    });
    let run = run.await.unwrap_or_else(|error| Err(Failure::usage(error.to_string()))).map_err(unreadable)?;
    file.write(&Run { exec: Some(facts), ..run })
}

impl ExecFacts {
    /// A command that has ended.
    fn of(command: &[OsString], status: ExitStatus) -> Self {
        Self { command: shown(command), exit_status: exit_code(status), signal: status.signal(), problem: None }
    }

    /// A command that could not be started.
    fn not_run(command: &[OsString], failure: &Failure) -> Self {
        let problem = Some(Redactor::default().text(&failure.message).into_owned());
        Self { command: shown(command), exit_status: failure.code, signal: None, problem }
    }
}

/// A command and its arguments, credentials masked; of a very long one the beginning.
fn shown(command: &[OsString]) -> Vec<String> {
    let mut room = SHOWN_COMMAND;
    let mut words = Vec::new();
    for word in command {
        let word = Redactor::default().text(&word.to_string_lossy()).into_owned();
        if word.len() > room {
            words.push("…".to_owned());
            break;
        }
        room -= word.len();
        words.push(word);
    }
    words
}

/// The running emulator as its clients reach it.
fn target(emulator: &Emulator) -> Target {
    Target {
        url: reachable(&emulator.control_url()),
        control_token: emulator.control_token().map(str::to_owned),
        ca: Vec::new(),
        // The connection stays within this process, so there is nothing to verify.
        insecure: true,
    }
}

/// The temporary file with the authority that the command has to trust; removed on drop.
struct Authority(PathBuf);

impl Authority {
    fn write(emulator: &Emulator) -> Result<Option<Self>, Failure> {
        let Some(pem) = emulator.ca_pem() else { return Ok(None) };
        let path = std::env::temp_dir().join(format!("wrs-emulator-ca-{}.pem", std::process::id()));
        let written = file::write_whole(&path, &[pem]);
        written.map_err(|error| Failure::usage(format!("cannot write `{}`: {error}", path.display())))?;
        Ok(Some(Self(path)))
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the command with the emulator's address in its environment.
fn spawn(
    command: &[OsString],
    emulator: &Emulator,
    target: &Target,
    authority: Option<&Path>,
    raised: Raised,
) -> Result<Child, Failure> {
    let (program, arguments) = command.split_first().expect("clap demands a command");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("WRS_BASE_URL", reachable(&emulator.base_url()))
        .env("WRS_EMULATOR_URL", &target.url)
        .kill_on_drop(true);
    if std::env::var_os("WRS_API_KEY").is_none_or(|key| key.is_empty()) {
        command.env("WRS_API_KEY", SAMPLE_KEY);
    }
    if let Some(token) = &target.control_token {
        command.env("WRS_EMULATOR_CONTROL_TOKEN", token);
    }
    if let Some(authority) = authority {
        command.env("WRS_EMULATOR_CA", authority);
    }
    raised.restored_for(|| command.spawn()).map_err(|error| not_run(program, &error))
}

/// Exit codes as in shells: 127 for a command that does not exist, 126 for one that cannot be run.
fn not_run(program: &OsStr, error: &std::io::Error) -> Failure {
    let shown = program.display();
    let (code, message) = match error.kind() {
        ErrorKind::NotFound => (127, format!("there is no command `{shown}`")),
        _ => (126, format!("cannot run `{shown}`: {error}")),
    };
    let hint = "what follows `--` is a program and its arguments; for a line of shell: -- sh -c '…'";
    Failure::with_code(code, message).with_hint(hint)
}

/// Waits for the command to end, and forwards signals to it meanwhile; returns whether there were any.
async fn wait_for(child: &mut Child, signals: &mut Signals) -> std::io::Result<(ExitStatus, bool)> {
    let mut was_signalled = false;
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, was_signalled)),
            number = signals.wait() => {
                was_signalled = true;
                forward(child, number);
            }
        }
    }
}

fn forward(child: &Child, number: u8) {
    let interrupt = number == 2;
    // A terminal interrupts the command as well as its parent; a second signal would make many programs give up at once.
    if interrupt && std::io::stdin().is_terminal() {
        return;
    }
    let signal = if interrupt { Signal::INT } else { Signal::TERM };
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(id) = id {
        // The child has not been reaped, so its process id cannot belong to another process. It may have ended already.
        let _ = kill_process(id, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn open(path: &Path) -> Result<File, Failure> {
    file::create(path)
        .map_err(|problem| Failure::usage(format!("--verdict-file: cannot write `{}`: {problem}", path.display())))
}

/// Reads and prints the verdict; returns whether it makes the run fail.
async fn judge(args: &ExecArgs, target: Target, file: Option<&mut File>) -> Result<bool, Failure> {
    let verdict = ask(target, args.settle, args.fail_on.clone()).await?;
    let format = args.verdict_format.unwrap_or(VerdictFormat::Text);
    match file {
        None => print_to_stderr(&render(&verdict, format, colored(&std::io::stderr()))),
        Some(file) => {
            let text = render(&verdict, format, false);
            file.write_all(text.as_bytes())
                .map_err(|error| Failure::usage(format!("--verdict-file: cannot be written: {error}")))?;
            if verdict.fails() {
                print_to_stderr(&render(&verdict, VerdictFormat::Text, colored(&std::io::stderr())));
            }
        }
    }
    Ok(verdict.fails())
}

/// The verdict, once what is due within `settle` is done.
async fn ask(target: Target, settle: Duration, fail_on: Vec<Kind>) -> Result<Verdict, Failure> {
    // The client blocks its thread, and the emulator must keep answering.
    let asked = tokio::task::spawn_blocking(move || Verdict::ask(&target, "*", settle, &fail_on));
    asked.await.map_err(|error| Failure::usage(format!("the verdict cannot be read: {error}")))?
}

fn print_to_stderr(text: &str) {
    // If stderr is closed, the exit code still reports the problem.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        // A wait status holds the code above the lowest byte, and a signal in it.
        for (raw, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (15, 143), (9, 137)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), code, "{raw}");
        }
        let failure = |kind: ErrorKind| not_run(OsStr::new("x"), &std::io::Error::from(kind));
        for (kind, expected) in
            [(ErrorKind::NotFound, 127), (ErrorKind::PermissionDenied, 126), (ErrorKind::ExecutableFileBusy, 126)]
        {
            assert_eq!(failure(kind).code, expected, "{kind}");
        }
    }
}
