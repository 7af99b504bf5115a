//! Failures of commands, and everything that is printed about them on stderr.

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;

use crate::redact::{Redactor, visible_lines};

/// Why a command ends with something other than 0.
#[derive(Debug)]
pub(super) struct Failure {
    /// The exit code.
    pub(super) code: u8,
    /// What went wrong.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: Option<String>,
}

impl Failure {
    /// A failure with an exit code of its own.
    pub(super) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// 1: a check found problems, or what was named does not exist.
    pub(super) fn check_failed(message: impl Into<String>) -> Self {
        Self::with_code(1, message)
    }

    /// 2: wrong usage, an invalid file, a taken port.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::with_code(2, message)
    }

    /// 3: the emulator cannot be reached.
    pub(super) fn unreachable(message: impl Into<String>) -> Self {
        Self::with_code(3, message)
    }

    pub(super) fn is_unreachable(&self) -> bool {
        self.code == 3
    }

    /// Adds what to do.
    pub(super) fn with_hint(self, text: impl Into<String>) -> Self {
        Self { hint: Some(text.into()), ..self }
    }
}

/// Prints a failure on stderr and gives its exit code.
pub(super) fn report(failure: &Failure) -> ExitCode {
    say("\u{1b}[1;31m", "error:", &failure.message);
    if let Some(hint) = &failure.hint {
        say("", "\nhint:", hint);
    }
    ExitCode::from(failure.code)
}

/// Prints a warning on stderr.
pub(super) fn warn(message: &str) {
    say("\u{1b}[1;33m", "warning:", message);
}

/// Prints a note on stderr.
pub(super) fn note(message: &str) {
    say("", "note:", message);
}

/// Prints on stderr, after a word in this color: credentials masked, control characters escaped.
fn say(color: &str, word: &str, text: &str) {
    let mut stderr = std::io::stderr().lock();
    let (color, plain) = if color.is_empty() || !colored(&stderr) { ("", "") } else { (color, "\u{1b}[0m") };
    // There is nowhere to report a closed stderr.
    let _ = writeln!(stderr, "{color}{word}{plain} {}", visible_lines(&Redactor::default().text(text)));
}

/// Whether a stream takes colors: a terminal, and `NO_COLOR` is not set.
pub(super) fn colored(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
