//! The signals that end a command which serves until it is stopped.

use std::io;

use super::failure::Failure;
use own::{Interrupt, Terminate};

/// SIGTERM and SIGINT. On Windows: Ctrl-Break, a console that is closed, the end of the session; and Ctrl-C.
pub(super) struct Signals {
    terminate: Terminate,
    interrupt: Interrupt,
}

impl Signals {
    pub(super) fn install() -> Result<Self, Failure> {
        let installed = || io::Result::Ok(Self { terminate: own::terminate()?, interrupt: own::interrupt()? });
        installed().map_err(|error| Failure::io(format!("cannot listen for signals: {error}")))
    }

    /// Waits for either signal and returns its number.
    pub(super) async fn wait(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }
}

#[cfg(unix)]
mod own {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) type Terminate = Signal;
    pub(super) type Interrupt = Signal;

    pub(super) fn terminate() -> io::Result<Signal> {
        signal(SignalKind::terminate())
    }

    pub(super) fn interrupt() -> io::Result<Signal> {
        signal(SignalKind::interrupt())
    }
}

#[cfg(windows)]
mod own {
    use std::io;

    use tokio::signal::windows::{CtrlBreak, CtrlClose, CtrlShutdown, ctrl_break, ctrl_close, ctrl_shutdown};
    pub(super) use tokio::signal::windows::{CtrlC as Interrupt, ctrl_c as interrupt};

    pub(super) struct Terminate(CtrlBreak, CtrlClose, CtrlShutdown);

    impl Terminate {
        pub(super) async fn recv(&mut self) -> Option<()> {
            tokio::select! {
                event = self.0.recv() => event,
                event = self.1.recv() => event,
                event = self.2.recv() => event,
            }
        }
    }

    pub(super) fn terminate() -> io::Result<Terminate> {
        Ok(Terminate(ctrl_break()?, ctrl_close()?, ctrl_shutdown()?))
    }
}
