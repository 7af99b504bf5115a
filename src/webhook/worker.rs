//! The worker of one workspace: owns its queue, sets workers to what is due, sleeps until more is.
//!
//! What an attempt is and how its outcome is told stands in `deliver`; what follows from it in `queue`.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::agenda::{Slot, Task};
use crate::clock::Instant;
use crate::engine::events_made;
use crate::journal::HandedOver;
use crate::tasks::stopped;
use crate::webhook::deliver::{Deliverer, GONE};
use crate::webhook::queue::{Job, Queue};
use crate::webhook::resolve::LOOK_UPS_PER_WORKSPACE;
use crate::workspace::Workspace;

/// Most events taken over before the next attempts are looked for.
const MOST_AT_ONCE: usize = 256;

/// What a worker shares with its workers.
pub(super) struct WorkerState {
    /// Whose deliveries they are.
    pub(super) workspace: Arc<Workspace>,
    queue: Mutex<(Queue, Slot)>,
    /// Told when a worker has nothing more to do.
    changed: Notify,
    /// What its attempts may take at a time of what all workspaces share.
    pub(super) slots: Semaphore,
    pub(super) look_ups: Arc<Semaphore>,
}

impl WorkerState {
    fn new(workspace: Arc<Workspace>, attempts: usize) -> Self {
        let queue = Mutex::new((Queue::default(), workspace.agenda().slot()));
        Self {
            workspace,
            queue,
            changed: Notify::new(),
            slots: Semaphore::new(attempts),
            look_ups: Arc::new(Semaphore::new(LOOK_UPS_PER_WORKSPACE)),
        }
    }

    /// Does something with the queue; the agenda then knows what is due next.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        let mut locked = self.queue.lock();
        let (queue, slot) = &mut *locked;
        let done = act(queue);
        slot.set(queue.next_due());
        done
    }

    /// The next attempt that is due, under way from here on.
    fn take_due(&self, queue: &mut Queue) -> Option<(Job, Task)> {
        let job = queue.take_due(self.workspace.clock().instant())?;
        Some((job, self.workspace.agenda().begin()))
    }
}

impl Deliverer {
    /// Owns the queue of one workspace until nobody hands over any more, or the workspace leaves.
    pub(super) async fn worker(
        self: Arc<Self>,
        workspace: Arc<Workspace>,
        mut events: mpsc::UnboundedReceiver<HandedOver>,
    ) {
        let round = Arc::new(WorkerState::new(workspace, self.slots_of_workspace));
        let mut leaving = round.workspace.leaving();
        // They end with the worker, so that nobody is posted to once the emulator has stopped.
        let mut workers = JoinSet::new();
        let (mut handed, mut draining) = (Vec::new(), false);
        while !round.workspace.has_left() {
            let order = self.profile_of(&round.workspace).webhooks.order;
            let mut due = Vec::new();
            let (next, idle) = round.with(|queue| {
                queue.set_order(order);
                for HandedOver { event, .. } in &handed {
                    queue.push(event);
                }
                due.extend(std::iter::from_fn(|| round.take_due(queue)));
                (queue.next_due(), queue.under_way() == 0)
            });
            // Their deliveries are planned: they are due or under way by themselves.
            handed.clear();
            while workers.try_join_next().is_some() {}
            if self.send_off(&round, due, &mut workers).await {
                continue;
            }
            if draining && idle {
                return;
            }
            tokio::select! {
                count = events.recv_many(&mut handed, MOST_AT_ONCE), if !draining => draining = count == 0,
                () = round.changed.notified() => {}
                () = sleep_until(&round.workspace, next), if !draining => {}
                () = stopped(&mut leaving) => {}
            }
        }
        events.close();
        handed.extend(std::iter::from_fn(|| events.try_recv().ok()));
        for late in &handed {
            self.cancel_all(&late.event, GONE);
        }
        self.cancel(round.with(Queue::give_up_all), GONE);
    }

    /// Sets workers to attempts that are due. Those that stay inside are made here, one after the other, so that their order
    /// does not depend on which processor is free. Returns whether any was.
    async fn send_off(
        self: &Arc<Self>,
        round: &Arc<WorkerState>,
        due: Vec<(Job, Task)>,
        workers: &mut JoinSet<()>,
    ) -> bool {
        if !due.is_empty() {
            events_made(&round.workspace).await;
        }
        let mut made = false;
        for (job, task) in due {
            if self.stays_inside(&round.workspace, &job) {
                self.make(round, job).await;
                made = true;
            } else {
                workers.spawn(Arc::clone(self).work(Arc::clone(round), job, task.outside()));
            }
        }
        if made {
            // A flood to the built-in receiver leaves the processor to others from time to time.
            tokio::task::yield_now().await;
        }
        made
    }

    /// Makes one attempt, and then whatever else is due, without a way back to the worker.
    async fn work(self: Arc<Self>, round: Arc<WorkerState>, first: Job, task: Task) {
        let mut next = Some((first, task));
        while let Some((job, _task)) = next {
            self.make(&round, job).await;
            next = round.with(|queue| round.take_due(queue)).map(|(job, task)| (job, task.outside()));
        }
        // The worker sleeps until what was due next when it looked last; retries may be due earlier.
        round.changed.notify_one();
    }
}

async fn sleep_until(workspace: &Workspace, due: Option<Instant>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
