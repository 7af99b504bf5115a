//! What the program says of itself: help, completions, manual pages.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use crate::support::{text, wrs_emulator};

/// The help of a command, as wide as it is without a terminal.
fn help(path: &[String]) -> String {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let output = wrs_emulator(&arguments).env_remove("COLUMNS").env_remove("LINES").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    text(&output.stdout)
}

/// Every command with its help, as they name each other; the first is the program itself.
fn all_help() -> Vec<(Vec<String>, String)> {
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let said = help(&path);
        let below = said.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
        let names = below.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        for name in names.filter(|name| !name.is_empty() && *name != "help") {
            open.push([&path[..], &[name.to_owned()]].concat());
        }
        found.push((path, said));
    }
    assert!(found.len() > 30, "the commands were found: {}", found.len());
    found
}

fn run(arguments: &[&str]) -> Output {
    let output = wrs_emulator(arguments).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    output
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
    assert_eq!(wrs_emulator(&["completions", "tcsh"]).output().expect("the binary runs").status.code(), Some(2));
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let one = text(&run(&["man"]).stdout);
    for part in [".TH wrs-emulator 1", "\n.SH NAME\n", "\\fBWRS_EMULATOR_LISTEN\\fR", "wrs\\-emulator\\-exec(1)"] {
        assert!(one.contains(part), "`{part}` is not in\n{one}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("new").join("man1");
    assert_eq!(text(&run(&["man", "--dir", &pages.display().to_string()]).stdout), "");
    let written: BTreeSet<String> = std::fs::read_dir(&pages)
        .expect("the folder is made")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let page = |path: &[String]| format!("{}.1", [&["wrs-emulator".to_owned()], path].concat().join("-"));
    let commands = all_help();
    assert_eq!(written, commands.iter().map(|(path, _)| page(path)).collect::<BTreeSet<_>>());
    for (path, _) in &commands {
        let content = std::fs::read_to_string(pages.join(page(path))).expect("a page");
        let bold = format!("\\fBwrs\\-emulator{}\\fR", path.iter().map(|name| format!(" {name}")).collect::<String>());
        assert!(content.contains("\n.SH SYNOPSIS\n") && content.contains(&bold), "{path:?}\n{content}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("the file is written");
    let refused = wrs_emulator(&["man", "--dir", &file.display().to_string()]).output().expect("the binary runs");
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("--dir"), "{refused:?}");
}

/// Rewrites the pages instead of comparing them.
const REWRITE: &str = "WRS_REWRITE_HELP";

#[test]
fn the_help_of_every_command_is_the_page_that_was_agreed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help");
    let rewrite = std::env::var_os(REWRITE).is_some();
    let mut pages = BTreeSet::new();
    for (path, said) in all_help() {
        let page = format!("{}.txt", [&["wrs-emulator".to_owned()], &path[..]].concat().join("-"));
        assert!(said.contains("\nExamples:\n  wrs-emulator"), "{page} has no examples");
        let file = format!("{folder}/{page}");
        if rewrite {
            std::fs::write(&file, &said).expect("the page is written");
        }
        let agreed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            agreed == said,
            "{page} is not what `--help` says; if that is meant, run the tests with {REWRITE}=1\n{said}"
        );
        pages.insert(page);
    }
    let kept: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(kept, pages, "each page belongs to a command");
}
