//! The plain elements of a report: the first sentence, and the causes of a verdict, as the page shows them.

use super::causes::{Cause, Standing};
use super::conclusion::ending;
use super::exec_facts::ExecFacts;
use super::verdict::Verdict;
use crate::advice::Audience;
use crate::ui::{Plain, PlainCause};
use crate::util::wording::shell_word;

/// The report of a verdict, after the command of `exec`, in a file of this name.
pub(crate) fn plain(verdict: &Verdict, exec: Option<&ExecFacts>, file: &str) -> Plain {
    let tests = verdict.test_of_key();
    let causes: Vec<&Cause> = verdict.causes.iter().filter(|cause| cause.standing != Standing::Elsewhere).collect();
    let reader = Audience::File(file.to_owned());
    let file = shell_word(file);
    let first = causes.iter().find_map(|cause| cause.records.first());
    let commands = [
        Some(format!("wrs-emulator verdict --from {file}")),
        first.map(|id| format!("wrs-emulator explain {} --from {file}", shell_word(id))),
        Some(format!("wrs-emulator run view {file}")),
    ];
    let shown =
        |cause: &&Cause| PlainCause { sentence: cause.sentence.clone(), lines: cause.details(&reader, None, &tests) };
    Plain {
        sentence: verdict.headline.sentence.clone(),
        command: exec.map(|exec| format!("{}: {}", command_line(exec), ending(exec))),
        causes: causes.iter().map(shown).collect(),
        commands: commands.into_iter().flatten().collect(),
    }
}

fn command_line(exec: &ExecFacts) -> String {
    exec.command.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}
