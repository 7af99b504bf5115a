//! What the differential run found, for people and for CI systems. Pure.

use serde::Serialize;

use crate::cli::junit::{Suite, TestCase, TestResult};
use crate::cli::output::{cell, table};
use crate::control::api::name_of;
use crate::review::differential::{Difference, Part, Sight, UnpromisedChange};
use crate::util::duration::duration_text;
use crate::util::wording::counted;

#[derive(Serialize)]
pub(super) struct Report {
    /// The command, credentials masked.
    pub(super) command: Vec<String>,
    pub(super) seed: u64,
    pub(super) runs: usize,
    pub(super) took_ms: u64,
    pub(super) plain: Plain,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) unstable: usize,
    pub(super) not_exercised: usize,
    pub(super) changes: Vec<Judged>,
    /// The folder with what each run printed and what happened in it, if it was kept.
    pub(super) folder: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Plain {
    pub(super) passed: bool,
    pub(super) ending: String,
    pub(super) requests: usize,
    pub(super) deliveries: usize,
    /// The last lines that the command printed, if it failed.
    pub(super) printed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// The command fails now and then, whether with the change or without it.
    Unstable,
    /// The command passed, and saw nothing of the change.
    NotExercised,
}

impl Outcome {
    pub(super) fn name(self) -> String {
        name_of(self).replace('-', " ")
    }
}

#[derive(Serialize)]
pub(super) struct Judged {
    #[serde(flatten)]
    pub(super) change: UnpromisedChange,
    pub(super) settings: Vec<&'static str>,
    pub(super) outcome: Outcome,
    pub(super) ending: String,
    /// Why it proves nothing, if it is unstable or not exercised.
    pub(super) reason: Option<String>,
    /// The parts that make the command fail by themselves; none if it has no parts, or only all of them together do.
    pub(super) smallest: Vec<Part>,
    /// The first request that differs from the plain run.
    pub(super) difference: Option<Difference>,
    /// What the command last saw of the change before that request.
    pub(super) seen: Option<Sight>,
    /// The last lines that the command printed, if it failed.
    pub(super) printed: Vec<String>,
    pub(super) output: Option<String>,
}

pub(super) fn listed(changes: &[UnpromisedChange]) -> String {
    let rows = changes.iter().map(|change| [change.name, change.changes, change.clause].map(str::to_owned));
    table(["name", "what is different", "clause that leaves it open"], rows)
}

pub(super) fn text(report: &Report, colors: bool) -> String {
    let paint = |outcome: Outcome| match outcome {
        _ if !colors => ("", ""),
        Outcome::Passed => ("\u{1b}[32m", "\u{1b}[0m"),
        Outcome::Failed => ("\u{1b}[1;31m", "\u{1b}[0m"),
        Outcome::Unstable | Outcome::NotExercised => ("\u{1b}[33m", "\u{1b}[0m"),
    };
    let mut text = String::new();
    if !report.plain.passed {
        let (color, plain) = paint(Outcome::Failed);
        text.push_str(&lines(&report.plain.printed));
        text.push_str(&format!(
            "{color}failed{plain}  without any change: the command {}; make the command pass first\n",
            report.plain.ending
        ));
    }
    let width = report.changes.iter().map(|judged| judged.change.name.len()).max().unwrap_or_default();
    for judged in &report.changes {
        let (color, plain) = paint(judged.outcome);
        let outcome = format!("{:13}", judged.outcome.name());
        text.push_str(&format!("{color}{outcome}{plain}  {:width$}  {}\n", judged.change.name, judged.change.changes));
    }
    for judged in report.changes.iter().filter(|judged| judged.outcome == Outcome::Failed) {
        let (color, plain) = paint(judged.outcome);
        let (name, ending) = (judged.change.name, &judged.ending);
        text.push_str(&format!("\n{name}: {color}failed{plain}: the command {ending}\n"));
        text.extend(particulars(judged).iter().map(|line| format!("  {}\n", cell(line))));
        text.push_str(&lines(&judged.printed));
    }
    for (outcome, title) in
        [(Outcome::Unstable, "unstable, so nothing is proven"), (Outcome::NotExercised, "not exercised, so unproven")]
    {
        let mut found = report.changes.iter().filter(|judged| judged.outcome == outcome).peekable();
        if found.peek().is_some() {
            text.push_str(&format!("\n{title}:\n"));
        }
        text.extend(found.map(|judged| {
            format!("  {}: {}\n", judged.change.name, cell(judged.reason.as_deref().unwrap_or_default()))
        }));
    }
    text.push_str(&format!("\n{}\n", summary(report)));
    text
}

fn lines(printed: &[String]) -> String {
    printed.iter().map(|line| format!("    | {}\n", cell(line))).collect()
}

fn summary(report: &Report) -> String {
    let took = duration_text(std::time::Duration::from_millis(report.took_ms));
    let (changes, runs) = (counted(report.changes.len() as u64, "change"), counted(report.runs as u64, "run"));
    let Report { passed, failed, unstable, not_exercised, .. } = report;
    let kept = report.folder.as_ref().map(|folder| format!("; what each run printed is in {}", cell(folder)));
    format!(
        "{changes} with {runs} in {took}: {passed} passed, {failed} failed, {unstable} unstable, {not_exercised} not exercised{}",
        kept.unwrap_or_default()
    )
}

fn particulars(judged: &Judged) -> Vec<String> {
    let mut found = vec![format!("change    {}", judged.change.changes), format!("clause    {}", judged.change.clause)];
    let smallest = match &judged.smallest[..] {
        [] if judged.change.parts.is_empty() => None,
        [] => Some("only all parts together".to_owned()),
        parts => Some(parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")),
    };
    found.extend(smallest.map(|parts| format!("smallest  {parts}")));
    let first = judged.difference.as_ref().map(|difference| difference.what.as_str());
    found.push(format!("first     {}", first.unwrap_or("no request differs: the command fails on what it has read")));
    if let Some(seen) = &judged.seen {
        found.extend([format!("after     {}", seen.what), format!("          {}", seen.text)]);
    }
    let settings = judged.smallest.first().map_or(&judged.settings[..], |part| part.settings);
    let settings: String = settings.iter().map(|setting| format!(" --set '{setting}'")).collect();
    found.push(format!("repeat    wrs-emulator exec{settings} -- CMD, with your own flags"));
    found.extend(judged.output.as_ref().map(|output| format!("printed   {output}")));
    found
}

pub(super) fn suite(report: &Report) -> Suite {
    let failed =
        |kind: &str, message: String, lines: Vec<String>| TestResult::Failed { kind: kind.to_owned(), message, lines };
    let plain = TestCase {
        name: "plain".to_owned(),
        result: if report.plain.passed {
            TestResult::Passed
        } else {
            failed("plain", format!("the command {}", report.plain.ending), report.plain.printed.clone())
        },
    };
    let case = |judged: &Judged| TestCase {
        name: judged.change.name.to_owned(),
        result: match judged.outcome {
            Outcome::Passed => TestResult::Passed,
            Outcome::Failed => failed(
                judged.change.name,
                format!("{}: the command {}", judged.change.changes, judged.ending),
                [particulars(judged), judged.printed.clone()].concat(),
            ),
            outcome => {
                TestResult::Skipped(format!("{}: {}", outcome.name(), judged.reason.as_deref().unwrap_or_default()))
            }
        },
    };
    let cases = std::iter::once(plain).chain(report.changes.iter().map(case)).collect();
    Suite { name: "review.differential", cases, notes: vec![summary(report)] }
}
