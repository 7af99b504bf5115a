//! Work that may take a while without waiting for anything: checking a scenario, making many events, reading a snapshot. It runs
//! on threads of its own, so that the async workers keep serving everybody else meanwhile.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Most pieces of such work at a time; further ones wait in order.
pub const MOST_AT_ONCE: usize = 8;

/// Threads beside the async workers; a cheap handle.
#[derive(Clone, Debug)]
pub struct Blocking {
    slots: Arc<Semaphore>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }
}

impl Blocking {
    /// Runs `work` to its end, even if nobody waits for it any longer. A panic in it is resumed in the caller.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(slot);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and whoever called goes with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::http::guard::caught;

    #[tokio::test]
    async fn a_few_pieces_run_at_a_time_and_a_panic_costs_only_its_caller() {
        let (blocking, running, most) =
            (Blocking::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let piece = |_| {
            let (blocking, running, most) = (blocking.clone(), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                blocking.run(work).await;
            })
        };
        for done in (0..200).map(piece).collect::<Vec<_>>() {
            done.await.expect("the work is done");
        }
        assert!(most.load(Ordering::SeqCst) <= MOST_AT_ONCE);
        for _ in 0..=MOST_AT_ONCE {
            assert_eq!(caught(blocking.run(|| panic!("wrong"))).await, Err::<(), _>("wrong".to_owned()));
        }
        assert_eq!(blocking.run(|| 7).await, 7);
    }
}
