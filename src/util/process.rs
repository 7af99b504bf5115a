//! What processes are asked beyond `std::process`: signals, groups that end with all that a command has started, and adopted processes.
//! Independent of which commands run, and why.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait, waitid,
};
use tokio::process::{Child, Command};

pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

pub fn pass_signal(child: &Child, number: u8) {
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

#[derive(Clone, Copy, Debug)]
pub struct Group(Pid);

impl Group {
    /// Starts a command as the leader of a new group.
    pub fn start(command: &mut Command) -> io::Result<(Child, Self)> {
        let child = command.process_group(0).spawn()?;
        let leader = id(&child).ok_or(Errno::SRCH)?;
        Ok((child, Self(leader)))
    }

    /// Waits until the leader has ended. It is not reaped.
    pub fn wait(self) {
        self.is_over(WaitIdOptions::empty());
    }

    /// True if the leader has ended. It is not reaped.
    pub fn has_ended(self) -> bool {
        self.is_over(WaitIdOptions::NOHANG)
    }

    fn is_over(self, options: WaitIdOptions) -> bool {
        loop {
            match waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | options) {
                Err(Errno::INTR) => {}
                ended => return !matches!(ended, Ok(None)),
            }
        }
    }

    pub fn terminate(self) {
        // A signal fails only if nothing is left that could take it.
        let _ = kill_process_group(self.0, Signal::TERM);
    }

    pub fn kill(self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Reaps one child that has ended: its id and how. As the first process of a container, this one has children that others started.
pub fn next_ended() -> Option<(u32, ExitStatus)> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(Errno::INTR) => {}
            Ok(Some((id, status))) => {
                return Some((id.as_raw_pid().cast_unsigned(), ExitStatus::from_raw(status.as_raw())));
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

fn id(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}
