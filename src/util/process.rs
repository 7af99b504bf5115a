//! Operations on processes that `std::process` lacks: signals and adopted processes. Independent of which commands run, and why.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, geteuid, kill_process, setsid, wait};
use tokio::process::Child;

pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

pub fn pass_signal(child: &Child, number: u8) {
    let signal = match number {
        1 => Signal::HUP,
        2 => Signal::INT,
        3 => Signal::QUIT,
        9 => Signal::KILL,
        _ => Signal::TERM,
    };
    if let Some(id) = id(child) {
        // The child has not been reaped, so its process id cannot belong to another process. It may have ended already.
        let _ = kill_process(id, signal);
    }
}

/// Asks a process to end. It may have ended already.
pub fn terminate(process: u32) {
    if let Some(id) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(id, Signal::TERM);
    }
}

/// Leaves the session of the terminal, whose end and whose Ctrl-C then do not reach this process. One that leads a group already cannot.
pub fn leave_session() {
    let _ = setsid();
}

/// The id of the user that this process acts for.
pub fn user() -> u32 {
    geteuid().as_raw()
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
