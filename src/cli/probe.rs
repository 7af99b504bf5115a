//! `review probe`: the flags, and the results for people and for CI systems. `crate::review::probe` sends and judges.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::time::timeout;
use url::Url;

use super::arguments::{created, examples};
use super::client::run_task;
use super::failure::{Code, Failure, colored, note};
use super::junit::{Suite, TestCase, TestResult, junit};
use super::output::{BOLD_RED, GREEN, YELLOW, cell, painted, print_as_is, print_json, show_list, table};
use super::profile::with_forwards;
use super::signatures::{Signing, SigningArgs};
use crate::control::api::List;
use crate::http::tls::Trust;
use crate::review::probe::{CASES, Expectation, LONGEST, Outcome, Probe, ProbeReport, ProbeSigning, ProbedCase};
use crate::state::workspace::FailureReason;
use crate::util::duration::{duration_text, parse_duration};
use crate::util::wording::counted;
use crate::webhook::client::DialContext;
use crate::webhook::egress::{Destination, DialProblem, Egress};
use crate::webhook::resolve::{LookUp, Resolver};

const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review probe http://localhost:3000/hooks --secret whsec_...",
    "review probe https://app.example.com/hooks --forward https://app.example.com=http://localhost:3000",
    "review probe http://localhost:3000/hooks --only old-timestamp,duplicate --json",
    "review probe --list",
]) + "\n\nThe secret is the one that your receiver verifies with: any that you give both, or that of a subscription, which \
`wrs-emulator subscriptions show ID --secret` prints.\n\nExit status: 0 no fault was found, 1 one was, 2 wrong usage, or no receiver to probe.")]
pub(super) struct ProbeArgs {
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
    /// Run these cases only, and the valid delivery; separated by commas.
    #[arg(long, value_name = "CASE", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(CASES.iter().map(|case| case.name)))]
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
        let rows = CASES.iter().map(|case| [case.name, case.expects.name(), case.sends].map(str::to_owned));
        return Ok(show_list(args.json, &cases, || table(["case", "expected", "sent"], rows)));
    };
    let probe = probe(&args, url)?;
    let mut file = args.junit.as_deref().map(|path| created("--junit", path)).transpose()?;
    let report = run_task(with_progress(&probe))?.map_err(|DialProblem { reason, detail, .. }| match reason {
        FailureReason::EgressRefused => Failure::usage(format!("`{url}` must not be probed: {detail}")),
        _ => Failure::new(2, Code::Unreachable, format!("there is no receiver to probe at `{url}`: {detail}")),
    })?;
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

/// Reports on stderr that the probe continues while it takes long.
async fn with_progress(probe: &Probe) -> Result<ProbeReport, DialProblem> {
    let mut running = std::pin::pin!(probe.run());
    loop {
        match timeout(PROGRESS, &mut running).await {
            Ok(report) => return report,
            Err(_) => note(&format!("the receiver is still being probed, for at most {} s", LONGEST.as_secs())),
        }
    }
}

fn probe(args: &ProbeArgs, url: &str) -> Result<Probe, Failure> {
    let (signing, scheme) = Signing::resolve_one(&args.signing)?;
    let layered = with_forwards(signing.settings.clone(), &args.forward)?;
    let webhooks = &layered.profile().webhooks;
    let egress = Arc::new(Egress::new(&args.allow_egress));
    let target = match egress.destination(&webhooks.forwards, &Arc::new(receiver_url(url)?)) {
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
        reach: DialContext { egress, trust, resolver: Arc::new(Resolver::new(LookUp::default())) },
        timeout: args.timeout.unwrap_or_else(|| webhooks.timeout.get().min(Duration::from_secs(5))),
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

/// The results: one line a case, then what is wrong and how to fix it, then a summary.
fn text(report: &ProbeReport, colors: bool) -> String {
    let mut text = String::new();
    if let Some(diagnosis) = &report.diagnosis {
        let observed = report.cases.first().map(|valid| cell(&valid.observed)).unwrap_or_default();
        text.push_str(&format!(
            "the valid delivery was not accepted: {observed}\n{}; what follows may change once it is\n\n",
            cell(diagnosis)
        ));
    }
    let width =
        |of: fn(&ProbedCase) -> &str| report.cases.iter().map(|probed| of(probed).len()).max().unwrap_or_default();
    let (outcomes, names) = (width(|probed| probed.outcome.name()), width(|probed| probed.name));
    let outcome = |probed: &ProbedCase, width: usize| {
        let color = match probed.outcome {
            Outcome::Pass => GREEN,
            Outcome::Incomplete => YELLOW,
            _ => BOLD_RED,
        };
        painted(color, format!("{:width$}", probed.outcome.name()), colors)
    };
    for probed in &report.cases {
        let outcome = outcome(probed, outcomes);
        text.push_str(&format!("{outcome}  {:names$}  {}\n", probed.name, cell(&probed.observed)));
    }
    for probed in report.cases.iter().filter(|probed| probed.outcome.is_failure()) {
        text.push_str(&format!("\n{}: {}\n", probed.name, outcome(probed, 0)));
        text.push_str(&particulars(probed).iter().map(|line| format!("  {line}\n")).collect::<String>());
    }
    // One line for each reason, as many cases may share it.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for probed in report.cases.iter().filter(|probed| probed.outcome == Outcome::Incomplete) {
        let reason = probed.detail.as_deref().unwrap_or_default();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(probed.name),
            None => reasons.push((reason, vec![probed.name])),
        }
    }
    if !reasons.is_empty() {
        text.push('\n');
    }
    for (reason, names) in reasons {
        text.push_str(&format!("incomplete: {}: {}\n", names.join(", "), cell(reason)));
    }
    if !report.not_applicable.is_empty() {
        let names = report.not_applicable.join(", ");
        text.push_str(&format!("\nnot sent, as the scheme {} cannot tell: {names}\n", report.scheme));
    }
    text.push_str(&format!("\n{}\n", summary(report)));
    text
}

fn summary(report: &ProbeReport) -> String {
    let (cases, requests) = (counted(report.cases.len() as u64, "case"), counted(report.requests as u64, "request"));
    let milliseconds = u64::try_from(report.took_ms).unwrap_or(u64::MAX);
    let took = duration_text(Duration::from_millis(milliseconds));
    let (passed, failed, incomplete) = (report.passed, report.failed, report.incomplete);
    let mut forged = report.cases.iter().filter(|probed| probed.expected == Expectation::Refused);
    let is_whole = report.cases.len() + report.not_applicable.len() >= CASES.len();
    let takes_all = is_whole && forged.all(|probed| probed.outcome == Outcome::AcceptedForged);
    let verdict = if takes_all { "; the receiver accepts everything: it verifies nothing" } else { "" };
    format!("{cases} with {requests} in {took}: {passed} passed, {failed} failed, {incomplete} incomplete{verdict}")
}

/// What was sent, expected and observed, and what to do.
fn particulars(probed: &ProbedCase) -> Vec<String> {
    let mut lines = vec![
        format!("sent      {}", probed.sent),
        format!("expected  {} ({})", probed.expected.name(), probed.clause),
        format!("observed  {}", cell(&probed.observed)),
    ];
    lines.extend(probed.detail.as_ref().map(|detail| format!("          {}", cell(detail))));
    lines.extend(probed.remedy.map(|remedy| format!("remedy    {remedy}")));
    lines
}

fn suite(report: &ProbeReport) -> Suite {
    let case = |probed: &ProbedCase| TestCase {
        name: probed.name.to_owned(),
        result: match probed.outcome {
            Outcome::Pass => TestResult::Passed,
            Outcome::Incomplete => TestResult::Skipped(probed.detail.clone().unwrap_or_default()),
            outcome => TestResult::Failed {
                kind: outcome.name().to_owned(),
                message: format!("{}: expected {}, observed {}", probed.sent, probed.expected.name(), probed.observed),
                lines: particulars(probed),
            },
        },
    };
    let left_out = report.not_applicable.iter().map(|name| TestCase {
        name: (*name).to_owned(),
        result: TestResult::Skipped(format!("the scheme {} cannot tell", report.scheme)),
    });
    let notes = report.diagnosis.iter().map(|diagnosis| format!("the valid delivery was not accepted: {diagnosis}"));
    let cases = report.cases.iter().map(case).chain(left_out).collect();
    Suite { name: "review.probe", cases, notes: notes.chain([summary(report)]).collect() }
}
