//! Tasks for every higher layer: starts them, waits for the signal to stop, and has threads for long computations, such as checking
//! a scenario or making many events, which would block the async workers.
//!
//! The threads are few and permanent: the allocator retains freed memory for the thread that used it, so each thread that has
//! once processed a large document costs memory permanently. (The runtime's own pool starts another thread whenever no idle
//! one is available.)

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use parking_lot::{Condvar, Mutex, MutexGuard};
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

pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(boxed(task))
}

/// Starts work that blocks, on a thread of the runtime.
pub fn spawn_blocking_task(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    spawn_blocking(Box::new(work) as Work)
}

/// Does work that blocks, on a thread of the runtime.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let result = Arc::new(Mutex::new(None));
    let place = Arc::clone(&result);
    spawn_blocking_task(move || *place.lock() = Some(work())).await?;
    Ok(result.lock().take().expect("the work is done"))
}

pub fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let mut result = None;
    let whole: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async { result = Some(future.await) });
    runtime.block_on(whole);
    result.expect("the future has ended")
}

pub const MOST_AT_ONCE: usize = 4;
/// Most reads that wait; further ones are refused.
pub const MOST_READS: usize = 256;

/// What a computation is for. Those of an earlier lane go first, and each lane leaves a thread free for the lanes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// An answer of the emulated API, or an emission.
    Answer,
    /// A call of the control API that changes something.
    Change,
    /// A call of the control API that only reads.
    Read,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Answer, Self::Change, Self::Read];

    /// Most computations at a time in this lane and those after it.
    const fn most(self) -> usize {
        MOST_AT_ONCE - self as usize
    }
}

#[derive(Debug)]
pub struct Busy;

type Work = Box<dyn FnOnce() + Send>;

struct Piece {
    work: Work,
    reader: Option<Reader>,
}

struct Reader {
    /// Upgrades while the caller waits for the result.
    waits: Weak<()>,
    /// Whether the caller has closed its sending side, as it has if it is gone.
    has_left: Arc<AtomicBool>,
}

impl Piece {
    fn is_abandoned(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.waits.strong_count() == 0)
    }

    fn has_left(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| reader.has_left.load(Ordering::Relaxed))
    }
}

/// A cheap handle to threads besides the async workers. They start with the first computations and end with the last handle.
#[derive(Clone, Debug, Default)]
pub struct Blocking(Arc<Threads>);

/// Ends the threads when it is dropped.
#[derive(Debug, Default)]
struct Threads(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: [VecDeque<Piece>; Lane::ALL.len()],
    running: [usize; Lane::ALL.len()],
    threads: usize,
    has_ended: bool,
}

impl Blocking {
    /// Runs `work` to its end, even if the caller stops waiting. A panic in it is resumed in the caller.
    pub async fn run<T: Send + 'static>(&self, lane: Lane, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.complete(lane, None, work).await
    }

    /// Runs work that only reads, unless the caller stops waiting before it has begun. While `has_left` is true, other reads go
    /// first.
    pub async fn read<T: Send + 'static>(
        &self,
        has_left: &Arc<AtomicBool>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        if self.0.0.queue.lock().reads() >= MOST_READS {
            return Err(Busy);
        }
        let waits = Arc::new(());
        let reader = Reader { waits: Arc::downgrade(&waits), has_left: Arc::clone(has_left) };
        let result = self.complete(Lane::Read, Some(reader), work).await;
        drop(waits);
        Ok(result)
    }

    async fn complete<T: Send + 'static>(
        &self,
        lane: Lane,
        reader: Option<Reader>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (done, result) = oneshot::channel();
        let runtime = Handle::current();
        let work = move || {
            let _inside = runtime.enter();
            // Nobody may wait for it any longer.
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        };
        self.0.0.add(lane, Piece { work: Box::new(work), reader });
        result.await.expect("every piece is done").unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Shared {
    fn add(self: &Arc<Self>, lane: Lane, piece: Piece) {
        let mut queue = self.queue.lock();
        queue.waiting[lane as usize].push_back(piece);
        if queue.threads < MOST_AT_ONCE {
            let shared = Arc::clone(self);
            let started = thread::Builder::new().name("blocking".to_owned()).spawn(move || shared.work_through());
            match started {
                Ok(_) => queue.threads += 1,
                // The existing threads do the work.
                Err(_) if queue.threads > 0 => {}
                // Without any thread, the work is done here.
                Err(_) => {
                    let piece = queue.waiting[lane as usize].pop_back();
                    drop(queue);
                    if let Some(piece) = piece {
                        (piece.work)();
                    }
                    return;
                }
            }
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// The loop of each thread; ends with the last handle.
    fn work_through(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some((lane, piece)) = queue.next() {
                queue.running[lane as usize] += 1;
                MutexGuard::unlocked(&mut queue, piece.work);
                queue.running[lane as usize] -= 1;
                // What this lane had no thread for may begin.
                self.changed.notify_one();
            } else if queue.has_ended {
                return;
            } else {
                self.changed.wait(&mut queue);
            }
        }
    }
}

impl Queue {
    /// How many reads wait whose callers are there.
    fn reads(&self) -> usize {
        let waiting = self.waiting[Lane::Read as usize].iter();
        waiting.filter(|read| !read.is_abandoned() && !read.has_left()).count()
    }

    /// The next piece for which its lane has a thread left.
    fn next(&mut self) -> Option<(Lane, Piece)> {
        self.waiting[Lane::Read as usize].retain(|read| !read.is_abandoned());
        let (lane, waiting) = Lane::ALL.into_iter().zip(&mut self.waiting).find(|(lane, waiting)| {
            !waiting.is_empty() && self.running[*lane as usize..].iter().sum::<usize>() < lane.most()
        })?;
        let at = waiting.iter().position(|piece| !piece.has_left()).unwrap_or_default();
        Some((lane, waiting.remove(at)?))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.queue.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

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
                blocking.run(Lane::Answer, work).await;
            })
        };
        for done in (0..200).map(piece).collect::<Vec<_>>() {
            done.await.expect("the work is done");
        }
        assert!(most.load(Ordering::SeqCst) <= MOST_AT_ONCE);
        let mut threads = HashSet::new();
        for _ in 0..200 {
            threads.insert(blocking.run(Lane::Answer, || thread::current().id()).await);
        }
        assert!(threads.len() <= MOST_AT_ONCE, "{} threads", threads.len());
        for _ in 0..=MOST_AT_ONCE {
            assert_eq!(caught(blocking.run(Lane::Answer, || panic!("wrong"))).await, Err::<(), _>("wrong".to_owned()));
        }
        assert_eq!(blocking.run(Lane::Answer, || 7).await, 7);
    }

    /// Reads that begin, then wait until they are released.
    struct Held {
        blocking: Blocking,
        begun: Arc<AtomicUsize>,
        release: Arc<AtomicBool>,
    }

    impl Held {
        fn read(&self, has_left: bool) -> JoinHandle<Result<(), Busy>> {
            let (blocking, begun, release) =
                (self.blocking.clone(), Arc::clone(&self.begun), Arc::clone(&self.release));
            tokio::spawn(async move {
                let work = move || {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while !release.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                };
                blocking.read(&Arc::new(AtomicBool::new(has_left)), work).await
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
        let held = Held { blocking: Blocking::default(), begun: Arc::default(), release: Arc::default() };
        let mut reads: Vec<_> = (0..Lane::Read.most()).map(|_| held.read(false)).collect();
        held.begun(Lane::Read.most()).await;
        let abandoned: Vec<_> = (0..MOST_READS).map(|_| held.read(false)).collect();
        while !matches!(tokio::time::timeout(Duration::ZERO, held.read(false)).await, Ok(Ok(Err(Busy)))) {}
        for read in abandoned {
            read.abort();
            let _ = read.await;
        }
        // In the meantime, others are not behind them.
        assert_eq!(held.blocking.run(Lane::Answer, || 1).await, 1);
        assert_eq!(held.blocking.run(Lane::Change, || 2).await, 2);
        held.release.store(true, Ordering::SeqCst);
        for read in reads.drain(..) {
            assert!(read.await.expect("no panic").is_ok());
        }
        assert_eq!(held.blocking.read(&Arc::default(), || 3).await.expect("there is room"), 3);
        assert_eq!(held.begun.load(Ordering::SeqCst), Lane::Read.most(), "nothing is done for callers that have left");
    }
}
