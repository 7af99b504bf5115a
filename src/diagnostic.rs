//! Diagnostics: problems of a user's file, where they are, and how to fix them. Rendered as text or JSON.
//!
//! Independent of the kind of file. [`CODES`] lists every code; codes are stable because people search for them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::redact::{Redactor, visible};
use crate::util::wording::{counted, shorten};

/// Longest part of a source line kept, in characters: a file may be one long line.
const MAX_LINE: usize = 160;
/// Longest message or hint, in characters: it may quote what the user wrote.
const MAX_MESSAGE: usize = 600;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The file is in force, but most likely does not do as intended.
    Warning,
    /// The file is rejected.
    Error,
}

/// One thing wrong with a file.
// The comments on its fields are part of the document of the control API.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Diagnostic {
    #[schemars(with = "String", extend("enum" = ["warning", "error"]))]
    pub severity: Level,
    /// Stable.
    pub code: Cow<'static, str>,
    // Lower case, no final period, expected before found.
    pub message: String,
    // As the user named it; `None` for text that came without one.
    pub file: Option<String>,
    #[schemars(with = "ByteRange")]
    pub span: Range<usize>,
    /// From 1; 0 if the problem is the file as a whole.
    pub line: usize,
    /// From 1; 0 if the problem is the file as a whole.
    pub column: usize,
    // The line of the span's start, shortened around the span if it is very long.
    pub source_line: String,
    /// The remedy; may be empty.
    pub hint: String,
    /// Where the span lies in `source_line`, in characters.
    #[serde(skip)]
    underline: Range<usize>,
}

/// Bytes of a file.
#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
#[expect(dead_code, reason = "a schema")]
struct ByteRange {
    start: usize,
    end: usize,
}

impl Diagnostic {
    /// A problem at `span` of `text`. A span beyond the end of the text is clamped.
    pub fn at(
        severity: Level,
        code: &'static str,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let start = text.floor_char_boundary(span.start);
        let end = text.floor_char_boundary(span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find(['\n', '\r']).map_or(text.len(), |at| start + at);
        let before = text[line_start..start].chars().count();
        let marked = text[start..end.min(line_end).max(start)].chars().count();
        // A window of the line in which the span's start is always visible.
        let from = before.saturating_sub(MAX_LINE / 2);
        let source_line: String = text[line_start..line_end].chars().skip(from).take(MAX_LINE).collect();
        let underline = before - from..(before - from + marked).min(MAX_LINE);
        Self {
            severity,
            code: code.into(),
            message: shorten(&message.into(), MAX_MESSAGE).into_owned(),
            file: None,
            span: start..end,
            line: text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before + 1,
            source_line,
            hint: shorten(&hint.into(), MAX_MESSAGE).into_owned(),
            underline,
        }
    }

    /// A problem with a file as a whole.
    pub fn of_file(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: 0, column: 0, ..Self::at(Level::Error, code, "", 0..0, message, hint) }
    }

    #[must_use]
    pub fn as_warning(mut self) -> Self {
        self.severity = Level::Warning;
        self
    }

    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// The same problem without an excerpt of its file.
    #[must_use]
    pub fn without_source(mut self) -> Self {
        self.source_line = String::from("(not shown: the file is outside of the scenario folder)");
        self.underline = 0..0;
        self
    }

    /// `path:line:column: `; empty without a file.
    pub fn place(&self) -> String {
        match (self.file.as_deref(), self.line) {
            (None, _) => String::new(),
            (Some(file), 0) => format!("{file}: "),
            (Some(file), line) => format!("{file}:{line}:{}: ", self.column),
        }
    }

    /// The problem on one line: `path:line:column: message [code]; hint`.
    pub fn one_line(&self) -> String {
        let place = self.place();
        let hint = if self.hint.is_empty() { String::new() } else { format!("; {}", self.hint) };
        format!("{place}{} [{}]{hint}", self.message, self.code)
    }

    /// True if the file is rejected because of this.
    pub fn is_error(&self) -> bool {
        self.severity == Level::Error
    }

    /// The text for a terminal or log: severity and code, `path:line:column`, the line, a caret, the hint. Control
    /// characters of the file are shown escaped, credentials masked. Ends with a line break.
    pub fn render(&self, color: bool) -> String {
        let paint = |code: &'static str| if color { code } else { "" };
        let (strong, off) = (paint("\x1b[1m"), paint("\x1b[0m"));
        let (word, tint) = match self.severity {
            Level::Error => ("error", paint("\x1b[1;31m")),
            Level::Warning => ("warning", paint("\x1b[1;33m")),
        };
        let mut text = format!("{tint}{word}[{}]{off}: {strong}{}{off}\n", self.code, escaped(&self.message));
        // Writing to a String cannot fail.
        if self.line == 0 {
            // Some problems, such as an unknown name in a request, have no file.
            if let Some(file) = &self.file {
                let _ = writeln!(text, "  --> {}", escaped(file));
            }
        } else {
            let file = escaped(self.file.as_deref().unwrap_or("<text>"));
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            let part = |range: Range<usize>| {
                escaped(&self.source_line.chars().skip(range.start).take(range.len()).collect::<String>())
            };
            let indent = " ".repeat(part(0..self.underline.start).chars().count());
            let carets = "^".repeat(part(self.underline.clone()).chars().count().max(1));
            let _ = writeln!(text, "{margin}--> {file}:{}:{}", self.line, self.column);
            let _ = writeln!(text, "{margin} |\n{number} | {}", escaped(&self.source_line).trim_end());
            let _ = writeln!(text, "{margin} | {indent}{tint}{carets}{off}");
        }
        if !self.hint.is_empty() {
            let _ = writeln!(text, "  {strong}hint:{off} {}", escaped(&self.hint));
        }
        text
    }
}

/// Several diagnostics as one text, blank lines between, ended by a line that counts them; empty for none.
pub fn render_all(diagnostics: &[Diagnostic], color: bool) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    let mut text: String = diagnostics.iter().map(|diagnostic| diagnostic.render(color) + "\n").collect();
    let _ = writeln!(text, "{}, {}", counted(errors, "error"), counted(diagnostics.len() - errors, "warning"));
    text
}

/// Text for display: credentials masked, control characters escaped, and tabs replaced by a space so that carets stay aligned.
fn escaped(text: &str) -> String {
    visible(&Redactor::default().text(text).replace('\t', " ")).into_owned()
}

/// The part of `docs/scenario-language.md` that lists every code.
pub fn codes_markdown() -> String {
    let mut page = String::from(
        "\n## Look up a diagnostic\n\n\
         Everything that `wrs-emulator check`, a reload or the control API may report about a scenario or profile. Codes are stable.\n\
         An error means that the file is rejected: its last good version stays active, and other files are not affected. A\n\
         warning means that the file is in force but most likely does not do as intended.\n\n\
         | code | meaning |\n| --- | --- |\n",
    );
    for (code, meaning) in CODES {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{code}` | {meaning} |");
    }
    page
}

pub const CODES: &[(&str, &str)] = &[
    ("file/folder-gone", "the usual folder of scenario files no longer exists"),
    (
        "file/ignored",
        "an entry of a scenario folder is not read: a sub-folder, or a .yaml, .yml, .json, .tml or .toml.txt file",
    ),
    ("file/not-regular", "a scenario file is a pipe, socket, device or folder"),
    ("file/not-utf8", "a file is not UTF-8 text"),
    ("file/too-large", "a file is larger than 1 MiB"),
    ("file/too-many", "a folder has more files, or more bytes of them, than are read; the first by name are in force"),
    ("file/unreadable", "a file or folder cannot be read"),
    ("profile/bad-value", "a setting has a value that it does not accept"),
    ("profile/syntax", "a profile is not TOML"),
    ("profile/unknown-preset", "the name of a profile is not one of the presets"),
    ("profile/unknown-setting", "a name in a profile is not a setting"),
    (
        "scenario/active-missing",
        "a scenario that a list names no longer exists; if its file was deleted, its last good version stays active",
    ),
    ("scenario/bad-duration", "a string is not a duration such as \"250ms\", \"30s\" or \"1m30s\""),
    ("scenario/bad-name", "a scenario's name has characters other than A-Z a-z 0-9 - _ and dots"),
    ("scenario/bad-pattern", "a regular expression is invalid or too large"),
    ("scenario/bad-pointer", "a JSON pointer does not begin with a slash"),
    (
        "scenario/bad-template",
        "a template in double braces cannot be read, or is used where templates are not rendered",
    ),
    ("scenario/bad-value", "a value has the right type but is not accepted"),
    ("scenario/clash", "two keys that exclude each other are used together"),
    ("scenario/clashing-times", "the counts of a rule contradict each other, so that part of it never applies"),
    ("scenario/duplicate-name", "two files, or two rules or emissions of one file, have the same name"),
    (
        "scenario/error-status",
        "an error reply has a status below 400, or a reply with such a status has an error's code or message, which clients would not see as an error",
    ),
    ("scenario/hidden", "a file is not used, because a scenario that was given as text has its name"),
    ("scenario/missing-key", "a required key is missing"),
    (
        "scenario/missing-part",
        "a template names a part that no request of the rule, or no event, has; it gives an empty string",
    ),
    ("scenario/never-matches", "a condition can never be true"),
    ("scenario/no-effect", "a rule, sequence step or file does nothing"),
    ("scenario/other-status", "an error has a status that the contract does not give it"),
    ("scenario/syntax", "the file is not TOML"),
    ("scenario/too-many", "a limit on number or size is exceeded, in one file or over all scenarios"),
    ("scenario/unknown-error", "the contract has no error of this name"),
    ("scenario/unknown-event", "the profile has no such event type"),
    ("scenario/unknown-key", "a key is not known in this table"),
    ("scenario/unknown-operation", "the contract has no operation of this name"),
    ("scenario/unknown-path", "a path that no endpoint has is much like that of one"),
    ("scenario/unknown-scenario", "there is no scenario of this name"),
    ("scenario/unreachable-rule", "an earlier rule leaves this rule nothing to decide"),
    ("scenario/unreachable-step", "no rule leads to this step of the story"),
    ("scenario/wrong-type", "a value does not have the type that the key accepts"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_sorted_and_explained() {
        for pair in CODES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} comes before {}", pair[0].0, pair[1].0);
        }
        for (code, meaning) in CODES {
            assert!(!meaning.is_empty() && !meaning.ends_with('.') && code.contains('/'), "{code}");
        }
    }

    #[test]
    fn spans_never_split_characters_or_leave_the_text() {
        for (text, span, expected) in [("ä", 1..99, (0..2, 1)), ("", 5..9, (0..0, 1)), ("ä\nöx", 5..6, (5..6, 2))] {
            let found = Diagnostic::at(Level::Error, "scenario/syntax", text, span, "", "");
            assert_eq!((found.span, found.column), expected, "{text}");
        }
    }

    #[test]
    fn a_very_long_line_is_cut_around_the_span() {
        let text = format!("{}HERE{}", "x".repeat(5_000), "y".repeat(5_000));
        let diagnostic = Diagnostic::at(Level::Error, "scenario/syntax", &text, 5_000..5_004, "", "");
        assert!(diagnostic.source_line.len() <= MAX_LINE);
        assert_eq!(diagnostic.column, 5_001);
        let shown = diagnostic.render(false);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find("HERE"), lines[4].find('^'), "{shown}");
    }
}
