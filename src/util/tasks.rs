//! Helpers for tasks: catching panics, and running long computations, such as checking a scenario
//! or making many events, on threads that may block.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[cfg(not(feature = "simulation"))]
pub(crate) use tokio::task::spawn_blocking;

/// Runs as a task: a simulation has a single thread, so that everything happens in one order.
#[cfg(feature = "simulation")]
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(async move { work() })
}

/// Runs a future to its end; `Err` carries the message of a panic.
pub async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// Runs a function to its end; `Err` as for [`catch_panic`].
pub fn catch_panic_now<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Maximum number of reads that wait; further ones are refused.
pub const MAX_READS: usize = 256;
/// Maximum number of computations of one kind at a time.
const MAX_OF_A_KIND: usize = 2;

#[derive(Debug)]
pub struct Busy;

/// Runs long computations on blocking threads, a few of each kind at a time: an answer never waits for a change, and
/// neither waits for a read.
#[derive(Clone, Debug)]
pub struct Blocking {
    /// For answers of the emulated API, and emissions.
    pub answers: Pool,
    /// For calls of the control API that change something.
    pub changes: Pool,
    /// For documents that are sent while they are made, however slowly they are read.
    pub documents: Pool,
    /// For the largest documents, whose records are all in memory.
    pub runs: Pool,
    reads: Pool,
    /// For reads whose callers have disconnected.
    abandoned: Pool,
    waiting_reads: Arc<Semaphore>,
}

impl Default for Blocking {
    fn default() -> Self {
        Self {
            answers: Pool::new(MAX_OF_A_KIND),
            changes: Pool::new(MAX_OF_A_KIND),
            documents: Pool::new(MAX_OF_A_KIND),
            runs: Pool::new(MAX_OF_A_KIND),
            reads: Pool::new(MAX_OF_A_KIND),
            abandoned: Pool::new(1),
            waiting_reads: Arc::new(Semaphore::new(MAX_READS)),
        }
    }
}

impl Blocking {
    /// Runs work that only reads. While `is_disconnected` is true, other reads go first.
    pub async fn read<T: Send + 'static>(
        &self,
        is_disconnected: &AtomicBool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let (task, result) = erased(work);
        self.read_task(is_disconnected, task).await?;
        Ok(taken(&result))
    }

    async fn read_task(&self, is_disconnected: &AtomicBool, task: Task) -> Result<(), Busy> {
        let waiting = self.waiting_reads.try_acquire().map_err(|_| Busy)?;
        let permit = self.reads.permit().await;
        drop(waiting);
        if is_disconnected.load(Ordering::Relaxed) {
            drop(permit);
            self.abandoned.run_task(task).await;
        } else {
            on_thread(permit, task).await;
        }
        Ok(())
    }
}

/// Computations of one kind.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Semaphore>);

impl Pool {
    fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Runs `work`: once it has begun, to its end, even if the caller stops waiting. A panic in it is resumed in the caller.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (task, result) = erased(work);
        self.run_task(task).await;
        taken(&result)
    }

    async fn run_task(&self, task: Task) {
        on_thread(self.permit().await, task).await;
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.0).acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// Work without its type: the runtime's machinery for a blocking task is compiled once, not for each of a hundred closures.
type Task = Box<dyn FnOnce() + Send>;

fn erased<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Task, Arc<Mutex<Option<T>>>) {
    let result = Arc::new(Mutex::new(None));
    let written = Arc::clone(&result);
    (Box::new(move || *written.lock() = Some(work())), result)
}

fn taken<T>(result: &Mutex<Option<T>>) -> T {
    result.lock().take().expect("the task has ended")
}

async fn on_thread(permit: OwnedSemaphorePermit, task: Task) {
    let done = spawn_blocking(move || {
        // Released when the work has ended, even if the caller has stopped waiting by then.
        let _permit = permit;
        task();
    });
    done.await.unwrap_or_else(|error| resume_unwind(error.into_panic()));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_few_pieces_run_at_a_time_and_a_panic_costs_only_its_caller() {
        let (blocking, running, most) =
            (Blocking::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let piece = |_| {
            let (blocking, running, most) = (blocking.clone(), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                blocking.answers.run(work).await;
            })
        };
        for done in (0..200).map(piece).collect::<Vec<_>>() {
            done.await.expect("the work is done");
        }
        assert!(most.load(Ordering::SeqCst) <= MAX_OF_A_KIND);
        for _ in 0..=MAX_OF_A_KIND {
            assert_eq!(catch_panic(blocking.answers.run(|| panic!("wrong"))).await, Err::<(), _>("wrong".to_owned()));
        }
        assert_eq!(blocking.answers.run(|| 7).await, 7);
    }

    /// Reads that begin, then wait until they are released.
    #[derive(Default)]
    struct Held {
        blocking: Blocking,
        begun: Arc<AtomicUsize>,
        release: Arc<AtomicBool>,
    }

    impl Held {
        fn read(&self, is_disconnected: bool) -> tokio::task::JoinHandle<Result<(), Busy>> {
            let (blocking, begun, release) =
                (self.blocking.clone(), Arc::clone(&self.begun), Arc::clone(&self.release));
            tokio::spawn(async move {
                let work = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while !release.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                };
                blocking.read(&AtomicBool::new(is_disconnected), work).await
            })
        }

        async fn begun(&self, count: usize) {
            while self.begun.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn reads_leave_threads_for_others_are_bounded_and_are_dropped_with_their_caller() {
        let held = Held::default();
        let disconnected: Vec<_> = (0..3).map(|_| held.read(true)).collect();
        held.begun(1).await;
        let mut reads: Vec<_> = (0..MAX_OF_A_KIND).map(|_| held.read(false)).collect();
        held.begun(1 + MAX_OF_A_KIND).await;
        let abandoned: Vec<_> = (0..MAX_READS).map(|_| held.read(false)).collect();
        while !matches!(tokio::time::timeout(Duration::ZERO, held.read(false)).await, Ok(Ok(Err(Busy)))) {}
        for read in abandoned.into_iter().chain(disconnected) {
            read.abort();
            let _ = read.await;
        }
        // In the meantime, others are not behind them.
        assert_eq!(held.blocking.answers.run(|| 1).await, 1);
        assert_eq!(held.blocking.changes.run(|| 2).await, 2);
        held.release.store(true, Ordering::SeqCst);
        for read in reads.drain(..) {
            assert!(read.await.expect("no panic").is_ok());
        }
        assert_eq!(held.blocking.read(&AtomicBool::default(), || 3).await.expect("there is room"), 3);
        assert_eq!(held.begun.load(Ordering::SeqCst), 1 + MAX_OF_A_KIND, "nothing is done for callers that are gone");
    }
}
