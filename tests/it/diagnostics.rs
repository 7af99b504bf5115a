//! Every diagnostic of a scenario file, word for word: each file under `tests/scenarios` has its rendered problems beside it.

use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use wrs_emulator::diagnostic::{CODES, Diagnostic, render_all};
use wrs_emulator::scenario::check_text;

/// Codes that no text alone can cause; tests of folders, presets and lists of scenarios cause them.
const NOT_OF_A_TEXT: [&str; 7] = [
    "profile/syntax",
    "profile/unknown-preset",
    "scenario/active-missing",
    "scenario/bad-name",
    "scenario/clash-rule",
    "scenario/clash-setting",
    "scenario/unknown-scenario",
];

fn paths() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let entries = read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    paths.sort();
    paths
}

/// Run with `UPDATE_EXPECTED=1` to write the texts again.
#[test]
fn files_have_the_problems_in_the_text_beside_them() {
    let mut all = String::new();
    for path in paths() {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("the name is UTF-8");
        let (scenario, problems) = check_text(name, &read_to_string(&path).expect("it can be read"));
        assert_eq!(scenario.is_none(), problems.iter().any(Diagnostic::is_error), "{name}");
        let problems: Vec<_> = problems.into_iter().map(|problem| problem.in_file(format!("{name}.toml"))).collect();
        let rendered = render_all(&problems, false);
        let beside = path.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(&beside, &rendered).expect("the file can be written");
        }
        assert_eq!(read_to_string(&beside).unwrap_or_default(), rendered, "{name}");
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
