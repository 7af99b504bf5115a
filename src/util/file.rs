//! Opens the user's files, whether a flag, an argument or a folder names them. No other code opens files.
//!
//! A path can be replaced between checking and opening it, and opening a pipe blocks until its other end is open. Therefore a
//! running emulator opens files without blocking and checks the opened file, not the path. Independent of what the files contain.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::Rng as _;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::pipe::Patient;
use crate::clock::Seed;

/// Largest file of certificates or keys, in bytes: far more than the authorities of any system.
pub const MAX_PEM: u64 = 16 * 1024 * 1024;

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

/// Reads the input of a command, which may block on it: a file, a pipe such as `<(curl …)`, or stdin as `-`.
pub fn read_input(path: &Path, most: u64) -> Result<Vec<u8>, FileProblem> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        Patient(io::stdin()).take(most + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > most { Err(FileProblem::TooLarge(most)) } else { Ok(bytes) }
}

/// Opens a descriptor and closes it; the error says why none can be had.
pub fn spare_descriptor() -> io::Result<()> {
    File::open("/dev/null").map(drop)
}

/// Empties a regular file, or creates it, for writing. Links are followed.
pub fn create(path: &Path) -> Result<File, FileProblem> {
    let file = open(path, OpenOptions::new().write(true).create(true), true)?;
    file.set_len(0)?;
    Ok(file)
}

/// Adds to the end of a regular file, which is created if it does not exist. Links are followed.
pub fn append(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), FileProblem> {
    let mut file = open(path, OpenOptions::new().append(true).create(true), true)?;
    Ok(file.write_all(bytes.as_ref())?)
}

/// Opens a file that only its owner can read, to add to its end. It is created if it does not exist.
pub fn append_private(path: &Path) -> Result<File, FileProblem> {
    open(path, OpenOptions::new().append(true).create(true).mode(0o600), false)
}

/// Opens a regular file to read it while it grows.
pub fn open_growing(path: &Path) -> Result<File, FileProblem> {
    open(path, OpenOptions::new().read(true), false)
}

/// Locks a file, which is created if it does not exist, until it is closed by this process and those that inherit it; `None` if it is locked.
pub fn try_lock(path: &Path) -> Result<Option<File>, FileProblem> {
    let file = append_private(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// True if a process has locked the file. Simultaneous callers do not mistake each other for the owner.
pub fn is_locked(path: &Path) -> Result<bool, FileProblem> {
    match open_growing(path) {
        Err(problem) if problem.is_missing() => Ok(false),
        file => match file?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        },
    }
}

/// Writes a file atomically. Only its owner can read it, because it may contain secrets. It is on the disk when this returns.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_as(path, bytes.as_ref(), 0o600)
}

/// The same for a file without secrets: everyone who can read this user's other new files can read it.
pub fn write_shared(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    write_as(path, bytes.as_ref(), 0o666)
}

/// Finds out whether a file can be written whole, before the work whose result it will hold.
pub fn check_whole(path: &Path) -> Result<(), FileProblem> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(FileProblem::NotRegular);
    }
    check_replaceable(path)?;
    let (sibling, _) = create_sibling(path, 0o600)?;
    Ok(fs::remove_file(&sibling)?)
}

/// Refuses a file that is mounted alone, as into a container: no new file can replace it.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let message = "it is a mount point, so it cannot be replaced by a new file; mount its folder instead";
    if is_mount_point(path, folder_of(path)) { Err(io::Error::new(ErrorKind::ResourceBusy, message)) } else { Ok(()) }
}

pub fn remove(path: &Path) -> Result<(), FileProblem> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes a folder that only its owner can read.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// True if this is a folder of this user, not a link to one, that no other user can read or write.
pub fn is_private(folder: &Path) -> io::Result<bool> {
    let about = folder.symlink_metadata()?;
    Ok(about.is_dir() && about.uid() == super::process::user() && about.mode() & 0o777 == 0o700)
}

/// Properties that the system reports about a file, and that change when the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    size: u64,
    number: [u64; 2],
    /// When its content, and when anything about it changed.
    pub times: [Option<Timestamp>; 2],
}

impl Stamp {
    pub fn of(path: &Path) -> Option<Self> {
        let about = path.metadata().ok()?;
        let modified = about.modified().ok().and_then(|at| Timestamp::try_from(at).ok());
        let nanoseconds = i32::try_from(about.ctime_nsec()).unwrap_or_default();
        let changed = Timestamp::new(about.ctime(), nanoseconds).ok();
        Some(Self { size: about.len(), number: number(&about), times: [modified, changed] })
    }
}

fn create_sibling(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    if path.file_name().is_none() {
        return Err(io::Error::other("it names no file"));
    }
    // Two processes may write the same file at a time.
    let name = format!(".wrs-emulator-{:016x}.tmp", Seed::from_entropy().source("file").next_u64());
    let sibling = path.with_file_name(name);
    Ok((sibling.clone(), create_new(&sibling, mode)?))
}

/// A new file; never one that exists, nor what a link there points to.
fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().mode(mode).write(true).create_new(true).open(path)
}

fn write_as(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (sibling, new) = create_sibling(path, mode)?;
    write_sibling(path, &sibling, &new, |to| to.write_all(bytes))
}

fn write_sibling(
    path: &Path,
    sibling: &Path,
    new: &File,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 * 1024, new);
    let written = content(&mut to).and_then(|()| to.flush()).and_then(|()| new.sync_all());
    let written = written.and_then(|()| fs::rename(sibling, path));
    if written.is_err() {
        // An incomplete file is useless.
        let _ = fs::remove_file(sibling);
    }
    written.and_then(|()| sync_folder(path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(folder_of(path)).and_then(|folder| folder.sync_all()) {
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
/// The file itself is locked, and each new one before it replaces it, so that there is no time at which another process could claim
/// it.
#[derive(Debug)]
pub struct Claim {
    file: PathBuf,
    /// The file that was locked first. It stays locked, because the file may have had further names, which still lead to it.
    locked: Lock,
    /// The file as it was written last.
    written: Mutex<Option<Lock>>,
}

impl Claim {
    /// Claims a file, which is created if it does not exist; `None` if another process has claimed it.
    pub fn new(path: &Path) -> Result<Option<Self>, FileProblem> {
        loop {
            // Links are followed once: all names of a file lead to the same lock.
            let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let locked = open(&file, OpenOptions::new().mode(0o600).read(true).write(true).create(true), true)
                // It is replaced and not written, so it may be read-only.
                .or_else(|problem| open(&file, OpenOptions::new().read(true), false).map_err(|_| problem))?;
            let Some(locked) = Lock::new(locked)? else { return Ok(None) };
            // The previous owner may have replaced or removed it after this process opened it.
            if is_at(&locked.0, &file)? {
                // A link to nothing leads to the file that was created now.
                let file = path.canonicalize().unwrap_or(file);
                check_replaceable(&file)?;
                let claim = Self { file, locked, written: Mutex::default() };
                return Ok(claim.remove_unfinished()?.then_some(claim));
            }
        }
    }

    /// Opens the file for reading; `None` if nothing was written to it so far.
    pub fn open(&self) -> Result<Option<File>, FileProblem> {
        let file = match open(&self.file, OpenOptions::new().read(true), true) {
            Err(problem) if problem.is_missing() => return Ok(None),
            opened => opened?,
        };
        let is_empty = file.metadata()?.len() == 0;
        Ok((!is_empty).then_some(file))
    }

    /// Writes the file as [`write_whole`] does. A process killed meanwhile leaves a file that the next claim removes.
    pub fn write(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let taken_over = || io::Error::other("another process has taken the file over");
        let mut written = self.written.lock();
        if !self.is_ours(written.as_ref()) {
            return Err(taken_over());
        }
        let sibling = self.new_file()?;
        let new = create_new(&sibling, 0o600)?;
        let lock = Lock::new(new.try_clone()?)?;
        write_sibling(&self.file, &sibling, &new, |to| if lock.is_some() { content(to) } else { Err(taken_over()) })?;
        *written = lock;
        Ok(())
    }

    /// True if the file is still the one that was written last.
    pub fn is_kept(&self) -> bool {
        self.written
            .lock()
            .as_ref()
            .map_or_else(|| self.file.exists(), |written| is_at(&written.0, &self.file).unwrap_or(false))
    }

    /// True if no other process has claimed the file that has replaced this one, if any has.
    fn is_ours(&self, written: Option<&Lock>) -> bool {
        let ours = written.unwrap_or(&self.locked);
        is_at(&ours.0, &self.file).unwrap_or(false)
            || open(&self.file, OpenOptions::new().read(true), true)
                .map_or(true, |other| Lock::new(other).map_or(true, |lock| lock.is_some()))
    }

    /// Removes what a process that was killed while it wrote has left behind; false if it is still being written.
    fn remove_unfinished(&self) -> Result<bool, FileProblem> {
        let sibling = self.new_file()?;
        let is_written = match open(&sibling, OpenOptions::new().read(true), false) {
            Ok(unfinished) => Lock::new(unfinished)?.is_none(),
            Err(_) => false,
        };
        if !is_written {
            remove(&sibling)?;
        }
        Ok(!is_written)
    }

    fn new_file(&self) -> io::Result<PathBuf> {
        sibling(&self.file, ".tmp")
    }
}

/// True if this file is the one at the path.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let file = number(&file.metadata()?);
    Ok(path.metadata().is_ok_and(|present| number(&present) == file))
}

fn sibling(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let mut name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_owned();
    name.push(ending);
    Ok(path.with_file_name(name))
}

/// A file that this process has locked.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// `None` if another process has the lock. A file system without locks cannot guarantee a claim; it is granted anyway.
    fn new(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => Err(error),
            _ => Ok(Some(Self(file))),
        }
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a process that is being started also has it open until it runs its own program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Opens a regular file; a pipe without waiting for its other end.
fn open(path: &Path, options: &mut OpenOptions, follows_links: bool) -> Result<File, FileProblem> {
    // NOCTTY: a terminal must not become the controlling terminal of this process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = if follows_links { flags } else { flags | OFlags::NOFOLLOW };
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        // A socket, or a pipe without a reader, cannot be opened at all.
        let is_irregular = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
        if is_irregular || path.is_dir() { FileProblem::NotRegular } else { FileProblem::Io(error) }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(FileProblem::NotRegular) }
}

/// True if another file system, or another part of this one, is mounted at the path. Before Linux 5.8 only the former is found.
#[cfg(target_os = "linux")]
fn is_mount_point(path: &Path, folder: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let mount = |path: &Path| {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        Some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
    };
    mount(path).is_some_and(|own| mount(folder).is_some_and(|folder| folder != own))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &Path, _: &Path) -> bool {
    false
}

/// The file's device and its number there.
fn number(about: &Metadata) -> [u64; 2] {
    [about.dev(), about.ino()]
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
    fn a_claim_holds_for_every_name_of_the_file_until_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("state.json"), "0").expect("it is written");
        std::os::unix::fs::symlink("state.json", path("link.json")).expect("it is linked");
        fs::hard_link(path("state.json"), path("hard.json")).expect("it is linked");
        // Left behind by a killed process.
        fs::write(path("state.json.tmp"), "{\"secret").expect("it is written");
        let names = ["state.json", "link.json", "hard.json"];
        let free = |name: &str| Claim::new(&path(name)).expect("it can be claimed").is_some();
        let write = |claim: &Claim, text: &str| claim.write(|to| to.write_all(text.as_bytes()));
        let claim = |name: &str| Claim::new(&path(name)).expect("it can be claimed").expect("it is free");
        let first = claim("link.json");
        assert!(!path("state.json.tmp").exists());
        for _ in 0..3 {
            assert_eq!(names.map(free), [false; 3]);
            write(&first, "1").expect("it is written");
        }
        fs::hard_link(path("state.json"), path("later.json")).expect("it is linked");
        assert!(!free("later.json"), "the file as it was written last has further names, too");
        assert_eq!(fs::read(path("state.json")).expect("it is read"), b"1", "a link is written through");
        assert!(path("link.json").is_symlink());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 4, "there is no lock file");
        // Somebody else replaces the file. Whoever claims that has it, and the first owner writes nothing more.
        fs::write(path("copy"), "2").expect("it is written");
        fs::rename(path("copy"), path("state.json")).expect("it is renamed");
        let second = claim("state.json");
        assert!(write(&first, "1").is_err());
        write(&second, "3").expect("it is written");
        assert!(write(&first, "1").is_err());
        assert_eq!(fs::read(path("state.json")).expect("it is read"), b"3");
        // A process that is being started has every open file of this one.
        let inherited = [&first, &second].map(|claim| claim.locked.0.try_clone().expect("it is shared"));
        drop((first, second));
        assert_eq!(names.map(free), [true; 3]);
        drop(inherited);
    }

    #[test]
    fn a_claimed_file_may_be_new_unreadable_by_a_writer_or_behind_a_link_to_nothing() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("target.json", path("link.json")).expect("it is linked");
        let claim = Claim::new(&path("link.json")).expect("it can be claimed").expect("it is free");
        assert!(claim.open().expect("it is opened").is_none(), "nothing was written");
        claim.write(|to| to.write_all(b"1")).expect("it is written");
        assert!(path("link.json").is_symlink() && fs::read(path("target.json")).is_ok_and(|text| text == b"1"));
        drop(claim);
        fs::set_permissions(path("target.json"), fs::Permissions::from_mode(0o400)).expect("it may be changed");
        let claim = Claim::new(&path("target.json")).expect("it can be claimed").expect("it is free");
        claim.write(|to| to.write_all(b"2")).expect("it is replaced");
        assert!(claim.open().is_ok_and(|opened| opened.is_some()));
    }

    /// With a file, which only root can mount: `tests/machine/mounted_file.sh`.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_mounted_cannot_be_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("it is written");
        for path in [&file, &folder.path().join("missing")] {
            check_replaceable(path).expect("it can be replaced");
        }
        let message = check_replaceable(Path::new("/proc")).expect_err("it is mounted").to_string();
        assert!(message.contains("is a mount point") && message.contains("mount its folder instead"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_grows_while_it_is_read_is_bounded() {
        // Its size is reported as 0.
        assert!(matches!(read(Path::new("/proc/self/maps"), 16), Err(FileProblem::TooLarge(16))));
    }
}
