//! Commands that may be left out: each group has a default command. Must not know any flag but help.

use std::ffi::OsString;

/// Groups of commands, each with its default command.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("requests", "list"),
    ("deliveries", "list"),
    ("subscriptions", "list"),
    ("forwards", "list"),
    ("scenarios", "list"),
    ("clock", "show"),
    ("profile", "show"),
];

/// Inserts the default command that was left out: `requests --status 404` is `requests list --status 404`, and `help clock` is
/// `clock --help`.
pub(super) fn expanded(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    let is_flag = word(2).is_none_or(|word| word.starts_with('-') && !matches!(word, "-h" | "--help" | "--help-all"));
    if word(1) == Some("help") {
        arguments.remove(1);
        arguments.push("--help".into());
    } else if is_flag && let Some((_, meant)) = DEFAULTS.iter().find(|(group, _)| word(1) == Some(group)) {
        arguments.insert(2, meant.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_added() {
        for (line, expected) in [
            ("x", "x"),
            ("x requests", "x requests list"),
            ("x requests --status 404", "x requests list --status 404"),
            ("x requests show req_1", "x requests show req_1"),
            ("x requests --help", "x requests --help"),
            ("x clock --json", "x clock show --json"),
            ("x help", "x --help"),
            ("x help clock advance", "x clock advance --help"),
            ("x trigger clock", "x trigger clock"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(expanded(words).join(std::ffi::OsStr::new(" ")), expected, "{line}");
        }
    }

    #[test]
    fn every_default_exists() {
        let definition = super::super::definition();
        for (group, meant) in DEFAULTS {
            let found = definition.find_subcommand(group).and_then(|group| group.find_subcommand(meant));
            assert!(found.is_some(), "{group} {meant}");
        }
    }
}
