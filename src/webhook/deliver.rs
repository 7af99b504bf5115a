//! Delivery attempts: a worker for each workspace with waiting deliveries takes due jobs from its queue, makes the attempts, reports
//! each outcome to the queue, the delivery store and the journal, and sleeps until the next is due.
//!
//! The workspace's queue decides what is due, and whether and when to retry.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::agenda::Task;
use crate::clock::{Instant, machine};
use crate::settings::Profile;
use crate::state::engine::deliveries::DeliveryStatus;
use crate::state::engine::sink::Receipt;
use crate::state::engine::{Engine, WORKSPACE_GONE, events_made};
use crate::state::journal::Entry;
use crate::state::workspace::{
    AttemptOutcome, AttemptRecord, FailureReason, Job, Next, PlannedDelivery, SignedContent, Workspace,
};
use crate::util::header_lines::HeaderLines;
use crate::util::tasks::{boxed, stopped};
use crate::webhook::attempt::{Prepared, prepare, signature_time, verify_delivery};
use crate::webhook::client::{Client, Post};
use crate::webhook::dial::DialProblem;
use crate::webhook::egress::{Destination, Egress, Target};
use crate::webhook::resolve::LOOK_UPS_PER_WORKSPACE;

pub const CONCURRENT_ATTEMPTS: usize = 256;
const PART_OF_A_WORKSPACE: usize = 4;

/// Everything that deliveries need: the engine, the egress rules, the HTTP client and the limits.
#[derive(Debug)]
pub struct Deliverer {
    engine: Arc<Engine>,
    egress: Arc<Egress>,
    client: Arc<Client>,
    slots: Semaphore,
    slots_of_workspace: usize,
}

struct WorkerState {
    workspace: Arc<Workspace>,
    /// The workspace's share of the concurrent attempts and of the look-ups.
    slots: Semaphore,
    look_ups: Arc<Semaphore>,
}

/// Where an attempt goes, with what had to be looked up for it.
enum Way {
    Sink(Arc<str>),
    /// A server. `addresses` is `None` if a kept connection may be used. `took` is how long the look-up took: by the machine's
    /// time, which counts towards the timeout, and by the workspace's clock.
    Dial {
        target: Arc<Target>,
        addresses: Result<Option<Vec<SocketAddr>>, DialProblem>,
        took: (Duration, Duration),
    },
}

impl Deliverer {
    pub fn new(engine: Arc<Engine>, egress: Arc<Egress>, client: Arc<Client>, attempts: usize) -> Arc<Self> {
        let (slots, slots_of_workspace) = (Semaphore::new(attempts), (attempts / PART_OF_A_WORKSPACE).max(1));
        Arc::new(Self { engine, egress, client, slots, slots_of_workspace })
    }

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
    async fn worker(self: Arc<Self>, workspace: Arc<Workspace>, mut stop: watch::Receiver<bool>) {
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
                    due.extend(std::iter::from_fn(|| Some((queue.take_due(now)?, workspace.agenda().begin()))));
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
        self.cancel(given_up, WORKSPACE_GONE);
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
                self.run_attempt(state, job, destination).await;
                made = true;
            } else {
                attempts.spawn(Arc::clone(self).run_attempts(Arc::clone(state), job, destination, task.outside()));
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
    async fn run_attempts(self: Arc<Self>, state: Arc<WorkerState>, first: Job, to: Option<Destination>, _task: Task) {
        let mut next = Some((first, to));
        while let Some((job, to)) = next {
            self.run_attempt(&state, job, to).await;
            let job = state.workspace.with_queue(|queue| queue.take_due(state.workspace.clock().instant()));
            next = job.map(|job| {
                let to = self.destination(&state.workspace, &job);
                (job, to)
            });
        }
    }

    async fn run_attempt(&self, state: &WorkerState, job: Job, destination: Option<Destination>) {
        let route = match destination {
            Some(destination) => Some(self.route(state, destination).await),
            None => None,
        };
        // Acquired after the look-up, so that one that hangs does not take a slot from other attempts.
        let _slots = match &route {
            Some(Way::Dial { addresses: Ok(_), .. }) => Some((state.slots.acquire().await, self.slots.acquire().await)),
            _ => None,
        };
        if state.workspace.has_left() {
            return self.engine.deliveries.note_cancelled(&job.event, &job.delivery, WORKSPACE_GONE);
        }
        // The settings may have changed while the attempt waited.
        let profile = self.profile_of(&state.workspace);
        let (record, began) = self.attempt(job, route, state, &profile).await;
        self.settle(state, &profile, record, began);
    }

    /// Looks the name of a server up, limited by the attempt's timeout.
    async fn route(&self, state: &WorkerState, destination: Destination) -> Way {
        let target = match destination {
            Destination::Sink(name) => return Way::Sink(name),
            Destination::Dial(target) => target,
        };
        let clock = state.workspace.clock();
        let began = (machine::monotonic(), clock.instant());
        let limit = self.profile_of(&state.workspace).webhooks.timeout.get();
        let addresses = self.client.look_up(&target, &state.look_ups, limit).await;
        let took = match addresses {
            Ok(None) => Default::default(),
            _ => (machine::monotonic().duration_since(began.0), clock.instant().since(began.1)),
        };
        Way::Dial { target, addresses, took }
    }

    /// Where an attempt goes under the settings in force; `None` if no request can be made for its URL.
    fn destination(&self, workspace: &Workspace, job: &Job) -> Option<Destination> {
        let forwards = &self.profile_of(workspace).webhooks.forwards;
        self.egress.destination(forwards, &job.delivery.url)
    }

    fn profile_of(&self, workspace: &Workspace) -> Arc<Profile> {
        self.engine.profile_for(Some(workspace.name()))
    }

    async fn attempt(
        &self,
        job: Job,
        route: Option<Way>,
        state: &WorkerState,
        profile: &Profile,
    ) -> (AttemptRecord, Instant) {
        let workspace = &state.workspace;
        let now = workspace.clock().now();
        let looked_up = match &route {
            Some(Way::Dial { took: (_, by_clock), .. }) => *by_clock,
            _ => Duration::ZERO,
        };
        let secrets = workspace.lock().subscriptions.signing_secrets(&job.delivery.subscription, now);
        let at = signature_time(workspace.clock(), now, profile);
        let is_detectable = |scheme| job.event.tamper.is_some_and(|tamper| tamper.is_detectable(scheme));
        let forged = profile.schemes().iter().all(is_detectable);
        let (outcome, dialled, prepared) = match secrets {
            None => {
                let gone = "the subscription was deleted or disabled before this attempt";
                (failed(FailureReason::SubscriptionGone, gone), Arc::from(""), None)
            }
            Some(secrets) => match prepare(&job, &secrets, profile, at) {
                Err(problem) => {
                    let unreadable = format!("{problem} (webhooks.secret_key)");
                    (failed(FailureReason::SecretUnreadable, &unreadable), Arc::from(""), None)
                }
                Ok(mut prepared) => {
                    let (outcome, dialled) = match route {
                        None => {
                            (failed(FailureReason::InvalidAnswer, "no request can be made for this URL"), Arc::from(""))
                        }
                        Some(Way::Sink(name)) => {
                            let url = job.delivery.url.as_str();
                            let verified =
                                verify_delivery(&prepared.headers, url, &prepared.body, &secrets, profile, at);
                            self.receive(&name, &job.delivery, &prepared, verified, now.wall)
                        }
                        Some(Way::Dial { target, addresses, took: (took, _) }) => {
                            self.post(state, target, addresses, took, &mut prepared, profile).await
                        }
                    };
                    (outcome, dialled, Some(prepared))
                }
            },
        };
        let (headers, body, signed) = match prepared {
            Some(prepared) => (prepared.lines, prepared.body, prepared.signed),
            None => (HeaderLines::default(), job.event.body.clone(), SignedContent::default()),
        };
        let record = AttemptRecord {
            delivery: job.delivery,
            event: job.event,
            forged,
            number: job.attempt,
            at: now.wall.checked_sub(looked_up).unwrap_or(now.wall),
            dialled,
            headers,
            signed,
            body,
            outcome,
            latency: Duration::ZERO,
            next: None,
        };
        (record, now.instant.minus(looked_up))
    }

    fn receive(
        &self,
        name: &Arc<str>,
        delivery: &PlannedDelivery,
        prepared: &Prepared,
        verified: Result<(), String>,
        now: Timestamp,
    ) -> (AttemptOutcome, Arc<str>) {
        let url = delivery.url.as_ref();
        let headers = prepared.lines.iter();
        let receipt = Receipt {
            at: now,
            target: url[url::Position::BeforePath..].to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
            body: prepared.body.clone(),
            verified,
            status: 200,
        };
        let status = self.engine.sinks.receive(name, receipt);
        let outcome = AttemptOutcome::Answered { status, retry_after: None, body: Bytes::new() };
        (outcome, format!("sink {name}").into())
    }

    /// Posts an attempt to a server, within what is left of the timeout after the look-up.
    async fn post(
        &self,
        state: &WorkerState,
        target: Arc<Target>,
        addresses: Result<Option<Vec<SocketAddr>>, DialProblem>,
        took: Duration,
        prepared: &mut Prepared,
        profile: &Profile,
    ) -> (AttemptOutcome, Arc<str>) {
        let dialled = Arc::clone(&target.text);
        let outcome = match addresses {
            Err(DialProblem { reason, detail }) => AttemptOutcome::Failed { reason, detail },
            Ok(addresses) => {
                let post = Post {
                    target,
                    headers: std::mem::take(&mut prepared.headers),
                    body: prepared.body.clone(),
                    timeout: profile.webhooks.timeout.get(),
                    looked_up: took,
                    connect_timeout: profile.webhooks.connect_timeout.get(),
                    addresses,
                    look_ups: Arc::clone(&state.look_ups),
                };
                self.client.post(post).await
            }
        };
        (outcome, dialled)
    }

    fn settle(&self, state: &WorkerState, profile: &Profile, mut record: AttemptRecord, began: Instant) {
        let workspace = &state.workspace;
        let (delivery, event) = (Arc::clone(&record.delivery), Arc::clone(&record.event));
        if workspace.has_left() {
            return self.engine.deliveries.note_cancelled(&event, &delivery, WORKSPACE_GONE);
        }
        let now = workspace.clock().now();
        // Jitter depends on the delivery alone, so the order in which receivers answer does not matter.
        let random = || self.engine.registry.source(&format!("{}/{}/{}", workspace.name(), delivery.id, record.number));
        let subscription = &delivery.subscription;
        let next = workspace
            .with_queue(|queue| queue.finish(subscription, &record.outcome, &profile.webhooks, now.instant, random));
        record.latency = now.instant.since(began);
        let status = match &next {
            Next::Delivered => DeliveryStatus::Delivered,
            Next::Exhausted => DeliveryStatus::Exhausted,
            Next::Gone(_) => DeliveryStatus::Cancelled,
            Next::Retry(due) => {
                record.next = Some(*due);
                DeliveryStatus::Pending
            }
        };
        let is_answered = matches!(record.outcome, AttemptOutcome::Answered { .. });
        let record = Arc::new(record);
        self.engine.deliveries.note_attempt(Arc::clone(&record), status);
        self.engine.journal.append_of(Some(workspace), Entry::Attempt(record));
        let Next::Gone(waiting) = next else { return };
        if is_answered {
            workspace.lock().subscriptions.disable(subscription);
            self.cancel(waiting, "the receiver answered 410 Gone, which disabled the subscription");
            let message = format!(
                "subscription {subscription} is disabled: its receiver answered 410 Gone; subscribe again to make it active"
            );
            self.engine.journal.note(now.wall, Some(Arc::clone(workspace.name())), message, true);
        } else {
            self.cancel(waiting, "the subscription was deleted or disabled");
            self.engine.deliveries.note_cancelled(&event, &delivery, "the subscription was deleted or disabled");
        }
    }

    fn cancel(&self, jobs: Vec<Job>, note: &str) {
        for job in jobs {
            self.engine.deliveries.note_cancelled(&job.event, &job.delivery, note);
        }
    }
}

fn failed(reason: FailureReason, detail: &str) -> AttemptOutcome {
    AttemptOutcome::Failed { reason, detail: detail.to_owned() }
}

async fn sleep_until(workspace: &Workspace, due: Option<Instant>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
