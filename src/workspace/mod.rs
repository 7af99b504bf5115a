//! One workspace: the resources that belong to an API key, in memory, with its quota, clock and random source.
//!
//! Each method locks, works, releases; nothing here waits, reads files or knows of HTTP. Time comes in as `now`.
//! Reading order: this file, `room` (what all keys share), `subscriptions`, `events`, `damage`,
//! `queue` (deliveries that wait), `schedule` (when to retry), `attempt`, `workflows`, `timeline`, `registry`, `tokens`, `saved`.

mod attempt;
mod damage;
mod events;
mod queue;
mod registry;
mod room;
mod saved;
mod schedule;
mod subscriptions;
mod timeline;
mod tokens;
mod workflows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

pub use attempt::{AttemptOutcome, AttemptRecord, FailureReason, Forgery, SignedContent, is_elsewhere};
pub use damage::Origin;
pub use events::{EventRecord, FireProblem, FireRequest, PlannedDelivery, SkipReason, SkippedSubscription};
pub use queue::{Job, Next, Queue};
pub use registry::{MOST_WORKSPACES, Registry};
pub use room::{Bounds, MOST_PLANNED, SUBSCRIPTIONS, WORKFLOWS};
pub use saved::{restore_clock, save_clock};
pub use subscriptions::{MOST_SUBSCRIPTIONS, Secret, Subscribed, SubscriptionRecord};
pub use timeline::{PlannedEvent, Timeline};
pub use tokens::{Alias, MOST_TOKENS, Tokens};
pub use workflows::{Listed, MOST_WORKFLOWS, PlacedWorkflow};

use crate::agenda::{Agenda, Slot};
use crate::clock::{Clock, Instant, Now, Random, Seed};
use crate::contract::ids::{IdKind, make_id};
use crate::contract::quota::CountRule;
use crate::profile::Profile;
use crate::rate_limit::{Quota, Verdict};
use crate::rule_counters::RuleCounters;
use room::Rooms;
use subscriptions::Subscriptions;
use workflows::Workflows;

/// One key's (or one group of keys') part of the emulator.
#[derive(Debug)]
pub struct Workspace {
    name: Arc<str>,
    id: String,
    clock: Clock,
    agenda: Agenda,
    left: watch::Sender<bool>,
    forgotten: AtomicBool,
    last_used: AtomicU64,
    state: Mutex<State>,
    /// The deliveries that wait, and when the next is due.
    queue: Mutex<(Queue, Slot)>,
    queue_changed: Notify,
}

/// Everything in a workspace that changes.
#[derive(Debug)]
pub struct State {
    random: Random,
    serial: u64,
    /// Events have a source of their own: they are fired by time, between requests, and must not shift what those draw.
    event_random: Random,
    event_serial: u64,
    quotas: BTreeMap<Arc<str>, Quota>,
    pub(crate) subscriptions: Subscriptions,
    workflows: Workflows,
    /// The events that emissions have planned.
    pub timeline: Timeline,
    counters: RuleCounters,
    met: u64,
    met_at: Instant,
}

impl Workspace {
    fn new(name: Arc<str>, seed: &Seed, clock: Clock, rooms: &Rooms) -> Self {
        use sha2::{Digest, Sha256};
        // The id names the workspace without showing the key; it follows from the key alone, so it is stable.
        let digest = Sha256::digest(name.as_bytes());
        let id = digest[..8].iter().fold(String::from("ws_"), |id, byte| format!("{id}{byte:02x}"));
        let agenda = Agenda::default();
        let state = State {
            random: seed.source(&name),
            serial: 0,
            // No key has this name, as keys hold no spaces.
            event_random: seed.source(&format!("{name} events")),
            event_serial: 0,
            quotas: BTreeMap::new(),
            subscriptions: Subscriptions::within(&rooms.subscriptions),
            workflows: Workflows::within(&rooms.workflows),
            timeline: Timeline::new(&agenda, &rooms.planned),
            counters: RuleCounters::default(),
            met: 0,
            met_at: Instant::default(),
        };
        let (left, forgotten) = (watch::Sender::new(false), AtomicBool::new(false));
        let queue = Mutex::new((Queue::default(), agenda.slot()));
        Self {
            name,
            id,
            clock,
            agenda,
            left,
            forgotten,
            last_used: AtomicU64::new(0),
            state: Mutex::new(state),
            queue,
            queue_changed: Notify::new(),
        }
    }

    /// The key, or the name of the group of keys, that this workspace belongs to. Shown by way of `redact` alone.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A stable id, `ws_…`, that may be shown.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The workspace's clock: it follows the emulator's until it is moved by itself.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What the workspace waits for, and what is under way in it.
    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }

    /// Whether the workspace was evicted or reset: whoever still works for it stops.
    pub fn has_left(&self) -> bool {
        *self.left.borrow()
    }

    /// Becomes true once the workspace is evicted or reset.
    pub fn leaving(&self) -> watch::Receiver<bool> {
        self.left.subscribe()
    }

    /// Whether the workspace was reset or another took its place: then nothing of it may be told any more. What it did before
    /// an eviction stays.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }

    fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
        self.leave();
    }

    fn leave(&self) {
        self.left.send_replace(true);
    }

    /// Locks the state. Hold it for as long as one step of one request takes, never across a wait.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Does something with the queue of deliveries; the agenda then knows what is due next.
    pub fn with_queue<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> T {
        let mut locked = self.queue.lock();
        let (queue, slot) = &mut *locked;
        let done = act(queue);
        slot.set(queue.next_due());
        done
    }

    /// Puts an event's deliveries into the queue. Returns whether a worker has to be started for them.
    #[must_use]
    pub fn enqueue(&self, event: &Arc<EventRecord>) -> bool {
        let starts = self.with_queue(|queue| {
            queue.push(event);
            !std::mem::replace(&mut queue.has_worker, true)
        });
        self.queue_changed.notify_one();
        starts
    }

    /// Notified when the queue's worker has to look at it again.
    pub fn queue_changed(&self) -> &Notify {
        &self.queue_changed
    }

    fn touch(&self, instant: Instant) {
        let millis = u64::try_from(instant.since_start().as_millis()).unwrap_or(u64::MAX);
        // Most requests of a busy key come within one millisecond; a write would take the line from other processors.
        if self.last_used.load(Ordering::Relaxed) != millis {
            self.last_used.store(millis, Ordering::Relaxed);
        }
    }

    fn idle_since(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }
}

impl State {
    /// A fresh id of `kind`.
    pub fn make_id(&mut self, kind: IdKind, profile: &Profile, now: Now) -> String {
        let (serial, random) = match kind {
            IdKind::Event | IdKind::Delivery => (&mut self.event_serial, &mut self.event_random),
            _ => (&mut self.serial, &mut self.random),
        };
        *serial += 1;
        make_id(kind, profile.ids.style, unix_millis(now), *serial, random)
    }

    /// The workspace's random source.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The random source of the workspace's events.
    pub fn event_random(&mut self) -> &mut Random {
        &mut self.event_random
    }

    /// The rule counters and the random source, which scenarios use together.
    pub fn counters_and_random(&mut self) -> (&mut RuleCounters, &mut Random) {
        (&mut self.counters, &mut self.random)
    }

    /// The rule counters.
    pub fn counters(&self) -> &RuleCounters {
        &self.counters
    }

    /// Whether this activation of scenarios is met for the first time. Zero is no activation. Time since activation counts
    /// from `since`, a moment of the workspace's own clock.
    pub fn meets(&mut self, activation: u64, since: Instant) -> bool {
        let first = activation != 0 && self.met != activation;
        if first {
            self.met = activation;
            self.met_at = since;
        }
        first
    }

    /// When this activation of scenarios began by the workspace's own clock, if it was met.
    pub fn began(&self, activation: u64) -> Option<Instant> {
        (activation != 0 && self.met == activation).then_some(self.met_at)
    }

    /// Counts a request against the quota of `key`.
    pub fn count_request(&mut self, key: &str, profile: &Profile, now: Now) -> Verdict {
        let quota = match self.quotas.get_mut(key) {
            Some(quota) => quota,
            None => self.quotas.entry(Arc::from(key)).or_default(),
        };
        quota.check(&profile.rate_limit, now.instant)
    }

    /// Gives a counted request back.
    pub fn uncount_request(&mut self, key: &str, profile: &Profile) {
        if let Some(quota) = self.quotas.get_mut(key).filter(|_| profile.rate_limit.enabled) {
            quota.refund();
        }
    }

    /// Gives a counted request back if the count rule says that only successful ones cost.
    pub fn refund_request(&mut self, key: &str, profile: &Profile, verdict: &mut Verdict) {
        if profile.rate_limit.count != CountRule::Successful || !profile.rate_limit.enabled {
            return;
        }
        if let Some(quota) = self.quotas.get_mut(key) {
            quota.refund();
            verdict.remaining = verdict.remaining.saturating_add(1).min(verdict.limit);
        }
    }
}

fn unix_millis(now: Now) -> u64 {
    u64::try_from(now.wall.as_millisecond()).unwrap_or(0)
}
