//! What the program says of itself: help and completions.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

use crate::support::{self, Outcome, assert_in_step, finish, text, wrs_emulator};

/// The help of a command, whole, as wide as it is without a terminal.
fn help(path: &[String]) -> String {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help-all"]).collect();
    let output = finish(wrs_emulator(&arguments).env_remove("COLUMNS").env_remove("LINES")).exits(0);
    text(&output.stdout)
}

/// A command, and its help.
type Help = (Vec<String>, String);

/// Every command with its help, because they name each other; the first is the program itself.
pub(crate) fn all_help() -> &'static [Help] {
    static ALL: LazyLock<Vec<Help>> = LazyLock::new(read_all_help);
    &ALL
}

fn read_all_help() -> Vec<Help> {
    let mut found: Vec<Help> = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let said = help(&path);
        let below = said.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        let names = below.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "help").collect();
        // The last one pushed is the next one looked at.
        open.extend(names.iter().rev().map(|name| [&path[..], &[(*name).to_owned()]].concat()));
        found.push((path, said));
    }
    assert!(found.len() > 30, "the commands were found: {}", found.len());
    found
}

fn run(arguments: &[&str]) -> Outcome {
    support::run(arguments).exits(0)
}

/// Scripts depend on every command, flag, variable and default.
#[test]
fn every_help_is_the_published_one() {
    let mut seen = BTreeMap::new();
    let made: String = all_help()
        .iter()
        .map(|(path, said)| format!("$ wrs-emulator {}\n{}\n", path.join(" "), shortened(said, &mut seen)))
        .collect();
    assert_in_step("tests/it/help.txt", &made);
}

/// A help with each option on one line, and by its name alone if the last command that has it says the same of it.
fn shortened(said: &str, seen: &mut BTreeMap<String, String>) -> String {
    let is_option = |line: &str| line.starts_with("  -") || line.starts_with("      --");
    let (mut text, mut shared) = (String::new(), Vec::new());
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        if !is_option(line) {
            text += &format!("{line}\n");
            continue;
        }
        let name = line.trim().split("  ").next().unwrap_or_default();
        let mut words: Vec<&str> = line.split_whitespace().collect();
        while let Some(more) = lines.next_if(|line| line.is_empty() || line.starts_with("          ")) {
            words.extend(more.split_whitespace());
        }
        let option = words.join(" ");
        if seen.insert(name.to_owned(), option.clone()).as_ref() == Some(&option) {
            shared.push(name);
        } else {
            text += &format!("  {option}\n");
        }
        if !lines.peek().is_some_and(|next| is_option(next)) {
            if !shared.is_empty() {
                text += &format!("  as above: {}\n", shared.join(", "));
                shared.clear();
            }
            text += "\n";
        }
    }
    text
}

/// Examples first, then the twelve commands and the twelve options of a first week; all the others show with --help-all.
#[test]
fn the_help_of_the_program_is_for_a_first_week() {
    for columns in ["80", "100"] {
        let said = finish(wrs_emulator(&["--help"]).env("COLUMNS", columns));
        let said = text(&said.stdout);
        assert!(said.lines().count() <= 50, "{} lines of {columns} columns\n{said}", said.lines().count());
        let heads = ["\nExamples:\n", "`wrs-emulator --help-all`", "\nUsage: ", "\nCommands:\n", "\nOptions:\n"];
        let places: Vec<usize> =
            heads.iter().map(|head| said.find(head).unwrap_or_else(|| panic!("{head:?} in\n{said}"))).collect();
        assert!(places.is_sorted(), "{said}");
        let (commands, options) = said[places[3]..].split_at(places[4] - places[3]);
        let named = |list: &str, begins: &[&str]| {
            list.lines()
                .filter(|line| begins.iter().any(|it| line.starts_with(it)) && !line.starts_with("         "))
                .count()
        };
        assert_eq!((named(commands, &["  "]), named(options, &["  -", "      --"])), (12, 12), "{said}");
        assert!(said.lines().all(|line| line.len() <= 100), "{said}");
    }
    let every = text(&run(&["--help-all"]).stdout);
    for shown in ["\n  requests ", "\n  calibrate ", "\nWebhooks:\n", "\nLimits:\n", "\nKeys: ", "\nExit status: "] {
        assert_eq!(every.matches(shown).count(), 1, "{shown:?} in\n{every}");
    }
    for command in [&[][..], &["serve"], &["exec"]] {
        let all = text(&run(&[command, &["--help-all"]].concat()).stdout);
        assert!(all.contains("--header-timeout") && all.contains("[env: WRS_EMULATOR_HEADER_TIMEOUT"), "{all}");
        let short = text(&run(&[command, &["-h"]].concat()).stdout);
        assert!(!short.contains("--header-timeout") && short.contains("--help-all"), "{short}");
    }
}

/// What bash offers after these words, of which it splits the last at each `=`, with the code that `completions bash` prints.
fn offered_by_bash(words: &[&str]) -> Vec<String> {
    let script = r#"eval "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) last=${!#}
        if [[ $last == = ]]; then last=; fi
        _wrs_emulator wrs-emulator "$last"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let code = text(&run(&["completions", "bash"]).stdout);
    let mut bash = Command::new("bash");
    let bash = bash.args(["--noprofile", "--norc", "-c", script, "bash", &code, "wrs-emulator"]).args(words);
    let offered = bash.env_remove("WRS_EMULATOR_SCENARIOS").output().expect("bash runs");
    assert!(offered.status.success(), "{words:?}: {offered:?}");
    text(&offered.stdout).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_every_command() {
    for (path, _) in all_help() {
        let Some((last, before)) = path.split_last() else { continue };
        let words: Vec<&str> = before.iter().chain([last]).map(String::as_str).collect();
        let offered = offered_by_bash(&words);
        assert!(offered.contains(last), "{path:?}: {offered:?}");
    }
}

#[test]
fn bash_completes_flags_values_and_names() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("own-story.toml"), "title = \"A story\"\n").expect("it is written");
    let folder = folder.path().to_str().expect("it is UTF-8");
    let cases: &[(&[&str], &[&str])] = &[
        (&["requests", "--oper"], &["--operation"]),
        (&["scenarios", "use", "rate-limit-b"], &["rate-limit-burst"]),
        (&["serve", "--scenarios", folder, "--scenario", "own"], &["own-story"]),
        (&["serve", "--scenarios", "=", folder, "--scenario", "own"], &["own-story"]),
        (&["serve", "--scenario", "=", "rate-limit-b"], &["rate-limit-burst"]),
        (&["--profile", "h"], &["hostile"]),
        (&["serve", "--log", "="], &["text", "json"]),
        (&["exec", "--fail-on", "unmatched,undel"], &["unmatched,undelivered"]),
        (&["serve", "--set", "rate_limit.requ"], &["rate_limit.requests="]),
        (&["serve", "--set", "variation.key_order", "=", "sh"], &["shuffled"]),
        (&["profile", "set", "rate_limit.enabled", "="], &["true", "false"]),
        (&["profile", "unset", "rate_limit.requ"], &["rate_limit.requests"]),
        (&["trigger", "workflow."], &["workflow.completed"]),
        (&["exec", "--under", "friendly,key-o"], &["friendly,key-order"]),
        // Paths are left to bash.
        (&["check", "tests/"], &[]),
        (&["exec", "--", "no-such-program"], &[]),
    ];
    for (words, expected) in cases {
        assert_eq!(offered_by_bash(words), *expected, "{words:?}");
    }
    let flags = offered_by_bash(&["serve", "--"]);
    assert!(flags.contains(&"--max-journal-entries".to_owned()), "{flags:?}");
}

#[test]
fn each_shell_gets_code_that_names_the_program() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let code = text(&run(&["completions", shell]).stdout);
        assert!(code.contains("wrs-emulator") && code.contains("_WRS_EMULATOR_COMPLETE"), "{shell}: {code}");
    }
    assert_eq!(support::run(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_examples_and_no_markup() {
    for (path, said) in all_help() {
        assert!(said.contains("\nExamples:\n  wrs-emulator"), "{path:?} has no examples");
        // Marks of the documentation must not be copied.
        for mark in ["<http", "`OpenAPI`", "[`"] {
            assert!(!said.contains(mark), "{path:?} has `{mark}`:\n{said}");
        }
    }
}
