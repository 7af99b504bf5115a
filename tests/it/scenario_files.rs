//! What happens to scenario files that cannot be played: nothing is ignored silently, and commands about them name the way out.

use std::path::Path;

use serde_json::Value;

use crate::process::Served;
use crate::program::Program;
use crate::support::{Outcome, finish, run, text, wrs_emulator};

const GOOD: &str = "[[rule]]\nwhen = { operation = 'hello' }\nreply = { status = 503, code = 'one', message = 'm' }\n";
const BROKEN: &str = "[[rule]]\nwhen = { operaton = \"hello\" }\npass = true\n";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the file is written");
}

/// A folder with a good scenario and entries that are not read.
fn mixed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "story.toml", GOOD);
    for name in ["a.yaml", "b.yml", "c.json", "D.TOML", "e.tml", "f.toml.txt"] {
        write(folder.path(), name, GOOD);
    }
    // What is in the folder for other reasons.
    for name in ["notes.txt", "scenario.schema.json", ".hidden.yaml"] {
        write(folder.path(), name, "");
    }
    for name in ["more", ".git"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    folder
}

const IGNORED: [&str; 7] = ["a.yaml", "b.yml", "c.json", "D.TOML", "e.tml", "f.toml.txt", "more"];

fn lines_about<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.contains(&format!("/{name}"))).collect()
}

fn code(output: &Outcome) -> Option<i32> {
    output.status.code()
}

#[test]
fn curly_quotes_and_files_of_comments_are_named_by_check() {
    let folder = tempfile::tempdir().expect("a folder");
    for (text, expected) in [
        (
            "title = “mine”\n",
            "error[scenario/syntax]: `“` is not a quote in TOML\n --> mine.toml:1:9\n  |\n1 | title = “mine”\n  |         \
             ^^^^^^\n  hint: write strings in straight quotes: \"…\" or '…'\n\n",
        ),
        (
            "# mine\n",
            "error[scenario/no-effect]: the file has nothing but comments\n --> mine.toml:1:1\n  |\n1 | # mine\n  | ^\n  \
             hint: `wrs-emulator scenarios new NAME` writes one to begin with\n\n",
        ),
    ] {
        std::fs::write(folder.path().join("mine.toml"), text).expect("the file is written");
        let check = Program::new(&["check", "mine.toml"]).within(folder.path()).status(1);
        check.stdout("1 file, 1 error, 0 warnings\n").stderr(expected).run();
    }
}

#[test]
fn files_that_are_not_read_are_named_by_check_by_the_list_and_in_the_log() {
    let folder = mixed();
    let path = folder.path().display().to_string();
    let checked = run(&["check", &path]);
    assert_eq!((code(&checked), text(&checked.stdout).as_str()), (Some(0), "1 file, 0 errors, 7 warnings\n"));
    let as_json = run(&["check", "--json", &path]);
    let as_json: Value = serde_json::from_slice(&as_json.stdout).expect("JSON");
    let found = as_json["diagnostics"].as_array().expect("a list");
    assert!(found.len() == 7 && found.iter().all(|found| found["code"] == "file/ignored"), "{as_json}");
    let served = Served::start(&["--scenarios", &path]);
    let listed = text(&served.call(&["scenarios", "list"]).stdout);
    let warned = text(&checked.stderr);
    for name in IGNORED {
        assert_eq!(lines_about(&warned, name).len(), 1, "{name}: {warned}");
        assert_eq!(lines_about(&listed, name).len(), 1, "{name}: {listed}");
    }
    for name in ["notes", "schema", "hidden", ".git"] {
        assert!(!warned.contains(name) && !listed.contains(name), "{name}: {warned}{listed}");
    }
    // One that comes later is logged when it is seen, and nothing else again.
    write(folder.path(), "late.yaml", GOOD);
    let reloaded = served.call(&["scenarios", "reload"]);
    assert_eq!((code(&reloaded), text(&reloaded.stdout).starts_with("1 file read")), (Some(0), true), "{reloaded:?}");
    assert!(text(&reloaded.stdout).contains("late.yaml"), "{reloaded:?}");
    let (_, log) = served.stop();
    for name in IGNORED.into_iter().chain(["late.yaml"]) {
        let lines = lines_about(&log, name);
        assert!(lines.len() == 1 && lines[0].contains("not read"), "{name}: {log}");
    }
}

#[test]
fn a_scenario_whose_file_is_broken_now_says_what_plays() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "story.toml", GOOD);
    let path = folder.path().display().to_string();
    let served = Served::start(&["--scenarios", &path, "--quiet"]);
    write(folder.path(), "story.toml", BROKEN);
    write(folder.path(), "never.toml", BROKEN);
    let used = served.call(&["scenarios", "use", "story"]);
    assert_eq!(code(&used), Some(0), "{used:?}");
    let warning = text(&used.stdout);
    assert!(
        warning.contains("its last valid version stays active") && warning.contains("story.toml:2:10"),
        "{warning}"
    );
    let refused = served.call(&["scenarios", "use", "never"]);
    let why = text(&refused.stderr);
    assert_eq!(code(&refused), Some(2), "{refused:?}");
    assert!(why.contains("never.toml:2:10") && why.contains("no earlier version of it was valid"), "{why}");
    let answer = served.json(&["scenarios", "use", "story", "--json"]);
    assert_eq!(answer["diagnostics"][0]["severity"], "warning", "{answer}");
    write(folder.path(), "story.toml", GOOD);
    let used = served.call(&["scenarios", "use", "story"]);
    assert_eq!((code(&used), text(&used.stderr).as_str()), (Some(0), ""), "{used:?}");
}

#[test]
fn scenarios_are_named_as_people_name_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["story.toml", "other.toml"] {
        write(folder.path(), name, GOOD);
    }
    let path = folder.path().display().to_string();
    let served = Served::start(&["--scenarios", &path, "--quiet"]);
    for (named, expected) in [
        (&["story,other"][..], "active: story, other"),
        (&["other", "story"], "active: other, story"),
        (&["scenarios/story.toml"], "active: story"),
        (&["./scenarios/other.toml,story.toml"], "active: other, story"),
    ] {
        let used = served.call(&[&["scenarios", "use"], named].concat());
        assert!(text(&used.stdout).starts_with(&format!("{expected}\n")), "{named:?}: {used:?}");
    }
    assert_eq!(text(&served.call(&["scenarios", "show", "scenarios/story.toml"]).stdout), GOOD);
}

#[test]
fn a_new_scenario_has_a_name_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let new = |name: &str| {
        let output = finish(wrs_emulator(&["scenarios", "new", name]).current_dir(folder.path()));
        (code(&output), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(new("foo").1, "scenarios/foo.toml\n");
    let (code, _, why) = new("foo");
    assert_eq!(code, Some(2));
    assert!(why.contains("`scenarios/foo.toml` exists already") && why.contains("hint: edit it"), "{why}");
    for name in ["bar.toml", "scenarios/bar.toml", "bar.yaml"] {
        let (code, _, why) = new(name);
        assert_eq!(code, Some(2), "{why}");
        assert!(why.contains("without an ending") && why.contains("`wrs-emulator scenarios new bar`"), "{why}");
    }
    assert_eq!(std::fs::read_dir(folder.path().join("scenarios")).expect("it is there").count(), 1);
}

#[test]
fn a_folder_that_is_gone_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("scenarios");
    std::fs::create_dir(&inside).expect("a folder");
    write(&inside, "story.toml", GOOD);
    write(&inside, "other.toml", GOOD);
    // The default folder, and a named one.
    for flags in [&[][..], &["--scenarios", "scenarios"]] {
        let mut command = wrs_emulator(&[&["serve", "--listen", "127.0.0.1:0"], flags].concat());
        let served = Served::spawn(command.current_dir(folder.path()));
        assert_eq!(code(&served.call(&["scenarios", "use", "story"])), Some(0));
        let away = folder.path().join("away");
        std::fs::rename(&inside, &away).expect("it is moved away");
        let reloaded = served.call(&["scenarios", "reload"]);
        // Where the folder was asked for, its absence is an error.
        assert_eq!(code(&reloaded), Some(if flags.is_empty() { 0 } else { 2 }), "{reloaded:?}");
        served.call(&["scenarios", "list"]).prints(&["scenarios: the folder "]);
        let (_, log) = served.stop();
        let reported: Vec<_> = log.lines().filter(|line| line.contains(" scenarios: the folder ")).collect();
        assert_eq!(reported.len(), 1, "{log}");
        std::fs::rename(&away, &inside).expect("it is moved back");
    }
}

#[test]
fn exec_warns_of_a_broken_file_in_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "broken.toml", BROKEN);
    let path = folder.path().display().to_string();
    let exec = |flags: &[&str]| run(&[&["exec", "--scenarios", &path], flags, &["--", "true"]].concat());
    let plain = exec(&[]).exits(0);
    assert_eq!(text(&plain.stdout), "", "{plain:?}");
    let warned = text(&plain.stderr);
    assert!(
        warned.starts_with("warning: scenario `broken` is broken") && warned.contains("broken.toml:2:10"),
        "{warned}"
    );
    assert_eq!(warned.matches("warning:").count(), 1, "{warned}");
    assert!(!warned.contains("more error"), "{warned}");
    let verbose = text(&exec(&["--verbose"]).stderr);
    assert_eq!(verbose.matches("broken.toml:2:10").count(), 1, "the log has it: {verbose}");
    assert_eq!(text(&exec(&["--quiet"]).stderr), "");
    write(folder.path(), "broken.toml", "[[rule]]\ntims = 1\nrepl = 2\nwen = 3\n");
    let several = text(&exec(&[]).stderr);
    assert!(several.contains(" (and ") && several.contains(" more errors)"), "{several}");
}

#[test]
fn a_format_of_the_verdict_asks_for_the_verdict() {
    for (format, begin) in [("junit", "<?xml "), ("json", "{\n"), ("text", "· unmatched")] {
        let output = run(&["exec", "--verdict-format", format, "--", "true"]).exits(0);
        assert!(text(&output.stderr).starts_with(begin), "{format}: {output:?}");
    }
    let plain = run(&["exec", "--", "true"]);
    assert!(!text(&plain.stderr).contains("unmatched"), "nothing was asked for: {plain:?}");
}
