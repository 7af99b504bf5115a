//! Every diagnostic of a scenario file, word for word: each file under `tests/scenarios` has its problems next to it. How one is
//! rendered is tested in `src/diagnostic.rs`.

use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use wrs_emulator::diagnostic::{CODES, Diagnostic};
use wrs_emulator::scenario::check_text;

use crate::support::assert_in_step;

/// Codes that no text alone can cause; tests of folders, presets and lists of scenarios cause them.
const NOT_OF_A_TEXT: [&str; 6] = [
    "profile/syntax",
    "profile/unknown-preset",
    "scenario/active-missing",
    "scenario/bad-name",
    "scenario/hidden",
    "scenario/unknown-scenario",
];

fn paths() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let entries = read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort();
    paths
}

/// A problem in two lines: line, first and last column, severity, code and message; then the hint, if there is one.
fn listed(problem: &Diagnostic, text: &str) -> String {
    let Diagnostic { code, message, line, column, hint, .. } = problem;
    let marked = text[problem.span.clone()].lines().next().map_or(0, |marked| marked.chars().count());
    let last = column + marked.saturating_sub(1);
    let severity = if problem.is_error() { "error" } else { "warning" };
    let hint = if hint.is_empty() { String::new() } else { format!("    {hint}\n") };
    format!("{line}:{column}-{last} {severity}[{code}]: {message}\n{hint}")
}

/// Run with `UPDATE_EXPECTED=1` to write the texts again.
#[test]
fn files_have_the_problems_in_the_text_beside_them() {
    let mut all = String::new();
    for path in paths() {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("the name is UTF-8");
        let text = read_to_string(&path).expect("it can be read");
        let (scenario, problems) = check_text(name, &text);
        assert_eq!(scenario.is_none(), problems.iter().any(Diagnostic::is_error), "{name}");
        let rendered: String = problems.iter().map(|problem| listed(problem, &text)).collect();
        assert_in_step(path.with_extension("txt"), &rendered);
        all += &rendered;
    }
    for (code, _) in CODES.iter().filter(|(code, _)| !code.starts_with("file/") && !NOT_OF_A_TEXT.contains(code)) {
        assert!(all.contains(&format!("[{code}]")), "no file has the problem {code}");
    }
}

#[test]
fn a_hundred_problems_of_a_file_are_reported_and_the_others_counted() {
    let text: String = (0..500).map(|at| format!("key{at} = 1\n")).collect();
    let (_, problems) = check_text("many", &text);
    assert_eq!(problems.len(), 100);
    assert!(problems[99].hint.contains("400 further problems"), "{}", problems[99].hint);
}
