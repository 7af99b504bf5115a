//! The worker of one workspace: takes what is due from its queue, has the attempts made, sleeps until more is due.
//!
//! What an attempt is and how its outcome is reported is in `deliver`; what follows from it in the queue.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::agenda::Task;
use crate::clock::Instant;
use crate::engine::{GONE, events_made};
use crate::tasks::stopped;
use crate::webhook::deliver::Deliverer;
use crate::webhook::resolve::LOOK_UPS_PER_WORKSPACE;
use crate::workspace::{Job, Queue, Workspace};

/// What a worker shares with the tasks that make its attempts.
pub(super) struct WorkerState {
    /// Whose deliveries they are.
    pub(super) workspace: Arc<Workspace>,
    /// What its attempts may take at a time of what all workspaces share.
    pub(super) slots: Semaphore,
    pub(super) look_ups: Arc<Semaphore>,
}

/// The next attempt that is due, under way from here on.
fn take_due(workspace: &Workspace, queue: &mut Queue) -> Option<(Job, Task)> {
    let job = queue.take_due(workspace.clock().instant())?;
    Some((job, workspace.agenda().begin()))
}

impl Deliverer {
    /// Makes the attempts of one workspace until none waits, or the workspace leaves; after `stop`, until none is due.
    pub(super) async fn worker(self: Arc<Self>, workspace: Arc<Workspace>, mut stop: watch::Receiver<bool>) {
        let (slots, look_ups) = (Semaphore::new(self.slots_of_workspace), Semaphore::new(LOOK_UPS_PER_WORKSPACE));
        let state = Arc::new(WorkerState { workspace, slots, look_ups: Arc::new(look_ups) });
        let workspace = &state.workspace;
        let mut leaving = workspace.leaving();
        // They end with the worker, so that nobody is posted to once the emulator has stopped.
        let mut attempts = JoinSet::new();
        while !workspace.has_left() {
            let order = self.profile_of(workspace).webhooks.order;
            // Whoever dropped the emulator does not wait either.
            let draining = *stop.borrow() || stop.has_changed().is_err();
            while attempts.try_join_next().is_some() {}
            let mut due = Vec::new();
            let (next, is_done) = workspace.with_queue(|queue| {
                queue.set_order(order);
                due.extend(std::iter::from_fn(|| take_due(workspace, queue)));
                let is_idle = attempts.is_empty() && queue.under_way() == 0;
                let is_done = is_idle && (draining || queue.pending() == 0);
                queue.has_worker = !is_done;
                (queue.next_due(), is_done)
            });
            if is_done {
                return;
            }
            if self.send_off(&state, due, &mut attempts).await {
                continue;
            }
            tokio::select! {
                () = workspace.queue_changed().notified() => {}
                Some(_) = attempts.join_next() => {}
                () = sleep_until(workspace, next), if !draining => {}
                () = stopped(&mut stop), if !draining => {}
                () = stopped(&mut leaving) => {}
            }
        }
        let given_up = workspace.with_queue(|queue| {
            queue.has_worker = false;
            queue.give_up_all()
        });
        self.cancel(given_up, GONE);
    }

    /// Sets workers to attempts that are due. Those that stay inside are made here, one after the other, so that their order
    /// does not depend on which processor is free. Returns whether any was.
    async fn send_off(
        self: &Arc<Self>,
        state: &Arc<WorkerState>,
        due: Vec<(Job, Task)>,
        attempts: &mut JoinSet<()>,
    ) -> bool {
        if !due.is_empty() {
            events_made(&state.workspace).await;
        }
        let mut made = false;
        for (job, task) in due {
            if self.stays_inside(&state.workspace, &job) {
                self.make(state, job).await;
                made = true;
            } else {
                attempts.spawn(Arc::clone(self).work(Arc::clone(state), job, task.outside()));
            }
        }
        if made {
            // A flood to the built-in receiver leaves the processor to others from time to time.
            tokio::task::yield_now().await;
        }
        made
    }

    /// Makes one attempt, and then whatever else is due, without a way back to the worker.
    async fn work(self: Arc<Self>, state: Arc<WorkerState>, first: Job, task: Task) {
        let mut next = Some((first, task));
        while let Some((job, _task)) = next {
            self.make(&state, job).await;
            next = state
                .workspace
                .with_queue(|queue| take_due(&state.workspace, queue))
                .map(|(job, task)| (job, task.outside()));
        }
    }
}

async fn sleep_until(workspace: &Workspace, due: Option<Instant>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
