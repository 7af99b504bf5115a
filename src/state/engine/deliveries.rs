//! The delivery store: attempts, status and next attempt of each delivery. Finished deliveries are bounded by number, and give way
//! when the budget is used up, successful ones first.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use url::Url;

use crate::clock::{Clock, Instant};
use crate::state::budget::{Budget, History};
pub use crate::state::workspace::DeliveryStatus;
use crate::state::workspace::{AttemptRecord, EventRecord, Forgery, PlannedDelivery, Workspace};

pub const MAX_FINISHED: usize = 10_000;
/// How many of them may be failures before the oldest failure is evicted; failures are kept longer because people
/// look for them.
const MAX_FAILED: usize = MAX_FINISHED / 2;
const MAX_CHANGES: usize = 16_384;

/// Why a delivery was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cancellation {
    #[error("nothing listened there after the command had ended")]
    ReceiverEnded,
    #[error("the receiver answered 410 Gone, which disabled the subscription")]
    AnsweredGone,
    #[error("the subscription was deleted or disabled")]
    Unsubscribed,
    #[error("the workspace was reset or evicted")]
    WorkspaceGone,
    #[error("{0}")]
    Dropped(String),
}

/// One event on its way to one subscription.
#[derive(Clone, Debug)]
pub struct DeliveryRecord {
    pub planned: Arc<PlannedDelivery>,
    pub event: Arc<EventRecord>,
    pub status: DeliveryStatus,
    pub made: u32,
    /// Attempts made, oldest first, without those for which the budget had no room.
    pub attempts: Vec<Arc<AttemptRecord>>,
    /// When the next attempt is due; it stays until that has ended.
    pub next: Option<Instant>,
    pub note: Option<Cancellation>,
}

#[derive(Debug)]
pub struct DeliveryStore {
    budget: Budget,
    state: Mutex<StoreState>,
    changed: Notify,
}

#[derive(Debug)]
struct StoreState {
    by_serial: BTreeMap<u64, DeliveryRecord>,
    serial_by_id: HashMap<String, u64>,
    made: u64,
    pending: usize,
    /// How many changes there were, and which deliveries the last ones entered or changed: waiting readers check only these.
    changes: u64,
    changed: VecDeque<u64>,
    /// Finished deliveries in the order in which they are evicted. Some may be evicted already, or pending again.
    delivered: VecDeque<u64>,
    failed: VecDeque<u64>,
    evicted: u64,
}

impl DeliveryStore {
    pub fn new(budget: &Budget) -> Self {
        let state = StoreState {
            by_serial: BTreeMap::new(),
            serial_by_id: HashMap::new(),
            made: 0,
            pending: 0,
            changes: 0,
            changed: VecDeque::new(),
            delivered: VecDeque::new(),
            failed: VecDeque::new(),
            evicted: 0,
        };
        Self { budget: budget.clone(), state: Mutex::new(state), changed: Notify::new() }
    }

    /// Enters the deliveries of an event.
    pub fn enter(&self, workspace: &Workspace, event: &Arc<EventRecord>) {
        if event.deliveries.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        // Checked under the lock: a reset removes the workspace before it clears its deliveries, so none is added after that.
        if workspace.was_reset() {
            return;
        }
        for planned in &event.deliveries {
            state.made += 1;
            state.pending += 1;
            let serial = state.made;
            // Each is entered once: a redelivery is a separate delivery.
            let _ = planned.serial.set(serial);
            state.serial_by_id.insert(planned.id.clone(), serial);
            let record = DeliveryRecord {
                planned: Arc::clone(planned),
                event: Arc::clone(event),
                status: DeliveryStatus::Pending,
                made: 0,
                attempts: Vec::new(),
                next: Some(event.due_of(planned)),
                note: None,
            };
            state.by_serial.insert(serial, record);
            state.note_change(serial);
        }
        state.trim();
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn record_attempt(&self, attempt: Arc<AttemptRecord>, status: DeliveryStatus) {
        let (event, delivery) = (Arc::clone(&attempt.event), Arc::clone(&attempt.delivery));
        let is_kept = self.budget.room().is_ok();
        self.change(&event, &delivery, |record| {
            record.next = attempt.next;
            record.made += 1;
            if is_kept {
                record.attempts.push(attempt);
            }
            record.status = status;
        });
    }

    pub fn record_cancelled(&self, event: &Arc<EventRecord>, delivery: &PlannedDelivery, note: Cancellation) {
        self.change(event, delivery, |record| {
            record.status = DeliveryStatus::Cancelled;
            record.next = None;
            record.note = Some(note);
        });
    }

    pub fn cancel_all(&self, event: &Arc<EventRecord>, note: &Cancellation) {
        for delivery in &event.deliveries {
            self.record_cancelled(event, delivery, note.clone());
        }
    }

    /// Changes a delivery if it is still there: one that was cleared may end late.
    fn change(&self, event: &EventRecord, delivery: &PlannedDelivery, change: impl FnOnce(&mut DeliveryRecord)) {
        let Some(&serial) = delivery.serial.get() else { return };
        let mut state = self.state.lock();
        let Some(record) = state.by_serial.get_mut(&serial) else { return };
        let was_pending = record.status == DeliveryStatus::Pending;
        change(record);
        let is_now = record.status;
        match (was_pending, is_now == DeliveryStatus::Pending) {
            (true, false) => {
                state.pending -= 1;
                // A delivered forgery is a problem, too: its receiver accepted it.
                let is_fine = is_now == DeliveryStatus::Delivered && event.tamper.is_none();
                let finished = if is_fine { &mut state.delivered } else { &mut state.failed };
                finished.push_back(serial);
            }
            (false, true) => state.pending += 1,
            _ => {}
        }
        state.note_change(serial);
        state.trim();
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn clear(&self, is_meant: impl Fn(&Arc<str>) -> bool) {
        let mut state = self.state.lock();
        let StoreState { by_serial, serial_by_id, pending, delivered, failed, .. } = &mut *state;
        by_serial.retain(|serial, record| {
            let goes = is_meant(&record.event.workspace);
            if goes {
                release_id(serial_by_id, &record.planned.id, *serial);
                if record.status == DeliveryStatus::Pending {
                    *pending -= 1;
                }
            }
            !goes
        });
        for ended in [delivered, failed] {
            ended.retain(|serial| by_serial.contains_key(serial));
            ended.shrink_to_fit();
        }
        serial_by_id.shrink_to_fit();
        drop(state);
        self.changed.notify_waiters();
    }

    pub fn get(&self, id: &str) -> Option<DeliveryRecord> {
        let state = self.state.lock();
        state.by_serial.get(state.serial_by_id.get(id)?).cloned()
    }

    /// Deliveries for which `pick` is true, newest first, with their serial numbers, which are below `before`.
    pub fn list(
        &self,
        before: Option<u64>,
        most: usize,
        pick: impl Fn(&DeliveryRecord) -> bool,
    ) -> Vec<(u64, DeliveryRecord)> {
        let state = self.state.lock();
        let below = state.by_serial.range(..before.unwrap_or(u64::MAX)).rev();
        below.filter(|(_, record)| pick(record)).take(most).map(|(serial, record)| (*serial, record.clone())).collect()
    }

    /// True if an attempt of any delivery reached the address of this URL.
    pub fn was_reached(&self, dialled: &str) -> bool {
        let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
        let address = origin(dialled);
        let reached =
            |attempt: &Arc<AttemptRecord>| !attempt.outcome.is_unreached() && origin(&attempt.dialled) == address;
        self.state.lock().by_serial.values().any(|delivery| delivery.attempts.iter().any(reached))
    }

    /// Passes on every delivery that is not settled, oldest first.
    pub fn each_pending(&self, pass: impl FnMut(&DeliveryRecord)) {
        let state = self.state.lock();
        state.by_serial.values().filter(|record| record.status == DeliveryStatus::Pending).for_each(pass);
    }

    pub fn count(&self, pick: impl Fn(&DeliveryRecord) -> bool) -> usize {
        self.state.lock().by_serial.values().filter(|record| pick(record)).count()
    }

    /// Completes when any delivery changes after the call.
    /// To miss no change, create and enable the future, check the state, then await it.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// How many changes there were so far; an argument for [`Self::changed_since`].
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    pub fn evicted(&self) -> u64 {
        self.state.lock().evicted
    }

    /// The current records of the deliveries that changed after change `seen`, with their serial numbers, and the `seen` of the
    /// next call. `None` if more have changed than are remembered; the caller then has to search the whole store.
    pub fn changed_since(&self, seen: u64) -> Option<(u64, Vec<(u64, DeliveryRecord)>)> {
        let state = self.state.lock();
        let new = usize::try_from(state.changes.saturating_sub(seen)).ok()?;
        let skip = state.changed.len().checked_sub(new)?;
        let serials: BTreeSet<u64> = state.changed.iter().skip(skip).copied().collect();
        let records = serials.into_iter().filter_map(|serial| Some((serial, state.by_serial.get(&serial)?.clone())));
        Some((state.changes, records.collect()))
    }

    pub fn pending(&self) -> usize {
        self.state.lock().pending
    }

    pub async fn wait_settled(&self, ids: &[String], limit: Duration) -> Vec<DeliveryRecord> {
        self.wait(ids, limit, |record| record.status == DeliveryStatus::Pending).await
    }

    /// Waits for the first attempt of each; while the clock is automatic, for the end of each, because retries then need no time. Not for an
    /// attempt that cannot come meanwhile: it is due after the wait, or the clock stands still before it.
    pub async fn wait_tried(&self, ids: &[String], limit: Duration, clock: &Clock) -> Vec<DeliveryRecord> {
        let now = clock.instant();
        let last = if clock.is_stopped() { now } else { now.plus(limit) };
        let is_open = |record: &DeliveryRecord| {
            let may_come = clock.is_auto() || record.made == 0 && record.next.is_none_or(|next| next <= last);
            record.status == DeliveryStatus::Pending && may_come
        };
        self.wait(ids, limit, is_open).await
    }

    async fn wait(
        &self,
        ids: &[String],
        limit: Duration,
        is_open: impl Fn(&DeliveryRecord) -> bool,
    ) -> Vec<DeliveryRecord> {
        let done = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                if !ids.iter().filter_map(|id| self.get(id)).any(|record| is_open(&record)) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(limit, done).await;
        ids.iter().filter_map(|id| self.get(id)).collect()
    }
}

impl StoreState {
    fn note_change(&mut self, serial: u64) {
        if self.changed.len() == MAX_CHANGES {
            self.changed.pop_front();
        }
        self.changed.push_back(serial);
        self.changes += 1;
    }

    fn trim(&mut self) {
        while self.by_serial.len() - self.pending > MAX_FINISHED && self.evict() {}
    }

    /// Evicts the oldest successful delivery, or the oldest failure if there are too many failures. Returns false if none has
    /// finished.
    fn evict(&mut self) -> bool {
        loop {
            let failures_first = self.failed.len() > MAX_FAILED || self.delivered.is_empty();
            let ended = if failures_first { &mut self.failed } else { &mut self.delivered };
            let Some(serial) = ended.pop_front() else { return false };
            let is_finished = |record: &DeliveryRecord| record.status != DeliveryStatus::Pending;
            if !self.by_serial.get(&serial).is_some_and(is_finished) {
                continue;
            }
            if let Some(record) = self.by_serial.remove(&serial) {
                release_id(&mut self.serial_by_id, &record.planned.id, serial);
                self.evicted += 1;
            }
            return true;
        }
    }
}

impl History for DeliveryStore {
    fn evict_until(&self, is_enough: &dyn Fn() -> bool) {
        let mut state = self.state.lock();
        while !is_enough() && state.evict() {}
    }
}

impl DeliveryRecord {
    /// Attempts made, those before a snapshot included.
    pub fn attempts_made(&self) -> u32 {
        self.planned.attempts_before.saturating_add(self.made)
    }

    /// The attempt by which the delivery is judged: the last that reached its receiver, or else the last. A receiver that the tests start ends
    /// with them, so that the retries after that find nothing, which is not why the delivery failed.
    pub fn deciding_attempt(&self) -> Option<&Arc<AttemptRecord>> {
        let reached = self.attempts.iter().rfind(|attempt| !attempt.outcome.is_unreached());
        reached.or(self.attempts.last())
    }

    pub fn forgery(&self) -> Option<Forgery> {
        self.attempts.last()?.forgery()
    }
}

/// Removes an id, unless a later delivery has it by now.
fn release_id(ids: &mut HashMap<String, u64>, id: &str, serial: u64) {
    if ids.get(id) == Some(&serial) {
        ids.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, Seed};
    use crate::state::journal::Journal;
    use crate::state::workspace::HookUrl;
    use crate::state::workspace::Registry;

    fn opened() -> (DeliveryStore, Registry, Arc<Workspace>) {
        let journal = Arc::new(Journal::new(10, &Budget::default()));
        let registry = Registry::new(Seed::from_number(1), Clock::frozen(jiff::Timestamp::UNIX_EPOCH), 9, journal);
        let workspace = registry.open("w", registry.clock().now());
        (DeliveryStore::new(&Budget::default()), registry, workspace)
    }

    /// Enters an event with one delivery of this id.
    fn enter(store: &DeliveryStore, workspace: &Workspace, id: &str) -> Arc<EventRecord> {
        let planned = PlannedDelivery {
            id: id.to_owned(),
            subscription: "sub_1".to_owned(),
            url: HookUrl::new("https://a.example/", Arc::new("https://a.example/".parse().expect("a URL"))),
            attempts_before: 0,
            due: None,
            serial: std::sync::OnceLock::new(),
        };
        let deliveries = vec![Arc::new(planned)];
        let event =
            Arc::new(EventRecord { workspace: Arc::clone(workspace.name()), deliveries, ..EventRecord::default() });
        store.enter(workspace, &event);
        event
    }

    /// Enters so many deliveries and lets them end in this way; returns their ids.
    fn end(store: &DeliveryStore, workspace: &Workspace, count: usize, status: DeliveryStatus) -> Vec<String> {
        let end = |number| {
            let id = format!("dlv_{}_{number}", status as u8);
            let event = enter(store, workspace, &id);
            store.change(&event, &event.deliveries[0], |record| record.status = status);
            id
        };
        (0..count).map(end).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn no_wait_is_for_an_attempt_that_cannot_come() {
        let (store, registry, workspace) = opened();
        let ids = ["dlv_due".to_owned(), "dlv_later".to_owned()];
        let events = ids.each_ref().map(|id| enter(&store, &workspace, id));
        let now = registry.clock().instant();
        for (event, next) in events.iter().zip([now, now.plus(Duration::from_secs(3))]) {
            store.change(event, &event.deliveries[0], |record| record.next = Some(next));
        }
        let waits = async |clock: &Clock, ids: &[String]| {
            let wait = store.wait_tried(ids, Duration::from_secs(20), clock);
            tokio::time::timeout(Duration::from_secs(19), wait).await.is_err()
        };
        let frozen = registry.clock().clone();
        assert!(!waits(&frozen, &ids[1..]).await, "the clock stands still before it");
        assert!(waits(&frozen, &ids).await, "one is due");
        frozen.resume();
        assert!(waits(&frozen, &ids[1..]).await, "it may come");
        let event = &events[1];
        store.change(event, &event.deliveries[0], |record| record.next = Some(now.plus(Duration::from_hours(1))));
        assert!(!waits(&frozen, &ids[1..]).await, "it comes after the wait");
    }

    #[test]
    fn successes_are_evicted_before_failures_until_failures_are_most() {
        let (store, _registry, workspace) = opened();
        let is_kept = |id: &String| store.get(id).is_some();
        let failed = end(&store, &workspace, 1, DeliveryStatus::Exhausted);
        let delivered = end(&store, &workspace, MAX_FINISHED + 1, DeliveryStatus::Delivered);
        assert_eq!(store.evicted(), 2);
        let kept = [&failed[0], &delivered[0], &delivered[1], &delivered[2]].map(is_kept);
        assert_eq!(kept, [true, false, false, true]);
        let cancelled = end(&store, &workspace, MAX_FAILED, DeliveryStatus::Cancelled);
        assert_eq!([&failed[0], &cancelled[0]].map(is_kept), [false, true]);
        assert_eq!(store.list(None, usize::MAX, |_| true).len(), MAX_FINISHED);
        store.clear(|_| true);
        end(&store, &workspace, 1, DeliveryStatus::Delivered);
        assert_eq!(store.list(None, usize::MAX, |_| true).len(), 1, "cleared entries need no room");
    }

    /// A workspace that was reset or evicted makes the same ids again.
    #[test]
    fn a_delivery_that_ends_late_is_not_taken_for_its_successor() {
        for is_cleared in [true, false] {
            let (store, _registry, workspace) = opened();
            let statuses = || -> Vec<DeliveryStatus> {
                store.list(None, 10, |_| true).into_iter().map(|(_, record)| record.status).collect()
            };
            let old = enter(&store, &workspace, "dlv_1");
            if is_cleared {
                store.clear(|name| **name == *"w");
            }
            let new = enter(&store, &workspace, "dlv_1");
            for _ in 0..2 {
                store.record_cancelled(&old, &old.deliveries[0], Cancellation::WorkspaceGone);
                assert_eq!((store.pending(), statuses()[0]), (1, DeliveryStatus::Pending), "{is_cleared}");
            }
            store.record_cancelled(&new, &new.deliveries[0], Cancellation::Unsubscribed);
            assert_eq!((store.pending(), statuses()[0]), (0, DeliveryStatus::Cancelled));
            store.clear(|_| true);
            assert_eq!((store.pending(), store.get("dlv_1").is_none()), (0, true));
        }
    }
}
