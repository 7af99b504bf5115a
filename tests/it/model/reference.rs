//! The reference: what the emulator promises, in plain lists and loops. It shares no code with the emulator, and prefers
//! looking through everything again to keeping score.
//!
//! Times are milliseconds. Each key has its own time line, from 0 when its space is made; `quota` and `requests` hold
//! what a client's request meets.

use std::collections::{BTreeMap, VecDeque};

use super::commands::{KEYS, OUTSIDE, Rules};
use super::quota::Charge;

pub(super) const ROTATION_GRACE: u64 = 15_000;

/// Everything there is.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) start: i64,
    /// What the emulator's clock shows.
    pub(super) wall: i64,
    pub(super) spaces: [Option<Space>; KEYS],
    /// The list of scenarios that is active for all keys, and which activation it is.
    pub(super) global: (usize, u64),
    /// The lists of single keys.
    pub(super) own: [Option<(usize, u64)>; KEYS],
    pub(super) settings: [Option<u32>; KEYS],
    pub(super) sinks: BTreeMap<(usize, usize), Sink>,
    /// The external receiver: its next answer, and everything it got. No reset and no snapshot changes it.
    pub(super) outside: [Sink; KEYS],
    /// Numbers given so far, to activations, subscriptions and events.
    pub(super) given: u64,
}

/// What belongs to one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    pub(super) moment: u64,
    pub(super) wall: i64,
    pub(super) frozen: bool,
    pub(super) charges: Vec<Charge>,
    pub(super) subscriptions: Vec<Subscription>,
    /// Matched and applied, by activation and rule.
    pub(super) counters: BTreeMap<(u64, usize), (u64, u64)>,
    pub(super) deliveries: Vec<Delivery>,
}

#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) number: u64,
    pub(super) hook: usize,
    pub(super) events: u8,
    pub(super) active: bool,
    pub(super) created: i64,
    /// Until when the secret before this one signs too.
    pub(super) previous: Option<u64>,
}

impl Subscription {
    pub(super) fn secrets(&self, moment: u64) -> usize {
        if self.previous.is_some_and(|until| moment < until) { 2 } else { 1 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) event: u64,
    pub(super) kind: usize,
    pub(super) subscription: u64,
    pub(super) hook: usize,
    pub(super) due: u64,
    pub(super) status: &'static str,
    /// Attempts that are listed: when, and the status of the answer; `None` if it was not sent.
    pub(super) attempts: Vec<(i64, Option<u16>)>,
    /// Attempts before the last load, which are not listed.
    pub(super) before: usize,
}

impl Delivery {
    fn made(&self) -> usize {
        self.before + self.attempts.len()
    }
}

/// A receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink {
    pub(super) answers: VecDeque<u16>,
    pub(super) got: Vec<Post>,
}

/// One delivery as a receiver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) event: u64,
    pub(super) kind: usize,
    pub(super) at: i64,
    pub(super) status: u16,
    pub(super) signatures: usize,
}

/// What was saved: everything, or one key.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) key: Option<usize>,
    pub(super) world: World,
}

impl World {
    pub(super) fn new(rules: Rules, start: i64) -> Self {
        Self {
            rules,
            start,
            wall: start,
            spaces: Default::default(),
            global: (0, 1),
            own: Default::default(),
            settings: Default::default(),
            sinks: BTreeMap::new(),
            outside: Default::default(),
            given: 1,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// The key's space, made if it is not there.
    pub(super) fn space(&mut self, key: usize) -> &mut Space {
        let wall = self.wall;
        self.spaces[key].get_or_insert_with(|| Space { wall, ..Space::default() })
    }

    pub(super) fn limit(&self, key: usize) -> u32 {
        self.settings[key].unwrap_or(self.rules.requests)
    }

    /// The list of scenarios in force for a key.
    pub(super) fn active(&self, key: usize) -> (usize, u64) {
        self.own[key].unwrap_or(self.global)
    }

    /// Fires an event at every subscription that wants it; says to how many.
    pub(super) fn fire(&mut self, key: usize, kind: usize, delay: u64) -> usize {
        let event = self.number();
        let space = self.space(key);
        let due = space.moment + delay;
        let wants = |subscription: &&Subscription| subscription.active && subscription.events & (1 << kind) != 0;
        let targets: Vec<_> =
            space.subscriptions.iter().filter(wants).map(|wants| (wants.number, wants.hook)).collect();
        for (subscription, hook) in &targets {
            space.deliveries.push(Delivery {
                event,
                kind,
                subscription: *subscription,
                hook: *hook,
                due,
                status: "pending",
                attempts: Vec::new(),
                before: 0,
            });
        }
        targets.len()
    }

    /// Does everything in a key's space that is due.
    pub(super) fn run_due(&mut self, key: usize) {
        while let Some(at) = self.next_attempt(key) {
            self.attempt(key, at);
        }
    }

    /// The delivery of each subscription that goes next: with strict order one that is being repeated goes before all others,
    /// else the one that is due first.
    fn next_in_lanes(&self, key: usize) -> Vec<usize> {
        let Some(space) = &self.spaces[key] else { return Vec::new() };
        let mut lanes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, delivery) in space.deliveries.iter().enumerate().filter(|(_, delivery)| delivery.status == "pending") {
            lanes.entry(delivery.subscription).or_default().push(at);
        }
        let next = |lane: Vec<usize>| {
            let repeated = lane.iter().copied().find(|at| space.deliveries[*at].made() > 0);
            let first = lane.iter().copied().min_by_key(|at| (space.deliveries[*at].due, *at));
            repeated.filter(|_| self.rules.strict).or(first)
        };
        lanes.into_values().filter_map(next).collect()
    }

    fn next_attempt(&self, key: usize) -> Option<usize> {
        let space = self.spaces[key].as_ref()?;
        self.next_in_lanes(key).into_iter().find(|at| space.deliveries[*at].due <= space.moment)
    }

    fn attempt(&mut self, key: usize, at: usize) {
        let Some(space) = &mut self.spaces[key] else { return };
        let (moment, wall) = (space.moment, space.wall);
        let Delivery { event, kind, subscription: number, hook, .. } = space.deliveries[at];
        let subscription = space.subscriptions.iter_mut().find(|known| known.number == number && known.active);
        let Some(subscription) = subscription else {
            space.deliveries[at].attempts.push((wall, None));
            return space.give_up(number);
        };
        let sink = if hook == OUTSIDE { &mut self.outside[key] } else { self.sinks.entry((key, hook)).or_default() };
        let status = sink.answers.pop_front().unwrap_or(200);
        // A built-in receiver has no headers to send; the other asks to come again after two seconds.
        let wish = (hook == OUTSIDE && status == 503).then_some(2_000_u64);
        sink.got.push(Post { event, kind, at: wall, status, signatures: subscription.secrets(moment) });
        let delivery = &mut space.deliveries[at];
        delivery.attempts.push((wall, Some(status)));
        if (200..300).contains(&status) {
            delivery.status = "delivered";
        } else if status == 410 {
            subscription.active = false;
            space.give_up(number);
        } else if let Some(step) = self.rules.schedule.get(delivery.made() - 1) {
            delivery.due = moment + wish.map_or(*step, |millis| millis.clamp(*step, step * 2));
        } else {
            delivery.status = "exhausted";
        }
    }

    /// Lets time pass in one key's space, from one thing that is due to the next.
    pub(super) fn pass(&mut self, key: usize, by: u64) {
        if self.spaces[key].is_none() {
            return;
        }
        let end = self.space(key).moment + by;
        self.run_due(key);
        loop {
            let lanes = self.next_in_lanes(key);
            let space = self.space(key);
            let attempts = lanes.iter().map(|at| space.deliveries[*at].due);
            let next = attempts.min().filter(|due| *due <= end);
            let step = next.unwrap_or(end).saturating_sub(space.moment);
            space.moment += step;
            space.wall += step.cast_signed();
            if next.is_none() {
                return;
            }
            self.run_due(key);
        }
    }

    /// Lets time pass for the emulator, and for every key whose clock runs.
    pub(super) fn pass_all(&mut self, by: u64) {
        self.wall += by.cast_signed();
        for key in 0..KEYS {
            if self.spaces[key].as_ref().is_some_and(|space| !space.frozen) {
                self.pass(key, by);
            }
        }
    }

    /// Sets a clock: a step forward is time that passes, one back another label.
    pub(super) fn set(&mut self, key: Option<usize>, by: i64) {
        match (key, u64::try_from(by)) {
            (Some(key), Ok(by)) => self.pass(key, by),
            (None, Ok(by)) => self.pass_all(by),
            (Some(key), Err(_)) => self.space(key).wall += by,
            (None, Err(_)) => {
                self.wall += by;
                self.spaces.iter_mut().flatten().filter(|space| !space.frozen).for_each(|space| space.wall += by);
            }
        }
    }

    pub(super) fn follow(&mut self, key: usize) {
        let ahead = self.wall - self.space(key).wall;
        self.pass(key, u64::try_from(ahead).unwrap_or_default());
        let wall = self.wall;
        let space = self.space(key);
        (space.frozen, space.wall) = (false, wall);
    }

    pub(super) fn reset(&mut self, key: Option<usize>) {
        if let Some(key) = key {
            (self.spaces[key], self.own[key], self.settings[key]) = (None, None, None);
            return;
        }
        let serial = self.number();
        let (outside, given) = (self.outside.clone(), self.given);
        *self = Self { outside, given, global: (0, serial), ..Self::new(self.rules.clone(), self.start) };
    }

    /// Continuing from a saved state is the same as never having stopped.
    pub(super) fn load(&mut self, saved: &Saved) {
        let then = &saved.world;
        if saved.key.is_none() {
            let serial = self.number();
            self.wall = then.wall;
            self.global = (then.global.0, serial);
            (self.spaces, self.own, self.settings) = Default::default();
            let scripts = then.sinks.iter();
            self.sinks =
                scripts.map(|(name, sink)| (*name, Sink { answers: sink.answers.clone(), got: Vec::new() })).collect();
        }
        for key in saved.key.map_or(0..KEYS, |key| key..key + 1) {
            let Some(mut space) = then.spaces[key].clone() else { continue };
            let (list, activation) = then.active(key);
            let own = then.own[key].is_some() || list != self.global.0;
            let serial = self.number();
            self.own[key] = own.then_some((list, serial));
            self.settings[key] = then.settings[key];
            let now = self.active(key).1;
            // Counters of other activations are over; those of scenarios that requests name stay.
            let kept = space.counters.into_iter().filter(|((of, _), _)| *of == activation || *of == 0);
            space.counters = kept.map(|((of, rule), count)| ((if of == 0 { 0 } else { now }, rule), count)).collect();
            if !space.frozen {
                // What has passed for the emulator since then has passed for what waits here.
                space.moment += u64::try_from(self.wall - then.wall).unwrap_or_default();
                space.wall += self.wall - then.wall;
            }
            space.deliveries.retain(|delivery| delivery.status == "pending");
            for delivery in &mut space.deliveries {
                delivery.before += delivery.attempts.len();
                delivery.attempts.clear();
            }
            self.spaces[key] = Some(space);
            self.run_due(key);
        }
    }
}

impl Space {
    /// Cancels the pending deliveries of a subscription.
    fn give_up(&mut self, subscription: u64) {
        let waiting = |delivery: &&mut Delivery| delivery.subscription == subscription && delivery.status == "pending";
        self.deliveries.iter_mut().filter(waiting).for_each(|delivery| delivery.status = "cancelled");
    }
}
