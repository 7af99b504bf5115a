//! The messages of the TOML parser and of serde about a wrong value, in TOML's own terms, not Rust's.

use std::ops::Range;

/// A complaint of serde: expected before found, and no names of Rust's types.
pub(super) fn in_words(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: ", "invalid ", "unknown variant "];
    let rest = kinds.iter().find_map(|kind| message.strip_prefix(kind));
    // What was found may contain `, expected ` itself; what is expected never does.
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("expected {}, found {}", expected_words(expected), found_words(found)),
        None => message.to_owned(),
    }
}

fn expected_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i64" => "an integer",
        "a nonzero u32" => "an integer from 1",
        "f32" | "f64" => "a number",
        "a boolean" => "a boolean",
        "a string" | "string only" => "a string",
        "a sequence" => "an array",
        "a map" => "a table",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    }
}

fn found_words(found: &str) -> &str {
    let number = ["integer `", "floating point `", "boolean `"].into_iter().find_map(|kind| found.strip_prefix(kind));
    match found {
        "sequence" => "an array",
        "map" => "a table",
        "unit variant" => "something else",
        // A table may be written as a list of its values, which nobody means.
        found if found.starts_with("length ") => "an array",
        // The text is in its own quotes.
        _ => number.and_then(|rest| rest.strip_suffix('`')).or_else(|| found.strip_prefix("string ")).unwrap_or(found),
    }
}

/// The language that a text is most likely written in, if it is another one.
pub(crate) fn other_language(text: &str) -> Option<&'static str> {
    if text.trim_start().starts_with('{') {
        return Some("JSON");
    }
    let is_yaml = |line: &str| {
        let entry = line.trim_start_matches("- ");
        let (name, value) = entry.split_once(':').unwrap_or((" ", " "));
        let is_name = !name.is_empty() && !name.contains(['=', '"', '{', ' ']);
        line == "---" || (is_name && (value.is_empty() || value.starts_with(' '))) || line.starts_with("- ")
    };
    let meant = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let yaml = meant().filter(|line| is_yaml(line)).count();
    (yaml > 0 && 2 * yaml > meant().count()).then_some("YAML")
}

/// A syntax error in a text that is not TOML, and its place.
pub(crate) fn syntax_problem(text: &str, error: &toml::de::Error) -> (Range<usize>, String) {
    let span = error.span().unwrap_or(0..0);
    // Where a value is missing, the TOML parser finds an empty word without quotes.
    let before = text.get(..span.start).unwrap_or_default().trim_end_matches([' ', '\t']);
    if span.is_empty() && before.ends_with('=') && error.message().starts_with("string values must be quoted") {
        return (before.len() - 1..before.len(), "a value is missing after `=`".to_owned());
    }
    (span, error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Layered, SETTINGS};

    #[test]
    fn no_wrong_value_of_any_setting_is_reported_in_the_words_of_rust() {
        let mut refused = 0;
        for setting in SETTINGS {
            for value in ["-1", "1.5", "true", "[]", "[[1]]", "{}", "{ a = 1 }", "{ not_found = 1 }", "\"§ §\""] {
                let assignment = format!("{}={value}", setting.path);
                let Err(problem) = Layered::default().with_assignment(&assignment, "test") else { continue };
                refused += 1;
                let message = problem.message.split_once(": ").expect("the setting is named").1;
                for word in [
                    "u16", "u32", "u64", "i64", "f64", "struct", "sequence", " map", "invalid ", "enum", "nonzero",
                    "variant",
                ] {
                    assert!(!message.contains(word), "{assignment}: {message}");
                }
            }
        }
        assert!(refused > 200, "{refused} values were refused");
    }

    #[test]
    fn what_was_expected_comes_first() {
        for (said, words) in [
            ("invalid type: string \"abc\", expected u32", "expected an integer, found \"abc\""),
            ("invalid value: integer `5000000000`, expected u32", "expected an integer, found 5000000000"),
            (
                "invalid type: string \"a, expected b\", expected a boolean",
                "expected a boolean, found \"a, expected b\"",
            ),
            ("invalid type: map, expected a sequence", "expected an array, found a table"),
            ("unknown variant `a`, expected `b` or `c`", "expected `b` or `c`, found `a`"),
            ("a custom scheme needs a header", "a custom scheme needs a header"),
        ] {
            assert_eq!(in_words(said), words);
        }
    }
}
