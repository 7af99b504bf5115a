//! Automatic output of a verdict for CI systems: annotations and the summary of a job at GitHub, a section of the log at GitLab.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::failure::{is_json, warn};
use super::report::{ReportCase, RunReport, ShownCause};
use super::stream::Stream;
use crate::clock::machine;
use crate::control::api::MAX_IN_TEXT;
use crate::redact::visible_lines;
use crate::util::file;
use crate::util::wording::{counted, shorten};

/// Maximum characters of a test's name in the title of an annotation.
const MAX_TITLE: usize = 200;

/// Maximum lines of a verdict in the summary of a job, which GitHub limits to 1 MiB.
const MAX_LINES: usize = 200;

/// The CI system that runs this program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ci {
    /// With the file of the job's summary.
    GitHub(Option<PathBuf>),
    GitLab,
}

impl Ci {
    pub(super) fn from_environment() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if variable("GITHUB_ACTIONS").is_some_and(|value| value == "true") {
            return Some(Self::GitHub(variable("GITHUB_STEP_SUMMARY").map(PathBuf::from)));
        }
        variable("GITLAB_CI").map(|_| Self::GitLab)
    }

    /// Prints an annotation for each cause to stderr, because stdout may be piped to a program, and appends to the summary of the job.
    /// With `--json` there are no annotations, because stderr then carries only JSON.
    pub(super) fn publish(&self, report: &RunReport, fails: bool, kept: Option<&Path>) {
        let Self::GitHub(summary) = self else { return };
        if !is_json() {
            print_to_stderr(&annotations(report, if fails { "error" } else { "warning" }));
        }
        summarize(summary.as_deref(), summary_of("verdict", &report.text(false)), kept);
    }

    /// The same for a table, which is shown as it is, and one sentence about it.
    pub(super) fn publish_table(&self, sentence: &str, table: &str, fails: bool, kept: Option<&Path>) {
        let Self::GitHub(summary) = self else { return };
        if fails && !is_json() {
            print_to_stderr(&format!("::error title=wrs-emulator::{}\n", data(sentence)));
        }
        let mark = if fails { "✗" } else { "✓" };
        summarize(summary.as_deref(), summary_of("readings", &format!("{mark} {sentence}\n{table}")), kept);
    }

    /// The beginning and the end of a section of GitLab's log, open if it has to be read.
    pub(super) fn section(fails: bool) -> (String, String) {
        let (start, end) = ("\u{1b}[0Ksection_start", "\u{1b}[0Ksection_end");
        let (now, collapsed) = (machine::wall_time().as_second(), if fails { "" } else { "[collapsed=true]" });
        let clear = "\r\u{1b}[0K";
        (
            format!("{start}:{now}:wrs_emulator{collapsed}{clear}wrs-emulator: verdict\n"),
            format!("{end}:{now}:wrs_emulator{clear}\n"),
        )
    }
}

/// Appends a text to the summary of a job, and names the report.
fn summarize(summary: Option<&Path>, mut text: String, kept: Option<&Path>) {
    let Some(path) = summary else { return };
    if let Some(kept) = kept {
        let _ = write!(text, "\nThe whole run: `{}`\n", kept.display());
    }
    if let Err(problem) = file::append(path, text + "\n") {
        warn(&format!("the summary of the job cannot be written to `{}`: {problem}", path.display()));
    }
}

pub(super) fn print_to_stderr(text: &str) {
    Stream::Err.write(text);
}

/// The text as a block of code: indented, so that nothing that a client sent ends it.
fn summary_of(title: &str, text: &str) -> String {
    let mut summary = format!("### wrs-emulator: {title}\n\n");
    summary.extend(text.lines().take(MAX_LINES).map(|line| format!("    {line}\n")));
    let more = text.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        let _ = writeln!(summary, "\n… and {}", counted(more, "more line"));
    }
    summary
}

/// A workflow command of GitHub for each cause, named by the test that failed because of it.
fn annotations(report: &RunReport, level: &str) -> String {
    let mut found: Vec<(Cow<'_, str>, String)> = Vec::new();
    for case in report.judged().filter(|case| case.has_failed()) {
        if case.causes.is_empty() && !case.is_told {
            found.push((case.name.as_str().into(), case.message.clone()));
        }
        found.extend(case.causes.iter().map(|cause| (title(case, cause), cause.line())));
    }
    let more = report.more_causes(found.len());
    found.truncate(MAX_IN_TEXT);
    // GitHub shows no further annotation.
    if let (Some((_, message)), Some(more)) = (found.last_mut(), more) {
        message.push_str(&format!("\n{more}"));
    }
    let line = |(title, message): &(Cow<'_, str>, String)| {
        let (title, message) = (property(&visible_lines(title)), data(&visible_lines(message)));
        format!("::{level} title=wrs-emulator%3A {title}::{message}\n")
    };
    found.iter().map(line).collect()
}

/// The tests that failed because of a cause, or else the kind of problem.
fn title<'a>(case: &'a ReportCase, cause: &'a ShownCause) -> Cow<'a, str> {
    match cause.names.as_slice() {
        [name] if cause.is_of_tests => shorten(name, MAX_TITLE),
        [name, more @ ..] if cause.is_of_tests => {
            format!("{} and {}", shorten(name, MAX_TITLE), counted(more.len(), "more test")).into()
        }
        _ => case.name.as_str().into(),
    }
}

/// A message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Audience;

    fn report(messages: &[&str]) -> RunReport {
        let cause = |message: &&str| ShownCause {
            names: vec!["a".to_owned()],
            is_of_tests: false,
            sentence: (*message).to_owned(),
            details: vec!["2 times; first req_1".to_owned()],
        };
        let causes = messages.iter().map(cause).collect();
        let failed = ReportCase { causes, ..ReportCase::failed("a:b,c", "kind", "message", Vec::new()) };
        RunReport { cases: vec![ReportCase::passed("fine"), failed], ..RunReport::empty("verdict") }
    }

    #[test]
    fn a_message_of_a_client_stays_within_its_annotation() {
        let expected =
            "::error title=wrs-emulator%3A a%3Ab%2Cc::/%25zz%0A\\u{3a}:set-output a:b; 2 times; first req_1\n";
        assert_eq!(annotations(&report(&["/%zz\n::set-output a:b"]), "error"), expected);
    }

    #[test]
    fn nothing_that_a_client_sent_is_markup() {
        let summary = summary_of("verdict", &report(&["```\n<b>"]).text(false));
        let lines: Vec<&str> = summary.lines().collect();
        assert!(lines.len() > 2 && lines[0].starts_with("### ") && lines[1].is_empty(), "{summary}");
        assert!(lines[2..].iter().all(|line| line.starts_with("    ")), "{summary}");
        let long = summary_of("verdict", &"x\n".repeat(MAX_LINES + 2));
        assert_eq!((long.lines().count(), long.lines().last()), (MAX_LINES + 4, Some("… and 2 more lines")));
    }

    #[test]
    fn ten_causes_are_shown_and_the_others_counted_with_the_command_that_lists_them() {
        let messages: Vec<String> = (0..213).map(|number| format!("cause {number}")).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        let more = "… and 203 more causes; `wrs-emulator verdict --json --from run.json` lists them\n";
        let all_causes = Audience::File("run.json".to_owned()).all_causes(None);
        let report = RunReport { all_causes, ..report(&messages) };
        let lines = annotations(&report, "warning");
        assert_eq!(lines.lines().count(), MAX_IN_TEXT);
        assert!(lines.ends_with(&format!("::cause 9; 2 times; first req_1%0A{more}")), "{lines}");
        let text = report.text(false);
        assert!(text.contains("    cause 9\n") && !text.contains("cause 10") && text.ends_with(more), "{text}");
    }

    #[test]
    fn an_annotation_is_named_by_its_test() {
        let cause = |names: &[&str], is_of_tests| ShownCause {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            is_of_tests,
            sentence: String::new(),
            details: Vec::new(),
        };
        let case = ReportCase::failed("tests", "tests", "", Vec::new());
        for (names, is_of_tests, expected) in [
            (&["test_a.py::test_one"][..], true, "test_a.py::test_one"),
            (&["one", "two", "three"], true, "one and 2 more tests"),
            (&["GET /v1/helo"], false, "tests"),
        ] {
            assert_eq!(title(&case, &cause(names, is_of_tests)), expected);
        }
    }
}
