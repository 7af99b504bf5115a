//! The content of a report without scripts, which a server may forbid: CI systems show files of a build under a policy such as
//! `default-src 'self'`. Plain elements, as `noscript` appears only where a browser runs no scripts at all.

use std::fmt::Write as _;

use crate::redact::visible;
use crate::util::wording::shorten;

/// The first sentence of a report, and its subject.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    pub sentence: String,
    /// The command and how it ended, if `exec` ran one.
    pub command: Option<String>,
    pub causes: Vec<PlainCause>,
    /// Commands that show more, with the report's file.
    pub commands: Vec<String>,
}

/// A cause, and lines about it.
#[derive(Clone, Debug, Default)]
pub struct PlainCause {
    pub sentence: String,
    pub lines: Vec<String>,
}

/// Maximum number of causes shown; a terminal shows the others.
const MAX_CAUSES: usize = 50;
/// Maximum characters of one text.
const MAX_TEXT: usize = 600;

impl Plain {
    /// As an element that the page's script removes.
    pub(super) fn html(&self) -> String {
        let mut html = format!("<div id=\"plain\" class=\"doc\">\n<h1>{}</h1>\n", escaped(&self.sentence));
        if let Some(command) = &self.command {
            let _ = writeln!(html, "<p>{}</p>", escaped(command));
        }
        if !self.causes.is_empty() {
            html.push_str("<ol>\n");
            for PlainCause { sentence, lines } in self.causes.iter().take(MAX_CAUSES) {
                let lines: String = lines.iter().map(|line| format!("<br>{}", escaped(line))).collect();
                let _ = writeln!(html, "<li>{}{lines}</li>", escaped(sentence));
            }
            html.push_str("</ol>\n");
        }
        let more = self.causes.len().saturating_sub(MAX_CAUSES);
        if more > 0 {
            let _ = writeln!(html, "<p>and {more} more</p>");
        }
        html.push_str("<p>The whole report needs its scripts, which do not run here. To see it, save this file and open it from the disk; or in a terminal:</p>\n<pre>\n");
        for command in &self.commands {
            let _ = writeln!(html, "{}", escaped(command));
        }
        html.push_str("</pre>\n</div>\n");
        html
    }
}

/// Text of others as text of HTML, on one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in shorten(&visible(text), MAX_TEXT).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_no_markup() {
        let hostile = "</div><script>alert(1)</script>&amp;\u{202e}\n".to_owned();
        let cause = PlainCause { sentence: hostile.clone(), lines: vec![hostile.clone()] };
        let plain = Plain {
            sentence: hostile.clone(),
            command: Some(hostile.clone()),
            causes: vec![cause; MAX_CAUSES + 2],
            commands: vec![hostile],
        };
        let html = plain.html();
        assert!(!html.contains("<script") && !html.contains('\u{202e}'), "{html}");
        assert_eq!((html.matches("</div>").count(), html.matches("<li>").count()), (1, MAX_CAUSES));
        let long = Plain { sentence: "é".repeat(MAX_TEXT + 1), ..Plain::default() }.html();
        assert!(long.contains(&format!("{}…</h1>", "é".repeat(MAX_TEXT))), "{long}");
        assert!(html.contains("<p>and 2 more</p>") && html.contains("&lt;/script&gt;&amp;amp;\\u{202e}\\n"), "{html}");
    }
}
