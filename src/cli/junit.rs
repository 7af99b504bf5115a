//! Results as `JUnit` XML, which every CI system reads: one suite of test cases. Must not know what was tested.
//!
//! XML 1.0 forbids most control characters, even escaped. They are spelled out as `\u{…}`, so that nothing a client sent can
//! break the file.

pub(super) struct Suite {
    /// Its name, after the program's: `verdict`.
    pub(super) name: &'static str,
    pub(super) cases: Vec<TestCase>,
    pub(super) notes: Vec<String>,
}

pub(super) struct TestCase {
    pub(super) name: String,
    pub(super) result: TestResult,
}

pub(super) enum TestResult {
    Passed,
    /// It was not run, or proves nothing; why.
    Skipped(String),
    Failed {
        kind: String,
        message: String,
        lines: Vec<String>,
    },
}

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
    use super::*;

    #[test]
    fn whatever_a_client_sent_is_valid_xml() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{fffe}\u{ffff}\u{1f600}]]>".chars()).collect();
        for sent in ["plain", "<a href=\"x\">&amp;'</a>", "]]><!-- ", &all] {
            let failed = TestResult::Failed { kind: "a".into(), message: sent.into(), lines: vec![sent.into()] };
            let cases = vec![TestCase { name: sent.into(), result: failed }];
            let text = junit(&Suite { name: "verdict", cases, notes: vec![sent.into()] });
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
