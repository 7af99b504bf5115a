//! What differs between the scenario files of two generations, in words: what a reload reports.

use std::sync::Arc;

use super::Scenario;
use super::content::ByName;
use crate::diagnostic::Diagnostic;

/// Most files named.
const MOST_FILES: usize = 5;
/// Most changes named for each file.
const MOST_CHANGES: usize = 8;

/// A reading of the scenario files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reload {
    /// The generation in force after it.
    pub generation: u64,
    /// Whether it is a new one.
    pub is_new: bool,
    /// What changed, a line for each file: its path, then its rules and emissions.
    pub changes: Vec<String>,
    /// What is wrong with the files now.
    pub found: Vec<Diagnostic>,
}

/// What changed, a line for each file.
pub(super) fn changes(before: &ByName, after: &ByName) -> Vec<String> {
    let of = |scenario: &Scenario, what: &str| format!("{}: {what}", scenario.file_name());
    let known = after.values().filter_map(|new| match before.get(&new.name) {
        Some(old) if Arc::ptr_eq(old, new) => None,
        Some(old) => Some(of(new, &listed(parts(old, new), MOST_CHANGES, ", "))),
        None => Some(of(new, "added")),
    });
    let gone = before.values().filter(|old| !after.contains_key(&old.name)).map(|old| of(old, "removed"));
    let mut lines: Vec<String> = known.chain(gone).collect();
    if lines.len() > MOST_FILES {
        let more = lines.len() - MOST_FILES;
        lines.truncate(MOST_FILES);
        lines.push(format!("and {more} more files"));
    }
    lines
}

/// At most so many of these on one line.
fn listed(mut parts: Vec<String>, most: usize, separator: &str) -> String {
    let more = parts.len().saturating_sub(most);
    parts.truncate(most);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(separator)
}

/// What changed in a scenario.
fn parts(old: &Scenario, new: &Scenario) -> Vec<String> {
    let (before, after) = (marked(old), marked(new));
    let left = |these: &[(String, u64)], those: &[(String, u64)]| -> Vec<String> {
        let is_left = |print: u64| !those.iter().any(|(_, other)| *other == print);
        these.iter().filter(|(_, print)| is_left(*print)).map(|(label, _)| label.clone()).collect()
    };
    let (mut gone, come) = (left(&before, &after), left(&after, &before));
    let mut parts = Vec::new();
    for label in come {
        let place = gone.iter().position(|other| *other == label);
        let what = if place.map(|place| gone.remove(place)).is_some() { "changed" } else { "added" };
        parts.push(format!("{label} {what}"));
    }
    parts.extend(gone.into_iter().map(|label| format!("{label} removed")));
    if old.given != new.given {
        parts.push("given state changed".to_owned());
    }
    let same_profile = match (&old.overlay, &new.overlay) {
        (Some(old), Some(new)) => old.settings.same_values(&new.settings),
        (old, new) => old.is_none() && new.is_none(),
    };
    if !same_profile {
        parts.push("[profile] changed".to_owned());
    }
    if parts.is_empty() {
        let in_order = before.iter().map(|(_, print)| print).eq(after.iter().map(|(_, print)| print));
        parts.push(if in_order { "no rule changed" } else { "the order of rules changed" }.to_owned());
    }
    parts
}

/// The rules and emissions of a scenario, each as it is named and with the fingerprint of its text.
fn marked(scenario: &Scenario) -> Vec<(String, u64)> {
    let named = |kind: &str, short: &str, label: &str| match label.strip_prefix(short).map(str::parse::<usize>) {
        Some(Ok(position)) => format!("{kind} {position}"),
        _ => format!("{kind} `{}`", label.chars().take(80).collect::<String>()),
    };
    let rules = scenario.rules.iter().map(|rule| (named("rule", "rule ", &rule.label), rule.fingerprint));
    let emits = scenario.emits.iter().map(|emit| (named("emission", "emit ", &emit.label), emit.fingerprint));
    rules.chain(emits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::check_text;

    fn by_name(texts: &[(&str, &str)]) -> ByName {
        let read = texts.iter().map(|(name, text)| {
            let (scenario, problems) = check_text(name, text);
            let scenario = Arc::new(scenario.unwrap_or_else(|| panic!("{problems:?}")));
            (Arc::clone(&scenario.name), scenario)
        });
        read.collect()
    }

    const NONE: &str = "title = 't'\n";
    const RULE: &str = "[[rule]]\nname = 'a'\nreply = { status = 500 }\n";
    const EMIT: &str = "[[emit]]\nevent = 'workflow.completed'\non = 'command'\n";

    #[test]
    fn each_kind_of_change_is_named() {
        for (old, new, expected) in [
            (RULE, "title = 'x'\n[[rule]]\nname = 'a'\nreply = { status = 501 }\n", "s: rule `a` changed"),
            (NONE, RULE, "s: rule `a` added"),
            (RULE, NONE, "s: rule `a` removed"),
            (NONE, EMIT, "s: emission 1 added"),
            (RULE, &format!("# a note\n{RULE}"), "s: no rule changed"),
            (&format!("{RULE}{EMIT}"), &format!("[[rule]]\npass = true\n{RULE}{EMIT}"), "s: rule 1 added"),
            (
                &format!("{RULE}[[rule]]\npass = true\n"),
                &format!("[[rule]]\npass = true\n{RULE}"),
                "s: the order of rules changed",
            ),
            (
                "[profile]\nrate_limit = { requests = 3 }\n",
                "[profile]\nrate_limit = { requests = 4 }\n",
                "s: [profile] changed",
            ),
            (
                "[profile]\nrate_limit = { requests = 3 }\n",
                "# note\n[profile]\nrate_limit = { requests = 3 }\n",
                "s: no rule changed",
            ),
            (NONE, "[[given.user]]\nid = 'u'\n", "s: given state changed"),
        ] {
            assert_eq!(changes(&by_name(&[("s", old)]), &by_name(&[("s", new)])), [expected], "{old}\n{new}");
        }
        let (none, one) = (by_name(&[]), by_name(&[("s", RULE)]));
        assert_eq!(
            (changes(&none, &one), changes(&one, &none)),
            (vec!["s: added".to_owned()], vec!["s: removed".to_owned()])
        );
        assert_eq!(changes(&one, &one), Vec::<String>::new());
    }

    #[test]
    fn long_lists_are_cut() {
        let rules: String = (0..20).map(|n| format!("[[rule]]\nname = 'r{n}'\ntimes = 1\npass = true\n")).collect();
        let lines = changes(&by_name(&[("s", NONE)]), &by_name(&[("s", &rules)]));
        assert!(lines[0].ends_with("rule `r7` added, and 12 more"), "{lines:?}");
        let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), NONE)).collect();
        let lines = changes(&by_name(&[]), &by_name(&files));
        assert_eq!((lines.len(), lines[5].as_str()), (6, "and 15 more files"));
    }
}
