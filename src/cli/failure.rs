//! What goes wrong on the command line, and the one place where it is printed.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use crate::redact::{Redactor, visible_lines};

/// Why a command ends with something other than 0.
#[derive(Debug)]
pub(super) enum Failure {
    /// 1: a check found problems, or a look-up found nothing.
    Short {
        /// What.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// 2: wrong usage, an invalid file, a taken port.
    Usage {
        /// What.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// 3: the emulator cannot be reached.
    Unreachable {
        /// What.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// 126 or 127: the command that `exec` was to run cannot be run, as shells tell it.
    NotRun {
        /// The exit code.
        code: u8,
        /// What.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

impl Failure {
    pub(super) fn short(message: impl Into<String>) -> Self {
        Self::Short { message: message.into(), hint: None }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// What went wrong.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Short { message, .. }
            | Self::Usage { message, .. }
            | Self::Unreachable { message, .. }
            | Self::NotRun { message, .. } => message,
        }
    }

    /// Adds what to do.
    pub(super) fn with_hint(self, text: impl Into<String>) -> Self {
        let hint = Some(text.into());
        match self {
            Self::Short { message, .. } => Self::Short { message, hint },
            Self::Usage { message, .. } => Self::Usage { message, hint },
            Self::Unreachable { message, .. } => Self::Unreachable { message, hint },
            Self::NotRun { code, message, .. } => Self::NotRun { code, message, hint },
        }
    }
}

/// Prints a failure on stderr and gives its exit code.
pub(super) fn report(failure: &Failure) -> ExitCode {
    let (code, message, hint) = match failure {
        Failure::Short { message, hint } => (1, message, hint),
        Failure::Usage { message, hint } => (2, message, hint),
        Failure::Unreachable { message, hint } => (3, message, hint),
        Failure::NotRun { code, message, hint } => (*code, message, hint),
    };
    let mut stderr = std::io::stderr().lock();
    let (red, plain) = if colored() { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    // Nobody is left to tell if stderr is gone.
    let shown = |text: &str| visible_lines(&Redactor::default().text(text)).into_owned();
    let _ = writeln!(stderr, "{red}error:{plain} {}", shown(message));
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "\nhint: {}", shown(hint));
    }
    ExitCode::from(code)
}

/// Prints a warning on stderr.
pub(super) fn warn(message: &str) {
    let (yellow, plain) = if colored() { ("\u{1b}[1;33m", "\u{1b}[0m") } else { ("", "") };
    let shown = Redactor::default().text(message);
    // Nobody is left to tell if stderr is gone.
    let _ = writeln!(std::io::stderr().lock(), "{yellow}warning:{plain} {}", visible_lines(&shown));
}

/// Whether stderr takes colors: a terminal, and `NO_COLOR` is not set.
pub(super) fn colored() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
