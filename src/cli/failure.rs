//! Failures of commands, and everything that is printed about them on stderr: lines for people, or with `--json` JSON objects,
//! one a line.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::output::{BOLD_RED, compact, painted};
use super::stream::Stream;
use crate::redact::{Redactor, visible};

/// Why a command ends with something other than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) code: FailureCode,
    /// One line.
    pub(crate) message: String,
    /// The particulars, a line each, below the message.
    pub(crate) lines: Vec<String>,
    pub(crate) hint: Option<String>,
    /// The answer of the emulator, if it refused a call.
    pub(crate) answer: Option<Box<Value>>,
}

/// The kind of a failure: the `code` of `--json`, stable and documented in docs/cli.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureCode {
    /// A check found problems.
    Failed,
    /// The named object does not exist.
    NotFound,
    /// The awaited event did not happen in time.
    TimedOut,
    /// A flag, an argument or a variable is wrong.
    Usage,
    /// A file has the wrong content.
    InvalidFile,
    /// A file, an address or the system cannot be used.
    Io,
    /// The emulator refused the call.
    Refused,
    /// No emulator or receiver answers at the address.
    Unreachable,
    /// The command of `exec` cannot be started.
    NotRun,
}

impl Failure {
    pub(crate) fn new(status: u8, code: FailureCode, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), lines: Vec::new(), hint: None, answer: None }
    }

    pub(crate) fn check_failed(message: impl Into<String>) -> Self {
        Self::new(1, FailureCode::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(2, FailureCode::Usage, message)
    }

    pub(crate) fn invalid_file(message: impl Into<String>) -> Self {
        Self::new(2, FailureCode::InvalidFile, message)
    }

    /// 2: a file cannot be read or written, or a port is taken.
    pub(crate) fn io(message: impl Into<String>) -> Self {
        Self::new(2, FailureCode::Io, message)
    }

    pub(crate) fn is_unreachable(&self) -> bool {
        self.code == FailureCode::Unreachable
    }

    pub(crate) fn with_lines(self, lines: Vec<String>) -> Self {
        Self { lines, ..self }
    }

    /// The message and its particulars.
    pub(crate) fn text(&self) -> String {
        [std::slice::from_ref(&self.message), &self.lines].concat().join("\n")
    }

    pub(crate) fn with_hint(self, text: impl Into<String>) -> Self {
        Self { hint: Some(text.into()), ..self }
    }
}

static AS_JSON: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_json(as_json: bool) {
    AS_JSON.store(as_json, Ordering::Relaxed);
}

impl Failure {
    /// True if the emulator was too busy to begin the call.
    pub(crate) fn is_busy(&self) -> bool {
        let code = self.answer.as_ref().and_then(|answer| answer.pointer("/error/code"));
        code.is_some_and(|code| code == "busy")
    }
}

/// True if the command was given `--json`, so that all messages are JSON.
pub(crate) fn is_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Prints a failure on stderr and gives its exit code.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    let Failure { status, code, message, lines, hint, answer } = failure;
    let redactor = Redactor::default();
    let hint = hint.as_deref().map(|hint| redactor.text(hint));
    let mut error = json!({ "code": code, "message": redactor.text(&failure.text()), "hint": hint });
    if let (Some(fields), Some(answer)) = (error.as_object_mut(), answer) {
        fields.insert("answer".to_owned(), redactor.shown(answer));
    }
    let mut below = lines.clone();
    below.extend(hint.into_iter().flat_map(|hint| [String::new(), format!("hint: {hint}")]));
    say(BOLD_RED, "error", message, &below, error);
    ExitCode::from(*status)
}

pub(crate) fn warn(message: &str) {
    say("1;33", "warning", message, &[], json!({ "message": Redactor::default().text(message) }));
}

pub(crate) fn note(message: &str) {
    note_with(message, &[]);
}

/// A note with particulars, a line each.
pub(crate) fn note_with(message: &str, lines: &[String]) {
    let text = [&[message.to_owned()], lines].concat().join("\n");
    say("", "note", message, lines, json!({ "message": Redactor::default().text(&text) }));
}

/// Prints a message on stderr: as JSON, or as a line of text after a word in this color, with further lines below it. Whatever is in
/// one, it stays one line.
fn say(color: &str, word: &str, message: &str, below: &[String], fields: Value) {
    let shown = |line: &str| visible(&Redactor::default().text(line)).into_owned();
    let line = if is_json() {
        compact(&Map::from_iter([(word.to_owned(), fields)]))
    } else {
        let colors = !color.is_empty() && colored(&std::io::stderr());
        let first = format!("{} {}", painted(color, format!("{word}:"), colors), shown(message));
        std::iter::once(first).chain(below.iter().map(|line| shown(line))).collect::<Vec<_>>().join("\n")
    };
    Stream::Err.write(line + "\n");
}

/// A failure if something could not be written to a stream since this was asked last.
pub(super) fn written(stream: Stream) -> Result<(), Failure> {
    let cannot = |error| Err(Failure::io(format!("cannot write to {}: {error}", stream.name())));
    stream.lost().map_or(Ok(()), cannot)
}

/// The exit code of the program: that of its command, unless its output is incomplete.
pub(crate) fn ended(code: ExitCode) -> ExitCode {
    let failures = [Stream::Out, Stream::Err].into_iter().filter_map(|stream| written(stream).err());
    failures.fold(code, |code, failure| {
        let status = report(&failure);
        if code == ExitCode::SUCCESS { status } else { code }
    })
}

/// True if a stream shows colors: a terminal, and `NO_COLOR` is not set.
pub(crate) fn colored(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented() {
        const CODES: [FailureCode; 9] = [
            FailureCode::Failed,
            FailureCode::NotFound,
            FailureCode::TimedOut,
            FailureCode::Usage,
            FailureCode::InvalidFile,
            FailureCode::Io,
            FailureCode::Refused,
            FailureCode::Unreachable,
            FailureCode::NotRun,
        ];
        let page = include_str!("../../docs/cli.md");
        let table = page.split("| code | exit status |").nth(1).and_then(|rest| rest.split("\n\n").next());
        let rows = table.expect("the table").lines().skip(2).filter_map(|row| row.split('`').nth(1));
        let codes = CODES.map(|code| compact(&code).trim_matches('"').to_owned());
        assert_eq!(rows.collect::<Vec<_>>(), codes);
    }
}
