//! A review in each format.

use clap::ValueEnum;
use serde::Serialize;

use super::accepted::Acceptance;
use super::report::Review;
use crate::cli::junit::{Suite, TestCase, TestResult, junit};
use crate::cli::markdown::inert;
use crate::cli::output::{cell, pretty};
use crate::control::api::Finding;
use crate::review::findings::{Check, Confidence, Severity, checks};
use crate::wording::counted;

/// The format of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// XML as test runners write it: a test case for each rule.
    Junit,
    /// For the summary of a CI job.
    Markdown,
    /// SARIF 2.1.0, for code scanning: findings about security only.
    Sarif,
}

/// The whole report, ending with a line end.
pub(super) fn render(review: &Review, format: Format, colors: bool) -> String {
    match format {
        Format::Text => text(review, colors),
        Format::Json => format!("{}\n", pretty(review)),
        Format::Junit => junit(&suite(review)),
        Format::Markdown => markdown(review),
        Format::Sarif => format!("{}\n", pretty(&Sarif::of(review))),
    }
}

/// The outcome in a sentence.
pub(super) fn sentence(review: &Review) -> String {
    let (requests, deliveries) = (review.findings.judged_requests, review.findings.judged_deliveries);
    let judged = format!("{} and {} judged", counted(requests, "request"), counted_deliveries(deliveries));
    let found = match (review.failing.len(), review.findings.data.len()) {
        (0, 0) if requests + deliveries == 0 => {
            return "nothing to judge: no request was made and nothing was delivered".to_owned();
        }
        (0, 0) => "no finding".to_owned(),
        (0, all) => format!("{}, none of which fails the review", counted(all, "finding")),
        (failing, all) => format!("{}, {failing} of them failing the review", counted(all, "finding")),
    };
    format!("{found}; {judged}")
}

fn counted_deliveries(count: usize) -> String {
    if count == 1 { "1 delivery".to_owned() } else { format!("{count} deliveries") }
}

fn more(finding: &Finding) -> Option<String> {
    let more = finding.count.saturating_sub(finding.evidence.len());
    (more > 0).then(|| format!("… and {more} more"))
}

fn text(review: &Review, colors: bool) -> String {
    let (red, yellow, green, plain) =
        if colors { ("\u{1b}[31m", "\u{1b}[33m", "\u{1b}[32m", "\u{1b}[0m") } else { ("", "", "", "") };
    let mut text = String::new();
    for (number, finding) in review.findings.data.iter().enumerate() {
        let fails = review.failing.contains(&finding.code);
        let (color, mark) = if fails { (red, "✗") } else { (yellow, "!") };
        text.push_str(&format!(
            "{color}{mark}{plain} {}. {} ({}, {}, {})\n",
            number + 1,
            finding.title,
            finding.code,
            finding.severity,
            finding.confidence
        ));
        for shown in &finding.evidence {
            text.push_str(&format!("    {} {}\n", cell(shown.id()), cell(&shown.detail)));
        }
        text.extend(more(finding).map(|more| format!("    {more}\n")));
        text.push_str(&format!("    why:  {}\n    do:   {}\n", finding.why, finding.remedy));
        text.push_str(&format!("    by:   {}\n", finding.clause));
        text.extend(
            review
                .acceptance(finding)
                .map(|accepted| format!("    accepted until {}: {}\n", accepted.expires, cell(&accepted.reason))),
        );
    }
    for accepted in review.accepted.iter().filter(|accepted| accepted.fails) {
        text.push_str(&format!("{red}✗{plain} accepted `{}`: {}\n", accepted.code, accepted.outcome));
    }
    if !review.findings.not_exercised.is_empty() {
        text.push_str("not exercised, so unproven:\n");
        for idle in &review.findings.not_exercised {
            text.push_str(&format!("    {}: {}\n", idle.code, idle.exercise));
        }
    }
    text.push_str(&format!("no traffic can show: {}\n", review.findings.beyond.join("; ")));
    if review.findings.forgotten_entries > 0 {
        text.push_str(&format!(
            "note: {} entries were evicted from the journal and not judged; --max-journal-entries keeps more\n",
            review.findings.forgotten_entries
        ));
    }
    let (color, mark) = if review.failed { (red, "✗") } else { (green, "✓") };
    text.push_str(&format!("{color}{mark}{plain} {}\n", sentence(review)));
    text
}

fn markdown(review: &Review) -> String {
    let mark = if review.failed { "❌" } else { "✅" };
    let mut text = format!("### {mark} Review: {}\n", sentence(review));
    if !review.findings.data.is_empty() {
        text.push_str("\n| | finding | severity | confidence | first seen | what to do |\n| --- | --- | --- | --- | --- | --- |\n");
        for finding in &review.findings.data {
            let mark = match review.acceptance(finding) {
                _ if review.failing.contains(&finding.code) => "❌",
                Some(_) => "accepted",
                None => "⚠️",
            };
            let first =
                finding.evidence.first().map(|shown| format!("{} {}", shown.id(), shown.detail)).unwrap_or_default();
            let title = format!("{} ({})", finding.title, finding.code);
            let cells = [&title, &finding.severity, &finding.confidence, &first, &finding.remedy];
            let cells = cells.map(|text| inert(text)).join(" | ");
            text.push_str(&format!("| {mark} | {cells} |\n"));
        }
    }
    if !review.findings.data.is_empty() {
        text.push_str("\nEach finding has a page in the folder `docs/findings`, named by its code.\n");
    }
    for accepted in review.accepted.iter().filter(|accepted| accepted.fails) {
        text.push_str(&format!("\n❌ accepted `{}`: {}\n", accepted.code, inert(&accepted.outcome)));
    }
    if !review.findings.not_exercised.is_empty() {
        text.push_str("\n<details><summary>Not exercised, so unproven</summary>\n\n");
        for idle in &review.findings.not_exercised {
            text.push_str(&format!("- `{}`: {}\n", idle.code, inert(&idle.exercise)));
        }
        text.push_str("\n</details>\n");
    }
    text
}

/// A test case for each check, and one for each accepted finding that fails. What does not fail the review is a note.
fn suite(review: &Review) -> Suite {
    let lines = |check: &Check| -> Vec<String> {
        let found = review.findings.data.iter().filter(|finding| finding.code == check.code);
        let evidence = found.flat_map(|finding| finding.evidence.iter());
        evidence.map(|shown| cell(format!("{} {}", shown.id(), shown.detail))).collect()
    };
    let is_idle = |check: &Check| review.findings.not_exercised.iter().any(|idle| idle.code == check.code);
    let fails = |check: &Check| review.failing.iter().any(|code| code == check.code);
    let of_check = |check: &'static Check| TestCase {
        name: check.code.to_owned(),
        result: if is_idle(check) {
            TestResult::Skipped(format!("not exercised: {}", check.exercise))
        } else if fails(check) {
            let message = format!("{}; {}", check.title, check.remedy);
            TestResult::Failed { kind: check.severity.name().to_owned(), message, lines: lines(check) }
        } else {
            TestResult::Passed
        },
    };
    let of_accepted = |accepted: &Acceptance| TestCase {
        name: format!("accepted {}", accepted.code),
        result: TestResult::Failed {
            kind: "accepted".to_owned(),
            message: accepted.outcome.clone(),
            lines: vec![accepted.reason.clone()],
        },
    };
    let stale = review.accepted.iter().filter(|accepted| accepted.fails).map(of_accepted);
    let passed = checks().filter(|check| !fails(check));
    let notes = passed.flat_map(|check| lines(check).into_iter().map(move |line| format!("{}: {line}", check.code)));
    Suite { name: "review", cases: checks().map(of_check).chain(stale).collect(), notes: notes.collect() }
}

/// SARIF 2.1.0: the tool with its checks, and the results.
#[derive(Serialize)]
struct Sarif {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
struct Run {
    tool: Tool,
    results: Vec<SarifResult>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<SarifRule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifRule {
    id: &'static str,
    short_description: Text,
    full_description: Text,
    help: Text,
    properties: Properties,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Properties {
    tags: Vec<String>,
    security_severity: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: String,
    level: &'static str,
    message: Text,
    locations: [Location; 1],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suppressions: Vec<Suppression>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    logical_locations: [LogicalLocation; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    name: String,
    kind: &'static str,
}

#[derive(Serialize)]
struct Suppression {
    kind: &'static str,
    justification: String,
}

impl Sarif {
    fn of(review: &Review) -> Self {
        let security = |code: &str| checks().find(|rule| rule.code == code).and_then(|rule| rule.cwe).is_some();
        let rules = checks().filter_map(|rule| {
            let properties = Properties {
                tags: vec!["security".to_owned(), format!("external/cwe/cwe-{}", rule.cwe?)],
                security_severity: score(rule.severity),
            };
            let text = |text: &str| Text { text: text.to_owned() };
            Some(SarifRule {
                id: rule.code,
                short_description: text(rule.title),
                full_description: Text { text: format!("{} ({})", rule.why, rule.clause) },
                help: Text { text: format!("{}; see docs/findings/{}.md", rule.remedy, rule.code) },
                properties,
            })
        });
        let driver = Driver { name: "wrs-emulator", version: env!("CARGO_PKG_VERSION"), rules: rules.collect() };
        let found = review.findings.data.iter().filter(|finding| security(&finding.code));
        let results = found.flat_map(|finding| finding.evidence.iter().map(move |shown| (finding, shown)));
        let results = results.map(|(finding, shown)| SarifResult {
            rule_id: finding.code.clone(),
            level: level(finding),
            message: Text { text: format!("{}: {}", finding.title, cell(&shown.detail)) },
            locations: [Location { logical_locations: [LogicalLocation { name: shown.id(), kind: "resource" }] }],
            suppressions: review
                .acceptance(finding)
                .map(|accepted| Suppression { kind: "external", justification: accepted.reason.clone() })
                .into_iter()
                .collect(),
        });
        Self {
            schema: "https://json.schemastore.org/sarif-2.1.0.json",
            version: "2.1.0",
            runs: [Run { tool: Tool { driver }, results: results.collect() }],
        }
    }
}

/// The severity on the scale of CVSS, by which code scanning sorts.
fn score(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "9.1",
        Severity::High => "7.5",
        Severity::Medium => "5.0",
        Severity::Low => "3.0",
        Severity::Info => "0.1",
    }
}

fn level(finding: &Finding) -> &'static str {
    match (finding.severity.as_str(), finding.confidence == Confidence::Certain.name()) {
        ("critical" | "high", true) => "error",
        ("critical" | "high", false) | ("medium", _) => "warning",
        _ => "note",
    }
}
