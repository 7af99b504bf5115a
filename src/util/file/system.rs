//! What opening a file asks of the system beyond `std::fs`, once for Unix and once for Windows.
//!
//! Windows has no modes: who may read a new file follows from its folder. It opens neither pipes nor devices as files.

pub(super) use own::{LOCKS_HIDE_CONTENT, changed, creation_mode, folder_mode, is_irregular, open_flags};

#[cfg(unix)]
mod own {
    use std::fs::{DirBuilder, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};

    use jiff::Timestamp;
    use rustix::fs::OFlags;
    use rustix::io::Errno;

    /// Whether nobody else can read a locked file.
    pub(in super::super) const LOCKS_HIDE_CONTENT: bool = false;

    pub(in super::super) fn creation_mode(options: &mut OpenOptions, mode: u32) {
        options.mode(mode);
    }

    pub(in super::super) fn folder_mode(builder: &mut DirBuilder, mode: u32) {
        builder.mode(mode);
    }

    /// Opens a pipe without waiting for its other end.
    pub(in super::super) fn open_flags(options: &mut OpenOptions, follows_links: bool) {
        // NOCTTY: a terminal must not become the controlling terminal of this process.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = if follows_links { flags } else { flags | OFlags::NOFOLLOW };
        options.custom_flags(flags.bits().cast_signed());
    }

    /// Whether opening failed as the path names a pipe without a reader, or a socket.
    pub(in super::super) fn is_irregular(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
    }

    /// The file's device and number, and when anything about it changed.
    pub(in super::super) fn changed(about: &Metadata) -> ([u64; 2], Option<Timestamp>) {
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

    pub(in super::super) const LOCKS_HIDE_CONTENT: bool = true;

    pub(in super::super) fn creation_mode(_: &mut OpenOptions, _: u32) {}

    pub(in super::super) fn folder_mode(_: &mut DirBuilder, _: u32) {}

    pub(in super::super) fn open_flags(options: &mut OpenOptions, follows_links: bool) {
        options.custom_flags(if follows_links { 0 } else { OPEN_LINK });
    }

    pub(in super::super) fn is_irregular(_: &io::Error) -> bool {
        false
    }

    /// When the file was made, as a file that replaces another is a new one.
    pub(in super::super) fn changed(about: &Metadata) -> ([u64; 2], Option<Timestamp>) {
        ([0; 2], about.created().ok().and_then(|at| Timestamp::try_from(at).ok()))
    }
}
