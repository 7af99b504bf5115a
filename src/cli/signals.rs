//! The signals that end a command which serves until it is stopped, and the one that reports the ends of children.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::task::Poll;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;
use crate::util::file;
use crate::util::process::next_ended;

/// SIGTERM, SIGINT, SIGQUIT and SIGHUP.
pub(crate) struct Signals(Vec<(u8, Signal)>);

impl Signals {
    pub(crate) fn install() -> Result<Self, Failure> {
        install().map(Self).map_err(|error| not_installed(&error))
    }

    /// Waits for any of them and returns its number.
    pub(crate) async fn wait(&mut self) -> u8 {
        poll_fn(|context| {
            let mut all = self.0.iter_mut();
            let received = all.find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn not_installed(error: &io::Error) -> Failure {
    Failure::io(format!("cannot listen for signals: {error}"))
}

/// The processes that this one adopts if it is the first of a container: those whose parents have ended. Unless they are reaped,
/// they stay in the table of processes until that is full.
pub(crate) struct Adopted(Option<Signal>);

impl Adopted {
    /// Leaves them unreaped, where several commands run at a time: reaping cannot tell whose child a process is.
    pub(crate) const fn ignored() -> Self {
        Self(None)
    }

    /// Begins to watch for their ends.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let is_first = std::process::id() == 1;
        let ends = is_first.then(|| signal(SignalKind::child())).transpose().map_err(|error| not_installed(&error))?;
        Ok(Self(ends))
    }

    /// Reaps them for ever. Reaping cannot leave one process out, so this returns how the process with the id `started` ended, if it
    /// comes upon it: no other part of the program can learn it later.
    pub(crate) async fn reap(&mut self, started: Option<u32>) -> ExitStatus {
        loop {
            let Some(ends) = &mut self.0 else { return std::future::pending().await };
            // The system has one signal for several ends.
            if let Some(status) = reap_until(started, next_ended) {
                return status;
            }
            ends.recv().await;
        }
    }

    /// Reaps them in the background, in a process that has started none itself, or waits for none any more.
    pub(crate) fn reap_all(mut self) {
        if self.0.is_some() {
            tokio::spawn(async move { self.reap(None).await });
        }
    }
}

/// Reaps until nothing is left or `started` was reaped.
fn reap_until(started: Option<u32>, next: impl FnMut() -> Option<(u32, ExitStatus)>) -> Option<ExitStatus> {
    std::iter::from_fn(next).find(|(id, _)| Some(*id) == started).map(|(_, status)| status)
}

fn install() -> io::Result<Vec<(u8, Signal)>> {
    // Never received. While it has a handler, a write beyond the limit on file sizes fails and is reported; without one, it
    // would end the process.
    let _ = signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?;
    let numbers = [15, 2, 3, 1].into_iter().filter(|number| *number != 1 || !ignores_hang_up());
    numbers.map(|number| Ok((number, signal(SignalKind::from_raw(number.into()))?))).collect()
}

/// True if the process was started to outlive its terminal, as by `nohup`. Only Linux shows it without `unsafe`.
fn ignores_hang_up() -> bool {
    let status = file::read(Path::new("/proc/self/status"), 64 * 1024).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn check(started: Option<u32>, ends: &[(u32, i32)], expected: Option<i32>, left: usize) {
        let mut ends = ends.iter();
        let status = reap_until(started, || ends.next().map(|(id, status)| (*id, ExitStatus::from_raw(*status))));
        assert_eq!((status.map(ExitStatus::into_raw), ends.len()), (expected, left));
    }

    #[test]
    fn adopted_processes_are_reaped_and_the_end_of_the_command_is_not_lost() {
        check(Some(7), &[], None, 0);
        check(Some(7), &[(8, 0), (9, 256)], None, 0);
        check(Some(7), &[(8, 0), (7, 3 << 8), (9, 0)], Some(3 << 8), 1);
        check(Some(7), &[(7, 15)], Some(15), 0);
        check(None, &[(7, 0), (8, 0)], None, 0);
    }
}
