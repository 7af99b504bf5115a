//! The driver: takes events from the journal, makes due attempts, reports outcomes back to journal and book.
//!
//! One courier task per workspace owns its queue; when and whether to retry is the queue's business, not this file's.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use url::Url;

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
use crate::workspace::{EventRecord, Registry, Secret, Workspace};

/// Most attempts under way at a time, over all workspaces.
const CONCURRENT_ATTEMPTS: usize = 256;

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
            let mut appended = pin!(self.journal.appended());
            appended.as_mut().enable();
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
                () = appended => {}
                () = stopped(&mut stop) => break,
            }
        }
        drop(couriers);
        while tasks.join_next().await.is_some() {}
    }

    async fn courier(
        self: Arc<Self>,
        workspace: Arc<Workspace>,
        mut events: mpsc::UnboundedReceiver<Arc<EventRecord>>,
    ) {
        let mut queue = Queue::default();
        let (ended, mut outcomes) = mpsc::unbounded_channel();
        let mut draining = false;
        loop {
            let profile = self.profile_of(&workspace);
            queue.set_order(profile.webhooks.order);
            let now = workspace.clock().now();
            while let Some(job) = queue.take_due(now.moment) {
                let (courier, workspace, ended) = (Arc::clone(&self), Arc::clone(&workspace), ended.clone());
                let profile = Arc::clone(&profile);
                tokio::spawn(async move {
                    let _slot = courier.slots.acquire().await;
                    let outcome = courier.attempt(job, &workspace, &profile).await;
                    // The courier outlives its attempts unless the whole runtime is going down.
                    let _ = ended.send(outcome);
                });
            }
            if draining && queue.under_way() == 0 {
                return;
            }
            let next = queue.next_due();
            tokio::select! {
                event = events.recv(), if !draining => match event {
                    Some(event) => queue.push(&event),
                    None => draining = true,
                },
                Some(ended) = outcomes.recv() => self.settle(&mut queue, &workspace, ended),
                () = sleep_until(&workspace, next), if !draining => {}
            }
        }
    }

    fn profile_of(&self, workspace: &Workspace) -> Arc<Profile> {
        Arc::clone(&self.library.load().setup_for(Some(workspace.name())).profile)
    }

    /// Makes one attempt, by whatever way its URL leads.
    async fn attempt(&self, job: Job, workspace: &Workspace, profile: &Profile) -> Ended {
        let now = workspace.clock().now();
        let secrets = workspace.lock().signing_secrets(&job.delivery.subscription, now);
        let at = signature_time(workspace.clock(), now, profile);
        let url = Url::parse(&job.delivery.url);
        let (outcome, dialled, prepared) = match (secrets, url) {
            (None, _) => (
                failed(FailureReason::SubscriptionGone, "the subscription was deleted or disabled before this attempt"),
                String::new(),
                None,
            ),
            (_, Err(error)) => {
                (failed(FailureReason::NameNotFound, &format!("the URL cannot be read: {error}")), String::new(), None)
            }
            (Some(secrets), Ok(url)) => match prepare(&job, &secrets, profile, at) {
                Err(problem) => (
                    failed(FailureReason::SecretUnreadable, &format!("{problem} (webhooks.secret_key)")),
                    String::new(),
                    None,
                ),
                Ok(prepared) => {
                    let (outcome, dialled) = self.send(&url, &prepared, &secrets, profile, now.wall, at).await;
                    (outcome, dialled, Some(prepared))
                }
            },
        };
        let headers = prepared.iter().flat_map(|prepared| &prepared.headers);
        let headers = headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let record = AttemptRecord {
            delivery: job.delivery.id.clone(),
            event: job.event.id.clone(),
            event_type: job.event.event_type.clone(),
            subscription: job.delivery.subscription.clone(),
            workspace: Arc::clone(workspace.name()),
            number: job.attempt,
            at: now.wall,
            url: job.delivery.url.clone(),
            dialled,
            headers,
            signed_content: prepared.as_ref().map(|prepared| prepared.signed_content.clone()).unwrap_or_default(),
            body: prepared.as_ref().map_or_else(|| job.event.body.clone(), |prepared| prepared.body.clone()),
            outcome,
            latency: std::time::Duration::ZERO,
            next: None,
        };
        Ended { job, record, began: now.moment }
    }

    #[allow(clippy::too_many_arguments, reason = "one attempt's facts, each used once")]
    async fn send(
        &self,
        url: &Url,
        prepared: &Prepared,
        secrets: &[Secret],
        profile: &Profile,
        now: Timestamp,
        at: Timestamp,
    ) -> (AttemptOutcome, String) {
        match self.egress.destination(url) {
            Destination::Sink(name) => {
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
                (
                    AttemptOutcome::Answered { status, retry_after: None, body: hyper::body::Bytes::new() },
                    format!("sink {name}"),
                )
            }
            Destination::Dial(target) => {
                let dialled = target.to_string();
                let post = Post {
                    url: target,
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
    fn settle(&self, queue: &mut Queue, workspace: &Workspace, ended: Ended) {
        let Ended { job, mut record, began } = ended;
        let now = workspace.clock().now();
        let profile = self.profile_of(workspace);
        // Jitter follows from the delivery alone, so that the order in which receivers answer changes nothing.
        let mut random = self.seed.source(&format!("{}/{}/{}", workspace.name(), record.delivery, record.number));
        let gone = matches!(record.outcome, AttemptOutcome::Failed { reason: FailureReason::SubscriptionGone, .. });
        let next =
            queue.finish(&job.delivery.subscription, &record.outcome, &profile.webhooks, now.moment, &mut random);
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
            self.cancel(queue.cancel(&job.delivery.subscription), "the subscription was deleted or disabled");
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
