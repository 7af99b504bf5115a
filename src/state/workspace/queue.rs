//! The delivery queue of one workspace as a state machine: due attempts, the next instant, what follows an outcome, and by which
//! schedule a failed attempt is retried.
//!
//! Each subscription has a lane with at most one running attempt, so first attempts keep the order of events and lanes do not
//! wait for each other. Independent of sockets, tasks or the clock; `now` is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;

use super::{AttemptOutcome, EventRecord, FailureReason, PlannedDelivery};
use crate::clock::{Instant, Random};
use crate::settings::{DeliveryOrder, Retry, RetryPreset, Webhooks};

#[derive(Clone, Debug)]
pub struct Job {
    pub delivery: Arc<PlannedDelivery>,
    pub event: Arc<EventRecord>,
    pub attempt: u32,
    pub due: Instant,
}

#[derive(Clone, Debug)]
pub enum AfterAttempt {
    Delivered,
    Retry(Instant),
    Exhausted,
    /// The receiver answered 410 Gone, so the subscription is to be disabled, or it was deleted or disabled before the attempt: these
    /// waiting deliveries are cancelled.
    SubscriptionEnded(Vec<Job>),
}

/// The queue of one workspace. Each call is at most logarithmic in the number of waiting deliveries.
#[derive(Debug, Default)]
pub struct Queue {
    /// The lane of each subscription for which anything waits or is running.
    lanes: BTreeMap<String, Lane>,
    /// The next job of each free lane, with its subscription.
    ready: BTreeMap<JobKey, String>,
    strict: bool,
    serial: u64,
    under_way: usize,
    waiting: usize,
    /// True if the workspace has a delivery worker. It has none while nothing waits.
    pub has_worker: bool,
}

/// When a job is due, then the position in which its delivery was queued.
type JobKey = (Instant, u64);

#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<JobKey, Job>,
    /// With strict order: the delivery that is being retried, which goes before all others.
    retried: Option<JobKey>,
    /// The job whose attempt is running, and the position of its delivery.
    under_way: Option<(u64, Job)>,
    /// The entry of this lane in `ready`.
    listed: Option<JobKey>,
}

impl Lane {
    fn next(&self, strict: bool) -> Option<JobKey> {
        match (&self.under_way, self.retried) {
            (Some(_), _) => None,
            (None, Some(key)) if strict => Some(key),
            (None, _) => self.waiting.keys().next().copied(),
        }
    }
}

impl Queue {
    /// Sets whether a delivery that is being retried holds back those behind it.
    pub fn set_order(&mut self, order: DeliveryOrder) {
        let strict = order == DeliveryOrder::Strict;
        if self.strict != strict {
            self.strict = strict;
            for subscription in self.lanes.keys().cloned().collect::<Vec<_>>() {
                self.update_ready(&subscription);
            }
        }
    }

    pub fn push(&mut self, event: &Arc<EventRecord>) {
        for delivery in &event.deliveries {
            self.serial += 1;
            let due = event.due_of(delivery);
            let key = (due, self.serial);
            let attempt = delivery.attempts_before + 1;
            let job = Job { delivery: delivery.clone(), event: Arc::clone(event), attempt, due };
            let lane = self.lanes.entry(delivery.subscription.clone()).or_default();
            lane.waiting.insert(key, job);
            if attempt > 1 {
                lane.retried = Some(key);
            }
            self.waiting += 1;
            self.update_ready(&delivery.subscription);
        }
    }

    /// Removes and returns the next due attempt. Its lane then waits for [`Queue::finish`].
    pub fn next_due_job(&mut self, now: Instant) -> Option<Job> {
        let (key, subscription) = self.ready.first_entry().filter(|entry| entry.key().0 <= now)?.remove_entry();
        let lane = self.lanes.get_mut(&subscription)?;
        lane.listed = None;
        let job = lane.waiting.remove(&key)?;
        lane.retried = lane.retried.filter(|retried| *retried != key);
        lane.under_way = Some((key.1, job.clone()));
        self.waiting -= 1;
        self.under_way += 1;
        Some(job)
    }

    /// When the next attempt is due; `None` if nothing waits or all lanes have a running attempt.
    pub fn next_due(&self) -> Option<Instant> {
        self.ready.keys().next().map(|(due, _)| *due)
    }

    /// Records how the running attempt for `subscription` ended at `now`. `random` is called only after a failure.
    pub fn finish(
        &mut self,
        subscription: &str,
        outcome: &AttemptOutcome,
        webhooks: &Webhooks,
        now: Instant,
        random: impl FnOnce() -> Random,
    ) -> AfterAttempt {
        let Some(lane) = self.lanes.get_mut(subscription) else { return AfterAttempt::Exhausted };
        let Some((serial, job)) = lane.under_way.take() else { return AfterAttempt::Exhausted };
        self.under_way -= 1;
        let is_gone = match outcome {
            AttemptOutcome::Answered { status, .. } => *status == 410 && webhooks.disable_on_gone,
            AttemptOutcome::Failed { reason, .. } => *reason == FailureReason::SubscriptionGone,
        };
        let next = if outcome.is_success() {
            AfterAttempt::Delivered
        } else if is_gone {
            AfterAttempt::SubscriptionEnded(self.give_up(subscription))
        } else if job.event.tamper.is_some() && outcome.is_refusal() {
            // The forgery was refused as intended.
            AfterAttempt::Exhausted
        } else {
            let requested = match outcome {
                AttemptOutcome::Answered { retry_after, .. } => *retry_after,
                AttemptOutcome::Failed { .. } => None,
            };
            match next_delay(webhooks, job.attempt, requested, &mut random()) {
                None => AfterAttempt::Exhausted,
                Some(delay) => {
                    let due = now.plus(delay);
                    lane.waiting.insert((due, serial), Job { attempt: job.attempt + 1, due, ..job });
                    lane.retried = Some((due, serial));
                    self.waiting += 1;
                    AfterAttempt::Retry(due)
                }
            }
        };
        self.update_ready(subscription);
        next
    }

    /// Gives up every waiting delivery; attempts under way end by themselves.
    pub fn give_up_all(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for subscription in self.lanes.keys().cloned().collect::<Vec<_>>() {
            jobs.extend(self.give_up(&subscription));
            self.update_ready(&subscription);
        }
        jobs
    }

    pub fn under_way(&self) -> usize {
        self.under_way
    }

    pub fn pending(&self) -> usize {
        self.waiting + self.under_way
    }

    fn give_up(&mut self, subscription: &str) -> Vec<Job> {
        let Some(lane) = self.lanes.get_mut(subscription) else { return Vec::new() };
        lane.retried = None;
        let jobs: Vec<Job> = std::mem::take(&mut lane.waiting).into_values().collect();
        self.waiting -= jobs.len();
        jobs
    }

    /// Updates the entry of a lane in `ready`; removes an empty lane.
    fn update_ready(&mut self, subscription: &str) {
        let Some(lane) = self.lanes.get_mut(subscription) else { return };
        let next = lane.next(self.strict);
        if lane.listed != next {
            if let Some(old) = std::mem::replace(&mut lane.listed, next) {
                self.ready.remove(&old);
            }
            if let Some(next) = next {
                self.ready.insert(next, subscription.to_owned());
            }
        }
        if lane.waiting.is_empty() && lane.under_way.is_none() {
            self.lanes.remove(subscription);
        }
    }
}

/// The delay after failed attempt `attempt` (from 1), before jitter; `None` when there is no further attempt.
fn delay_after(retry: &Retry, attempt: u32) -> Option<Duration> {
    let at = usize::try_from(attempt).ok()?.checked_sub(1)?;
    match retry.preset {
        RetryPreset::Custom => retry.schedule.get(at).map(|delay| delay.get()),
        named => named.delays().get(at).copied(),
    }
}

/// The delay after a failed attempt, with jitter. A receiver's `Retry-After` replaces it, clamped to between one and two steps.
fn next_delay(
    webhooks: &Webhooks,
    attempt: u32,
    retry_after: Option<Duration>,
    random: &mut Random,
) -> Option<Duration> {
    let step = delay_after(&webhooks.retry, attempt)?;
    let spread = 1.0 + webhooks.retry.jitter * random.random_range(-1.0..=1.0);
    let requested = retry_after.filter(|_| webhooks.honor_retry_after);
    Some(match requested {
        Some(requested) => requested.clamp(step, step.saturating_mul(2)),
        None => step.mul_f64(spread),
    })
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;

    use super::*;
    use crate::clock::Seed;
    use crate::contract::signature::Tamper;
    use crate::settings::Layered;
    use crate::state::workspace::HookUrl;

    fn webhooks(assignments: &[&str]) -> Webhooks {
        let mut layered = Layered::default();
        for assignment in ["webhooks.retry.preset=standard", "webhooks.retry.jitter=0"].iter().chain(assignments) {
            layered = layered.with_assignment(assignment, "test").expect("it is valid");
        }
        layered.profile().webhooks.clone()
    }

    fn at(second: u64) -> Instant {
        Instant::after_start(Duration::from_secs(second))
    }

    fn answered(status: u16, retry_after: Option<u64>) -> AttemptOutcome {
        let retry_after = retry_after.map(Duration::from_secs);
        AttemptOutcome::Answered { status, retry_after, date: None, location: None, note: None, body: Bytes::new() }
    }

    /// A queue with one delivery for each of these: its id, whose first letter is its subscription, and the second at which it is due.
    fn queue(deliveries: &[(&str, u64)]) -> Queue {
        let mut queue = Queue::default();
        for (id, second) in deliveries {
            push(&mut queue, id, *second, 0, None);
        }
        queue
    }

    fn push(queue: &mut Queue, id: &str, second: u64, attempts_before: u32, tamper: Option<Tamper>) {
        let delivery = PlannedDelivery {
            id: id.to_owned(),
            subscription: id[..1].to_owned(),
            url: HookUrl::new("https://a.example/", Arc::new("https://a.example/".parse().expect("a URL"))),
            attempts_before,
            due: None,
            serial: std::sync::OnceLock::new(),
        };
        let deliveries = vec![Arc::new(delivery)];
        queue.push(&Arc::new(EventRecord { due: at(second), deliveries, tamper, ..EventRecord::default() }));
    }

    /// Begins all attempts due at this second; returns the deliveries with the numbers of their attempts.
    fn begin(queue: &mut Queue, second: u64) -> String {
        let jobs = std::iter::from_fn(|| queue.next_due_job(at(second)));
        jobs.map(|job| format!("{}/{}", job.delivery.id, job.attempt)).collect::<Vec<_>>().join(" ")
    }

    /// Ends the attempt of a subscription; returns what follows.
    fn end(queue: &mut Queue, subscription: &str, outcome: &AttemptOutcome, second: u64) -> String {
        let random = || Seed::from_number(1).source("test");
        match queue.finish(subscription, outcome, &webhooks(&[]), at(second), random) {
            AfterAttempt::Delivered => "delivered".to_owned(),
            AfterAttempt::Retry(due) => format!("retry at {:?}", due.since_start()),
            AfterAttempt::Exhausted => "exhausted".to_owned(),
            AfterAttempt::SubscriptionEnded(jobs) => {
                let ids: Vec<_> = jobs.iter().map(|job| job.delivery.id.as_str()).collect();
                format!("gone: {}", ids.join(" "))
            }
        }
    }

    #[test]
    fn lanes_keep_their_order_and_do_not_wait_for_each_other() {
        let mut queue = queue(&[("a1", 5), ("a2", 5), ("b1", 7), ("a3", 1)]);
        assert_eq!((queue.pending(), queue.under_way(), queue.next_due()), (4, 0, Some(at(1))));
        assert_eq!(begin(&mut queue, 0), "");
        assert_eq!(begin(&mut queue, 6), "a3/1");
        assert_eq!((queue.pending(), queue.under_way(), queue.next_due()), (4, 1, Some(at(7))));
        assert_eq!(begin(&mut queue, 7), "b1/1");
        assert_eq!((queue.pending(), queue.under_way(), queue.next_due()), (4, 2, None));
        assert_eq!(end(&mut queue, "a", &answered(204, None), 8), "delivered");
        assert_eq!((queue.pending(), queue.under_way(), queue.next_due()), (3, 1, Some(at(5))));
        assert_eq!(begin(&mut queue, 8), "a1/1");
        assert_eq!(end(&mut queue, "a", &answered(200, None), 8), "delivered");
        assert_eq!(begin(&mut queue, 8), "a2/1");
        for subscription in ["a", "b"] {
            assert_eq!(end(&mut queue, subscription, &answered(200, None), 9), "delivered");
        }
        assert_eq!((queue.pending(), queue.under_way(), queue.next_due()), (0, 0, None));
        assert!(queue.lanes.is_empty() && queue.ready.is_empty());
    }

    #[test]
    fn a_failed_attempt_is_repeated_until_its_schedule_ends() {
        let mut queue = queue(&[("a1", 0)]);
        for (second, expected) in [(0, "retry at 1s"), (1, "retry at 5s"), (5, "retry at 30s"), (30, "exhausted")] {
            assert_ne!(begin(&mut queue, second), "", "{second}");
            assert_eq!(end(&mut queue, "a", &answered(500, None), second), expected);
            assert_eq!((queue.pending(), queue.under_way()), (usize::from(second < 30), 0));
        }
        push(&mut queue, "b1", 0, 3, None);
        assert_eq!(begin(&mut queue, 0), "b1/4");
        assert_eq!(end(&mut queue, "b", &answered(500, None), 0), "exhausted");
    }

    #[test]
    fn with_strict_order_a_retry_holds_back_what_is_behind_it() {
        for (order, at_once, later) in
            [(DeliveryOrder::FirstAttempts, "a2/1", "a1/2"), (DeliveryOrder::Strict, "", "a1/2")]
        {
            let mut queue = queue(&[("a1", 0), ("a2", 0)]);
            queue.set_order(order);
            assert_eq!(begin(&mut queue, 0), "a1/1");
            assert_eq!(end(&mut queue, "a", &answered(500, None), 0), "retry at 1s");
            assert_eq!(begin(&mut queue, 0), at_once);
            end(&mut queue, "a", &answered(200, None), 0);
            assert_eq!(begin(&mut queue, 1), later);
            end(&mut queue, "a", &answered(200, None), 1);
            assert_eq!(begin(&mut queue, 1), if at_once.is_empty() { "a2/1" } else { "" });
        }
    }

    #[test]
    fn a_change_of_the_order_is_followed_at_once() {
        let mut queue = queue(&[("a1", 0), ("a2", 0)]);
        begin(&mut queue, 0);
        end(&mut queue, "a", &answered(500, None), 0);
        queue.set_order(DeliveryOrder::Strict);
        assert_eq!(queue.next_due(), Some(at(1)));
        queue.set_order(DeliveryOrder::FirstAttempts);
        assert_eq!(queue.next_due(), Some(at(0)));
        // A retry is also the first after a snapshot was loaded.
        let mut queue = Queue::default();
        queue.set_order(DeliveryOrder::Strict);
        push(&mut queue, "a1", 9, 1, None);
        push(&mut queue, "a2", 0, 0, None);
        assert_eq!(queue.next_due(), Some(at(9)));
    }

    #[test]
    fn a_subscription_that_is_gone_loses_what_waits() {
        let failed =
            AttemptOutcome::Failed { reason: FailureReason::SubscriptionGone, detail: String::new(), hint: None };
        let reset =
            AttemptOutcome::Failed { reason: FailureReason::ConnectionReset, detail: String::new(), hint: None };
        for (outcome, expected, pending) in [
            (answered(410, None), "gone: a2 a3", 1),
            (failed, "gone: a2 a3", 1),
            (answered(404, None), "retry at 1s", 4),
            (reset, "retry at 1s", 4),
        ] {
            let mut queue = queue(&[("a1", 0), ("a2", 0), ("a3", 7), ("b1", 0)]);
            begin(&mut queue, 0);
            assert_eq!(end(&mut queue, "a", &outcome, 0), expected);
            assert_eq!(queue.pending(), pending);
            assert_eq!(begin(&mut queue, 0), if pending == 1 { "" } else { "a2/1" });
        }
        let mut queue = queue(&[("a1", 0), ("a2", 0), ("b1", 0)]);
        begin(&mut queue, 0);
        assert_eq!(queue.give_up_all().iter().map(|job| job.delivery.id.as_str()).collect::<Vec<_>>(), ["a2"]);
        assert_eq!((queue.pending(), queue.under_way()), (2, 2));
    }

    #[test]
    fn a_refused_forgery_is_not_repeated() {
        for (status, expected) in [(401, "exhausted"), (500, "retry at 1s"), (200, "delivered")] {
            let mut queue = Queue::default();
            push(&mut queue, "a1", 0, 0, Some(Tamper::Body));
            begin(&mut queue, 0);
            assert_eq!(end(&mut queue, "a", &answered(status, None), 0), expected);
        }
    }

    #[test]
    fn a_retry_is_as_late_as_its_receiver_asks_within_two_steps() {
        let random = &mut Seed::from_number(1).source("test");
        let ignoring = ["webhooks.honor_retry_after=false"];
        for (assignments, requested, expected) in
            [(&[][..], None, 4), (&[], Some(1), 4), (&[], Some(6), 6), (&[], Some(60), 8), (&ignoring, Some(60), 4)]
        {
            let found = next_delay(&webhooks(assignments), 2, requested.map(Duration::from_secs), random);
            assert_eq!(found, Some(Duration::from_secs(expected)), "{requested:?}");
        }
    }

    #[test]
    fn jitter_stays_within_its_spread_and_uses_it() {
        let spread = webhooks(&["webhooks.retry.jitter=0.5"]);
        let mut random = Seed::from_number(1).source("test");
        let delays = (0..50).map(|_| next_delay(&spread, 2, None, &mut random).expect("a retry").as_secs_f64());
        let delays: Vec<f64> = delays.collect();
        assert!(delays.iter().all(|delay| (2.0..=6.0).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay < 2.5) && delays.iter().any(|delay| *delay > 5.5), "{delays:?}");
    }
}
