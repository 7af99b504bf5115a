//! What processes are asked beyond `std::process`: signals, and groups that end with all that a command has started.
//!
//! Only Unix has either. On Windows no group can be started, so that whoever relies on one leaves nothing running. Must not know
//! which commands run, and why.

use std::io;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

/// The number of the signal that ended a process.
pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    own::ending_signal(status)
}

/// Passes the signal of this number on to a process. On Windows the console has already done so.
pub fn pass_signal(child: &Child, number: u8) {
    own::pass_signal(child, number);
}

/// The process group of a command.
#[derive(Clone, Copy, Debug)]
pub struct Group(own::Leader);

impl Group {
    /// Starts a command as the leader of a new group; on Windows, an error.
    pub fn start(command: &mut Command) -> io::Result<(Child, Self)> {
        own::start(command).map(|(child, leader)| (child, Self(leader)))
    }

    /// Waits until the leader has ended. It is not reaped.
    pub fn wait(self) {
        own::has_ended(self.0, true);
    }

    /// Whether the leader has ended. It is not reaped.
    pub fn has_ended(self) -> bool {
        own::has_ended(self.0, false)
    }

    /// Asks all processes of the group to end.
    pub fn terminate(self) {
        own::end(self.0, false);
    }

    /// Ends all processes of the group.
    pub fn kill(self) {
        own::end(self.0, true);
    }
}

#[cfg(unix)]
mod own {
    use std::io;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
    use tokio::process::{Child, Command};

    pub(super) type Leader = Pid;

    pub(super) fn ending_signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    pub(super) fn pass_signal(child: &Child, number: u8) {
        let signal = match number {
            1 => Signal::HUP,
            2 => Signal::INT,
            3 => Signal::QUIT,
            _ => Signal::TERM,
        };
        if let Some(id) = id(child) {
            // The child has not been reaped, so its process id cannot belong to another process. It may have ended already.
            let _ = kill_process(id, signal);
        }
    }

    pub(super) fn start(command: &mut Command) -> io::Result<(Child, Leader)> {
        let child = command.process_group(0).spawn()?;
        let leader = id(&child).ok_or(Errno::SRCH)?;
        Ok((child, leader))
    }

    pub(super) fn has_ended(leader: Leader, waits: bool) -> bool {
        let options = if waits { WaitIdOptions::empty() } else { WaitIdOptions::NOHANG };
        loop {
            match waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options) {
                Err(Errno::INTR) => {}
                ended => return !matches!(ended, Ok(None)),
            }
        }
    }

    pub(super) fn end(leader: Leader, at_once: bool) {
        // A signal fails only if nothing is left that could take it.
        let _ = kill_process_group(leader, if at_once { Signal::KILL } else { Signal::TERM });
    }

    fn id(child: &Child) -> Option<Pid> {
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }
}

#[cfg(windows)]
mod own {
    use std::io;
    use std::process::ExitStatus;

    use tokio::process::{Child, Command};

    pub(super) type Leader = std::convert::Infallible;

    pub(super) fn ending_signal(_: ExitStatus) -> Option<i32> {
        None
    }

    pub(super) fn pass_signal(_: &Child, _: u8) {}

    pub(super) fn start(_: &mut Command) -> io::Result<(Child, Leader)> {
        let message = "it could not be ended with all that it starts: Windows has no process groups";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    pub(super) fn has_ended(leader: Leader, _: bool) -> bool {
        match leader {}
    }

    pub(super) fn end(leader: Leader, _: bool) {
        match leader {}
    }
}
