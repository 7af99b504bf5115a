//! A setting that was refused, and why.

use std::ops::Range;
use std::sync::Arc;

/// A knob that could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProblem {
    /// Stable code: `profile/syntax`, `profile/unknown-knob` or `profile/bad-value`.
    pub code: &'static str,
    /// Byte range in the text that was read; empty at 0 for a single assignment.
    pub span: Range<usize>,
    /// What is wrong, without a final period.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Where the setting comes from, as listings name it.
    pub source: Arc<str>,
    /// The assignment as it was written; empty if the setting came from elsewhere.
    pub written: Box<str>,
}

impl ProfileProblem {
    pub(super) fn new(code: &'static str, span: Range<usize>, message: String, hint: String) -> Self {
        Self { code, span, message, hint, source: Arc::default(), written: Box::default() }
    }
}
