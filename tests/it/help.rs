//! What the program says of itself: help and completions.

use std::process::{Command, Stdio};

use crate::support::{self, Outcome, finish, text, wrs_emulator};

/// The help of a command, whole, as wide as it is without a terminal.
fn help(path: &[String]) -> String {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help-all"]).collect();
    let output = finish(wrs_emulator(&arguments).env_remove("COLUMNS").env_remove("LINES")).exits(0);
    text(&output.stdout)
}

/// Every command with its help, because they name each other; the first is the program itself.
pub(crate) fn all_help() -> Vec<(Vec<String>, String)> {
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
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

/// Examples first, options in groups, no more than two screens; what is rare is there when everything is asked for.
#[test]
fn the_help_of_the_program_fits_two_screens() {
    for columns in ["80", "100"] {
        let said = finish(wrs_emulator(&["--help"]).env("COLUMNS", columns));
        let said = text(&said.stdout);
        assert!(said.lines().count() <= 100, "{} lines of {columns} columns\n{said}", said.lines().count());
        let heads = ["\nExamples:\n", "\nUsage: ", "\nCommands:\n", "\nOptions:\n", "\nWebhooks:\n", "\nScenarios:\n"];
        for head in heads.into_iter().chain(["\nControl API:\n", "\nLimits:\n"]) {
            assert_eq!(said.matches(head).count(), 1, "{head:?} in\n{said}");
        }
        assert!(said.find("Examples:") < said.find("Usage:"), "{said}");
        assert!(said.contains("--max-connections") && !said.contains("--header-timeout"), "{said}");
        assert!(said.lines().take_while(|line| !line.starts_with("Usage")).all(|line| line.len() < 80), "{said}");
        let option =
            |flag: &str| said.find(&format!("\n      --{flag} ")).unwrap_or_else(|| panic!("no --{flag}\n{said}"));
        let head = |name: &str| said.find(&format!("\n{name}:\n")).expect("a heading");
        for (flag, from, to) in [
            ("forward", "Webhooks", "Scenarios"),
            ("scenario", "Scenarios", "Control API"),
            ("control-token", "Control API", "Limits"),
        ] {
            assert!((head(from)..head(to)).contains(&option(flag)), "--{flag} is not below {from}\n{said}");
        }
    }
    for command in [&[][..], &["serve"], &["exec"]] {
        let all = text(&run(&[command, &["--help-all"]].concat()).stdout);
        assert!(all.contains("--header-timeout") && all.contains("[env: WRS_EMULATOR_HEADER_TIMEOUT"), "{all}");
        let short = text(&run(&[command, &["-h"]].concat()).stdout);
        assert!(!short.contains("--header-timeout") && short.contains("--help-all"), "{short}");
    }
}

#[test]
fn completions_know_every_command() {
    let commands = all_help();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&run(&["completions", shell]).stdout);
        for name in commands.iter().filter_map(|(path, _)| path.last()) {
            assert!(script.contains(name.as_str()), "{shell} does not complete `{name}`");
        }
        assert!(script.contains("fail-on"), "{shell} does not complete flags");
    }
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash runs");
    std::io::copy(&mut run(&["completions", "bash"]).stdout.as_slice(), &mut bash.stdin.take().expect("a pipe"))
        .expect("bash reads");
    assert!(bash.wait().expect("it ends").success(), "bash can read its script");
    assert_eq!(support::run(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_examples_and_no_markup() {
    let commands = all_help();
    for (path, said) in &commands {
        assert!(said.contains("\nExamples:\n  wrs-emulator"), "{path:?} has no examples");
        // What documentation wants marked, nobody is to copy.
        for mark in ["<http", "`OpenAPI`", "[`"] {
            assert!(!said.contains(mark), "{path:?} has `{mark}`:\n{said}");
        }
    }
}
