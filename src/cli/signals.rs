//! The signals that end a command which serves until it is stopped.

use super::failure::Failure;

/// SIGTERM, SIGINT, SIGQUIT and SIGHUP. On Windows: Ctrl-Break, a console that is closed, the end of the session; and Ctrl-C.
pub(super) struct Signals(own::Signals);

impl Signals {
    pub(super) fn install() -> Result<Self, Failure> {
        let installed = own::install().map(Self);
        installed.map_err(|error| Failure::io(format!("cannot listen for signals: {error}")))
    }

    /// Waits for any of them and returns its number.
    pub(super) async fn wait(&mut self) -> u8 {
        own::wait(&mut self.0).await
    }
}

#[cfg(unix)]
mod own {
    use std::future::poll_fn;
    use std::io;
    use std::path::Path;
    use std::task::Poll;

    use rustix::process::Signal as Number;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use crate::util::file;

    pub(super) type Signals = Vec<(u8, Signal)>;

    pub(super) fn install() -> io::Result<Signals> {
        // Never received. While it has a handler, a write beyond the limit on file sizes fails and is reported; without one, it
        // would end the process.
        let _ = signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?;
        let numbers = [15, 2, 3, 1].into_iter().filter(|number| *number != 1 || !ignores_hang_up());
        numbers.map(|number| Ok((number, signal(SignalKind::from_raw(number.into()))?))).collect()
    }

    pub(super) async fn wait(signals: &mut Signals) -> u8 {
        poll_fn(|context| {
            let mut all = signals.iter_mut();
            let received = all.find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Whether the process was started to outlive its terminal, as by `nohup`. Only Linux shows it without `unsafe`.
    fn ignores_hang_up() -> bool {
        let status = file::read(Path::new("/proc/self/status"), 64 * 1024).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    }
}

#[cfg(windows)]
mod own {
    use std::io;

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    pub(super) type Signals = (CtrlC, CtrlBreak, CtrlClose, CtrlShutdown);

    pub(super) fn install() -> io::Result<Signals> {
        Ok((ctrl_c()?, ctrl_break()?, ctrl_close()?, ctrl_shutdown()?))
    }

    pub(super) async fn wait(signals: &mut Signals) -> u8 {
        tokio::select! {
            _ = signals.0.recv() => 2,
            _ = signals.1.recv() => 15,
            _ = signals.2.recv() => 15,
            _ = signals.3.recv() => 15,
        }
    }
}
