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

use super::client::runtime;
use super::failure::{Failure, colored, report, warn};
use super::help::examples;
use super::problems::{Kind, Verdict};
use super::serve::{ServeArgs, Signals, settings, start};
use super::target::{Target, reachable};
use super::verdict::{VerdictFormat, render, wait};
use crate::app::{Emulator, Raised, Settings};
use crate::contract::keys::SAMPLE_KEY;
use crate::file;

const EXIT_STATUS: &str = "

Environment of the command: WRS_BASE_URL, WRS_API_KEY (sk_test_local unless set), WRS_EMULATOR_URL, \
WRS_EMULATOR_CONTROL_TOKEN if one is required, \
and WRS_EMULATOR_CA, a PEM file, with --tls self-signed.

Exit status: the command's, or 128 and its number for a signal; 1 if it succeeded and the verdict found problems; \
126 if it cannot be run, 127 if it is not there; 2 wrong usage.";

/// Arguments of `exec`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "exec -- npm test",
    "exec --fail-on unmatched,undelivered,forged -- pytest -q",
    "exec --scenario rate-limit-burst --fail-on unfinished -- ./client-test",
    "exec --verdict-format junit --verdict-file verdict.xml -- make check",
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
    /// Before the verdict, wait for planned events, deliveries and retries that are due within this time.
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
    let (emulator, log) = start(&args.serve, settings, args.verbose).await?;
    if log.is_none() && !args.serve.quiet {
        emulator.control().warnings().iter().for_each(|warning| warn(warning));
    }
    let target = target(&emulator);
    let authority = Authority::write(&emulator)?;
    let path = authority.as_ref().map(|authority| authority.0.as_path());
    let mut child = spawn(&args.command, &emulator, &target, path, raised)?;
    let status = wait_for(&mut child, &mut signals)
        .await
        .map_err(|error| Failure::usage(format!("cannot wait for the command: {error}")))?;
    let finish = async {
        let is_requested = !args.fail_on.is_empty() || args.verdict_format.is_some() || file.is_some();
        let verdict = if is_requested { judge(args, target, file.as_mut()).await } else { Ok(false) };
        let stopped = emulator.stop().await;
        if let Some(log) = log {
            log.finish().await;
        }
        match (verdict, stopped) {
            (verdict, Ok(())) => verdict,
            (verdict, Err(problem)) => {
                if let Err(failure) = verdict {
                    report(&failure);
                }
                Err(Failure::check_failed(problem.to_string()))
            }
        }
    };
    let verdict = tokio::select! {
        verdict = finish => verdict,
        number = signals.wait() => return Ok(ExitCode::from(128 + number)),
    };
    match (exit_code(status), verdict) {
        (0, verdict) => verdict.map(|fails| if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS }),
        (code, Ok(_)) => Ok(ExitCode::from(code)),
        (code, Err(failure)) => {
            // The exit code is the command's, so this failure is only printed.
            report(&failure);
            Ok(ExitCode::from(code))
        }
    }
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

/// Waits for the command to end, and forwards signals to it meanwhile.
async fn wait_for(child: &mut Child, signals: &mut Signals) -> std::io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            number = signals.wait() => forward(child, number),
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
    let (settle, fail_on) = (args.settle, args.fail_on.clone());
    // The client blocks its thread, and the emulator must keep answering.
    let asked = tokio::task::spawn_blocking(move || Verdict::ask(&target, "*", settle, &fail_on));
    let verdict = asked.await.map_err(|error| Failure::usage(format!("the verdict cannot be read: {error}")))??;
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
