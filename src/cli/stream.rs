//! The two streams that commands write to: data goes to stdout, messages go to stderr. No other code writes to them.
//!
//! A text that could not be written is lost without a trace unless the exit status reports it, so the first such error is remembered.
//! A reader that has ended, as `head` does, is none.

use std::io::{self, ErrorKind};

use parking_lot::Mutex;

use crate::util::pipe;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

impl Stream {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Out => "stdout",
            Self::Err => "stderr",
        }
    }

    /// Writes a text whole, at the reader's pace. Returns false if nobody reads it or it could not be written.
    pub(super) fn write(self, text: impl AsRef<[u8]>) -> bool {
        let written = match self {
            Self::Out => pipe::write_all(io::stdout().lock(), text.as_ref()),
            Self::Err => pipe::write_all(io::stderr().lock(), text.as_ref()),
        };
        match written {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::BrokenPipe {
                    LOST[self as usize].lock().get_or_insert(error);
                }
                false
            }
        }
    }

    /// True if something could not be written to it and [`Self::lost`] was not asked since.
    pub(super) fn is_lost(self) -> bool {
        LOST[self as usize].lock().is_some()
    }

    /// The first error of writing to it since this was asked last.
    pub(super) fn lost(self) -> Option<io::Error> {
        LOST[self as usize].lock().take()
    }
}

/// For each stream.
static LOST: [Mutex<Option<io::Error>>; 2] = [Mutex::new(None), Mutex::new(None)];
