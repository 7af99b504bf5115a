//! A client's requests in the reference: key, quota, scenario, effect, in that order; and the scenarios that are played.

use super::commands::Count;
use super::quota::{charge, refund};
use super::reference::{Subscription, World};

/// The scenarios, in TOML as the emulator reads them.
pub(super) const SCENARIOS: [(&str, &str); 3] = [
    (
        "one",
        "[[rule]]\nwhen = { operation = 'system.status' }\nskip = 1\nevery = 2\ntimes = 3\nreply = { status = 422, code = 'one', message = 'm' }\n",
    ),
    (
        "two",
        "[[rule]]\nwhen = { operation = 'system.status' }\nsequence = [{ status = 422, code = 'two', message = 'm', times = 2 }, { pass = true }, { error = 'rate_limit_exceeded' }]\nthen = 'repeat'\n",
    ),
    (
        "three",
        "[[rule]]\nwhen = { operation = 'events.subscribe' }\ntimes = 2\nreply = { status = 422, code = 'three', message = 'm' }\n\n[[rule]]\nwhen = { operation = 'system.status' }\nsequence = [{ pass = true }, { status = 422, code = 'four', message = 'm' }]\n",
    ),
];

/// Lists of scenarios that are made active, by name.
pub(super) const LISTS: [&[&str]; 5] = [&[], &["one"], &["two", "one"], &["three", "two"], &["one", "three"]];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Status,
    Subscribe,
}

#[derive(Clone, Copy)]
enum Act {
    Pass,
    Refuse(&'static str),
    QuotaUsedUp,
}

/// The same rules as above, as data: which scenario, operation, skip, every, times, steps, and whether those begin again.
type Rule = (&'static str, Operation, u64, u64, u64, &'static [(u64, Act)], bool);
const RULES: [Rule; 4] = [
    ("one", Operation::Status, 1, 2, 3, &[(u64::MAX, Act::Refuse("one"))], false),
    ("two", Operation::Status, 0, 1, u64::MAX, &[(2, Act::Refuse("two")), (1, Act::Pass), (1, Act::QuotaUsedUp)], true),
    ("three", Operation::Subscribe, 0, 1, 2, &[(u64::MAX, Act::Refuse("three"))], false),
    ("three", Operation::Status, 0, 1, u64::MAX, &[(1, Act::Pass), (1, Act::Refuse("four"))], false),
];

/// What a client must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) status: u16,
    pub(super) code: Option<&'static str>,
    /// Limit and remaining, on every answer to a valid key.
    pub(super) quota: Option<(u32, u32)>,
    /// What the key's clock shows.
    pub(super) wall: i64,
}

impl World {
    /// A request that leads to no endpoint.
    pub(super) fn nowhere(&mut self, key: usize) -> Expected {
        let wall = self.space(key).wall;
        Expected { status: 404, code: Some("not_found"), quota: None, wall }
    }

    /// A request of a key: `effect` is what the operation does and answers once nothing else stops it. With `named` the
    /// request names the scenario `two`.
    pub(super) fn request(
        &mut self,
        key: usize,
        operation: Operation,
        named: bool,
        effect: impl FnOnce(&mut Self) -> (u16, Option<&'static str>),
    ) -> Expected {
        let limit = self.limit(key);
        let rules = self.rules.clone();
        let space = self.space(key);
        let (wall, moment) = (space.wall, space.moment);
        let (allowed, left) = charge(&mut space.charges, &rules, limit, moment);
        if !allowed {
            let code = Some("rate_limit_exceeded");
            return Expected { status: 429, code, quota: Some((limit, 0)), wall };
        }
        let mut shown = left;
        let (status, code) = match self.play(key, operation, named) {
            Act::Pass => effect(self),
            Act::Refuse(code) => (422, Some(code)),
            Act::QuotaUsedUp => {
                shown = 0;
                (429, Some("rate_limit_exceeded"))
            }
        };
        if rules.count == Count::Successful && status != 200 {
            refund(&mut self.space(key).charges);
            shown = if status == 429 { 0 } else { (left + 1).min(limit) };
        }
        Expected { status, code, quota: Some((limit, shown)), wall }
    }

    fn play(&mut self, key: usize, operation: Operation, named: bool) -> Act {
        let (list, activation) = self.active(key);
        let (names, activation) = if named { (&["two"][..], 0) } else { (LISTS[list], activation) };
        let counters = &mut self.space(key).counters;
        for name in names {
            for (number, rule) in RULES.iter().enumerate().filter(|(_, rule)| rule.0 == *name && rule.1 == operation) {
                let (_, _, skip, every, times, steps, repeats) = rule;
                let (matched, applied) = counters.entry((activation, number)).or_default();
                *matched += 1;
                let length = steps.iter().fold(0_u64, |length, (turns, _)| length.saturating_add(*turns));
                let is_over = *applied >= *times || (*applied >= length && !repeats);
                if *matched <= *skip || is_over || (*matched - *skip) % *every != 0 {
                    continue;
                }
                let mut turn = *applied % length;
                *applied += 1;
                for (turns, act) in *steps {
                    if turn < *turns {
                        return *act;
                    }
                    turn -= turns;
                }
            }
        }
        Act::Pass
    }

    /// Subscribes; says which subscription it is and whether it is a new one.
    pub(super) fn subscribe(&mut self, key: usize, hook: usize, events: u8, secret: bool) -> (u64, bool) {
        let number = self.number();
        let space = self.space(key);
        if let Some(known) = space.subscriptions.iter_mut().find(|known| known.hook == hook) {
            (known.events, known.active) = (events, true);
            if secret {
                known.previous = None;
            }
            return (known.number, false);
        }
        let created = space.wall;
        space.subscriptions.push(Subscription { number, hook, events, active: true, created, previous: None });
        (number, true)
    }
}
