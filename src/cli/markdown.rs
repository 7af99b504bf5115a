//! The verdict as Markdown, for the summary of a CI job. Nothing that a client sent is markup in it.

use super::output::cell;
use super::problems::{Kind, Verdict};

/// Most lines shown of each kind.
const MOST_LINES: usize = 20;

/// The whole document.
pub(super) fn markdown(verdict: &Verdict) -> String {
    let judged: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| verdict.judges(*kind)).collect();
    let (mark, word) = match (verdict.fails(), judged.iter().any(|kind| verdict.count(*kind) > 0)) {
        (true, _) => ("❌", "failed"),
        (false, true) => ("⚠️", "problems were found, none of them named by --fail-on"),
        (false, false) => ("✅", "no problem was found"),
    };
    let mut text = format!("### {mark} Verdict: {word}\n\n");
    for kind in judged {
        let mark = if verdict.count(kind) == 0 { "✅" } else { "❌" };
        text.push_str(&format!("- {mark} **{}**: {}\n", kind.name(), inert(&kind.sentence(verdict.count(kind)))));
        let lines = verdict.lines(kind);
        text.extend(lines.iter().take(MOST_LINES).map(|line| format!("  - {}\n", inert(line))));
        let more = lines.len().saturating_sub(MOST_LINES);
        if more > 0 {
            text.push_str(&format!("  - … and {more} more\n"));
        }
    }
    for note in verdict.notes() {
        text.push_str(&format!("\n{}\n", inert(&note)));
    }
    text
}

/// A text with all markup escaped, also for the cell of a table.
pub(super) fn inert(text: &str) -> String {
    let mut escaped = String::new();
    for c in cell(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '!' => escaped.extend(['\\', c]),
            // A bare address would become a link.
            ':' => escaped.push_str("&#58;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::api::Verification;

    #[test]
    fn nothing_that_a_client_sent_is_markup() {
        let body = Verification::of("GET /<img src=x>|`**[a](b)` #1 https://a", 1, 0);
        for (fail_on, first) in [(&[Kind::Unmatched][..], "### ❌ Verdict: failed"), (&[], "### ⚠️ Verdict: problems")]
        {
            let text = markdown(&Verdict::new(body.clone(), fail_on));
            assert!(text.starts_with(first), "{text}");
            let line = text.lines().nth(3).expect("the request");
            assert_eq!(
                line, "  - req\\_1 GET /&lt;img src=x&gt;\\|\\`\\*\\*\\[a\\](b)\\` \\#1 https&#58;//a",
                "{text}"
            );
        }
        let none = markdown(&Verdict::new(Verification::default(), &[Kind::Unmatched]));
        assert!(none.starts_with("### ✅ Verdict: no problem was found\n\n- ✅ **unmatched**: "), "{none}");
    }
}
