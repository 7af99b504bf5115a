//! The user's files: how the program opens whatever a flag, an argument or a folder names. Nothing else opens files.
//!
//! A path can be replaced between a look at it and its opening, and opening a pipe waits for its other end. So a file is opened
//! without waiting, and what was opened is what is checked. Must not know what the files contain.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Largest file of certificates or keys, in bytes: far more than the authorities of any system.
pub const LARGEST_PEM: u64 = 16 * 1024 * 1024;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A pipe, socket, device or folder.
    #[error("it is not a regular file")]
    NotRegular,
    /// More bytes than are read.
    #[error("it is larger than {} MiB", .0 / (1024 * 1024))]
    TooLarge(u64),
}

impl FileProblem {
    /// Whether nothing is there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a regular file of at most `most` bytes. Links are followed.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let file = open(path, OpenOptions::new().read(true))?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(FileProblem::TooLarge(most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(FileProblem::TooLarge(most)) } else { Ok(bytes) }
}

/// Empties a regular file, or creates it, for writing. Links are followed.
pub fn create(path: &Path) -> Result<File, FileProblem> {
    let file = open(path, OpenOptions::new().write(true).create(true))?;
    file.set_len(0)?;
    Ok(file)
}

/// Writes a file so that it holds either what it held before or all of this; readable by its owner alone, as it holds secrets.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_owned();
    name.push(".tmp");
    let beside = file.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options.mode(0o600);
    let written = options.open(&beside).and_then(|mut new: File| new.write_all(bytes).and_then(|()| new.sync_all()));
    let moved = written.and_then(|()| std::fs::rename(&beside, file));
    if moved.is_err() {
        // What is half written helps nobody.
        let _ = std::fs::remove_file(&beside);
    }
    moved
}

fn open(path: &Path, options: &mut OpenOptions) -> Result<File, FileProblem> {
    // A terminal must not become the one that controls this process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => FileProblem::NotRegular,
        // A pipe that nobody reads, a socket.
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => FileProblem::NotRegular,
        _ => FileProblem::Io(error),
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(FileProblem::NotRegular) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size_are_read_and_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").expect("it is written");
        std::os::unix::fs::symlink("file", path("link")).expect("it is linked");
        assert_eq!(read(&path("link"), 5).expect("it is read"), b"12345");
        assert!(matches!(read(&path("file"), 4), Err(FileProblem::TooLarge(4))));
        assert!(read(&path("missing"), 4).is_err_and(|problem| problem.is_missing()));
        drop(create(&path("link")).expect("it is emptied"));
        assert_eq!(read(&path("file"), 4).expect("it is read"), b"");

        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()), "the pipe is made");
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
        for irregular in [&path("pipe"), &path("socket"), folder.path(), Path::new("/dev/zero")] {
            assert!(matches!(read(irregular, 4), Err(FileProblem::NotRegular)), "{}", irregular.display());
            assert!(matches!(create(irregular), Err(FileProblem::NotRegular)), "{}", irregular.display());
        }
    }

    #[test]
    fn what_grows_while_it_is_read_is_bounded() {
        // Its size is said to be 0.
        assert!(matches!(read(Path::new("/proc/self/maps"), 16), Err(FileProblem::TooLarge(16))));
    }
}
