//! Opens the user's files, whether a flag, an argument or a folder names them. No other code opens files.
//!
//! A path can be replaced between checking and opening it, and opening a pipe blocks until its other end is open. Therefore a
//! running emulator opens files without blocking and checks the opened file, not the path. Must not know what the files contain.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rand::Rng as _;
use same_file::Handle;

use crate::clock::Seed;

/// Largest file of certificates or keys, in bytes: far more than the authorities of any system.
pub const LARGEST_PEM: u64 = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A pipe, socket, device or folder.
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it is larger than {} MiB", .0 / (1024 * 1024))]
    TooLarge(u64),
}

impl FileProblem {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == ErrorKind::NotFound)
    }
}

/// Reads a regular file of at most `most` bytes. Links are followed.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let file = open(path, OpenOptions::new().read(true), true)?;
    let size = file.metadata()?.len();
    if size > most {
        return Err(FileProblem::TooLarge(most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // It may have grown since.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(FileProblem::TooLarge(most)) } else { Ok(bytes) }
}

/// Reads the end of a regular file, at most `most` bytes.
pub fn read_end(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let mut file = open(path, OpenOptions::new().read(true), true)?;
    let start = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the input of a command, which may block on it: a file, a pipe such as `<(curl …)`, or stdin as `-`.
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
    let file = open(path, OpenOptions::new().write(true).create(true), true)?;
    file.set_len(0)?;
    Ok(file)
}

/// Writes a file atomically. Only its owner can read it, as it may contain secrets; on Windows, whoever can read
/// its folder. It is on the disk when this returns.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_as(path, bytes.as_ref(), 0o600)
}

/// The same for a file without secrets: whoever can read the other new files of this user can read it.
pub fn write_shared(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_as(path, bytes.as_ref(), 0o666)
}

/// Finds out whether a file can be written whole, before the work whose result it will hold.
pub fn check_whole(path: &Path) -> Result<(), FileProblem> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(FileProblem::NotRegular);
    }
    let (beside, _) = create_beside(path, 0o600)?;
    Ok(fs::remove_file(&beside)?)
}

pub fn remove(path: &Path) -> Result<(), FileProblem> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes a folder that only its owner can read; on Windows, whoever can read the folder that it is in.
pub fn create_folder(path: &Path, with_parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    own::folder_mode(&mut builder, 0o700);
    builder.recursive(with_parents).create(path)
}

/// Properties that the system reports about a file, and that change when the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    /// Which file it is, where the system reports that without opening it.
    number: [u64; 2],
    /// When its content, and when anything about it changed.
    pub times: [Option<Timestamp>; 2],
}

impl Stamp {
    pub fn of(path: &Path) -> Option<Self> {
        let about = path.metadata().ok()?;
        let (number, changed) = own::changed(&about);
        let modified = about.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
        Some(Self { size: about.len(), number, times: [modified, changed] })
    }
}

fn create_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    if path.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    // Two processes may write the same file at a time.
    let name = format!(".wrs-emulator-{:016x}.tmp", Seed::from_entropy().source("file").next_u64());
    let beside = path.with_file_name(name);
    Ok((beside.clone(), create_new(&beside, mode)?))
}

/// A new file; never one that exists, nor what a link there points to.
fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    own::creation_mode(&mut options, mode);
    options.write(true).create_new(true).open(path)
}

fn write_as(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (beside, new) = create_beside(path, mode)?;
    write_beside(path, bytes, &beside, new)
}

fn write_beside(path: &Path, bytes: &[u8], beside: &Path, mut new: File) -> io::Result<()> {
    let written = new.write_all(bytes).and_then(|()| new.sync_all()).and_then(|()| fs::rename(beside, path));
    if written.is_err() {
        // An incomplete file is useless.
        let _ = fs::remove_file(beside);
    }
    written.and_then(|()| sync_folder(path))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot sync folders, and a folder may be writable but not readable.
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

/// An exclusive claim on a file across processes, under whatever name they know it. It ends when dropped, or when the process
/// ends or is killed.
///
/// The lock is on `FILE.lock`, since the file itself is replaced by every write.
#[derive(Debug)]
pub struct Claim {
    file: PathBuf,
    lock: PathBuf,
    _locked: File,
    /// The file as it was found: locked as well, since a hard link in another folder has another `FILE.lock`.
    _found: Option<File>,
}

impl Claim {
    /// Claims a file, whether or not it exists; `None` if another process has claimed it.
    pub fn new(path: &Path) -> Result<Option<Self>, FileProblem> {
        // A link leads to the same lock as its target.
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = beside(&file, ".lock")?;
        loop {
            let mut options = OpenOptions::new();
            own::creation_mode(&mut options, 0o600);
            let locked = open(&lock, options.read(true).write(true).create(true), false)?;
            if !try_lock(&locked)? {
                return Ok(None);
            }
            // The previous owner may have removed the lock file after this process opened it.
            let ours = Handle::from_file(locked.try_clone()?)?;
            let present = open(&lock, OpenOptions::new().read(true), false);
            if !present.is_ok_and(|present| Handle::from_file(present).is_ok_and(|present| present == ours)) {
                continue;
            }
            let found =
                if own::LOCKS_HIDE_CONTENT { None } else { open(&file, OpenOptions::new().read(true), true).ok() };
            if let Some(found) = &found
                && !try_lock(found)?
            {
                let _ = fs::remove_file(&lock);
                return Ok(None);
            }
            let claim = Self { file, lock, _locked: locked, _found: found };
            // Left behind by a process that was killed while it wrote.
            remove(&claim.new_file()?)?;
            return Ok(Some(claim));
        }
    }

    /// Writes the file as [`write_whole`] does. A process killed meanwhile leaves a file that the next claim removes.
    pub fn write(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let beside = self.new_file()?;
        write_beside(&self.file, bytes.as_ref(), &beside, create_new(&beside, 0o600)?)
    }

    fn new_file(&self) -> io::Result<PathBuf> {
        beside(&self.file, ".tmp")
    }
}

fn beside(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let mut name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_owned();
    name.push(ending);
    Ok(path.with_file_name(name))
}

/// Whether the lock is free. A file system without locks cannot guarantee a claim; it is granted anyway.
fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => Err(error),
        _ => Ok(true),
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed while still locked. If this fails, the file left behind does no harm.
        let _ = fs::remove_file(&self.lock);
    }
}

fn open(path: &Path, options: &mut OpenOptions, follows_links: bool) -> Result<File, FileProblem> {
    own::open_flags(options, follows_links);
    let file = options.open(path).map_err(|error| {
        // Windows reports a folder as an access denied.
        if own::is_irregular(&error) || path.is_dir() { FileProblem::NotRegular } else { FileProblem::Io(error) }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(FileProblem::NotRegular) }
}

// What opening a file asks of the system beyond `std::fs`. Windows has no modes: who may read a new file follows from its folder. It
// opens neither pipes nor devices as files.
#[cfg(unix)]
mod own {
    use std::fs::{DirBuilder, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};

    use jiff::Timestamp;
    use rustix::fs::OFlags;
    use rustix::io::Errno;

    /// Whether nobody else can read a locked file.
    pub(super) const LOCKS_HIDE_CONTENT: bool = false;

    pub(super) fn creation_mode(options: &mut OpenOptions, mode: u32) {
        options.mode(mode);
    }

    pub(super) fn folder_mode(builder: &mut DirBuilder, mode: u32) {
        builder.mode(mode);
    }

    /// Opens a pipe without waiting for its other end.
    pub(super) fn open_flags(options: &mut OpenOptions, follows_links: bool) {
        // NOCTTY: a terminal must not become the controlling terminal of this process.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = if follows_links { flags } else { flags | OFlags::NOFOLLOW };
        options.custom_flags(flags.bits().cast_signed());
    }

    /// Whether opening failed as the path names a pipe without a reader, or a socket.
    pub(super) fn is_irregular(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
    }

    /// The file's device and number, and when anything about it changed.
    pub(super) fn changed(about: &Metadata) -> ([u64; 2], Option<Timestamp>) {
        let nanoseconds = i32::try_from(about.ctime_nsec()).unwrap_or_default();
        ([about.dev(), about.ino()], Timestamp::new(about.ctime(), nanoseconds).ok())
    }
}

#[cfg(windows)]
mod own {
    use std::fs::{DirBuilder, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt as _;

    use jiff::Timestamp;

    /// `FILE_FLAG_OPEN_REPARSE_POINT`: opens a link and not what it points to.
    const OPEN_LINK: u32 = 0x0020_0000;

    pub(super) const LOCKS_HIDE_CONTENT: bool = true;

    pub(super) fn creation_mode(_: &mut OpenOptions, _: u32) {}

    pub(super) fn folder_mode(_: &mut DirBuilder, _: u32) {}

    pub(super) fn open_flags(options: &mut OpenOptions, follows_links: bool) {
        options.custom_flags(if follows_links { 0 } else { OPEN_LINK });
    }

    pub(super) fn is_irregular(_: &io::Error) -> bool {
        false
    }

    /// When the file was made, as a file that replaces another is a new one.
    pub(super) fn changed(about: &Metadata) -> ([u64; 2], Option<Timestamp>) {
        ([0; 2], about.created().ok().and_then(|at| Timestamp::try_from(at).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
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

    #[cfg(unix)]
    #[test]
    fn a_claim_holds_for_every_name_of_the_file_until_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("state.json"), "0").expect("it is written");
        std::os::unix::fs::symlink("state.json", path("link.json")).expect("it is linked");
        fs::hard_link(path("state.json"), path("hard.json")).expect("it is linked");
        // Both are left behind by killed processes.
        fs::write(path("state.json.lock"), "").expect("it is written");
        fs::write(path("state.json.tmp"), "{\"secret").expect("it is written");
        let free = |name: &str| Claim::new(&path(name)).expect("it can be claimed").is_some();
        let first = Claim::new(&path("link.json")).expect("it can be claimed").expect("it is free");
        assert!(!path("state.json.tmp").exists());
        for _ in 0..2 {
            assert_eq!(["state.json", "link.json", "hard.json"].map(free), [false; 3]);
            first.write("1").expect("it is written");
        }
        assert_eq!(fs::read(path("state.json")).expect("it is read"), b"1", "a link is written through");
        assert!(path("link.json").is_symlink());
        drop(first);
        assert_eq!(["state.json", "link.json", "hard.json"].map(free), [true; 3]);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_grows_while_it_is_read_is_bounded() {
        // Its size is reported as 0.
        assert!(matches!(read(Path::new("/proc/self/maps"), 16), Err(FileProblem::TooLarge(16))));
    }
}
