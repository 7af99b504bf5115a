//! The delivery queue of one workspace as a state machine: what is due, when next, what follows an outcome.
//!
//! One lane per subscription, one attempt under way in each: first attempts keep the order of events, lanes do not wait
//! for each other. Knows no sockets, tasks or clock; `now` is an argument.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::{Moment, Random};
use crate::contract::profile::{DeliveryOrder, Webhooks};
use crate::journal::AttemptOutcome;
use crate::webhook::schedule::next_delay;
use crate::workspace::{EventRecord, PlannedDelivery};

/// One attempt to be made.
#[derive(Clone, Debug)]
pub struct Job {
    /// The delivery it belongs to.
    pub delivery: PlannedDelivery,
    /// The event.
    pub event: Arc<EventRecord>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// When it is due.
    pub due: Moment,
}

/// What follows an attempt.
#[derive(Clone, Debug)]
pub enum Next {
    /// The receiver took the event.
    Delivered,
    /// Another attempt is due then.
    Retry(Moment),
    /// That was the last attempt.
    Exhausted,
    /// The receiver is gone for good: the subscription is to be disabled, and these deliveries are given up with it.
    Gone(Vec<Job>),
}

/// The queue of one workspace.
#[derive(Debug, Default)]
pub struct Queue {
    lanes: BTreeMap<String, Lane>,
    serial: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// Waiting jobs by due time, then by the order in which they came.
    waiting: BTreeMap<(Moment, u64), Job>,
    /// The job whose attempt is under way, and the order in which its delivery came.
    under_way: Option<(u64, Job)>,
}

impl Lane {
    /// The job that may go next, if its time has come. With strict order, a delivery that is being retried goes first.
    fn next(&self, order: DeliveryOrder) -> Option<(Moment, u64)> {
        if self.under_way.is_some() {
            return None;
        }
        let earliest = self.waiting.keys().next().copied()?;
        match order {
            DeliveryOrder::FirstAttempts => Some(earliest),
            DeliveryOrder::Strict => {
                let retried = self.waiting.iter().filter(|(_, job)| job.attempt > 1).map(|(key, _)| *key);
                Some(retried.min_by_key(|(_, serial)| *serial).unwrap_or(earliest))
            }
        }
    }
}

impl Queue {
    /// Takes over the deliveries of an event.
    pub fn push(&mut self, event: &Arc<EventRecord>) {
        for delivery in &event.deliveries {
            self.push_delivery(event, delivery.clone(), event.due);
        }
    }

    /// Takes over one delivery, as for a redelivery.
    pub fn push_delivery(&mut self, event: &Arc<EventRecord>, delivery: PlannedDelivery, due: Moment) {
        self.serial += 1;
        let lane = self.lanes.entry(delivery.subscription.clone()).or_default();
        let job = Job { delivery, event: Arc::clone(event), attempt: 1, due };
        lane.waiting.insert((due, self.serial), job);
    }

    /// Takes the next attempt that is due, if there is one; its lane then waits for [`Queue::finish`].
    pub fn take_due(&mut self, now: Moment, order: DeliveryOrder) -> Option<Job> {
        let (key, lane) = self
            .lanes
            .values_mut()
            .filter_map(|lane| lane.next(order).filter(|(due, _)| *due <= now).map(|key| (key, lane)))
            .min_by_key(|(key, _)| *key)?;
        let job = lane.waiting.remove(&key)?;
        lane.under_way = Some((key.1, job.clone()));
        Some(job)
    }

    /// When the next attempt is due; `None` while there is nothing to wait for but outcomes.
    pub fn next_due(&self, order: DeliveryOrder) -> Option<Moment> {
        self.lanes.values().filter_map(|lane| lane.next(order)).map(|(due, _)| due).min()
    }

    /// Notes how the attempt under way for `subscription` ended at `now`.
    pub fn finish(
        &mut self,
        subscription: &str,
        outcome: &AttemptOutcome,
        webhooks: &Webhooks,
        now: Moment,
        random: &mut Random,
    ) -> Next {
        let Some(lane) = self.lanes.get_mut(subscription) else { return Next::Exhausted };
        let Some((serial, job)) = lane.under_way.take() else { return Next::Exhausted };
        let next = if outcome.is_success() {
            Next::Delivered
        } else if matches!(outcome, AttemptOutcome::Answered { status: 410, .. }) && webhooks.disable_on_gone {
            Next::Gone(std::mem::take(&mut lane.waiting).into_values().collect())
        } else {
            let wish = match outcome {
                AttemptOutcome::Answered { retry_after, .. } => *retry_after,
                AttemptOutcome::Failed { .. } => None,
            };
            match next_delay(webhooks, job.attempt, wish, random) {
                None => Next::Exhausted,
                Some(delay) => {
                    let due = now.plus(delay);
                    lane.waiting.insert((due, serial), Job { attempt: job.attempt + 1, due, ..job });
                    Next::Retry(due)
                }
            }
        };
        if lane.waiting.is_empty() && lane.under_way.is_none() {
            self.lanes.remove(subscription);
        }
        next
    }

    /// Gives up every waiting delivery of a subscription that is no longer delivered to; the attempt under way ends by
    /// itself.
    pub fn cancel(&mut self, subscription: &str) -> Vec<Job> {
        self.lanes
            .get_mut(subscription)
            .map(|lane| std::mem::take(&mut lane.waiting).into_values().collect())
            .unwrap_or_default()
    }

    /// Attempts under way.
    pub fn under_way(&self) -> usize {
        self.lanes.values().filter(|lane| lane.under_way.is_some()).count()
    }

    /// Deliveries not yet delivered or given up.
    pub fn pending(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len() + usize::from(lane.under_way.is_some())).sum()
    }
}
