//! Answers whose body breaks off, stalls or drips. Faults below HTTP are the connection's ([`ConnectionFault`]).
//!
//! [`ConnectionFault`]: crate::http::connection::ConnectionFault

use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::stream::unfold;
use hyper::body::Bytes;

use crate::agenda::Slot;
use crate::clock::Clock;
use crate::http::outgoing::Outgoing;
use crate::workspace::Workspace;

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// This many bytes, then the connection ends.
    Truncate(usize),
    /// This many bytes, then silence for this long (forever if absent), then the connection ends.
    Stall(usize, Option<Duration>),
    /// This many bytes at a time with this interval between them, until the body is complete.
    Drip(usize, Duration),
}

/// A body that is sent at a pace, by the workspace's clock.
pub(super) fn paced(body: Bytes, pace: Pace, workspace: &Workspace) -> Outgoing {
    let (clock, slot) = (workspace.clock().clone(), workspace.agenda().slot());
    let paced = PacedBody { rest: body, has_begun: false, pace, clock, slot };
    Outgoing::stream(unfold(paced, PacedBody::next))
}

struct PacedBody {
    rest: Bytes,
    has_begun: bool,
    pace: Pace,
    clock: Clock,
    /// When the present wait ends. The slot stays due until the next wait or the end of the body.
    slot: Slot,
}

impl PacedBody {
    /// The next piece with what follows it; `None` at the end.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let piece = match self.pace {
            Pace::Truncate(most) | Pace::Stall(most, _) if !self.has_begun && most > 0 && !self.rest.is_empty() => {
                Ok(self.take(most))
            }
            Pace::Truncate(_) => {
                // Lets hyper flush what was sent so far.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(self.broken_off())
            }
            Pace::Stall(_, pause) => {
                match pause {
                    Some(pause) => self.wait(pause).await,
                    None => pending().await,
                }
                Err(self.broken_off())
            }
            Pace::Drip(..) if self.rest.is_empty() => return None,
            Pace::Drip(size, interval) => {
                if self.has_begun {
                    self.wait(interval).await;
                }
                let part = self.take(size.max(1));
                if self.rest.is_empty() {
                    self.slot.set(None);
                }
                Ok(part)
            }
        };
        Some((piece, self))
    }

    async fn wait(&mut self, pause: Duration) {
        let until = self.clock.instant().plus(pause);
        self.slot.set(Some(until));
        self.clock.sleep_until(until).await;
    }

    fn take(&mut self, most: usize) -> Bytes {
        self.has_begun = true;
        self.rest.split_to(most.min(self.rest.len()))
    }

    fn broken_off(&mut self) -> io::Error {
        self.slot.set(None);
        io::Error::new(io::ErrorKind::ConnectionAborted, "a scenario broke this answer off")
    }
}
