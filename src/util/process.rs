//! What processes are asked beyond `std::process`: signals, groups that end with all that a command has started, and adopted processes.
//!
//! Only Unix has these. On Windows no group can be started, so that whoever relies on one leaves nothing running. Must not know
//! which commands run, and why.

pub use own::{Adopted, Group, ending_signal, pass_signal};

#[cfg(unix)]
mod own {
    use std::io;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait, waitid,
    };
    use tokio::process::{Child, Command};
    use tokio::signal::unix::{SignalKind, signal};

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

        /// Whether the leader has ended. It is not reaped.
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

    /// The processes that this one adopts if it is the first of a container: those whose parents have ended. Unless it reaps them,
    /// they stay in the table of processes until that is full.
    #[derive(Debug)]
    pub struct Adopted(Option<tokio::signal::unix::Signal>);

    impl Adopted {
        /// Begins to watch for their ends.
        pub fn watch() -> io::Result<Self> {
            let is_first = std::process::id() == 1;
            Ok(Self(is_first.then(|| signal(SignalKind::child())).transpose()?))
        }

        /// Reaps them for ever. Reaping cannot leave one process out, so this returns how the process with the id `own` ended, if it
        /// comes upon it: nobody else can learn that any more.
        pub async fn reap(&mut self, own: Option<u32>) -> ExitStatus {
            loop {
                let Some(ends) = &mut self.0 else { return std::future::pending().await };
                // The system has one signal for several ends.
                let next = || Ok(wait(WaitOptions::NOHANG)?.map(|(id, status)| (id, status.as_raw())));
                if let Some(status) = ended(own, next) {
                    return status;
                }
                ends.recv().await;
            }
        }

        /// Reaps them in the background, in a process that has started none itself, or waits for none any more.
        pub fn reap_all(mut self) {
            if self.0.is_some() {
                tokio::spawn(async move { self.reap(None).await });
            }
        }
    }

    /// Takes the ended children until none is left or `own` is among them.
    fn ended(own: Option<u32>, mut next: impl FnMut() -> rustix::io::Result<Option<(Pid, i32)>>) -> Option<ExitStatus> {
        loop {
            match next() {
                Ok(Some((id, status))) if own.is_some_and(|own| id.as_raw_nonzero().get().cast_unsigned() == own) => {
                    return Some(ExitStatus::from_raw(status));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn id(child: &Child) -> Option<Pid> {
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn check(own: u32, ends: &[(i32, i32)], expected: Option<i32>, left: usize) {
            let mut ends = ends.iter();
            let mut next = || Ok(ends.next().map(|&(id, status)| (Pid::from_raw(id).expect("an id"), status)));
            let status = ended(Some(own), &mut next);
            assert_eq!((status.map(|status| status.into_raw()), ends.len()), (expected, left));
        }

        #[test]
        fn adopted_processes_are_reaped_and_the_end_of_our_own_is_not_lost() {
            check(7, &[], None, 0);
            check(7, &[(8, 0), (9, 256)], None, 0);
            check(7, &[(8, 0), (7, 3 << 8), (9, 0)], Some(3 << 8), 1);
            check(7, &[(7, 15)], Some(15), 0);
            assert_eq!(ended(None, || Err(Errno::CHILD)), None);
        }
    }
}

#[cfg(windows)]
mod own {
    use std::io;
    use std::process::ExitStatus;

    use tokio::process::{Child, Command};

    pub use NoGroup as Group;

    pub fn ending_signal(_: ExitStatus) -> Option<i32> {
        None
    }

    /// The console has already passed it on.
    pub fn pass_signal(_: &Child, _: u8) {}

    /// No process is adopted.
    #[derive(Debug)]
    pub struct Adopted;

    impl Adopted {
        pub fn watch() -> io::Result<Self> {
            Ok(Self)
        }

        pub async fn reap(&mut self, _: Option<u32>) -> ExitStatus {
            std::future::pending().await
        }

        pub fn reap_all(self) {}
    }

    #[derive(Clone, Copy, Debug)]
    pub enum NoGroup {}

    impl NoGroup {
        pub fn start(_: &mut Command) -> io::Result<(Child, Self)> {
            let message = "it could not be ended with all that it starts: Windows has no process groups";
            Err(io::Error::new(io::ErrorKind::Unsupported, message))
        }

        pub fn wait(self) {
            match self {}
        }

        pub fn has_ended(self) -> bool {
            match self {}
        }

        pub fn terminate(self) {
            match self {}
        }

        pub fn kill(self) {
            match self {}
        }
    }
}
