//! The driver: takes events from the journal, makes due attempts, reports outcomes back to journal and book.
//!
//! One courier task per workspace owns its queue and sets workers to what is due; when and whether to retry is the
//! queue's business, not this file's.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::{Moment, Now, Seed};
use crate::contract::profile::Profile;
use crate::http::stopped;
use crate::journal::{AttemptOutcome, AttemptRecord, Entry, FailureReason, Journal, Notice};
use crate::scenario::Library;
use crate::webhook::attempt::{Prepared, prepare, signature_time, verify_delivery};
use crate::webhook::book::{Book, DeliveryStatus};
use crate::webhook::client::{Client, Post};
use crate::webhook::egress::{Destination, Egress};
use crate::webhook::queue::{Job, Next, Queue};
use crate::webhook::sink::{Receipt, Sinks};
use crate::workspace::{EventRecord, PlannedDelivery, Registry, Secret, Workspace};

/// Most attempts under way at a time, over all workspaces.
const CONCURRENT_ATTEMPTS: usize = 256;
/// Most events taken over before the next attempts are looked for.
const MOST_AT_ONCE: usize = 256;

/// Everything deliveries need.
#[derive(Debug)]
pub struct Deliverer {
    journal: Arc<Journal>,
    registry: Arc<Registry>,
    library: Arc<Library>,
    book: Arc<Book>,
    sinks: Arc<Sinks>,
    egress: Arc<Egress>,
    client: Arc<Client>,
    seed: Seed,
    slots: Arc<Semaphore>,
}

/// What the courier of one workspace shares with its workers.
struct Round {
    workspace: Arc<Workspace>,
    queue: Mutex<Queue>,
    /// Told when a worker has nothing more to do.
    changed: Notify,
}

/// An attempt that has ended.
struct Ended {
    job: Job,
    record: AttemptRecord,
    began: Moment,
}

/// Hands a fired event over to the driver: enters its deliveries in the book, then appends it to the journal.
pub fn hand_over(journal: &Journal, book: &Book, event: Arc<EventRecord>) {
    book.enter(&event);
    journal.append(Entry::Event(event));
}

impl Deliverer {
    /// A driver over these parts.
    #[allow(clippy::too_many_arguments, reason = "a list of parts, put together once in `app`")]
    pub fn new(
        journal: Arc<Journal>,
        registry: Arc<Registry>,
        library: Arc<Library>,
        book: Arc<Book>,
        sinks: Arc<Sinks>,
        egress: Arc<Egress>,
        client: Arc<Client>,
        seed: Seed,
    ) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(CONCURRENT_ATTEMPTS));
        Arc::new(Self { journal, registry, library, book, sinks, egress, client, seed, slots })
    }

    /// Delivers until `stop` becomes true, then tries what is due and returns when those attempts have ended.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut couriers: HashMap<Arc<str>, mpsc::UnboundedSender<Arc<EventRecord>>> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            for event in self.journal.take_events() {
                if event.lost {
                    self.cancel_all(&event, "dropped on purpose");
                    continue;
                }
                if event.deliveries.is_empty() {
                    continue;
                }
                let Some(workspace) = self.registry.find(&event.workspace) else {
                    self.cancel_all(&event, "the workspace is gone");
                    continue;
                };
                let courier = couriers.entry(Arc::clone(&event.workspace)).or_insert_with(|| {
                    let (sender, events) = mpsc::unbounded_channel();
                    tasks.spawn(Arc::clone(&self).courier(workspace, events));
                    sender
                });
                // A courier ends only after its sender is dropped.
                let _ = courier.send(event);
            }
            tokio::select! {
                () = self.journal.fired() => {}
                () = stopped(&mut stop) => break,
            }
        }
        drop(couriers);
        while tasks.join_next().await.is_some() {}
    }

    /// Owns the queue of one workspace: takes events over, sets workers to what is due, sleeps until more is.
    async fn courier(
        self: Arc<Self>,
        workspace: Arc<Workspace>,
        mut events: mpsc::UnboundedReceiver<Arc<EventRecord>>,
    ) {
        let round = Arc::new(Round { workspace, queue: Mutex::default(), changed: Notify::new() });
        let (mut fired, mut draining) = (Vec::new(), false);
        loop {
            let order = self.profile_of(&round.workspace).webhooks.order;
            let now = round.workspace.clock().now();
            let next = {
                let mut queue = round.queue.lock();
                queue.set_order(order);
                while let Some(job) = queue.take_due(now.moment) {
                    tokio::spawn(Arc::clone(&self).work(Arc::clone(&round), job));
                }
                if draining && queue.under_way() == 0 {
                    return;
                }
                queue.next_due()
            };
            tokio::select! {
                count = events.recv_many(&mut fired, MOST_AT_ONCE), if !draining => {
                    draining = count == 0;
                    let mut queue = round.queue.lock();
                    fired.drain(..).for_each(|event| queue.push(&event));
                }
                () = round.changed.notified() => {}
                () = sleep_until(&round.workspace, next), if !draining => {}
            }
        }
    }

    /// Makes one attempt, and then whatever else is due, without a way back to the courier.
    async fn work(self: Arc<Self>, round: Arc<Round>, first: Job) {
        let _slot = self.slots.acquire().await;
        let mut next = Some(first);
        while let Some(job) = next {
            let profile = self.profile_of(&round.workspace);
            let ended = self.attempt(job, &round.workspace, &profile).await;
            self.settle(&round, &profile, ended);
            next = round.queue.lock().take_due(round.workspace.clock().moment());
        }
        // The courier sleeps until what was due next when it looked last; retries may be due earlier.
        round.changed.notify_one();
    }

    fn profile_of(&self, workspace: &Workspace) -> Arc<Profile> {
        Arc::clone(&self.library.load().setup_for(Some(workspace.name())).profile)
    }

    /// Makes one attempt, by whatever way its URL leads.
    async fn attempt(&self, job: Job, workspace: &Workspace, profile: &Profile) -> Ended {
        let now = workspace.clock().now();
        let secrets = workspace.lock().signing_secrets(&job.delivery.subscription, now);
        let at = signature_time(workspace.clock(), now, profile);
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
                Ok(prepared) => {
                    let (outcome, dialled) = self.send(&job.delivery, &prepared, &secrets, profile, now.wall, at).await;
                    (outcome, dialled, Some(prepared))
                }
            },
        };
        let (headers, body, signed_content) = match prepared {
            Some(prepared) => (prepared.headers, prepared.body, prepared.signed_content),
            None => (HeaderMap::new(), job.event.body.clone(), Bytes::new()),
        };
        let record = AttemptRecord {
            delivery: job.delivery.id.clone(),
            event: job.event.id.clone(),
            event_type: job.event.event_type.clone(),
            subscription: job.delivery.subscription.clone(),
            workspace: Arc::clone(workspace.name()),
            number: job.attempt,
            at: now.wall,
            url: Arc::clone(&job.delivery.url),
            dialled,
            headers,
            signed_content,
            body,
            outcome,
            latency: std::time::Duration::ZERO,
            next: None,
        };
        Ended { job, record, began: now.moment }
    }

    async fn send(
        &self,
        delivery: &PlannedDelivery,
        prepared: &Prepared,
        secrets: &[Secret],
        profile: &Profile,
        now: Timestamp,
        at: Timestamp,
    ) -> (AttemptOutcome, Arc<str>) {
        let url = delivery.target.as_ref();
        match self.egress.destination(url, &delivery.url) {
            None => (failed(FailureReason::InvalidAnswer, "no request can be made for this URL"), Arc::from("")),
            Some(Destination::Sink(name)) => {
                let headers = prepared.headers.iter();
                let receipt = Receipt {
                    at: now,
                    target: url[url::Position::BeforePath..].to_owned(),
                    headers: headers
                        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
                        .collect(),
                    body: prepared.body.clone(),
                    verified: verify_delivery(&prepared.headers, url.as_str(), &prepared.body, secrets, profile, at),
                    status: 200,
                };
                let status = self.sinks.receive(&name, receipt);
                let outcome = AttemptOutcome::Answered { status, retry_after: None, body: Bytes::new() };
                (outcome, format!("sink {name}").into())
            }
            Some(Destination::Dial(target)) => {
                let dialled = Arc::clone(&target.text);
                let post = Post {
                    target,
                    headers: prepared.headers.clone(),
                    body: prepared.body.clone(),
                    timeout: profile.webhooks.timeout.get(),
                    connect_timeout: profile.webhooks.connect_timeout.get(),
                };
                (self.client.post(post).await, dialled)
            }
        }
    }

    /// Tells queue, book, subscription and journal how an attempt ended.
    fn settle(&self, round: &Round, profile: &Profile, ended: Ended) {
        let workspace = &round.workspace;
        let Ended { job, mut record, began } = ended;
        let now = workspace.clock().now();
        // Jitter follows from the delivery alone, so that the order in which receivers answer changes nothing.
        let random = || self.seed.source(&format!("{}/{}/{}", workspace.name(), record.delivery, record.number));
        let gone = matches!(record.outcome, AttemptOutcome::Failed { reason: FailureReason::SubscriptionGone, .. });
        let subscription = &job.delivery.subscription;
        let next = round.queue.lock().finish(subscription, &record.outcome, &profile.webhooks, now.moment, random);
        record.latency = now.moment.since(began);
        let status = match &next {
            Next::Delivered => DeliveryStatus::Delivered,
            Next::Exhausted => DeliveryStatus::Exhausted,
            Next::Gone(_) => DeliveryStatus::Cancelled,
            Next::Retry(due) => {
                record.next = Some(*due);
                DeliveryStatus::Pending
            }
        };
        let record = Arc::new(record);
        self.book.note_attempt(Arc::clone(&record), status);
        self.journal.append(Entry::Attempt(record));
        if let Next::Gone(waiting) = next {
            workspace.lock().disable_subscription(&job.delivery.subscription);
            self.cancel(waiting, "the receiver answered 410 Gone, which disabled the subscription");
            self.notice(
                workspace,
                now,
                format!(
                    "subscription {} is disabled: its receiver answered 410 Gone; subscribe again to make it active",
                    job.delivery.subscription
                ),
            );
        } else if gone {
            let waiting = round.queue.lock().cancel(subscription);
            self.cancel(waiting, "the subscription was deleted or disabled");
            self.book.note_cancelled(&job.delivery.id, "the subscription was deleted or disabled");
        }
    }

    fn cancel(&self, jobs: Vec<Job>, note: &str) {
        for job in jobs {
            self.book.note_cancelled(&job.delivery.id, note);
        }
    }

    fn cancel_all(&self, event: &EventRecord, note: &str) {
        for delivery in &event.deliveries {
            self.book.note_cancelled(&delivery.id, note);
        }
    }

    fn notice(&self, workspace: &Workspace, now: Now, message: String) {
        let notice = Notice { at: now.wall, workspace: Some(Arc::clone(workspace.name())), message, warning: true };
        self.journal.append(Entry::Notice(Arc::new(notice)));
    }
}

fn failed(reason: FailureReason, detail: &str) -> AttemptOutcome {
    AttemptOutcome::Failed { reason, detail: detail.to_owned() }
}

async fn sleep_until(workspace: &Workspace, due: Option<Moment>) {
    match due {
        Some(due) => workspace.clock().sleep_until(due).await,
        None => std::future::pending().await,
    }
}
