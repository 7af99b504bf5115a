//! What a report says in plain elements: the first sentence, and the causes of a verdict.

use super::judged::{JudgedKey, ProblemLine, Refusal};
use super::run::ExecFacts;
use super::verdict::Verification;
use crate::ui::{Plain, PlainCause};
use crate::util::wording::{counted, shell_word};

/// The report of a verdict, after the command of `exec`, in a file of this name.
pub(crate) fn plain(verdict: &Verification, exec: Option<&ExecFacts>, file: &str) -> Plain {
    let found = causes(verdict, exec);
    let file = shell_word(file);
    let first = found.iter().find(|cause| !cause.id.is_empty());
    let commands = [
        Some(format!("wrs-emulator verdict --from {file}")),
        first.map(|cause| format!("wrs-emulator explain {} --from {file}", cause.id)),
        Some(format!("wrs-emulator run view {file}")),
    ];
    Plain {
        sentence: sentence(verdict, exec, &found),
        command: exec.map(|exec| format!("{}: {}", command_line(exec), ending(exec))),
        causes: found.iter().map(|cause| PlainCause { sentence: cause.to_string(), lines: Vec::new() }).collect(),
        commands: commands.into_iter().flatten().collect(),
    }
}

/// Why the run failed, then every other problem.
fn causes(verdict: &Verification, exec: Option<&ExecFacts>) -> Vec<ProblemLine> {
    let mut found: Vec<ProblemLine> = verdict.keys.iter().filter_map(JudgedKey::failure).collect();
    let has_tests = verdict.keys.iter().any(|key| key.test.is_some());
    if !has_tests && exec.is_some_and(|exec| exec.exit_status != 0) {
        found.extend(verdict.refusals.iter().map(Refusal::line));
    }
    let fails = |kind: &str| exec.is_some_and(|exec| exec.failed_by.iter().any(|failed| failed == kind));
    let mut kinds = verdict.kinds();
    kinds.sort_by_key(|(kind, ..)| !fails(kind));
    let is_idle = verdict.judged_requests == 0 && verdict.judged_deliveries == 0;
    for (kind, _, lines) in kinds {
        // What had nothing to judge is no problem, unless nothing had.
        if kind != "unused" {
            found.extend(lines);
        } else if is_idle {
            found.extend(lines.into_iter().take(1));
        }
    }
    found
}

fn sentence(verdict: &Verification, exec: Option<&ExecFacts>, causes: &[ProblemLine]) -> String {
    let judged = format!(
        "{} and {}",
        counted(verdict.judged_requests, "request"),
        counted(verdict.judged_deliveries, "delivery")
    );
    let others =
        |count: usize| if count > 1 { format!(", and {}", counted(count - 1, "other problem")) } else { String::new() };
    let has_failed = match exec {
        Some(exec) => exec.exit_status != 0 || exec.problem.is_some() || !exec.failed_by.is_empty(),
        None => verdict.keys.iter().any(|key| key.failure.is_some()),
    };
    match (exec, causes.first()) {
        (Some(ExecFacts { problem: Some(problem), .. }), _) => {
            format!("Failed: the command could not be run ({problem})")
        }
        (_, Some(first)) if has_failed => format!("Failed: {}{}", first.message, others(causes.len())),
        (Some(exec), _) if has_failed && exec.exit_status == 0 => format!("Failed: {}", exec.failed_because.join("; ")),
        (Some(exec), _) if has_failed => format!("Failed: the command ended with {}", ending(exec)),
        (Some(_), Some(first)) => format!("Passed, but {}{}", first.message, others(causes.len())),
        (Some(_), None) => format!("Passed: {judged}, nothing went wrong"),
        (None, Some(_)) => format!("{judged}; {} to look at", counted(causes.len(), "thing")),
        (None, None) => format!("{judged}, nothing went wrong"),
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
