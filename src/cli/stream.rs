//! The two streams that commands write to: data goes to stdout, messages go to stderr. No other code writes to them.
//!
//! A text that could not be written is lost without a trace unless the exit status reports it, so the first such error is remembered.
//! A reader that has ended, as `head` does, is none.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::OnceLock;

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

    /// From now on messages go to this file, which keeps at most this many bytes.
    pub(super) fn write_messages_to(file: File, most: u64) {
        // There is one such file for a process.
        let _ = LOG.set(BoundedLog { file: Mutex::new(file), most });
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

/// Where messages go instead of stderr.
static LOG: OnceLock<BoundedLog> = OnceLock::new();

/// A file that loses its older half when it is full. It was opened for appending.
#[derive(Debug)]
struct BoundedLog {
    file: Mutex<File>,
    most: u64,
}

impl BoundedLog {
    fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        if file.metadata()?.len() + text.len() as u64 > self.most {
            let mut newer = Vec::new();
            file.seek(SeekFrom::End(-i64::try_from(self.most / 2).unwrap_or_default()))?;
            file.read_to_end(&mut newer)?;
            file.set_len(0)?;
            let whole_lines = newer.iter().position(|byte| *byte == b'\n').map_or(&[][..], |end| &newer[end + 1..]);
            file.write_all(whole_lines)?;
        }
        file.write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_keeps_its_newer_half() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let file = crate::util::file::append_private(&path).expect("it is made");
        let log = BoundedLog { file: Mutex::new(file), most: 100 };
        for line in 10..40 {
            log.write(format!("line {line}\n").as_bytes()).expect("it is written");
            let text = std::fs::read_to_string(&path).expect("it is read");
            assert!(
                text.len() <= 100 && text.starts_with("line ") && text.ends_with(&format!("line {line}\n")),
                "{text}"
            );
        }
    }
}
