//! The two streams that commands write to: data goes to stdout, messages go to stderr. No other code writes to them.
//!
//! A text that could not be written is lost without a trace unless the exit status reports it, so the first such error is remembered.
//! A reader that has ended, as `head` does, is none.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::util::file::{FileProblem, append_private};
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

    /// Writes a text whole, at the reader's pace. Returns false if its reader is gone or it could not be written.
    pub(super) fn write(self, text: impl AsRef<[u8]>) -> bool {
        let written = match self {
            Self::Out => pipe::write_all(io::stdout().lock(), text.as_ref()),
            Self::Err => match LOG.get() {
                Some(log) => log.write(text.as_ref()),
                None => pipe::write_all(io::stderr().lock(), text.as_ref()),
            },
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

    /// Writes messages to this file from now on, instead of stderr.
    pub(super) fn write_messages_to(path: PathBuf) -> Result<(), FileProblem> {
        // A process has one such file.
        let _ = LOG.set(BoundedLog::open(path, MAX_LOG)?);
        Ok(())
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

/// Maximum bytes of the file with messages, together with the older one that it has replaced.
pub(super) const MAX_LOG: u64 = 10 * 1024 * 1024;

/// Where messages go instead of stderr.
static LOG: OnceLock<BoundedLog> = OnceLock::new();

/// A file that is renamed once it has half of the bytes, so that a reader that has it open loses nothing.
#[derive(Debug)]
struct BoundedLog {
    path: PathBuf,
    most: u64,
    file: Mutex<File>,
}

/// The name of the older file next to a log.
pub(super) fn older_log(log: &std::path::Path) -> PathBuf {
    log.with_extension("log.old")
}

impl BoundedLog {
    fn open(path: PathBuf, most: u64) -> Result<Self, FileProblem> {
        let file = append_private(&path)?;
        Ok(Self { path, most, file: Mutex::new(file) })
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        if file.metadata()?.len() + text.len() as u64 > self.most / 2 {
            std::fs::rename(&self.path, older_log(&self.path))?;
            *file = append_private(&self.path).map_err(io::Error::other)?;
        }
        file.write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_keeps_its_newer_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.log");
        let log = BoundedLog::open(path.clone(), 100).expect("it is created");
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
        for line in 10..40 {
            log.write(format!("line {line}\n").as_bytes()).expect("it is written");
            let text = read(&older_log(&path)) + &read(&path);
            assert!(text.len() <= 100 && text.ends_with(&format!("line {line}\n")), "{text}");
        }
        assert_eq!(read(&older_log(&path)).lines().count(), 6);
    }
}
