//! Results as `JUnit` XML, which every CI system reads: one suite of test cases. Must not know what was tested.
//!
//! XML 1.0 forbids most control characters, even escaped. They are spelled out as `\u{…}`, so that nothing a client sent can
//! break the file.

/// A suite of test cases.
pub(super) struct Suite {
    /// Its name, after the program's: `verdict`.
    pub(super) name: &'static str,
    /// The test cases, in their order.
    pub(super) cases: Vec<TestCase>,
    /// Notes on the test cases.
    pub(super) notes: Vec<String>,
}

/// A test case of a suite.
pub(super) struct TestCase {
    /// Its name.
    pub(super) name: String,
    /// How it ended.
    pub(super) result: TestResult,
}

/// How a test case ended.
pub(super) enum TestResult {
    /// Nothing was found.
    Passed,
    /// It was not run, or proves nothing; why.
    Skipped(String),
    /// Something was found.
    Failed {
        /// A stable name.
        kind: String,
        /// One sentence.
        message: String,
        /// The particulars.
        lines: Vec<String>,
    },
}

/// The whole document.
pub(super) fn junit(suite: &Suite) -> String {
    let count =
        |is_counted: fn(&TestResult) -> bool| suite.cases.iter().filter(|case| is_counted(&case.result)).count();
    let failures = count(|result| matches!(result, TestResult::Failed { .. }));
    let skipped = count(|result| matches!(result, TestResult::Skipped(_)));
    let (name, tests) = (suite.name, suite.cases.len());
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\"");
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"wrs-emulator {name}\" {counts} skipped=\"{skipped}\">\n"
    );
    for case in &suite.cases {
        let open = format!("    <testcase classname=\"wrs-emulator.{name}\" name=\"{}\"", escaped(&case.name));
        match &case.result {
            TestResult::Passed => text.push_str(&format!("{open}/>\n")),
            TestResult::Skipped(why) => {
                let why = escaped(why);
                text.push_str(&format!("{open}>\n      <skipped>{why}</skipped>\n    </testcase>\n"));
            }
            TestResult::Failed { kind, message, lines } => {
                let lines: String = lines.iter().map(|line| format!("\n{}", escaped(line))).collect();
                text.push_str(&format!(
                    "{open}>\n      <failure type=\"{}\" message=\"{}\">{lines}\n      </failure>\n    </testcase>\n",
                    escaped(kind),
                    escaped(message)
                ));
            }
        }
    }
    let notes = suite.notes.join("\n");
    if !notes.is_empty() {
        text.push_str(&format!("    <system-out>{}</system-out>\n", escaped(&notes)));
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Escapes text for an attribute or an element.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push(c),
            // The two non-characters of the basic plane are forbidden as well.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::problems::{Kind, Verdict};
    use super::*;
    use crate::control::api::{Unfinished, UnfinishedPart, Verification};

    fn suite(message: &str, fail_on: &[Kind]) -> Suite {
        let mut body = Verification::of(message, 1, 1);
        let what = UnfinishedPart::Rule { rule: "1".to_owned(), applied: 0, turns: 1, left: 1 };
        body.unfinished =
            vec![Unfinished { scenario: "mine".to_owned(), what, workspace: None, message: "rule".to_owned() }];
        body.forgotten_entries = 2;
        Verdict::new(body, fail_on).suite()
    }

    /// The attribute of a test case's only child element, and that element's text.
    fn outcome(document: &roxmltree::Document<'_>, kind: &str) -> Option<(String, String)> {
        let case = document
            .descendants()
            .find(|node| node.has_tag_name("testcase") && node.attribute("name") == Some(kind))
            .expect("a test case of each kind");
        let child = case.children().find(roxmltree::Node::is_element)?;
        Some((child.tag_name().name().to_owned(), child.text().unwrap_or_default().trim().to_owned()))
    }

    #[test]
    fn whatever_a_client_sent_is_valid_xml() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{fffe}\u{ffff}\u{1f600}]]>".chars()).collect();
        for message in ["plain", "<a href=\"x\">&amp;'</a>", "]]><!-- ", &all] {
            let text = junit(&suite(message, &[]));
            let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let (tag, said) = outcome(&document, "unmatched").expect("a failure");
            assert_eq!(tag, "failure");
            if !message.chars().any(char::is_control) {
                assert_eq!(said, format!("req_1 {message}").trim());
            }
        }
    }

    #[test]
    fn kinds_fail_pass_or_are_skipped() {
        const SKIPPED: Option<&str> = Some("skipped");
        for (fail_on, expected, counts) in [
            (&[][..], [Some("failure"), None, None, Some("failure"), SKIPPED, None], ["2", "1"]),
            (&[Kind::Unmatched], [Some("failure"), SKIPPED, SKIPPED, SKIPPED, SKIPPED, SKIPPED], ["1", "5"]),
            (&[Kind::Undelivered], [SKIPPED, None, SKIPPED, SKIPPED, SKIPPED, SKIPPED], ["0", "5"]),
        ] {
            let text = junit(&suite("x", fail_on));
            let document = roxmltree::Document::parse(&text).expect("XML");
            let found = Kind::ALL.map(|kind| outcome(&document, &kind.name()).map(|(tag, _)| tag));
            assert_eq!(found.each_ref().map(Option::as_deref), expected, "{fail_on:?}");
            let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
            let counted = ["failures", "skipped"].map(|name| suite.attribute(name).expect("a count"));
            assert_eq!(counted, counts, "{fail_on:?}");
            assert_eq!(text.contains("2 entries were evicted"), fail_on != [Kind::Undelivered], "{fail_on:?}");
        }
    }
}
