//! The delivery workers, one for each workspace with waiting deliveries: each takes due jobs from its workspace's queue, has the
//! attempts made, and sleeps until the next is due.
//!
//! How an attempt is made and reported is in `deliver`; what follows from its outcome is in the queue.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::agenda::Task;
use crate::clock::Instant;
use crate::engine::{GONE, events_made};
use crate::tasks::{boxed, stopped};
use crate::webhook::deliver::{Deliverer, WorkerState};
use crate::webhook::egress::Destination;
use crate::webhook::resolve::LOOK_UPS_PER_WORKSPACE;
use crate::workspace::{Job, Queue, Workspace};

/// Takes the next due attempt from the queue, with a task that the agenda counts as running.
fn take_due(workspace: &Workspace, queue: &mut Queue, now: Instant) -> Option<(Job, Task)> {
    let job = queue.take_due(now)?;
    Some((job, workspace.agenda().begin()))
}

impl Deliverer {
    /// Starts a worker for each workspace received. When `stop` becomes true, makes the attempts that are due and returns once
    /// they have ended.
    pub async fn run(
        self: Arc<Self>,
        mut workspaces: mpsc::UnboundedReceiver<Arc<Workspace>>,
        mut stop: watch::Receiver<bool>,
    ) {
        let (mut workers, stopping) = (JoinSet::new(), stop.clone());
        loop {
            tokio::select! {
                received = workspaces.recv() => match received {
                    Some(workspace) => drop(workers.spawn(boxed(Arc::clone(&self).worker(workspace, stopping.clone())))),
                    None => break,
                },
                // Frees the memory of workers that have ended.
                Some(_) = workers.join_next() => {}
                () = stopped(&mut stop), if !workspaces.is_closed() => workspaces.close(),
            }
        }
        workers.join_all().await;
    }

    /// Makes the attempts of one workspace until none waits, or the workspace is evicted or reset; after `stop`, until none is
    /// due.
    pub(super) async fn worker(self: Arc<Self>, workspace: Arc<Workspace>, mut stop: watch::Receiver<bool>) {
        let (slots, look_ups) = (Semaphore::new(self.slots_of_workspace), Semaphore::new(LOOK_UPS_PER_WORKSPACE));
        let state = Arc::new(WorkerState { workspace, slots, look_ups: Arc::new(look_ups) });
        let workspace = &state.workspace;
        let mut leaving = workspace.leaving();
        // Aborted when the worker ends, so that nothing is posted after the emulator has stopped.
        let mut attempts = JoinSet::new();
        while !workspace.has_left() {
            let order = self.profile_of(workspace).webhooks.order;
            // A closed channel means that the emulator was dropped.
            let draining = *stop.borrow() || stop.has_changed().is_err();
            while attempts.try_join_next().is_some() {}
            events_made(workspace).await;
            let mut due = Vec::new();
            let (next, is_done) = workspace.with_queue(|queue| {
                queue.set_order(order);
                let now = workspace.clock().instant();
                // Events of this instant come before the deliveries due at it, so that the order of these is always the same.
                let is_firing = workspace.agenda().is_firing(now);
                if !is_firing {
                    due.extend(std::iter::from_fn(|| take_due(workspace, queue, now)));
                }
                let is_idle = !is_firing && attempts.is_empty() && queue.under_way() == 0;
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

    /// Starts a task for each due attempt. Those to the built-in receiver are made here instead, one after the other, so that
    /// their order does not depend on scheduling. Returns whether there were any of these.
    async fn send_off(
        self: &Arc<Self>,
        state: &Arc<WorkerState>,
        due: Vec<(Job, Task)>,
        attempts: &mut JoinSet<()>,
    ) -> bool {
        let mut made = false;
        for (job, task) in due {
            let destination = self.destination(&state.workspace, &job);
            if matches!(destination, Some(Destination::Sink(_))) {
                self.make(state, job, destination).await;
                made = true;
            } else {
                attempts.spawn(Arc::clone(self).work(Arc::clone(state), job, destination, task.outside()));
            }
        }
        if made {
            // Lets other tasks run during a flood to the built-in receiver.
            tokio::task::yield_now().await;
        }
        made
    }

    /// Makes one attempt and then any further ones that are due, without waking the worker for each. The agenda counts them as one
    /// task.
    async fn work(self: Arc<Self>, state: Arc<WorkerState>, first: Job, to: Option<Destination>, _task: Task) {
        let mut next = Some((first, to));
        while let Some((job, to)) = next {
            self.make(&state, job, to).await;
            let job = state.workspace.with_queue(|queue| queue.take_due(state.workspace.clock().instant()));
            next = job.map(|job| {
                let to = self.destination(&state.workspace, &job);
                (job, to)
            });
        }
    }
}

async fn sleep_until(workspace: &Workspace, due: Option<Instant>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
