//! The user's files: how the program opens whatever a flag, an argument or a folder names. Nothing else opens files.
//!
//! A path can be replaced between a look at it and its opening, and opening a pipe waits for its other end. So a file that a
//! running emulator reads is opened without waiting, and what was opened is what is checked. Must not know what the files contain.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rand::Rng as _;
use rustix::fs::OFlags;

use crate::clock::Seed;

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
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::NotFound)
    }
}

/// Reads a regular file of at most `most` bytes. Links are followed.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let file = open(path, OpenOptions::new().read(true), OFlags::empty())?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(FileProblem::TooLarge(most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(FileProblem::TooLarge(most)) } else { Ok(bytes) }
}

/// Reads what a person names to a command that does nothing else meanwhile: a file, a pipe such as `<(curl …)`, or stdin as `-`.
pub fn read_input(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        io::stdin().lock().take(most + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > most { Err(FileProblem::TooLarge(most)) } else { Ok(bytes) }
}

/// Empties a regular file, or creates it, for writing. Links are followed.
pub fn create(path: &Path) -> Result<File, FileProblem> {
    let file = open(path, OpenOptions::new().write(true).create(true), OFlags::empty())?;
    file.set_len(0)?;
    Ok(file)
}

/// Writes a file whole or not at all, readable by its owner alone, as it may contain secrets. It is on the disk when this
/// returns. The contents come in pieces.
pub fn write_whole<P: AsRef<[u8]>>(path: &Path, pieces: &[P]) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    // Nobody can guess the name and put a link there; and nothing that exists is opened.
    let beside =
        path.with_file_name(format!(".wrs-emulator-{:016x}.tmp", Seed::from_entropy().source("file").next_u64()));
    let mut options = OpenOptions::new();
    let mut new = options.write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = pieces.iter().try_for_each(|piece| new.write_all(piece.as_ref()));
    let written = written.and_then(|()| new.sync_all()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is half written helps nobody.
        let _ = fs::remove_file(&beside);
    }
    written.and_then(|()| sync_folder(path))
}

/// Makes a rename last.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems have no such thing, and a folder may be one that can be written to and not read.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// The only claim on a file, in this process and all others; ends when dropped, or with the process, however that ends.
///
/// The lock is on `FILE.lock`, since the file itself is replaced by every [`write_whole`].
#[derive(Debug)]
pub struct Claim {
    lock: PathBuf,
    _locked: File,
}

impl Claim {
    /// Claims a file, whether or not it exists; `None` if another process has claimed it.
    pub fn new(path: &Path) -> Result<Option<Self>, FileProblem> {
        let mut name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_owned();
        name.push(".lock");
        let lock = path.with_file_name(name);
        loop {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).mode(0o600);
            let locked = open(&lock, options, OFlags::NOFOLLOW)?;
            match locked.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                // On a file system without locks nothing can be promised.
                Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => return Err(error.into()),
                _ => {}
            }
            // Whoever had it before may have removed it after this process had opened it.
            let (ours, present) = (locked.metadata()?, fs::symlink_metadata(&lock));
            if present.is_ok_and(|present| (present.dev(), present.ino()) == (ours.dev(), ours.ino())) {
                return Ok(Some(Self { lock, _locked: locked }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Before it is unlocked; left behind it would do no harm.
        let _ = fs::remove_file(&self.lock);
    }
}

fn open(path: &Path, options: &mut OpenOptions, more: OFlags) -> Result<File, FileProblem> {
    // A terminal must not become the one that controls this process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => FileProblem::NotRegular,
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
        fs::write(path("file"), "12345").expect("it is written");
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
    fn a_file_is_claimed_once_until_the_claim_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state.json");
        let claim = || Claim::new(&file).expect("it can be claimed");
        for _ in 0..2 {
            let first = claim().expect("it is free");
            write_whole(&file, &["1"]).expect("it is written");
            assert!(claim().is_none());
            drop(first);
        }
        // What a process that was killed leaves behind is no claim.
        fs::write(folder.path().join("state.json.lock"), "").expect("it is written");
        assert!(claim().is_some());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn what_grows_while_it_is_read_is_bounded() {
        // Its size is reported as 0.
        assert!(matches!(read(Path::new("/proc/self/maps"), 16), Err(FileProblem::TooLarge(16))));
    }
}
