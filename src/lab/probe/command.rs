//! `review probe`: the flags, and the results for people and for CI systems. `lab::probe` sends and judges.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::time::timeout;
use url::Url;

use super::{MAX, Outcome, Probe, ProbeReport, ProbedCase};
use crate::advice::Audience;
use crate::cases::{CASES, Expectation, ProbeSigning, check_events};
use crate::cli::arguments::{OutputFile, examples};
use crate::cli::client::run_task;
use crate::cli::failure::{Failure, FailureCode, note};
use crate::cli::output::{cell, show_list, table};
use crate::cli::profile::with_forwards;
use crate::cli::report::{ReportCase, ReportRow, RunReport, TableReport};
use crate::cli::signatures::{ResolvedSigning, SigningArgs};
use crate::control::api::List;
use crate::http::tls::Trust;
use crate::state::workspace::FailureReason;
use crate::util::duration::{duration_text, parse_duration};
use crate::util::wording::{counted, quoted};
use crate::webhook::dial::DialContext;
use crate::webhook::egress::{Destination, DialProblem, Egress};
use crate::webhook::resolve::{LookUp, Resolver};

const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review probe http://localhost:3000/hooks --secret whsec_...",
    "review probe https://app.example.com/hooks --forward https://app.example.com=http://localhost:3000",
    "review probe http://localhost:3000/hooks --only old-timestamp,duplicate --json",
    "review probe --list",
]) + "\n\nThe secret is the one that your receiver verifies with. Give both the same one, or that of a subscription, which \
`wrs-emulator subscriptions show ID --secret` prints.\n\nExit status: 0 no faults, 1 a fault was found, 2 wrong usage, or no receiver to probe.")]
pub(crate) struct ProbeArgs {
    /// The receiver's URL, as subscribed.
    #[arg(value_name = "URL", required_unless_present = "list")]
    url: Option<String>,
    #[command(flatten)]
    signing: SigningArgs,
    /// Send requests for FROM, or below it, to TO. Repeatable.
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
    /// Limit for each answer; 5 s, or webhooks.timeout if that is less. The whole probe lasts at most 10 s.
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    timeout: Option<Duration>,
    /// Run only these cases, the valid delivery, and the cases that they build on; separated by commas.
    #[arg(long, value_name = "CASE", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(CASES.iter().map(|case| case.name)))]
    only: Vec<String>,
    /// Send every case even if the valid delivery is not accepted.
    #[arg(long)]
    all: bool,
    /// List the cases, and send nothing.
    #[arg(long)]
    list: bool,
    /// Write the results to this file as well, as XML that CI systems read.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print JSON: the request, the expected and the observed answer of each case.
    #[arg(long)]
    json: bool,
}

fn limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text)?;
    if limit.is_zero() || limit > MAX {
        return Err(format!("expected more than 0 and at most {} s, found {text}", MAX.as_secs()));
    }
    Ok(limit)
}

pub(crate) fn run(args: ProbeArgs) -> Result<ExitCode, Failure> {
    let Some(url) = args.url.as_deref().filter(|_| !args.list) else {
        let cases = List { data: CASES.iter().collect() };
        let rows = CASES.iter().map(|case| [case.name, case.expects.name(), case.sends].map(str::to_owned));
        return Ok(show_list(args.json, &cases, || table(["case", "expected", "sent"], rows)));
    };
    let probe = probe(&args, url)?;
    let results = args.junit.as_deref().map(|path| OutputFile::at("--junit", path)?.cleared()).transpose()?;
    let probed = run_task(with_progress(&probe))?.map_err(|DialProblem { reason, detail, hint }| {
        // It calls the receiver without an emulator, and forwards by its own option.
        let hint = hint.map(|hint| format!("; {}", hint.line(&Audience::Nobody)));
        let detail = detail + &hint.unwrap_or_default();
        match reason {
            FailureReason::EgressRefused => Failure::usage(format!("`{url}` must not be probed: {detail}")),
            _ => {
                Failure::new(2, FailureCode::Unreachable, format!("there is no receiver to probe at `{url}`: {detail}"))
            }
        }
    })?;
    report(&probed).publish(args.json.then_some(&probed), results.as_ref())?;
    Ok(if probed.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Reports progress on stderr during a long probe.
async fn with_progress(probe: &Probe) -> Result<ProbeReport, DialProblem> {
    let mut running = std::pin::pin!(probe.run());
    loop {
        match timeout(PROGRESS, &mut running).await {
            Ok(report) => return report,
            Err(_) => note(&format!("the receiver is still being probed, for at most {} s", MAX.as_secs())),
        }
    }
}

fn probe(args: &ProbeArgs, url: &str) -> Result<Probe, Failure> {
    let (signing, scheme) = ResolvedSigning::resolve_one(&args.signing)?;
    let layered = with_forwards(signing.settings.clone(), &args.forward)?;
    let webhooks = &layered.profile().webhooks;
    let egress = Arc::new(Egress::new(&args.allow_egress));
    let target = match egress.destination(&webhooks.forwards, &Arc::new(receiver_url(url)?)) {
        Some(Destination::Dial(target)) => target,
        Some(Destination::Sink(_)) => {
            return Err(Failure::usage(format!("`{url}` is a receiver within an emulator, which accepts everything"))
                .with_hint("probe your own receiver: its address, or its URL with --forward FROM=TO"));
        }
        None => return Err(Failure::usage(format!("no request can be made for `{}`", quoted(url)))),
    };
    check_events(layered.profile()).map_err(Failure::usage)?;
    let trust = Trust::new(&args.webhook_ca, args.webhook_insecure);
    let trust = Arc::new(trust.map_err(|problem| Failure::invalid_file(format!("--webhook-ca: {problem}")))?);
    signing.warn();
    Ok(Probe {
        target,
        reach: DialContext { egress, trust, resolver: Arc::new(Resolver::new(LookUp::default())) },
        timeout: args.timeout.unwrap_or_else(|| webhooks.timeout.get().min(Duration::from_secs(5))),
        only: args.only.clone(),
        all: args.all,
        profile: Arc::clone(layered.profile()),
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
        Failure::usage(format!("expected the receiver's URL, found `{}`", quoted(text)))
            .with_hint("for example http://localhost:3000/hooks")
    })
}

/// The cases; those that were incomplete, with one line for each reason, as many may share it.
fn report(probe: &ProbeReport) -> TableReport {
    let mut before = String::new();
    if let Some(diagnosis) = &probe.diagnosis {
        let observed = probe.cases.first().map(|valid| cell(&valid.observed)).unwrap_or_default();
        let next = match probe.not_sent {
            0 if probe.cases.len() == 1 => String::new(),
            0 => "later results may change once it is\n".to_owned(),
            more => format!("{} not sent; --all sends them\n", counted(more, "further case")),
        };
        before = format!("the valid delivery was not accepted: {observed}\n{}\n{next}\n", cell(diagnosis));
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for probed in probe.cases.iter().filter(|probed| probed.outcome == Outcome::Incomplete) {
        let reason = probed.detail.as_deref().unwrap_or_default();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(probed.name),
            None => reasons.push((reason, vec![probed.name])),
        }
    }
    let mut after = if reasons.is_empty() { String::new() } else { "\n".to_owned() };
    for (reason, names) in reasons {
        after.push_str(&format!("incomplete: {}: {}\n", names.join(", "), cell(reason)));
    }
    if !probe.not_applicable.is_empty() {
        let names = probe.not_applicable.join(", ");
        after.push_str(&format!("\nnot sent, because the scheme {} cannot tell: {names}\n", probe.scheme));
    }
    let left_out = |name: &&str| ReportCase::skipped(*name, format!("the scheme {} cannot tell", probe.scheme));
    let note = |diagnosis: &String| format!("the valid delivery was not accepted: {diagnosis}");
    TableReport {
        rows: probe.cases.iter().map(row).collect(),
        before,
        after,
        summary: summary(probe),
        report: RunReport {
            cases: probe.not_applicable.iter().map(left_out).collect(),
            notes: probe.diagnosis.iter().map(note).collect(),
            ..RunReport::empty("review.probe")
        },
    }
}

fn summary(probe: &ProbeReport) -> String {
    let milliseconds = u64::try_from(probe.took_ms).unwrap_or(u64::MAX);
    let took = duration_text(Duration::from_millis(milliseconds));
    let ProbeReport { cases, not_applicable, passed, failed, incomplete, .. } = probe;
    let mut forged = cases.iter().filter(|probed| probed.expected == Expectation::Refused);
    let is_whole = cases.len() + not_applicable.len() >= CASES.len();
    let takes_all =
        is_whole && probe.diagnosis.is_none() && forged.all(|probed| probed.outcome == Outcome::AcceptedForged);
    let verdict = if takes_all { "; the receiver accepts everything: it verifies nothing" } else { "" };
    let (cases, requests) = (counted(cases.len(), "case"), counted(probe.requests, "request"));
    format!("{cases} with {requests} in {took}: {passed} passed, {failed} failed, {incomplete} incomplete{verdict}")
}

/// A case, with its request, the expected and the observed answer, and the remedy.
fn row(probed: &ProbedCase) -> ReportRow {
    let ProbedCase { name, outcome, sent, expected, observed, detail, clause, remedy, .. } = probed;
    let case = match outcome {
        Outcome::Pass => ReportCase::passed(*name),
        Outcome::Incomplete => ReportCase::skipped(*name, detail.clone().unwrap_or_default()),
        outcome => {
            let expected = expected.name();
            let mut lines = vec![
                format!("sent      {sent}"),
                format!("expected  {expected} ({clause})"),
                format!("observed  {observed}"),
            ];
            lines.extend(detail.as_ref().map(|detail| format!("          {detail}")));
            lines.extend(remedy.map(|remedy| format!("remedy    {remedy}")));
            ReportCase::failed(
                *name,
                outcome.name(),
                format!("{sent}: expected {expected}, observed {observed}"),
                lines,
            )
        }
    };
    ReportRow {
        outcome: outcome.name().to_owned(),
        shown: observed.clone(),
        done: (*sent).to_owned(),
        remedy: remedy.map(str::to_owned),
        case,
    }
}
