//! Reports of checks: the verdict, findings and the probe. A report is a list of cases; here they become text,
//! or the `JUnit` XML that every CI system reads. Independent of the checks.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

use jiff::Timestamp;
use serde::Serialize;

use super::arguments::OutputFile;
use super::failure::{Failure, colored};
use super::output::{BOLD_RED, GREEN, YELLOW, cell, mark, painted, print_as_is, print_json};
use crate::clock::machine;
use crate::control::api::MAX_IN_TEXT;
use crate::redact::visible_lines;
use crate::util::wording::counted;

/// When the program began, which is when the check did.
static BEGAN: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (machine::wall_time(), machine::monotonic()));

/// Remembers when the program began.
pub(crate) fn begin() {
    LazyLock::force(&BEGAN);
}

pub(crate) struct RunReport {
    /// Its name in XML, after the program's: `verdict`.
    pub(crate) name: &'static str,
    pub(crate) cases: Vec<ReportCase>,
    /// Possible problems that fail nothing.
    pub(crate) warnings: Vec<String>,
    /// Why a report without problems may prove little; a summary.
    pub(crate) notes: Vec<String>,
    /// The command that lists the causes that a text leaves out.
    pub(crate) all_causes: String,
}

pub(crate) struct ReportCase {
    pub(crate) name: String,
    pub(crate) result: CaseResult,
    /// The result, or why it was not run.
    pub(crate) message: String,
    pub(crate) lines: Vec<String>,
    /// Why it failed; empty if the case says all.
    pub(crate) causes: Vec<ShownCause>,
    /// True if nothing failed it but the causes of a case before it.
    pub(crate) is_told: bool,
}

/// A cause as reports show it.
pub(crate) struct ShownCause {
    /// The names of the tests that failed for this reason, or else a name for the cause.
    pub(crate) names: Vec<String>,
    pub(crate) is_of_tests: bool,
    pub(crate) sentence: String,
    /// The remedy, the test or key, and the command that shows more.
    pub(crate) details: Vec<String>,
}

impl ShownCause {
    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let parts = std::iter::once(&self.sentence).chain(&self.details);
        parts.map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

#[derive(PartialEq)]
pub(crate) enum CaseResult {
    Passed,
    /// It was not run, or proves nothing.
    Skipped,
    /// It had nothing to judge, which is worth a line.
    Idle,
    /// With the kind of the problem.
    Failed(String),
}

/// A case in a table, whose lines are its particulars.
pub(crate) struct ReportRow {
    pub(crate) outcome: String,
    pub(crate) shown: String,
    /// The result in words, when the details of several cases are shown as one.
    pub(crate) done: String,
    /// The change to make; failed rows of one outcome and one remedy have one cause, and are shown as one.
    pub(crate) remedy: Option<String>,
    pub(crate) case: ReportCase,
}

/// A report for people with a table of its cases.
pub(crate) struct TableReport {
    pub(crate) rows: Vec<ReportRow>,
    /// The text before the table, and after the particulars.
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) summary: String,
    /// Its form in XML, with cases and notes that are not in the table.
    pub(crate) report: RunReport,
}

impl ReportCase {
    pub(crate) fn passed(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            result: CaseResult::Passed,
            message: String::new(),
            lines: Vec::new(),
            causes: Vec::new(),
            is_told: false,
        }
    }

    pub(crate) fn skipped(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { result: CaseResult::Skipped, message: why.into(), ..Self::passed(name) }
    }

    pub(crate) fn idle(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { result: CaseResult::Idle, message: why.into(), ..Self::passed(name) }
    }

    /// The kind of the problem, and its description; the lines show it.
    pub(crate) fn failed(
        name: impl Into<String>,
        kind: impl Into<String>,
        message: impl Into<String>,
        lines: Vec<String>,
    ) -> Self {
        Self { result: CaseResult::Failed(kind.into()), message: message.into(), lines, ..Self::passed(name) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.result, CaseResult::Failed(_))
    }
}

impl RunReport {
    pub(crate) fn empty(name: &'static str) -> Self {
        Self { name, cases: Vec::new(), warnings: Vec::new(), notes: Vec::new(), all_causes: String::new() }
    }

    /// How many causes a text leaves out of so many, and what lists them; nothing if it has all.
    pub(crate) fn more_causes(&self, count: usize) -> Option<String> {
        let more = count.checked_sub(MAX_IN_TEXT).filter(|more| *more > 0)?;
        Some(format!("… and {}; {}", counted(more, "more cause"), self.all_causes))
    }

    /// The cases that were run.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &ReportCase> {
        self.cases.iter().filter(|case| case.result != CaseResult::Skipped)
    }

    /// A line for each case that was run, with its lines below it; then the notes.
    pub(crate) fn text(&self, colors: bool) -> String {
        let (mut text, mut count) = (String::new(), 0);
        for case in self.judged() {
            let mark = match case.result {
                CaseResult::Idle => "·".to_owned(),
                _ => mark(!case.has_failed(), colors),
            };
            text.push_str(&format!("{mark} {}: {}\n", cell(&case.name), cell(&case.message)));
            for cause in case.causes.iter().take(MAX_IN_TEXT.saturating_sub(count)) {
                text.push_str(&format!("    {}\n", cell(&cause.sentence)));
                text.extend(cause.details.iter().map(|line| format!("        {}\n", cell(line))));
            }
            count += case.causes.len();
            text.extend(case.lines.iter().map(|line| format!("    {}\n", cell(line))));
        }
        text.extend(self.more_causes(count).map(|more| format!("{}\n", cell(more))));
        let warning = painted(YELLOW, '!', colors);
        text.extend(self.warnings.iter().map(|line| format!("{warning} {}\n", cell(line))));
        text.extend(self.notes.iter().map(|note| format!("note: {}\n", cell(note))));
        text
    }

    /// A test case for each case, or of one that failed for each test that failed, and for each other cause.
    pub(crate) fn junit(&self) -> String {
        let name = self.name;
        let (mut cases, mut tests, mut failures, mut skipped) = (String::new(), 0, 0, 0);
        let mut add = |class: &str, case_name: &str, inner: &str| {
            tests += 1;
            let (class, case_name) = (escaped(class), escaped(case_name));
            cases.push_str(&format!(
                "    <testcase classname=\"wrs-emulator.{name}{class}\" name=\"{case_name}\" time=\"0\">\n{inner}    </testcase>\n"
            ));
        };
        let failure = |kind: &str, message: &str, lines: &[String]| {
            let lines: String = lines.iter().map(|line| format!("\n{}", escaped(line))).collect();
            let (kind, message) = (escaped(kind), escaped(message));
            format!("      <failure type=\"{kind}\" message=\"{message}\">{lines}\n      </failure>\n")
        };
        for case in &self.cases {
            match &case.result {
                CaseResult::Passed => add("", &case.name, ""),
                CaseResult::Skipped | CaseResult::Idle => {
                    skipped += 1;
                    add("", &case.name, &format!("      <skipped>{}</skipped>\n", escaped(&case.message)));
                }
                CaseResult::Failed(kind) if case.causes.is_empty() => {
                    failures += 1;
                    add("", &case.name, &failure(kind, &case.message, &case.lines));
                }
                CaseResult::Failed(kind) => {
                    let class = format!(".{}", case.name);
                    // Readers merge cases of the same name.
                    let mut known: HashMap<&str, usize> = HashMap::new();
                    for cause in &case.causes {
                        let inner = failure(kind, &cause.sentence, &cause.details);
                        for case_name in &cause.names {
                            failures += 1;
                            let count = known.entry(case_name).or_default();
                            *count += 1;
                            let number = if *count > 1 { format!(" ({count})") } else { String::new() };
                            add(&class, &format!("{case_name}{number}"), &inner);
                        }
                    }
                }
            }
        }
        let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\"");
        let (at, began) = *BEGAN;
        let time = format!("time=\"{:.3}\"", began.elapsed().as_secs_f64());
        // Without a zone, as the schemas of some readers demand; it is UTC.
        let at = at.strftime("%Y-%m-%dT%H:%M:%S");
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts} {time}>\n  <testsuite name=\"wrs-emulator {name}\" {counts} skipped=\"{skipped}\" {time} timestamp=\"{at}\">\n{cases}"
        );
        let notes = self.warnings.iter().chain(&self.notes).map(String::as_str).collect::<Vec<_>>().join("\n");
        if !notes.is_empty() {
            text.push_str(&format!("    <system-out>{}</system-out>\n", escaped(&notes)));
        }
        text + "  </testsuite>\n</testsuites>\n"
    }
}

impl TableReport {
    fn text(&self, colors: bool) -> String {
        let width = |of: fn(&ReportRow) -> &str| self.rows.iter().map(|row| of(row).len()).max().unwrap_or_default();
        let outcomes = width(|row| &row.outcome);
        let names = width(|row| &row.case.name);
        let outcome = |row: &ReportRow, width: usize| {
            let color = match row.case.result {
                CaseResult::Passed => GREEN,
                CaseResult::Skipped | CaseResult::Idle => YELLOW,
                CaseResult::Failed(_) => BOLD_RED,
            };
            painted(color, format!("{:width$}", row.outcome), colors)
        };
        let mut text = self.before.clone();
        for row in &self.rows {
            text.push_str(&format!("{}  {:names$}  {}\n", outcome(row, outcomes), row.case.name, cell(&row.shown)));
        }
        let mut causes: Vec<Vec<&ReportRow>> = Vec::new();
        for row in self.rows.iter().filter(|row| matches!(row.case.result, CaseResult::Failed(_))) {
            let is_cause = |of: &&mut Vec<&ReportRow>| {
                row.remedy.is_some() && (&of[0].outcome, &of[0].remedy) == (&row.outcome, &row.remedy)
            };
            match causes.iter_mut().find(is_cause) {
                Some(cause) => cause.push(row),
                None => causes.push(vec![row]),
            }
        }
        for rows in causes {
            if let [row] = rows[..] {
                text.push_str(&format!("\n{}: {}\n", row.case.name, outcome(row, 0)));
                text.extend(row.case.lines.iter().map(|line| format!("  {}\n", cell(line))));
                continue;
            }
            text.push_str(&format!("\n{}: {}\n", counted(rows.len(), "case"), outcome(rows[0], 0)));
            let lines = rows.iter().map(|row| format!("  {:names$}  {}\n", row.case.name, cell(&row.done)));
            text.extend(lines);
            text.extend(rows[0].remedy.iter().map(|remedy| format!("  {:names$}  {}\n", "remedy", cell(remedy))));
        }
        format!("{text}{}\n{}\n", self.after, self.summary)
    }

    /// Prints the report, or its data as JSON, and writes the XML of `--junit`.
    pub(crate) fn publish(self, as_json: Option<&impl Serialize>, results: Option<&OutputFile>) -> Result<(), Failure> {
        match as_json {
            Some(made_from) => print_json(made_from),
            None => print_as_is(&self.text(colored(&std::io::stdout()))),
        }
        let Some(file) = results else { return Ok(()) };
        let Self { mut report, rows, summary, .. } = self;
        report.cases.extend(rows.into_iter().map(|row| row.case));
        report.notes.push(summary);
        file.write_shared(report.junit())
    }
}

/// A text for XML. XML 1.0 forbids most control characters, even escaped; they are spelled out as `\u{…}`, so that nothing a client sent
/// can break the file.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible_lines(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // The two non-characters of the basic plane are forbidden as well.
            '\u{fffe}' | '\u{ffff}' => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sent: &str) -> RunReport {
        let case = ReportCase::failed(sent, "a", sent, vec![sent.to_owned()]);
        RunReport { cases: vec![case], notes: vec![sent.to_owned()], ..RunReport::empty("verdict") }
    }

    #[test]
    fn whatever_a_client_sent_is_valid_xml() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{fffe}\u{ffff}\u{1f600}]]>".chars()).collect();
        for sent in ["plain", "<a href=\"x\">&amp;'</a>", "]]><!-- ", &all] {
            let text = report(sent).junit();
            let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a failure");
            if sent != all {
                assert_eq!(
                    (failure.attribute("message"), failure.text().map(str::trim)),
                    (Some(sent), Some(sent.trim()))
                );
            }
        }
    }
}
