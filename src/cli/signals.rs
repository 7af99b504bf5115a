//! The signals that end a command which serves until it is stopped.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn install() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::io(format!("cannot listen for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for either signal and returns its number.
    pub(super) async fn wait(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }
}
