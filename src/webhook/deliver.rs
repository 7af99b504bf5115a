//! Delivery attempts: a worker for each workspace with waiting deliveries takes due jobs from its queue, makes the attempts, reports
//! each outcome to the queue, the delivery store and the journal, and sleeps until the next is due.
//!
//! The workspace's queue decides which jobs are due, and whether and when to retry; what an attempt sends is made in `signed`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use url::Url;

use crate::clock::agenda::Running;
use crate::clock::{Instant, machine};
use crate::settings::{Profile, RetryPreset};
use crate::state::engine::deliveries::{Cancellation, DeliveryStatus};
use crate::state::engine::sink::Receipt;
use crate::state::engine::{Engine, wait_for_events};
use crate::state::journal::Entry;
use crate::state::workspace::{AfterAttempt, AttemptOutcome, AttemptRecord, FailureReason, Job, Workspace};
use crate::util::flag::Flag;
use crate::util::header_lines::HeaderLines;
use crate::webhook::client::{Client, Post};
use crate::webhook::egress::{Destination, DialProblem, DialTarget, Egress, is_here};
use crate::webhook::resolve::LOOK_UPS_PER_WORKSPACE;
use crate::webhook::signed::{SignedDelivery, Unsigned, sign_delivery, signature_time, verify_delivery};

pub const CONCURRENT_ATTEMPTS: usize = 256;
const WORKSPACE_SHARE_DIVISOR: usize = 4;

/// Everything that deliveries need: the engine, the egress rules, the HTTP client and the limits.
#[derive(Debug)]
pub struct Deliverer {
    engine: Arc<Engine>,
    egress: Arc<Egress>,
    client: Arc<Client>,
    permits: Semaphore,
    permits_of_workspace: usize,
}

struct WorkerState {
    workspace: Arc<Workspace>,
    /// The workspace's share of the concurrent attempts and of the look-ups.
    permits: Semaphore,
    look_ups: Arc<Semaphore>,
}

/// The look-up for one attempt: the addresses, `None` if a kept connection may be used, and how long it took, by the machine's time,
/// which counts towards the timeout, and by the workspace's clock.
struct LookedUp {
    addresses: Result<Option<Vec<SocketAddr>>, DialProblem>,
    took: Duration,
    took_by_clock: Duration,
}

impl Deliverer {
    pub fn new(engine: Arc<Engine>, egress: Arc<Egress>, client: Arc<Client>, attempts: usize) -> Arc<Self> {
        let (permits, permits_of_workspace) = (Semaphore::new(attempts), (attempts / WORKSPACE_SHARE_DIVISOR).max(1));
        Arc::new(Self { engine, egress, client, permits, permits_of_workspace })
    }

    /// Starts a worker for each workspace received. When `stop` is raised, makes the attempts that are due and returns once
    /// they have ended.
    pub async fn run(self: Arc<Self>, mut workspaces: mpsc::UnboundedReceiver<Arc<Workspace>>, stop: Flag) {
        let mut workers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                received = workspaces.recv() => match received {
                    Some(workspace) => drop(workers.spawn(Arc::clone(&self).worker(workspace, stop.clone()))),
                    None => break,
                },
                // Frees the memory of workers that have ended.
                Some(_) = workers.join_next() => {}
                () = stop.raised(), if !workspaces.is_closed() => workspaces.close(),
            }
        }
        workers.join_all().await;
    }

    /// Makes the attempts of one workspace until none waits, or the workspace is evicted or reset; after `stop`, until none is
    /// due.
    async fn worker(self: Arc<Self>, workspace: Arc<Workspace>, stop: Flag) {
        let (permits, look_ups) = (Semaphore::new(self.permits_of_workspace), Semaphore::new(LOOK_UPS_PER_WORKSPACE));
        let state = Arc::new(WorkerState { workspace, permits, look_ups: Arc::new(look_ups) });
        let workspace = &state.workspace;
        // Aborted when the worker ends, so that nothing is posted after the emulator has stopped.
        let mut attempts = JoinSet::new();
        while !workspace.is_gone() {
            let order = self.profile_of(workspace).webhooks.order;
            let draining = stop.is_raised();
            while attempts.try_join_next().is_some() {}
            wait_for_events(workspace).await;
            let mut due = Vec::new();
            let (next, is_done) = workspace.with_queue(|queue| {
                queue.set_order(order);
                let now = workspace.clock().instant();
                // Events of this instant come before the deliveries due at it, so that the order of these is always the same.
                let is_firing = workspace.agenda().is_firing(now);
                if !is_firing {
                    due.extend(std::iter::from_fn(|| Some((queue.next_due_job(now)?, workspace.agenda().begin()))));
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
                biased;
                () = workspace.queue_changed().notified() => {}
                Some(_) = attempts.join_next() => {}
                () = sleep_until(workspace, next), if !draining => {}
                () = stop.raised(), if !draining => {}
                () = workspace.gone() => {}
            }
        }
        let given_up = workspace.with_queue(|queue| {
            queue.has_worker = false;
            queue.give_up_all()
        });
        self.cancel(given_up, &Cancellation::WorkspaceGone);
    }

    /// Starts a task for each due attempt. Those to the built-in receiver are made here instead, one after the other, so that
    /// their order does not depend on scheduling. Returns whether there were any of these.
    async fn send_off(
        self: &Arc<Self>,
        state: &Arc<WorkerState>,
        due: Vec<(Job, Running)>,
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
    async fn run_attempts(
        self: Arc<Self>,
        state: Arc<WorkerState>,
        first: Job,
        to: Option<Destination>,
        _task: Running,
    ) {
        let mut next = Some((first, to));
        while let Some((job, to)) = next {
            self.run_attempt(&state, job, to).await;
            let workspace = &state.workspace;
            let now = workspace.clock().instant();
            // Otherwise the worker takes it, once the events of this instant are fired.
            let may_take = !workspace.agenda().is_firing(now);
            let job = if may_take { workspace.with_queue(|queue| queue.next_due_job(now)) } else { None };
            next = job.map(|job| {
                let to = self.destination(workspace, &job);
                (job, to)
            });
        }
    }

    async fn run_attempt(&self, state: &WorkerState, job: Job, destination: Option<Destination>) {
        let looked_up = self.look_up(state, destination.as_ref()).await;
        let took_by_clock = looked_up.took_by_clock;
        // Acquired after the look-up, so that a hanging look-up holds no permit that other attempts need.
        let _permits = match &destination {
            Some(Destination::Dial(_)) if looked_up.addresses.is_ok() => {
                Some((state.permits.acquire().await, self.permits.acquire().await))
            }
            _ => None,
        };
        let workspace = &state.workspace;
        if workspace.is_gone() {
            return self.engine.deliveries.record_cancelled(&job.event, &job.delivery, Cancellation::WorkspaceGone);
        }
        // The settings may have changed while the attempt waited.
        let profile = self.profile_of(workspace);
        let now = workspace.clock().now();
        let at = signature_time(workspace.clock(), now, &profile);
        let (secrets, old) = {
            let state = workspace.lock();
            let record = state.subscriptions.get(&job.delivery.subscription).filter(|record| !record.disabled);
            let old = record.and_then(|record| record.forging_secret(job.event.tamper));
            (record.map(|record| record.signing_secrets(now)), old)
        };
        // During its grace period the old secret forges nothing.
        let is_genuine =
            old.as_ref().is_some_and(|old| secrets.iter().flatten().any(|secret| secret.reveal() == old.reveal()));
        let gone =
            || failed(FailureReason::SubscriptionGone, "the subscription was deleted or disabled before this attempt");
        let signed = secrets.ok_or_else(gone).and_then(|secrets| {
            let mut unsigned = Unsigned::from(&job);
            let by = old.as_ref().map_or(&secrets[..], |old| {
                unsigned.tamper = None;
                std::slice::from_ref(old)
            });
            let sent = sign_delivery(unsigned, by, &profile, at).map_err(|problem| {
                failed(FailureReason::SecretUnreadable, &format!("{problem} (webhooks.secret_key)"))
            });
            Ok((sent?, secrets))
        });
        let (outcome, dialled, sent) = match (signed, destination) {
            (Err(failure), _) => {
                (failure, Arc::default(), SignedDelivery { body: job.event.body.clone(), ..SignedDelivery::default() })
            }
            (Ok((sent, _)), None) => {
                (failed(FailureReason::InvalidAnswer, "no request can be made for this URL"), Arc::default(), sent)
            }
            (Ok((sent, secrets)), Some(Destination::Sink(name))) => {
                let verified = verify_delivery(&job, &sent, &secrets, &profile, at);
                (self.hand_to_sink(&name, &job, &sent, verified, now.wall), format!("sink {name}").into(), sent)
            }
            (Ok((mut sent, _)), Some(Destination::Dial(target))) => {
                let dialled = Arc::clone(&target.text);
                (self.post(state, target, looked_up, &mut sent, &profile).await, dialled, sent)
            }
        };
        let is_detectable = |scheme| job.event.tamper.is_some_and(|tamper| tamper.is_detectable(scheme));
        let record = AttemptRecord {
            delivery: job.delivery,
            forged: !is_genuine && profile.schemes().iter().all(is_detectable),
            event: job.event,
            number: job.attempt,
            at: now.wall.checked_sub(took_by_clock).unwrap_or(now.wall),
            signed_at: at,
            dialled,
            headers: sent.lines,
            signed: sent.signed,
            body: sent.body,
            outcome,
            latency: Duration::ZERO,
            next: None,
        };
        self.finish_attempt(state, &profile, record, now.instant.minus(took_by_clock));
    }

    async fn post(
        &self,
        state: &WorkerState,
        target: Arc<DialTarget>,
        looked_up: LookedUp,
        sent: &mut SignedDelivery,
        profile: &Profile,
    ) -> AttemptOutcome {
        let addresses = match looked_up.addresses {
            Ok(addresses) => addresses,
            Err(problem) => return problem.into(),
        };
        if let Some(original) = &target.original {
            for (name, value) in original.headers() {
                sent.headers.entry(name).or_insert(value);
            }
            sent.lines = HeaderLines::of(&sent.headers);
        }
        let post = Post {
            target,
            letters: profile.variation.header_names,
            framing: profile.webhooks.framing,
            host: profile.webhooks.forward_host,
            headers: std::mem::take(&mut sent.headers),
            body: sent.body.clone(),
            timeout: profile.webhooks.timeout.get(),
            looked_up: looked_up.took,
            connect_timeout: profile.webhooks.connect_timeout.get(),
            addresses,
            look_ups: Arc::clone(&state.look_ups),
        };
        self.client.post(post).await.outcome
    }

    /// Looks the name of a server up, limited by the attempt's timeout.
    async fn look_up(&self, state: &WorkerState, destination: Option<&Destination>) -> LookedUp {
        let addresses = Ok(None);
        let mut looked_up = LookedUp { addresses, took: Duration::ZERO, took_by_clock: Duration::ZERO };
        if let Some(Destination::Dial(target)) = destination {
            let clock = state.workspace.clock();
            let (began, began_by_clock) = (machine::monotonic(), clock.instant());
            let limit = self.profile_of(&state.workspace).webhooks.timeout.get();
            looked_up.addresses = self.client.look_up(target, &state.look_ups, limit).await;
            if !matches!(looked_up.addresses, Ok(None)) {
                looked_up.took = machine::monotonic().duration_since(began);
                looked_up.took_by_clock = clock.instant().since(began_by_clock);
            }
        }
        looked_up
    }

    /// Where an attempt goes under the settings in force; `None` if no request can be made for its URL.
    fn destination(&self, workspace: &Workspace, job: &Job) -> Option<Destination> {
        self.egress.destination(&self.profile_of(workspace).webhooks.forwards, job.delivery.url.parsed())
    }

    fn profile_of(&self, workspace: &Workspace) -> Arc<Profile> {
        self.engine.profile_for(Some(workspace.name()))
    }

    fn hand_to_sink(
        &self,
        name: &Arc<str>,
        job: &Job,
        sent: &SignedDelivery,
        verified: Result<(), String>,
        now: Timestamp,
    ) -> AttemptOutcome {
        let headers = sent.lines.iter();
        let receipt = Receipt {
            at: now,
            target: job.delivery.url.parsed()[url::Position::BeforePath..].to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
            body: sent.body.clone(),
            // Unless the receiver has a script.
            status: if verified.is_ok() { 200 } else { 401 },
            verified,
        };
        let status = self.engine.sinks.receive(name, receipt);
        AttemptOutcome::Answered {
            status,
            retry_after: None,
            date: None,
            location: None,
            note: None,
            body: Bytes::new(),
        }
    }

    fn finish_attempt(&self, state: &WorkerState, profile: &Profile, mut record: AttemptRecord, began: Instant) {
        let workspace = &state.workspace;
        let (delivery, event) = (Arc::clone(&record.delivery), Arc::clone(&record.event));
        if workspace.is_gone() {
            return self.engine.deliveries.record_cancelled(&event, &delivery, Cancellation::WorkspaceGone);
        }
        let now = workspace.clock().now();
        // Jitter depends on the delivery alone, so the order in which receivers answer does not matter.
        let random = || self.engine.registry.source(&format!("{}/{}/{}", workspace.name(), delivery.id, record.number));
        let subscription = &delivery.subscription;
        let is_over = found_nothing_here(&record) && self.engine.has_receiver_ended(&record.dialled);
        let mut webhooks = Cow::Borrowed(&profile.webhooks);
        if is_over {
            webhooks.to_mut().retry.preset = RetryPreset::None;
        }
        let next =
            workspace.with_queue(|queue| queue.finish(subscription, &record.outcome, &webhooks, now.instant, random));
        record.latency = now.instant.since(began);
        let status = match &next {
            _ if is_over => DeliveryStatus::Cancelled,
            AfterAttempt::Delivered => DeliveryStatus::Delivered,
            AfterAttempt::Exhausted => DeliveryStatus::Exhausted,
            AfterAttempt::SubscriptionEnded(_) => DeliveryStatus::Cancelled,
            AfterAttempt::Retry(due) => {
                record.next = Some(*due);
                DeliveryStatus::Pending
            }
        };
        let is_answered = matches!(record.outcome, AttemptOutcome::Answered { .. });
        let record = Arc::new(record);
        self.engine.deliveries.record_attempt(Arc::clone(&record), status);
        self.engine.journal.append_of(Some(workspace), Entry::Attempt(record));
        if is_over {
            self.engine.deliveries.record_cancelled(&event, &delivery, Cancellation::ReceiverEnded);
        }
        let AfterAttempt::SubscriptionEnded(waiting) = next else { return };
        if is_answered {
            workspace.lock().subscriptions.disable(subscription);
            self.cancel(waiting, &Cancellation::AnsweredGone);
            let message = format!(
                "subscription {subscription} is disabled: its receiver answered 410 Gone; subscribe again to make it active"
            );
            self.engine.journal.note(now.wall, Some(Arc::clone(workspace.name())), message, true);
        } else {
            self.cancel(waiting, &Cancellation::Unsubscribed);
            self.engine.deliveries.record_cancelled(&event, &delivery, Cancellation::Unsubscribed);
        }
    }

    fn cancel(&self, jobs: Vec<Job>, note: &Cancellation) {
        for job in jobs {
            self.engine.deliveries.record_cancelled(&job.event, &job.delivery, note.clone());
        }
    }
}

/// True if nothing listened at an address of this machine.
fn found_nothing_here(attempt: &AttemptRecord) -> bool {
    let is_refused = matches!(attempt.outcome, AttemptOutcome::Failed { reason: FailureReason::ConnectionRefused, .. });
    is_refused && Url::parse(&attempt.dialled).is_ok_and(|url| is_here(&url))
}

fn failed(reason: FailureReason, detail: &str) -> AttemptOutcome {
    AttemptOutcome::Failed { reason, detail: detail.to_owned(), hint: None }
}

async fn sleep_until(workspace: &Workspace, due: Option<Instant>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
