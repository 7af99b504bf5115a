//! What came back for one request.

use crate::workspace::FailureReason;

/// What came back for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeReply {
    /// An answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its `Location`.
        location: Option<String>,
        /// The beginning of its body.
        text: String,
    },
    /// No answer: no connection, none in time, or a connection that broke.
    Failed {
        /// The cause.
        reason: FailureReason,
        /// The cause in words.
        detail: String,
    },
    /// It was not sent, or not given the time that it may take; why.
    Unsent(String),
}

impl ProbeReply {
    /// An answer without a body.
    pub fn status(status: u16) -> Self {
        Self::Answered { status, location: None, text: String::new() }
    }

    /// Whether it is a 2xx.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Answered { status: 200..=299, .. })
    }
}

impl std::fmt::Display for ProbeReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answered { status, location, text } => {
                write!(f, "{status}")?;
                if let Some(location) = location {
                    write!(f, " to {location}")?;
                }
                match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
                    Some(line) => write!(f, " \"{}\"", line.chars().take(120).collect::<String>()),
                    None => Ok(()),
                }
            }
            Self::Failed { detail, .. } => f.write_str(detail),
            Self::Unsent(why) => f.write_str(why),
        }
    }
}
