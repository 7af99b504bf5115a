//! `exec -- CMD`: runs the emulator while a command runs, then reports problems with what the command did.
//!
//! The streams belong to the command: the emulator prints nothing to stdout, and to stderr only warnings, what flags ask for, and
//! why a command that failed may have. The verdict is read over the control API, as by any other client. With `--under` the same
//! happens several times; see `under`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::Fuse;
use tokio::process::Child;

use super::arguments::{OutputFile, Target, created, examples};
use super::child::{GRACE, Masks, Streams, exit_code, note_proxy, spawn, target, whole_run};
use super::ci::{Ci, print_to_stderr};
use super::client::{ControlClient, in_background, run_task};
use super::failure::{Failure, colored, is_json, note, report, warn};
use super::judging::{Judging, ProblemKind};
use super::log::LogThread;
use super::output::compact;
use super::run::write_run;
use super::serve::{PortFile, ServeArgs, settings, start, stop};
use super::signals::{Adopted, Signals};
use super::trust::TrustFiles;
use super::verdict::{RunVerdict, VerdictFormat, parse_wait, reader_of_report, render};
use crate::app::{Emulator, FileLimit, Settings};
use crate::clock::machine;
use crate::control::api::{ExecFacts, ListDeliveries, Query};
use crate::util::duration::duration_text;
use crate::util::process::{ending_signal, pass_signal};
use crate::util::wording::counted;

/// SIGKILL.
const KILL: u8 = 9;
/// A shorter wait is not worth a note.
const NOTED_AFTER: Duration = Duration::from_secs(1);
/// The default of `--settle`: for planned events and retries, or after a failed command for attempts under way.
const SETTLE: Duration = Duration::from_secs(5);
const SETTLE_FAILED: Duration = Duration::from_millis(500);
/// Within this time several signals are one: `timeout` sends its signal to a process and to the group of the process.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

const EXIT_STATUS: &str = "

Environment of the command: WRS_BASE_URL, WRS_API_KEY (sk_test_local unless set), WRS_EMULATOR_URL, \
WRS_EMULATOR_CONTROL_TOKEN if one is required, \
and NO_PROXY with the emulator and loopback added. With --tls also WRS_EMULATOR_CA, the emulator's certificate, and \
SSL_CERT_FILE, CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, NODE_EXTRA_CA_CERTS and JAVA_TOOL_OPTIONS, by which OpenSSL, curl, Python, Node \
and Java trust it in addition to their usual certificates.

Exit status: the command's, or 128 and its number for a signal; 137 if it was killed because it did not end within --grace after a \
signal, or at a second one; 1 if it succeeded and the verdict found problems; \
126 if it cannot be run, 127 if it does not exist; 2 wrong usage. With --under: 1 if a reading fails that `contract` passes; if that \
fails, as without --under.";

#[derive(Debug, Args)]
#[command(after_help = examples([
    "exec -- npm test",
    "exec --fail-on unmatched,undelivered,forged -- pytest -q",
    "exec --scenario rate-limit-burst --fail-on unfinished -- ./client-test",
    "exec --verdict-file verdict.xml -- make check",
    "exec --report report.html --fail-on findings --accept accepted.txt -- npm test",
    "exec --under contract,friendly,hostile -- npm test",
    "exec --under each --jobs 4 --report report.html -- pytest -q",
    "exec -- sh -c 'curl -s $WRS_BASE_URL/v1/hello'",
]) + EXIT_STATUS)]
pub(super) struct ExecArgs {
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
    /// Run the command once for each of these readings of the contract's open points, separated by commas: presets, profile files,
    /// changes of one thing such as `key-order`, or `each` for every change. `contract` comes first. Each run has a new emulator with
    /// the same seed. At the end a grid shows the results.
    #[arg(long, value_delimiter = ',', value_name = "READINGS", conflicts_with_all = ["profile", "state", "port_file", "verdict_file", "verdict_format"])]
    pub(super) under: Vec<String>,
    /// With --under, the number of runs at a time. More than one only if the command can run several times at once: without fixed ports
    /// or files.
    #[arg(long, requires = "under", default_value = "1", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) jobs: u8,
    /// Exit with 1 if the command succeeded and one of these was found; separated by commas.
    #[arg(long, env, value_enum, value_delimiter = ',', value_name = "KINDS")]
    fail_on: Vec<ProblemKind>,
    /// Findings that have been accepted, as for `review findings`; with --fail-on findings.
    #[arg(long, env, value_name = "FILE")]
    accept: Option<PathBuf>,
    /// With --fail-on, exit with 0 even if nothing was judged: no request and no delivery.
    #[arg(long, env)]
    allow_unused: bool,
    /// The format of the verdict: by default that of --verdict-file's ending (`.xml` or `.json`), else text. Prints the verdict
    /// even without --fail-on.
    #[arg(long, env, value_enum)]
    verdict_format: Option<VerdictFormat>,
    /// Write the verdict to this file. Without it, the verdict goes to stderr with --fail-on or --verdict-format, and otherwise only the
    /// causes if the command fails.
    #[arg(long, env, value_name = "FILE")]
    verdict_file: Option<PathBuf>,
    /// Write what happened to this file when the command has ended, however it ended: a page if the name ends in `.html`,
    /// an HTTP archive if in `.har`, else JSON. The page and JSON contain the end of the command's output; `run view` shows them.
    #[arg(long, env, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Before the verdict and the report, wait for planned events, deliveries and retries that are due within this time: by default
    /// 5s, or 0.5s if the command failed, because a retry after that explains nothing.
    #[arg(long, env, value_name = "DURATION", value_parser = parse_wait)]
    settle: Option<Duration>,
    /// Write the emulator's log to stderr.
    #[arg(long, env)]
    verbose: bool,
    #[command(flatten)]
    pub(super) serve: ServeArgs,
}

pub(super) fn run(args: ExecArgs) -> Result<ExitCode, Failure> {
    let settings = settings(&args.serve)?;
    let raised = FileLimit::raise();
    run_task(exec(&args, settings, raised))?
}

/// The common parts of all runs of the command.
pub(super) struct Runner<'a> {
    args: &'a ExecArgs,
    raised: FileLimit,
    pub(super) report_file: Option<OutputFile>,
}

/// A command that has ended, and the emulator that it ran with, which still serves.
pub(super) struct EndedCommand {
    pub(super) emulator: Emulator,
    pub(super) log: Option<LogThread>,
    pub(super) target: Target,
    pub(super) status: ExitStatus,
    /// The last signal that came while the command ran.
    pub(super) signalled: Option<u8>,
    /// A signal that came after it had ended, while its output was passed on.
    pub(super) interrupted: Option<u8>,
    pub(super) facts: ExecFacts,
}

impl<'a> Runner<'a> {
    pub(super) fn new(args: &'a ExecArgs, raised: FileLimit) -> Result<Self, Failure> {
        let report_file = args.report.as_deref().map(|path| OutputFile::at("--report", path)).transpose()?;
        let report_file = report_file.map(OutputFile::cleared).transpose()?;
        Ok(Self { args, raised, report_file })
    }

    /// Starts an emulator and runs the command until it ends.
    pub(super) async fn command(
        &self,
        settings: Settings,
        port_file: &PortFile,
        streams: Streams,
        signals: &mut Signals,
        adopted: &mut Adopted,
    ) -> Result<EndedCommand, Failure> {
        let ExecArgs { command, serve, verbose, .. } = self.args;
        let (emulator, log) = start(serve, settings, port_file, *verbose).await?;
        // The first of several runs, whose output is shown, has them.
        let notes = !serve.quiet && streams != Streams::Kept;
        if log.is_none() && notes {
            emulator.control().warnings().iter().for_each(|warning| warn(warning));
        }
        if notes {
            note_proxy();
        }
        let (target, masks) = (target(&emulator), Masks::begun(&emulator));
        let trust = TrustFiles::write(&emulator, serve.tls.as_ref())?;
        let began = machine::monotonic();
        let begun = spawn(command, &emulator, trust.as_ref(), self.raised, streams);
        if let (Err(failure), Some(file)) = (&begun, &self.report_file)
            && let Err(problem) = write_report(file, &target, ExecFacts::not_run(command, failure, &masks)).await
        {
            report(&problem);
        }
        let (child, tee) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                let (stopped, _) = stop(emulator, log, signals, None).await;
                if let Err(problem) = stopped {
                    report(&problem);
                }
                return Err(failure);
            }
        };
        let (status, signalled) = wait_for(child, signals, adopted, serve.grace)
            .await
            .map_err(|error| Failure::io(format!("cannot wait for the command: {error}")))?;
        let duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        // The command ran them.
        emulator.control().end_receivers();
        let masks = masks.ended(&emulator);
        let mut facts = ExecFacts { duration_ms, ..ExecFacts::of(command, status, &masks) };
        let mut interrupted = None;
        if let Some(tee) = tee.map(Arc::new) {
            let passing = Arc::clone(&tee);
            let passed_on = tokio::task::spawn_blocking(move || passing.pass_on());
            // Its reader may be slow, or may never read again.
            tokio::select! {
                _ = passed_on => {}
                () = tokio::time::sleep(2 * GRACE), if signalled.is_some() => {}
                number = signals.wait() => interrupted = Some(number),
            }
            facts.output = Some(tee.kept(target.control_token.as_deref(), &masks));
        }
        Ok(EndedCommand { emulator, log, target, status, signalled, interrupted, facts })
    }
}

async fn exec(args: &ExecArgs, settings: Settings, raised: FileLimit) -> Result<ExitCode, Failure> {
    // Installed before the command runs, so that a signal does not end the emulator alone. SIGKILL and a crash still do.
    let mut signals = Signals::install()?;
    let judging = args.judging()?;
    let mut file = args.verdict_file.as_deref().map(|path| created("--verdict-file", path)).transpose()?;
    let runner = Runner::new(args, raised)?;
    let port_file = PortFile::cleared(&args.serve)?;
    // Before the command runs, so that no end is missed.
    let mut adopted = Adopted::watch()?;
    let streams = if runner.report_file.is_some() { Streams::OwnAndKept } else { Streams::Own };
    let ended = runner.command(settings, &port_file, streams, &mut signals, &mut adopted).await?;
    let EndedCommand { emulator, log, target, status, signalled, interrupted, mut facts } = ended;
    adopted.reap_all();
    facts.fail_on = judging.names();
    // After a signal nothing is waited for.
    let waits = signalled.or(interrupted).is_none();
    let ended = waits.then(|| exit_code(status));
    let waits_for_report = runner.report_file.is_some() && waits;
    let (judged, interrupted) = tokio::select! {
        judged = judge_run(args, target.clone(), judging, file.as_mut(), waits_for_report, ended) => (judged, interrupted),
        number = signals.wait() => (Ok(None), Some(number)),
    };
    let verdict = judged.as_ref().ok().and_then(Option::as_ref);
    if let Some(verdict) = verdict {
        verdict.add_to(&mut facts);
    }
    let fails = verdict.is_some_and(RunVerdict::fails);
    // Written even after a signal, because a cancelled job is the one whose report is read.
    let reported = match &runner.report_file {
        Some(file) => write_report(file, &target, facts).await,
        None => Ok(()),
    };
    let (stopped, interrupted) = stop(emulator, log, &mut signals, interrupted).await;
    let kept = args.report.as_ref().filter(|_| reported.is_ok() && !args.serve.quiet);
    let failures: Vec<Failure> = [judged.map(drop), reported, stopped].into_iter().filter_map(Result::err).collect();
    for failure in &failures {
        report(failure);
    }
    if let Some(path) = kept {
        note(&format!("the report is in `{}`", path.display()));
    }
    let was_killed = signalled.is_some() && ending_signal(status) == Some(KILL.into());
    let code = match (interrupted, exit_code(status), failures.last()) {
        (_, code, _) if was_killed => code,
        (Some(number), ..) => 128 + number,
        (None, 0, Some(failure)) => failure.status,
        (None, 0, None) => u8::from(fails),
        (None, code, _) => code,
    };
    Ok(ExitCode::from(code))
}

impl ExecArgs {
    /// How long to wait for planned events and retries after the command exited with this status.
    pub(super) fn settle(&self, ended: Option<u8>) -> Duration {
        self.settle.unwrap_or(if ended == Some(0) { SETTLE } else { SETTLE_FAILED })
    }

    pub(super) fn judging(&self) -> Result<Judging, Failure> {
        Judging::new(&self.fail_on, self.accept.as_deref(), self.allow_unused)
    }
}

/// Writes what happened to a file, with how the command ended.
async fn write_report(file: &OutputFile, target: &Target, facts: ExecFacts) -> Result<(), Failure> {
    let run = whole_run(target, facts).await;
    write_run(file, run.map_err(|failure| Failure::io(format!("--report: {}", failure.message)))?)
}

/// Waits for the command to end and reaps the processes that it leaves behind. The first signal is forwarded to it; after the grace
/// period or a second one it is killed. Returns the last of the signals.
async fn wait_for(
    mut child: Child,
    signals: &mut Signals,
    adopted: &mut Adopted,
    grace: Duration,
) -> std::io::Result<(ExitStatus, Option<u8>)> {
    let (own, mut signalled) = (child.id(), None);
    let mut first: Option<Instant> = None;
    let mut grace_ends = pin!(Fuse::terminated());
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status?, signalled)),
            status = adopted.reap(own) => {
                // Its id may belong to another process by now, which dropping it would kill.
                std::mem::forget(child);
                return Ok((status, signalled));
            }
            () = grace_ends.as_mut() => {
                let number = signalled.unwrap_or_default();
                warn(&format!("the command is killed: signal {number} did not end it within {} (--grace)", duration_text(grace)));
                pass_signal(&child, KILL);
            }
            number = signals.wait() => {
                signalled = Some(number);
                match first {
                    None => {
                        first = Some(machine::monotonic());
                        grace_ends.set(tokio::time::sleep(grace).fuse());
                        // A terminal sends SIGINT and SIGQUIT to the command as well; a second one would make many programs give up
                        // at once.
                        if !matches!(number, 2 | 3) || !std::io::stdin().is_terminal() {
                            pass_signal(&child, number);
                        }
                    }
                    Some(first) if first.elapsed() < SAME_SIGNAL => {}
                    Some(_) => {
                        warn(&format!("the command is killed: signal {number} is the second"));
                        pass_signal(&child, KILL);
                    }
                }
            }
        }
    }
}

/// Says what a verdict waits for, if that takes a while.
async fn note_wait(target: Target, settle: Duration) {
    tokio::time::sleep(NOTED_AFTER).await;
    let query = ListDeliveries {
        key: "*".into(),
        status: Some("pending".into()),
        limit: Some(1_000),
        ..ListDeliveries::default()
    };
    let listed = in_background(move || ControlClient::new(&target).send(&Query { query })).await;
    let Ok(listed) = listed else { return };
    let within = settle.as_secs_f64() * 1_000.0;
    let due = listed.data.iter().filter(|row| row.next_attempt_in_ms.as_ref().is_some_and(|wait| wait.0 <= within));
    let what = match due.count() {
        0 => "everything that is due".to_owned(),
        1 => "1 retry that is due".to_owned(),
        due => format!("{} that are due", counted(due, "retry")),
    };
    note(&format!("waiting up to {} for {what} (`--settle 0s` to skip)", duration_text(settle)));
}

/// Reads the verdict, prints it if it was requested, else why the command failed, and reports it to a CI system. `ended` is the command's
/// exit status, absent after a signal.
async fn judge_run(
    args: &ExecArgs,
    target: Target,
    judging: Judging,
    file: Option<&mut File>,
    waits_for_report: bool,
    ended: Option<u8>,
) -> Result<Option<RunVerdict>, Failure> {
    let is_requested = !args.fail_on.is_empty() || args.verdict_format.is_some() || file.is_some();
    let ci = Ci::from_environment();
    let is_needed = is_requested || waits_for_report;
    let waits = (is_needed || ci.is_some()) && ended.is_some();
    let settle = if waits { args.settle(ended) } else { Duration::ZERO };
    let reader = reader_of_report(args.report.as_deref());
    let noting = !args.serve.quiet && settle > NOTED_AFTER;
    let noting = noting.then(|| tokio::spawn(note_wait(target.clone(), settle)));
    let asked = in_background(move || RunVerdict::ask(&target, "*", settle, &judging, reader)).await;
    if let Some(noting) = noting {
        noting.abort();
    }
    let verdict = match asked {
        // Nobody asked for it.
        Err(_) if !is_needed => return Ok(None),
        verdict => verdict?.after(ended),
    };
    let by_name = args.verdict_file.as_deref().and_then(VerdictFormat::from_file);
    let format = args.verdict_format.or(by_name).unwrap_or(VerdictFormat::Text);
    // One line under --json, as all messages are.
    let shown = |format| match format {
        VerdictFormat::Text | VerdictFormat::Json if is_json() => compact(&verdict.to_json()) + "\n",
        VerdictFormat::Text if ci == Some(Ci::GitLab) => {
            let (start, end) = Ci::section(verdict.is_red());
            start + &render(&verdict, format, colored(&std::io::stderr())) + &end
        }
        _ => render(&verdict, format, colored(&std::io::stderr())),
    };
    match file {
        Some(file) => {
            let text = render(&verdict, format, false);
            file.write_all(text.as_bytes())
                .map_err(|error| Failure::io(format!("--verdict-file: cannot be written: {error}")))?;
            if verdict.is_red() || ci == Some(Ci::GitLab) {
                print_to_stderr(&shown(VerdictFormat::Text));
            }
        }
        None if is_requested || ci == Some(Ci::GitLab) => print_to_stderr(&shown(format)),
        // A CI system shows the causes itself.
        None if args.serve.quiet || ci.is_some() => {}
        None => match (verdict.idle_message(), verdict.why(colored(&std::io::stderr()))) {
            (Some(message), _) => note(message),
            (None, Some(why)) if !is_json() => print_to_stderr(&why),
            (None, _) => {}
        },
    }
    if let Some(ci) = ci {
        ci.publish(&verdict.report(), verdict.is_red(), args.report.as_deref());
    }
    Ok(Some(verdict))
}
