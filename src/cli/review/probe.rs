//! `review probe`: the flags, and what is printed where. `crate::review::probe` sends and judges; `probe_text` renders.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval};
use url::Url;

use super::probe_text::{listed, suite, text};
use crate::cli::arguments::created;
use crate::cli::client::runtime;
use crate::cli::failure::{Code, Failure, colored, note};
use crate::cli::help::examples;
use crate::cli::junit::junit;
use crate::cli::output::{print_as_is, print_json, show_list};
use crate::cli::profile_source::with_forwards;
use crate::cli::signing::{Signing, SigningArgs};
use crate::control::api::List;
use crate::duration::parse_duration;
use crate::review::probe::{CASES, EffectCommand, LONGEST, Probe, ProbeProblem, ProbeReport, ProbeSigning};
use crate::tasks::block_on;
use crate::webhook::dial::Reach;
use crate::webhook::egress::{Destination, Egress};
use crate::webhook::resolve::{LookUp, Resolver};
use crate::webhook::tls::Trust;
use crate::workspace::FailureReason;

/// How often the progress is reported.
const PROGRESS: Duration = Duration::from_secs(2);

/// Arguments of `review probe`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "review probe http://localhost:3000/hooks --secret whsec_...",
    "review probe https://app.example.com/hooks --forward https://app.example.com=http://localhost:3000",
    "review probe http://localhost:3000/hooks --effect-command 'wc -l <events.log'",
    "review probe http://localhost:3000/hooks --only old-timestamp,duplicate --json",
    "review probe --list",
]) + "\n\nExit status: 0 no fault was found, 1 one was, 2 wrong usage, or no receiver to probe.")]
pub(crate) struct ProbeArgs {
    /// The receiver's URL, as it is subscribed.
    #[arg(value_name = "URL", required_unless_present = "list")]
    url: Option<String>,
    #[command(flatten)]
    signing: SigningArgs,
    /// Send what is for FROM, or below it, to TO. Repeatable.
    #[arg(long, env, value_name = "FROM=TO", value_delimiter = ';')]
    forward: Vec<String>,
    /// Trust the authorities in this PEM file. Repeatable.
    #[arg(long, env, value_name = "FILE", value_delimiter = ';')]
    webhook_ca: Vec<PathBuf>,
    /// Accept any certificate of the receiver.
    #[arg(long, env)]
    webhook_insecure: bool,
    /// Allow the probe of this public host, or of `any`. Repeatable.
    #[arg(long, env, value_name = "HOST", value_delimiter = ',')]
    allow_egress: Vec<String>,
    /// Limit for each answer; 5 s, or webhooks.timeout if that is less. The whole probe takes at most 10 s.
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    timeout: Option<Duration>,
    /// A line for `sh` that prints a count, or any text that changes when an event takes effect. It shows whether a duplicate has
    /// a second effect.
    #[arg(long, value_name = "CMD")]
    effect_command: Option<String>,
    /// Run these cases only, and the valid delivery; separated by commas.
    #[arg(long, value_name = "CASE", value_delimiter = ',', hide_possible_values = true, value_parser = names())]
    only: Vec<String>,
    /// List the cases, and send nothing.
    #[arg(long)]
    list: bool,
    /// Write the results to this file as well, as XML that CI systems read.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON: what was sent, expected and observed in each case.
    #[arg(long)]
    json: bool,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CASES.iter().map(|case| case.name))
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text)?;
    if limit.is_zero() || limit > LONGEST {
        return Err(format!("expected more than 0 and at most {} s, found {text}", LONGEST.as_secs()));
    }
    Ok(limit)
}

pub(super) fn run(args: ProbeArgs) -> Result<ExitCode, Failure> {
    let Some(url) = args.url.as_deref().filter(|_| !args.list) else {
        let cases = List { data: CASES.iter().collect() };
        return Ok(show_list(args.json, &cases, || listed(CASES)));
    };
    let probe = probe(&args, url)?;
    let mut file = args.junit.as_deref().map(|path| created("--junit", path)).transpose()?;
    let runtime = runtime(Builder::new_multi_thread())?;
    let probed = block_on(&runtime, probe_with_progress(&probe));
    runtime.shutdown_background();
    let report = probed.map_err(|problem| failure(url, problem))?;
    if let Some(file) = &mut file {
        let written = file.write_all(junit(&suite(&report)).as_bytes());
        written.map_err(|error| Failure::io(format!("--junit: cannot be written: {error}")))?;
    }
    if args.json {
        print_json(&report);
    } else {
        print_as_is(&text(&report, colored(&std::io::stdout())));
    }
    Ok(if report.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the probe, and reports its progress on stderr while it takes long.
async fn probe_with_progress(probe: &Probe) -> Result<ProbeReport, ProbeProblem> {
    let (done, all) = (AtomicUsize::new(0), probe.count());
    let mut ticks = interval(PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    let mut running = std::pin::pin!(probe.run(&done));
    loop {
        tokio::select! {
            probed = &mut running => return probed,
            _ = ticks.tick() => note(&format!("{} of {all} cases have ended", done.load(Ordering::Relaxed))),
        }
    }
}

fn probe(args: &ProbeArgs, url: &str) -> Result<Probe, Failure> {
    let (signing, scheme) = Signing::resolve_one(&args.signing)?;
    let layered = with_forwards(signing.settings.clone(), &args.forward)?;
    let webhooks = &layered.profile().webhooks;
    let egress = Arc::new(Egress::new(&args.allow_egress));
    let target = match egress.destination(&webhooks.forwards, &receiver_url(url)?, &Arc::from(url)) {
        Some(Destination::Dial(target)) => target,
        Some(Destination::Sink(_)) => {
            return Err(Failure::usage(format!("`{url}` is a receiver within an emulator, which takes everything"))
                .with_hint("probe your own receiver: its address, or its URL with --forward FROM=TO"));
        }
        None => return Err(Failure::usage(format!("no request can be made for `{}`", url.escape_debug()))),
    };
    let trust = Trust::new(&args.webhook_ca, args.webhook_insecure);
    let trust = Arc::new(trust.map_err(|problem| Failure::invalid_file(format!("--webhook-ca: {problem}")))?);
    signing.warn();
    Ok(Probe {
        target,
        reach: Reach { egress, trust, resolver: Arc::new(Resolver::new(LookUp::default())) },
        timeout: args.timeout.unwrap_or_else(|| webhooks.timeout.get().min(Duration::from_secs(5))),
        effect: args.effect_command.clone().map(EffectCommand),
        only: args.only.clone(),
        signing: ProbeSigning {
            scheme,
            secrets: signing.secrets,
            reading: signing.reading,
            custom: signing.custom,
            url: url.to_owned(),
        },
    })
}

fn receiver_url(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|_| !text.chars().any(char::is_control));
    url.ok_or_else(|| {
        Failure::usage(format!("expected the receiver's URL, found `{}`", text.escape_debug()))
            .with_hint("for example http://localhost:3000/hooks")
    })
}

fn failure(url: &str, problem: ProbeProblem) -> Failure {
    match problem {
        ProbeProblem::Effect(problem) => Failure::usage(format!("--effect-command: {problem}")),
        ProbeProblem::Unreachable(problem) if problem.reason == FailureReason::EgressRefused => {
            Failure::usage(format!("`{url}` must not be probed: {}", problem.detail))
        }
        ProbeProblem::Unreachable(problem) => {
            Failure::new(2, Code::Unreachable, format!("there is no receiver to probe at `{url}`: {}", problem.detail))
        }
    }
}
