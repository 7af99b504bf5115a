//! One workspace: the resources that belong to an API key, in memory, with its quota, clock and random source.
//!
//! Nothing here waits, reads files or knows of HTTP. Time is the argument `now`.
//! Reading order: this file, `sources`, `subscriptions`, `events`, `queue` (deliveries that wait), `timeline`,
//! `outcome`, `registry`, `snapshot`.

mod events;
mod outcome;
mod queue;
mod registry;
mod snapshot;
mod sources;
mod subscriptions;
mod timeline;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

pub use events::{
    AttemptOutcome, AttemptRecord, DeliveryStatus, EventRecord, FailureReason, FireRequest, Forgery, HookUrl, Origin,
    PlannedDelivery, SignedContent, SkipReason, SkippedSubscription, is_elsewhere, status_text,
};
pub use outcome::{Ending, RefusedCall, TestOutcome};
pub use queue::{AfterAttempt, Job, Queue};
pub use registry::{MAX_WORKSPACES, Registry};
pub use snapshot::{
    PendingDelivery, SNAPSHOT_FORMAT, SNAPSHOT_VERSION, SavedEmission, SavedGlobal, SavedScenarios, SavedWorkspace,
    Snapshot, SnapshotProblem,
};
pub use sources::RandomSources;
pub use subscriptions::{LastRotation, Secret, Subscribed, SubscriptionRecord};
pub use timeline::{FiringBudget, MAX_AT_ONCE, PER_SECOND, PlannedEvent, Timeline};

use crate::clock::agenda::{Agenda, Slot};
use crate::clock::{Clock, Instant, Now, Seed};
use crate::contract::error::Error;
use crate::contract::quota::CountRule;
use crate::contract::rules::CheckedSubscribe;
use crate::scenario::rule_counters::RuleCounters;
use crate::scenario::{EffectiveConfig, Emit};
use crate::settings::Profile;
use crate::state::budget::Budget;
use crate::state::quota::{Quota, QuotaCheck};
use crate::util::flag::Flag;
use subscriptions::Subscriptions;

#[derive(Debug)]
pub struct Workspace {
    name: Arc<str>,
    id: String,
    clock: Clock,
    agenda: Agenda,
    gone: Flag,
    was_reset: AtomicBool,
    last_used: AtomicU64,
    state: Mutex<WorkspaceState>,
    firing: Mutex<FiringBudget>,
    /// The waiting deliveries, and the agenda's slot for when the next is due.
    queue: Mutex<(Queue, Slot)>,
    queue_changed: Notify,
}

#[derive(Debug)]
pub struct WorkspaceState {
    pub sources: RandomSources,
    /// True if the previous event was delayed by the setting `webhooks.swap`, so that the next overtakes it.
    pub(crate) was_delayed: bool,
    quota: Quota,
    pub(crate) subscriptions: Subscriptions,
    pub timeline: Timeline,
    pub counters: RuleCounters,
    /// The activation of scenarios that the workspace saw last, and when it began by the workspace's clock.
    started: (u64, Instant),
    /// How the test with this key ended, if its runner reported that.
    test: Option<TestOutcome>,
    /// How many events were signed for handlers that a test calls in its own process.
    signed_in_process: usize,
}

impl Workspace {
    fn new(name: Arc<str>, seed: &Seed, clock: Clock, budget: &Budget, due_changed: &Arc<Notify>) -> Self {
        use sha2::{Digest, Sha256};
        // The id names the workspace without exposing the key. As a hash of the key it is stable.
        let digest = Sha256::digest(name.as_bytes());
        let id = digest[..8].iter().fold(String::from("ws_"), |id, byte| format!("{id}{byte:02x}"));
        let agenda = Agenda::new(Arc::clone(due_changed));
        let state = WorkspaceState {
            sources: RandomSources::new(seed, &name),
            was_delayed: false,
            quota: Quota::default(),
            subscriptions: Subscriptions::within(budget),
            timeline: Timeline::new(&agenda, budget),
            counters: RuleCounters::default(),
            started: (0, Instant::default()),
            test: None,
            signed_in_process: 0,
        };
        let (gone, was_reset) = (Flag::default(), AtomicBool::new(false));
        let queue = Mutex::new((Queue::default(), agenda.slot()));
        Self {
            name,
            id,
            clock,
            agenda,
            gone,
            was_reset,
            last_used: AtomicU64::new(0),
            state: Mutex::new(state),
            firing: Mutex::default(),
            queue,
            queue_changed: Notify::new(),
        }
    }

    /// The key that this workspace belongs to. Must pass through `redact` before it is shown.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A stable id, `ws_…`, that may be shown.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The workspace's clock. It follows the emulator's clock until it is set or moved separately.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }

    /// True if the workspace was evicted or reset. Tasks that work for it then stop.
    pub fn is_gone(&self) -> bool {
        self.gone.is_raised()
    }

    /// Completes once it is gone.
    pub fn gone(&self) -> impl Future<Output = ()> {
        self.gone.raised()
    }

    /// True if the workspace was reset or replaced: then no further entry of it is journaled. After an eviction, entries are
    /// still journaled.
    pub fn was_reset(&self) -> bool {
        self.was_reset.load(Ordering::SeqCst)
    }

    fn reset(&self) {
        self.was_reset.store(true, Ordering::SeqCst);
        self.end();
    }

    fn end(&self) {
        self.gone.raise();
    }

    /// Locks the state. Hold it for as long as one step of one request takes, never across a wait.
    pub fn lock(&self) -> MutexGuard<'_, WorkspaceState> {
        self.state.lock()
    }

    /// Held while due events are taken and fired, so that they come in order. Lock it before the state.
    pub fn firing(&self) -> MutexGuard<'_, FiringBudget> {
        self.firing.lock()
    }

    /// Runs `act` on the queue of deliveries, then enters in the agenda when the next is due.
    pub fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        let mut locked = self.queue.lock();
        let (queue, slot) = &mut *locked;
        let done = act(queue);
        slot.set(queue.next_due());
        done
    }

    /// Puts an event's deliveries into the queue. Returns true if the caller has to start a worker.
    #[must_use]
    pub fn enqueue(&self, event: &Arc<EventRecord>) -> bool {
        let starts = self.with_queue(|queue| {
            queue.push(event);
            !std::mem::replace(&mut queue.has_worker, true)
        });
        self.queue_changed.notify_one();
        starts
    }

    pub fn queue_changed(&self) -> &Notify {
        &self.queue_changed
    }

    /// Records a use, which puts off an eviction.
    pub fn touch(&self, instant: Instant) {
        let millis = u64::try_from(instant.since_start().as_millis()).unwrap_or(u64::MAX);
        // Most requests of a busy key come within one millisecond; a write would invalidate the cache line of other processors.
        if self.last_used.load(Ordering::Relaxed) != millis {
            self.last_used.store(millis, Ordering::Relaxed);
        }
    }
}

impl WorkspaceState {
    fn budget(&self) -> &Budget {
        self.subscriptions.budget()
    }

    pub fn subscribe(&mut self, checked: CheckedSubscribe, profile: &Profile, now: Now) -> Result<Subscribed, Error> {
        self.subscriptions.subscribe(checked, profile, now, &mut self.sources)
    }

    pub fn new_secret(&mut self, profile: &Profile) -> Secret {
        Secret::generate(&profile.schemes(), profile.webhooks.secret_key, &mut self.sources.random)
    }

    /// True if a further request may make it larger for good: it has a counter for each rule, and maybe a log of its requests.
    pub fn may_grow(&self, config: &EffectiveConfig) -> bool {
        let most = config.rules.len() + config.emits.len();
        self.counters.count(config.activation) < most || self.quota.is_logged()
    }

    pub fn plan(&mut self, emit: &Arc<Emit>, activation: u64, at: Instant) -> usize {
        self.timeline.plan(emit, activation, at, &mut self.sources.event_random)
    }

    /// Records that this activation of scenarios is in force; returns true the first time. 0 means no activation. Time since
    /// activation counts from `since`, by the workspace's own clock.
    pub fn record_activation(&mut self, activation: u64, since: Instant) -> bool {
        let is_first = activation != 0 && self.started.0 != activation;
        if is_first {
            self.started = (activation, since);
        }
        is_first
    }

    /// When this activation of scenarios began by the workspace's own clock, if it was recorded.
    pub fn started_at(&self, activation: u64) -> Option<Instant> {
        (activation != 0 && self.started.0 == activation).then_some(self.started.1)
    }

    pub fn count_request(&mut self, profile: &Profile, now: Now) -> QuotaCheck {
        self.quota.check(&profile.rate_limit, now.instant)
    }

    /// The rest of the quota at `now`. `None` if no quota is in force.
    pub fn quota(&self, profile: &Profile, now: Now) -> Option<QuotaCheck> {
        let policy = Some(&profile.rate_limit).filter(|policy| policy.enabled)?;
        Some(self.quota.peek(policy, now.instant))
    }

    /// Undoes the counting of a request.
    pub fn refund(&mut self, profile: &Profile) {
        if profile.rate_limit.enabled {
            self.quota.refund();
        }
    }

    /// Undoes the counting of a request that did not succeed.
    pub fn refund_if_only_successes_count(&mut self, profile: &Profile, check: &mut QuotaCheck) {
        if profile.rate_limit.count == CountRule::Successful && profile.rate_limit.enabled {
            self.quota.refund();
            check.remaining = check.remaining.saturating_add(1).min(check.limit);
        }
    }
}
