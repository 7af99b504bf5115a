//! A flag that is raised once, for instance to stop tasks. Waiters are woken in the order in which they began to wait;
//! `tokio::sync::watch` leaves that to chance.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::Either;
use tokio::sync::Notify;

/// A flag; a cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<FlagState>);

#[derive(Debug, Default)]
struct FlagState {
    is_raised: AtomicBool,
    raised: Notify,
}

impl Flag {
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::SeqCst);
        self.0.raised.notify_waiters();
    }

    pub fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::SeqCst)
    }

    /// Completes once the flag is raised.
    pub fn raised(&self) -> impl Future<Output = ()> {
        // Made before the flag is read, so that it completes if the flag is raised from then on.
        let raised = self.0.raised.notified();
        if self.is_raised() { Either::Left(ready(())) } else { Either::Right(raised) }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    #[tokio::test]
    async fn those_that_wait_are_woken_in_their_order() {
        let (flag, woken) = (Flag::default(), Arc::<Mutex<Vec<usize>>>::default());
        let mut waiting = JoinSet::new();
        for number in 0..30 {
            let (flag, woken) = (flag.clone(), Arc::clone(&woken));
            waiting.spawn(async move {
                flag.raised().await;
                woken.lock().push(number);
            });
        }
        yield_now().await;
        assert!(woken.lock().is_empty() && !flag.is_raised());
        flag.raise();
        waiting.join_all().await;
        assert!(woken.lock().iter().copied().eq(0..30), "{woken:?}");
        // Latecomers do not wait.
        flag.raised().await;
    }
}
