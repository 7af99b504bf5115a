//! What a report says in plain elements: the first sentence, and the causes of a verdict. The same as the page's `causes.js` says.

use std::collections::HashSet;

use super::causes::{Cause, CauseKind};
use super::run::ExecFacts;
use super::verdict::Verification;
use crate::state::journal::record::name_of;
use crate::ui::{Plain, PlainCause};
use crate::util::wording::{counted, shell_word};

/// The report of a verdict, after the command of `exec`, in a file of this name.
pub(crate) fn plain(verdict: &Verification, exec: Option<&ExecFacts>, file: &str) -> Plain {
    let (bad, warnings): (Vec<&Cause>, Vec<&Cause>) = shown(verdict).partition(|cause| is_bad(verdict, exec, cause));
    // What is unfinished may still come, and an idle emulator is no warning.
    let is_warning = |cause: &&Cause| match cause.kind {
        CauseKind::Unfinished => false,
        CauseKind::Silent => !cause.tests.is_empty(),
        _ => true,
    };
    let warnings: Vec<&Cause> = warnings.into_iter().filter(is_warning).collect();
    let tests = verdict.test_of_key();
    let found = bad
        .iter()
        .chain(&warnings)
        .map(|cause| PlainCause { sentence: cause.sentence.clone(), lines: cause.details(None, &tests) });
    let file = shell_word(file);
    let first = bad.iter().chain(&warnings).find_map(|cause| cause.records.first());
    let commands = [
        Some(format!("wrs-emulator verdict --from {file}")),
        first.map(|id| format!("wrs-emulator explain {} --from {file}", shell_word(id))),
        Some(format!("wrs-emulator run view {file}")),
    ];
    Plain {
        sentence: sentence(verdict, exec, &bad, &warnings),
        command: exec.map(|exec| format!("{}: {}", command_line(exec), ending(exec))),
        causes: found.collect(),
        commands: commands.into_iter().flatten().collect(),
    }
}

/// The causes, without a finding that another cause names.
fn shown(verdict: &Verification) -> impl Iterator<Item = &Cause> {
    let others = verdict.causes.iter().filter(|cause| cause.kind != CauseKind::Finding);
    let told: HashSet<&String> = others.flat_map(|cause| &cause.findings).collect();
    verdict.causes.iter().filter(move |cause| cause.kind != CauseKind::Finding || !told.contains(&cause.name))
}

/// Whether a cause made the run fail; without a command, webhooks and failed tests do.
fn is_bad(verdict: &Verification, exec: Option<&ExecFacts>, cause: &Cause) -> bool {
    let Some(exec) = exec else {
        return !cause.tests.is_empty() || matches!(cause.kind, CauseKind::Forged | CauseKind::Undelivered);
    };
    let kind = match cause.kind {
        CauseKind::Silent => "unused".to_owned(),
        CauseKind::Finding => "findings".to_owned(),
        kind => name_of(kind),
    };
    let may_fail =
        !matches!(cause.kind, CauseKind::Scripted | CauseKind::Runner | CauseKind::Unfinished | CauseKind::Finding);
    if !cause.tests.is_empty() {
        return exec.exit_status != 0;
    }
    // A command may have failed of any of them, if its tests do not tell.
    exec.failed_by.contains(&kind) || (exec.exit_status != 0 && verdict.tests == 0 && may_fail)
}

fn sentence(verdict: &Verification, exec: Option<&ExecFacts>, bad: &[&Cause], warnings: &[&Cause]) -> String {
    let (requests, deliveries) = (verdict.judged_requests, verdict.judged_deliveries);
    let judged = format!("{} and {}", counted(requests, "request"), counted(deliveries, "delivery"));
    let others = |causes: &[&Cause], what: &str| match causes.len() {
        0 | 1 => String::new(),
        count => format!(", and {}", counted(count - 1, what)),
    };
    let Some(exec) = exec else {
        return match (bad.first(), warnings.len()) {
            (Some(first), _) => format!("Failed: {}{}", first.sentence, others(bad, "other cause")),
            (None, 0) if requests == 0 && deliveries == 0 => "Nothing happened yet".to_owned(),
            (None, 0) => format!("{judged}, nothing went wrong"),
            (None, count) => format!("{judged}; {} to look at", counted(count, "thing")),
        };
    };
    if let Some(problem) = &exec.problem {
        return format!("Failed: the command could not be run ({problem})");
    }
    let has_failed = exec.exit_status != 0 || !exec.failed_by.is_empty();
    match (bad.first().filter(|_| has_failed), warnings.first()) {
        (Some(first), _) => format!("Failed: {}{}", first.sentence, others(bad, "other cause")),
        (None, _) if exec.exit_status != 0 => format!("Failed: the command ended with {}", ending(exec)),
        (None, _) if has_failed => format!("Failed: {}", exec.failed_because.join("; ")),
        (None, Some(first)) => format!("Passed, but {}{}", first.sentence, others(warnings, "other warning")),
        (None, None) => format!("Passed: {judged}, nothing went wrong"),
    }
}

fn command_line(exec: &ExecFacts) -> String {
    exec.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn ending(exec: &ExecFacts) -> String {
    match (&exec.problem, exec.signal) {
        (Some(problem), _) => problem.clone(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("exit status {}", exec.exit_status),
    }
}
