//! Tasks for every higher layer: starts them, waits for the signal to stop, and has threads for long computations, such as checking
//! a scenario or making many events, which would block the async workers.
//!
//! The threads are few and permanent: the allocator retains freed memory for the thread that used it, so each thread that has
//! once processed a large document costs memory permanently. (The runtime's own pool starts another thread whenever no idle
//! one is available.)

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// Returns once `stop` is true, or its sender is dropped.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A future that is polled only when it was woken itself. Beside one that is woken much more often, within one task, it costs
/// hardly anything.
#[derive(Debug)]
pub struct WhenWoken<F> {
    future: Pin<Box<F>>,
    woken: Option<Arc<Woken>>,
}

/// Whether a future was woken, and the task to be woken with it.
#[derive(Debug)]
struct Woken {
    is_woken: AtomicBool,
    task: Waker,
}

impl<F: Future> WhenWoken<F> {
    /// A future that was not polled yet.
    pub fn new(future: F) -> Self {
        Self { future: Box::pin(future), woken: None }
    }
}

impl<F: Future> Future for WhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let woken = match &self.woken {
            Some(woken) if woken.task.will_wake(cx.waker()) => {
                // Set again by whoever wakes it from here on.
                if !woken.is_woken.swap(false, Ordering::AcqRel) {
                    return Poll::Pending;
                }
                Arc::clone(woken)
            }
            _ => {
                let woken = Arc::new(Woken { is_woken: AtomicBool::new(false), task: cx.waker().clone() });
                self.woken.insert(woken).clone()
            }
        };
        self.future.as_mut().poll(&mut Context::from_waker(&Waker::from(woken)))
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// The future of a task, of one type for all: the runtime's code for a task is compiled again, 4 KB of it, for each type of future.
pub fn boxed(task: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(task)
}

/// Starts a task.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(boxed(task))
}

/// Starts work that blocks, on a thread of the runtime.
pub fn spawn_beside(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    spawn_blocking(Box::new(work) as Piece)
}

/// Does work that blocks, on a thread of the runtime.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    spawn_beside(move || *place.lock() = Some(work())).await?;
    Ok(result.lock().take().expect("the work is done"))
}

/// Runs a future to its end.
pub fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let mut result = None;
    let whole: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async { result = Some(future.await) });
    runtime.block_on(whole);
    result.expect("the future has ended")
}

/// Most computations at a time; further ones wait in order.
pub const MOST_AT_ONCE: usize = 4;

type Piece = Box<dyn FnOnce() + Send>;

/// A cheap handle to threads besides the async workers. They start with the first computations and end with the last handle.
#[derive(Clone, Debug)]
pub struct Blocking {
    pieces: Sender<Piece>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug)]
struct Queue {
    pieces: Arc<Mutex<Receiver<Piece>>>,
    threads: usize,
}

impl Default for Blocking {
    fn default() -> Self {
        let (pieces, waiting) = channel();
        Self { pieces, queue: Arc::new(Mutex::new(Queue { pieces: Arc::new(Mutex::new(waiting)), threads: 0 })) }
    }
}

impl Blocking {
    /// Runs `work` to its end, even if the caller stops waiting. A panic in it is resumed in the caller.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        self.complete(Box::new(move || *place.lock() = Some(work()))).await;
        result.lock().take().expect("the work is done")
    }

    /// The same for work that keeps its result by itself.
    async fn complete(&self, work: Piece) {
        let (done, result) = oneshot::channel();
        let runtime = Handle::current();
        let piece = move || {
            let _inside = runtime.enter();
            // Nobody may wait for it any longer.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        };
        self.pieces.send(Box::new(piece)).expect("the queue holds the other end");
        self.queue.lock().grow();
        if let Err(panic) = result.await.expect("every piece is done") {
            resume_unwind(panic);
        }
    }
}

impl Queue {
    /// Starts one more thread, unless there are enough.
    fn grow(&mut self) {
        if self.threads == MOST_AT_ONCE {
            return;
        }
        let pieces = Arc::clone(&self.pieces);
        let thread = thread::Builder::new().name("blocking".to_owned()).spawn(move || work_through(&pieces));
        match thread {
            Ok(_) => self.threads += 1,
            // The existing threads do the work.
            Err(_) if self.threads > 0 => {}
            // Without any thread, the work is done here.
            Err(_) => {
                if let Ok(piece) = self.pieces.lock().try_recv() {
                    piece();
                }
            }
        }
    }
}

/// The loop of each thread; ends with the last handle.
fn work_through(pieces: &Mutex<Receiver<Piece>>) {
    loop {
        // One thread waits for the next computation, the others for the lock.
        let piece = pieces.lock().recv();
        match piece {
            Ok(piece) => piece(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;
    use crate::http::handler::caught;

    #[tokio::test]
    async fn a_future_is_polled_only_when_it_was_woken_itself() {
        let (notify, polls) = (Arc::new(Notify::new()), AtomicUsize::new(0));
        let mut notified = Box::pin(notify.notified());
        let mut rare = WhenWoken::new(std::future::poll_fn(|cx| {
            polls.fetch_add(1, Ordering::SeqCst);
            notified.as_mut().poll(cx)
        }));
        for _ in 0..10 {
            tokio::select! {
                biased;
                () = &mut rare => unreachable!("nothing has woken it"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        let notify = Arc::clone(&notify);
        tokio::spawn(async move { notify.notify_one() });
        rare.await;
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }

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
        let mut threads = HashSet::new();
        for _ in 0..200 {
            threads.insert(blocking.run(|| thread::current().id()).await);
        }
        assert!(threads.len() <= MOST_AT_ONCE, "{} threads", threads.len());
        for _ in 0..=MOST_AT_ONCE {
            assert_eq!(caught(blocking.run(|| panic!("wrong"))).await, Err::<(), _>("wrong".to_owned()));
        }
        assert_eq!(blocking.run(|| 7).await, 7);
    }
}
