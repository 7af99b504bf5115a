//! Timers of a connection, each made only when something first waits for it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Sleep, sleep};

use crate::clock::machine::monotonic;

/// A timer for one wait.
#[derive(Default)]
pub(super) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Ready once `timeout` has passed since the first poll.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
        self.0.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx)
    }

    /// Ends the wait; the next poll begins another.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}

/// A timer for the wait between two requests, made once for a connection and reset only when it has expired: a request that
/// comes in time costs one reading of the clock.
#[derive(Default)]
pub(super) struct Idle(Option<Waiting>);

struct Waiting {
    sleep: Pin<Box<Sleep>>,
    /// Whether the timer will wake the task.
    is_armed: bool,
    /// When the wait began, after this many requests.
    since: Instant,
    begun: u64,
}

impl Idle {
    /// Fails once `timeout` has passed since this was first called with this number of requests begun.
    pub(super) fn check(&mut self, cx: &mut Context<'_>, timeout: Duration, begun: u64) -> io::Result<()> {
        let waiting = self.0.get_or_insert_with(|| Waiting {
            sleep: Box::pin(sleep(timeout)),
            is_armed: false,
            since: monotonic(),
            begun,
        });
        if waiting.begun != begun {
            (waiting.since, waiting.begun) = (monotonic(), begun);
        }
        // The task that the timer wakes stays the same, so it is polled again only once it has expired.
        if waiting.is_armed && !waiting.sleep.is_elapsed() {
            return Ok(());
        }
        loop {
            // A task that has used up its budget is not registered with the timer, but polled again soon.
            let is_registered = has_budget_remaining();
            if waiting.sleep.as_mut().poll(cx).is_pending() {
                waiting.is_armed = is_registered;
                return Ok(());
            }
            match waiting.since.checked_add(timeout) {
                Some(due) if due > monotonic() => waiting.sleep.as_mut().reset(due.into()),
                _ => return Err(timed_out("no further request came in time")),
            }
        }
    }
}

pub(super) fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(40);

    /// The wait begins anew with each request, whether or not the timer of the wait before has expired by then.
    #[tokio::test]
    async fn the_wait_counts_from_the_last_request() {
        let (mut idle, started, mut begun) = (Idle::default(), monotonic(), 0);
        let error = poll_fn(|cx| {
            // A request a while after the first, and none after that.
            if begun == 0 && started.elapsed() > TIMEOUT / 2 {
                begun = 1;
            }
            match idle.check(cx, TIMEOUT, begun) {
                Ok(()) if begun == 0 => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(error),
            }
        });
        let error = error.await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= TIMEOUT + TIMEOUT / 2, "after {:?}", started.elapsed());
    }
}
