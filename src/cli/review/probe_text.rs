//! The results of a probe for people and for CI systems. Pure.

use crate::cli::junit::{Suite, TestCase, TestResult};
use crate::cli::output::{cell, table};
use crate::review::probe::{Case, Outcome, ProbeReport, Probed};
use crate::wording::counted;

/// The table of cases.
pub(super) fn listed(cases: &[Case]) -> String {
    let rows = cases.iter().map(|case| [case.name, case.expects.name(), case.sends].map(str::to_owned));
    table(["case", "expected", "sent"], rows)
}

/// The results: one line a case, then what is wrong and how to fix it, then a summary.
pub(super) fn text(report: &ProbeReport, colors: bool) -> String {
    let mut text = String::new();
    if let Some(diagnosis) = &report.diagnosis {
        let observed = report.cases.first().map(|valid| cell(&valid.observed)).unwrap_or_default();
        text.push_str(&format!(
            "the valid delivery was not accepted: {observed}\n{}; what follows may change once it is\n\n",
            cell(diagnosis)
        ));
    }
    let width = |of: fn(&Probed) -> &str| report.cases.iter().map(|probed| of(probed).len()).max().unwrap_or_default();
    let (outcomes, names) = (width(|probed| probed.outcome.name()), width(|probed| probed.name));
    for probed in &report.cases {
        let outcome = painted(probed.outcome, outcomes, colors);
        text.push_str(&format!("{outcome}  {:names$}  {}\n", probed.name, cell(&probed.observed)));
    }
    for probed in report.cases.iter().filter(|probed| probed.outcome.is_failure()) {
        text.push_str(&format!("\n{}: {}\n", probed.name, painted(probed.outcome, 0, colors)));
        text.push_str(&particulars(probed).iter().map(|line| format!("  {line}\n")).collect::<String>());
    }
    let incomplete: Vec<&Probed> = report.cases.iter().filter(|probed| probed.outcome == Outcome::Incomplete).collect();
    if !incomplete.is_empty() {
        text.push('\n');
    }
    // One line for each reason, as many cases may share it.
    let reasons: Vec<&str> = incomplete.iter().filter_map(|probed| probed.detail.as_deref()).collect();
    for (_, reason) in reasons.iter().enumerate().filter(|(at, reason)| !reasons[..*at].contains(reason)) {
        let names: Vec<&str> = incomplete
            .iter()
            .filter(|probed| probed.detail.as_deref() == Some(reason))
            .map(|probed| probed.name)
            .collect();
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
    let took = crate::duration::duration_text(std::time::Duration::from_millis(milliseconds));
    let (passed, failed, incomplete) = (report.passed, report.failed, report.incomplete);
    format!("{cases} with {requests} in {took}: {passed} passed, {failed} failed, {incomplete} incomplete")
}

/// What was sent, expected and observed, and what to do.
fn particulars(probed: &Probed) -> Vec<String> {
    let mut lines = vec![
        format!("sent      {}", probed.sent),
        format!("expected  {} ({})", probed.expected.name(), probed.clause),
        format!("observed  {}", cell(&probed.observed)),
    ];
    lines.extend(probed.detail.as_ref().map(|detail| format!("          {}", cell(detail))));
    lines.extend(probed.remedy.map(|remedy| format!("remedy    {remedy}")));
    lines
}

/// An outcome, padded, in its color.
fn painted(outcome: Outcome, width: usize, colors: bool) -> String {
    let padded = format!("{:width$}", outcome.name());
    let color = match outcome {
        _ if !colors => return padded,
        Outcome::Pass => "32",
        Outcome::Incomplete => "33",
        _ => "1;31",
    };
    format!("\u{1b}[{color}m{padded}\u{1b}[0m")
}

/// The results as test cases.
pub(super) fn suite(report: &ProbeReport) -> Suite {
    let case = |probed: &Probed| TestCase {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::junit::junit;
    use crate::review::probe::Expectation;

    fn report(outcome: Outcome, observed: &str) -> ProbeReport {
        let probed = Probed {
            name: "valid",
            outcome,
            sent: "a delivery",
            expected: Expectation::Accepted,
            observed: observed.into(),
            detail: None,
            clause: "a clause",
            remedy: None,
            took_ms: 1,
            requests: Vec::new(),
        };
        ProbeReport {
            url: "http://localhost/".into(),
            dialled: "http://localhost/".into(),
            scheme: "standard",
            took_ms: 1,
            requests: 1,
            passed: 0,
            failed: 1,
            incomplete: 0,
            diagnosis: None,
            cases: vec![probed],
            not_applicable: vec!["id-changed"],
        }
    }

    #[test]
    fn what_a_receiver_answered_cannot_write_to_the_terminal() {
        let hostile = report(Outcome::RefusedValid, "401 \"\u{1b}[2J<b>\"");
        let plain = text(&hostile, false);
        assert!(!plain.contains('\u{1b}') && plain.contains("valid: refused-valid"), "{plain}");
        let xml = junit(&suite(&hostile));
        let document = roxmltree::Document::parse(&xml).expect("XML");
        let skipped = document.descendants().find(|node| node.has_tag_name("skipped")).expect("what was not sent");
        assert_eq!(skipped.text(), Some("the scheme standard cannot tell"));
    }

    #[test]
    fn outcomes_have_colors_on_a_terminal() {
        for (outcome, color) in [(Outcome::Pass, "32"), (Outcome::Incomplete, "33"), (Outcome::Slow, "1;31")] {
            let shown = text(&report(outcome, "204"), true);
            assert!(shown.starts_with(&format!("\u{1b}[{color}m{}\u{1b}[0m  valid", outcome.name())), "{shown:?}");
        }
    }
}
