//! The conclusion of a run: which of its causes failed it, and its headline. Every output shows this one.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::{Cause, CauseKind, NO_REQUEST, Standing};
use super::exec_facts::{ExecFacts, FailedFinding};
use super::story::signed_text;
use crate::findings::Severity;
use crate::state::journal::record::name_of;
use crate::util::wording::counted;

/// The first sentence about a run, as a person would say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Headline {
    pub(crate) tone: Tone,
    pub(crate) sentence: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tone {
    /// The run passed.
    Ok,
    /// It passed, with something to look at.
    Warn,
    /// It failed.
    Bad,
    /// Nothing was to pass or fail.
    #[default]
    Quiet,
}

/// What a run consists of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JudgedCounts {
    pub(super) requests: usize,
    pub(super) deliveries: usize,
    /// Events that were signed for handlers in the tests' own processes.
    pub(super) signed: usize,
}

impl JudgedCounts {
    fn is_nothing(self) -> bool {
        self.requests == 0 && self.deliveries == 0
    }

    pub(super) fn text(self) -> String {
        let text = format!("{} and {}", counted(self.requests, "request"), counted(self.deliveries, "delivery"));
        if self.signed > 0 { format!("{text}, {}", signed_text(self.signed)) } else { text }
    }
}

/// Judges the causes of a run and puts those first that failed it. `tests` is how many reported how they ended, and `exec` the command that has ended, if the run is one of `exec`.
pub(super) fn conclude(causes: &mut [Cause], tests: usize, judged: JudgedCounts, exec: Option<&ExecFacts>) -> Headline {
    let others = causes.iter().filter(|cause| cause.kind != CauseKind::Finding);
    let named: HashSet<String> = others.flat_map(|cause| cause.findings.iter().cloned()).collect();
    for cause in &mut *causes {
        cause.standing = if has_failed_run(cause, tests, exec) {
            Standing::Failed
        } else {
            match cause.kind {
                CauseKind::Unfinished => Standing::Elsewhere,
                CauseKind::Silent if cause.tests.is_empty() => Standing::Elsewhere,
                CauseKind::Finding if named.contains(&cause.name) => Standing::Elsewhere,
                _ => Standing::Warning,
            }
        };
    }
    causes.sort_by_key(|cause| cause.standing);
    headline(causes, judged, exec)
}

/// True if a cause failed the run; without a command, failed tests and webhooks do.
fn has_failed_run(cause: &Cause, tests: usize, exec: Option<&ExecFacts>) -> bool {
    let Some(exec) = exec else {
        return !cause.tests.is_empty() || matches!(cause.kind, CauseKind::Forged | CauseKind::Undelivered);
    };
    if !cause.tests.is_empty() {
        return exec.exit_status != 0;
    }
    let is_kind = match cause.kind {
        CauseKind::Finding => false,
        CauseKind::Silent => exec.failed_by.iter().any(|kind| kind == "unused"),
        kind => exec.failed_by.contains(&name_of(kind)),
    };
    let is_finding = |failed: &FailedFinding| match cause.kind {
        CauseKind::Finding => failed.code == cause.name && Some(failed.confidence) == cause.confidence,
        _ => cause.findings.contains(&failed.code),
    };
    is_kind
        || exec.failed_findings.iter().any(is_finding)
        || (exec.exit_status != 0 && tests == 0 && cause.may_fail_a_command())
}

/// True for requests that were refused and then sent again as they should be.
fn is_survived(cause: &Cause) -> bool {
    cause.survived && cause.findings.is_empty()
}

/// True for a detail that a run may be released with.
fn is_low(cause: &Cause) -> bool {
    cause.severity == Some(Severity::Low)
}

fn headline(causes: &[Cause], judged: JudgedCounts, exec: Option<&ExecFacts>) -> Headline {
    let of = |standing| causes.iter().filter(move |cause| cause.standing == standing);
    let (failed, warnings) = (of(Standing::Failed).count(), of(Standing::Warning).count());
    let (first, warning) = (of(Standing::Failed).next(), of(Standing::Warning).next());
    let others = |count: usize, what: &str| match count {
        0 | 1 => String::new(),
        count => format!(", and {}", counted(count - 1, what)),
    };
    let because = |first: &Cause| format!("Failed: {}{}", first.sentence, others(failed, "other cause"));
    let problems = counted(failed, "problem")
        + &match warnings {
            0 => String::new(),
            count => format!(", and {} to look at", counted(count, "more thing")),
        };
    let (tone, sentence) = match (exec, first, warning) {
        (Some(ExecFacts { problem: Some(problem), .. }), ..) => {
            (Tone::Bad, format!("Failed: the command could not be run ({problem})"))
        }
        // Nobody named what fails a run without a command and without a failed test.
        (None, Some(_), _) if !causes.iter().any(|cause| !cause.tests.is_empty()) => (Tone::Bad, problems),
        (_, Some(first), _) => (Tone::Bad, because(first)),
        (Some(exec), None, _) if exec.exit_status != 0 => {
            (Tone::Bad, format!("Failed: the command ended with {}", ending(exec)))
        }
        (Some(exec), None, _) if exec.has_failed() => {
            (Tone::Bad, format!("Failed: {}", exec.failed_because.join("; ")))
        }
        (Some(_), None, Some(_)) if of(Standing::Warning).all(|it| is_survived(it) || is_low(it)) => {
            let (survived, low): (Vec<&Cause>, Vec<&Cause>) = of(Standing::Warning).partition(|it| is_survived(it));
            let (again, low) = (survived.iter().map(|it| it.count).sum::<usize>(), low.len());
            let again =
                (again > 0).then(|| format!("; {} succeeded when sent again", counted(again, "refused request")));
            let low = (low > 0).then(|| format!("; {} of low severity", counted(low, "finding")));
            let details = again.into_iter().chain(low).collect::<String>();
            (Tone::Ok, format!("Passed: {}{details}", judged.text()))
        }
        (Some(_), None, Some(warning)) => {
            (Tone::Warn, format!("Passed, but {}{}", warning.sentence, others(warnings, "other warning")))
        }
        // That proves nothing.
        (Some(_), None, None) if judged.is_nothing() && judged.signed == 0 => {
            (Tone::Warn, format!("Passed, but {NO_REQUEST}"))
        }
        (Some(_), None, None) => (Tone::Ok, format!("Passed: {}, nothing went wrong", judged.text())),
        (None, None, None) if judged.is_nothing() => (Tone::Quiet, "Nothing happened yet".to_owned()),
        (None, None, None) => (Tone::Quiet, format!("{}, nothing went wrong", judged.text())),
        (None, None, Some(_)) => (Tone::Quiet, format!("Nothing failed; {} to look at", counted(warnings, "thing"))),
    };
    Headline { tone, sentence }
}

/// How a command ended.
pub(super) fn ending(exec: &ExecFacts) -> String {
    match (&exec.problem, exec.signal) {
        (Some(problem), _) => problem.clone(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("exit status {}", exec.exit_status),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A cause of a kind with this sentence; of a finding, also its code.
    fn cause(kind: &str, sentence: &str, more: serde_json::Value) -> Cause {
        let mut cause = json!({
            "kind": kind, "name": sentence, "sentence": sentence, "outcome": null, "remedy": null, "also": [], "tests": [], "keys": [],
            "records": [], "count": 1, "findings": [],
        });
        cause.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        serde_json::from_value(cause).expect("a cause")
    }

    fn exec(facts: serde_json::Value) -> ExecFacts {
        let mut exec = json!({ "command": ["x"], "exit_status": 0, "signal": null, "problem": null });
        exec.as_object_mut().expect("an object").extend(facts.as_object().cloned().unwrap_or_default());
        serde_json::from_value(exec).expect("facts")
    }

    #[track_caller]
    fn check(
        causes: &[Cause],
        tests: usize,
        exec: Option<&ExecFacts>,
        expected: &[&str],
        (tone, sentence): (Tone, &str),
    ) {
        let mut causes = causes.to_vec();
        let headline = conclude(&mut causes, tests, JudgedCounts { requests: 5, ..JudgedCounts::default() }, exec);
        let found: Vec<String> =
            causes.iter().map(|cause| format!("{} {}", name_of(cause.standing), cause.sentence)).collect();
        assert_eq!(found, expected);
        assert_eq!(headline.sentence, sentence);
        assert_eq!(headline.tone, tone, "{sentence}");
    }

    #[test]
    fn what_fails_a_run_is_why_tests_failed_what_fail_on_found_or_without_tests_whatever_went_wrong() {
        let test = json!({ "tests": [{ "test": "t", "key": "k", "message": "no" }] });
        let of_test = cause("refused", "a", test);
        let others =
            ["forged", "undelivered", "refused", "silent", "unfinished"].map(|kind| cause(kind, kind, json!({})));
        let all: Vec<Cause> = [of_test].into_iter().chain(others.clone()).collect();
        let elsewhere = ["elsewhere silent", "elsewhere unfinished"];
        let failed = ["failed a", "failed forged", "failed undelivered", "warning refused"];
        check(&all, 1, None, &[&failed[..], &elsewhere].concat(), (Tone::Bad, "Failed: a, and 2 other causes"));
        let live = [&["failed forged", "failed undelivered", "warning refused"][..], &elsewhere].concat();
        check(&others, 0, None, &live, (Tone::Bad, "2 problems, and 1 more thing to look at"));
        let expected = ["warning a", "warning forged", "warning undelivered", "warning refused"];
        // The command expected it.
        let passed = exec(json!({}));
        check(
            &all,
            1,
            Some(&passed),
            &[&expected[..], &elsewhere].concat(),
            (Tone::Warn, "Passed, but a, and 3 other warnings"),
        );
        let named = exec(json!({ "failed_by": ["undelivered", "unused", "unfinished"] }));
        let expected =
            ["failed undelivered", "failed silent", "failed unfinished", "warning forged", "warning refused"];
        check(&others, 0, Some(&named), &expected, (Tone::Bad, "Failed: undelivered, and 2 other causes"));
        let red = exec(json!({ "exit_status": 1 }));
        let expected =
            ["failed forged", "failed undelivered", "failed refused", "failed silent", "elsewhere unfinished"];
        check(&others, 0, Some(&red), &expected, (Tone::Bad, "Failed: forged, and 3 other causes"));
        let expected = [&["warning forged", "warning undelivered", "warning refused"][..], &elsewhere].concat();
        check(&others, 1, Some(&red), &expected, (Tone::Bad, "Failed: the command ended with exit status 1"));
    }

    #[test]
    fn a_finding_fails_the_run_if_the_verdict_says_so() {
        let finding = |confidence: &str| cause("finding", "no-back-off", json!({ "confidence": confidence }));
        let found = [finding("certain"), finding("likely")];
        let failed = |confidence: &str| {
            let failed = json!([{ "code": "no-back-off", "confidence": confidence }]);
            exec(
                json!({ "failed_by": ["findings"], "failed_because": ["1 problem was found"], "failed_findings": failed }),
            )
        };
        let expected = ["failed no-back-off", "warning no-back-off"];
        check(&found, 0, Some(&failed("certain")), &expected, (Tone::Bad, "Failed: no-back-off"));
        check(&found[1..], 0, Some(&failed("certain")), &expected[1..], (Tone::Bad, "Failed: 1 problem was found"));
        check(&found[1..], 0, Some(&failed("likely")), &expected[..1], (Tone::Bad, "Failed: no-back-off"));
        // Another cause that names it is the one to read.
        let refused = cause("refused", "429", json!({ "findings": ["no-back-off"] }));
        let both = [finding("likely"), refused];
        check(&both, 0, Some(&failed("certain")), &["failed 429", "elsewhere no-back-off"], (Tone::Bad, "Failed: 429"));
        check(
            &both,
            0,
            None,
            &["warning 429", "elsewhere no-back-off"],
            (Tone::Quiet, "Nothing failed; 1 thing to look at"),
        );
    }

    #[test]
    fn a_run_with_survived_refusals_and_findings_of_low_severity_alone_has_passed() {
        let finding =
            |severity: &str| cause("finding", severity, json!({ "confidence": "certain", "severity": severity }));
        let green = (Tone::Ok, "Passed: 5 requests and 0 deliveries; 1 finding of low severity");
        check(&[finding("low")], 0, Some(&exec(json!({}))), &["warning low"], green);
        let survived = |findings: serde_json::Value| {
            cause("refused", "429", json!({ "survived": true, "count": 2, "findings": findings }))
        };
        let both = [survived(json!([])), finding("low")];
        let green = "Passed: 5 requests and 0 deliveries; 2 refused requests succeeded when sent again; 1 finding of low severity";
        check(&both, 0, Some(&exec(json!({}))), &["warning 429", "warning low"], (Tone::Ok, green));
        let hammered = [survived(json!(["no-back-off"]))];
        check(&hammered, 0, Some(&exec(json!({}))), &["warning 429"], (Tone::Warn, "Passed, but 429"));
        let amber = (Tone::Warn, "Passed, but low, and 1 other warning");
        check(&["low", "medium"].map(finding), 0, Some(&exec(json!({}))), &["warning low", "warning medium"], amber);
    }

    #[test]
    fn a_run_without_causes_has_a_first_sentence_as_well() {
        for (facts, sentence) in [
            (json!({}), (Tone::Ok, "Passed: 5 requests and 0 deliveries, nothing went wrong")),
            (json!({ "exit_status": 3 }), (Tone::Bad, "Failed: the command ended with exit status 3")),
            (json!({ "exit_status": 137, "signal": 9 }), (Tone::Bad, "Failed: the command ended with signal 9")),
            (
                json!({ "exit_status": 127, "problem": "not found" }),
                (Tone::Bad, "Failed: the command could not be run (not found)"),
            ),
            (json!({ "failed_by": ["a", "b"], "failed_because": ["one", "two"] }), (Tone::Bad, "Failed: one; two")),
        ] {
            check(&[], 0, Some(&exec(facts)), &[], sentence);
        }
        check(&[], 0, None, &[], (Tone::Quiet, "5 requests and 0 deliveries, nothing went wrong"));
        assert_eq!(conclude(&mut [], 0, JudgedCounts::default(), None).sentence, "Nothing happened yet");
        let idle = conclude(&mut [], 0, JudgedCounts::default(), Some(&exec(json!({}))));
        assert_eq!(idle.sentence, "Passed, but 0 requests arrived; does your code read WRS_BASE_URL?");
        assert_eq!(idle.tone, Tone::Warn);
        // Such a suite need not call the emulator.
        let in_process = JudgedCounts { signed: 3, ..JudgedCounts::default() };
        let signed = conclude(&mut [], 0, in_process, Some(&exec(json!({}))));
        assert_eq!(
            signed.sentence,
            "Passed: 0 requests and 0 deliveries, 3 events signed in process, nothing went wrong"
        );
    }
}
