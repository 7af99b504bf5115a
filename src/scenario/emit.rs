//! Automatic actions of a scenario: checked emissions, which fire events or rotate secrets, and which of them are due.
//!
//! Knows nothing of HTTP, deliveries or files: the driver fires due emissions and keeps the counts.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::SliceRandom;
use regex::Regex;
use serde_json::{Map, Value};

use super::action::Delay;
use super::matcher::{ParsedRequest, RequestView, When};
use crate::clock::Random;
use crate::contract::signature::Tamper;

/// Maximum number of emissions reported as due at a time, so that a large step of the clock is handled in pieces.
const MAX_AT_A_TIME: usize = 1_000;

#[derive(Clone, Debug)]
pub struct Emit {
    pub name: Option<Arc<str>>,
    pub effect: EmitEffect,
    pub trigger: Trigger,
    /// May hold templates; the profile's data for the type if absent.
    pub data: Option<Map<String, Value>>,
    pub delay: Option<Delay>,
    pub times: Option<u64>,
    pub interval: Duration,
    pub delivery: DeliveryFaults,
    pub scenario: Arc<str>,
    pub label: Arc<str>,
    pub fingerprint: u64,
}

#[derive(Clone, Debug)]
pub enum EmitEffect {
    /// Fires an event of this type.
    Event(String),
    Rotation(Rotation),
}

/// Replaces the secrets of subscriptions.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Those whose URL matches this glob; all if absent.
    pub subscription: Option<(Box<str>, Regex)>,
    /// How long the old secret keeps signing; as the profile says if absent.
    pub grace: Option<Duration>,
    /// Generated if absent.
    pub secret: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Trigger {
    Activation,
    Command,
    /// An answer to a request that looks like this, with this status if one is given.
    Answer {
        when: When,
        status: Option<u16>,
    },
    Every(Duration),
    After(Duration),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFaults {
    /// The part to falsify.
    pub tamper: Option<Tamper>,
    /// Copies of each delivery in all.
    pub duplicate: Option<u32>,
    /// The events of one trigger go out in another order.
    pub shuffle: bool,
    /// Nothing is delivered, as if it were lost.
    pub drop: bool,
}

impl Emit {
    /// The type of the event that it fires.
    pub fn event(&self) -> Option<&str> {
        match &self.effect {
            EmitEffect::Event(event) => Some(event),
            EmitEffect::Rotation(_) => None,
        }
    }

    /// Its effect in words.
    pub fn what(&self) -> &str {
        self.event().unwrap_or("rotates secrets")
    }

    /// The time after activation at which it is set off; `number` counts the times from 0. `None` after the last time, and
    /// if its trigger is not a time.
    pub fn fires_at(&self, number: u64) -> Option<Duration> {
        match self.trigger {
            Trigger::Activation => (number == 0).then_some(Duration::ZERO),
            Trigger::After(wait) => (number == 0).then_some(wait),
            Trigger::Every(period) => {
                let factor = u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1);
                self.times.is_none_or(|times| number < times).then(|| period.saturating_mul(factor))
            }
            Trigger::Command | Trigger::Answer { .. } => None,
        }
    }

    /// The events of one trigger: for each, in the order in which they happen, the time from the trigger to its delivery.
    /// A spread delay is drawn once. Shuffled deliveries go out in another order than the one in which events happen.
    pub fn plan(&self, random: &mut Random) -> Vec<Duration> {
        let count = if matches!(self.trigger, Trigger::Every(_)) { 1 } else { self.times.unwrap_or(1) };
        let delay = self.delay.map_or(Duration::ZERO, |delay| delay.draw(random));
        let at = |number: u64| {
            let factor = u32::try_from(number).unwrap_or(u32::MAX);
            delay.saturating_add(self.interval.saturating_mul(factor))
        };
        let mut plan: Vec<Duration> = (0..count).map(at).collect();
        if self.delivery.shuffle {
            plan.shuffle(random);
            if plan.is_sorted() && plan.len() > 1 {
                plan.rotate_left(1);
            }
        }
        plan
    }

    /// True if the passing of time alone sets it off.
    pub fn is_timed(&self) -> bool {
        matches!(self.trigger, Trigger::Activation | Trigger::Every(_) | Trigger::After(_))
    }
}

/// The emissions that are due, and when to ask again.
#[derive(Clone, Debug, Default)]
pub struct DueEmits {
    /// Each emission that is set off, with how often it was set off before: in the order of time, then of the files.
    /// The driver raises its count by one for each, and fires what [`Emit::plan`] returns.
    pub due: Vec<(Arc<Emit>, u64)>,
    /// The time after activation at which the next one is set off; `None` if there is none.
    pub next: Option<Duration>,
}

/// The emissions that time has set off by this time after activation, given how often each has been set off already. At
/// most a thousand at a time: if there are more, `next` is not later than now.
pub fn due_emits<'e>(
    emits: impl IntoIterator<Item = &'e Arc<Emit>>,
    since_activation: Duration,
    fired: impl Fn(u64) -> u64,
) -> DueEmits {
    let mut due = Vec::new();
    let mut next: Option<Duration> = None;
    for (position, emit) in emits.into_iter().filter(|emit| emit.is_timed()).enumerate() {
        let times = (fired(emit.fingerprint)..).map_while(|number| Some((emit.fires_at(number)?, number)));
        // One more than is reported shows that there are more.
        for (at, number) in times.take(MAX_AT_A_TIME + 1) {
            if at > since_activation {
                next = Some(next.map_or(at, |next| next.min(at)));
                break;
            }
            due.push((at, position, number, Arc::clone(emit)));
        }
    }
    due.sort_by_key(|(at, position, number, _)| (*at, *position, *number));
    if let Some((at, ..)) = due.get(MAX_AT_A_TIME) {
        next = Some(*at);
        due.truncate(MAX_AT_A_TIME);
    }
    DueEmits { due: due.into_iter().map(|(_, _, number, emit)| (emit, number)).collect(), next }
}

/// The emissions that an answer of this status to this request sets off.
pub fn after_answer<'e>(
    emits: impl IntoIterator<Item = &'e Arc<Emit>>,
    view: &RequestView<'_>,
    answered: u16,
) -> Vec<Arc<Emit>> {
    let request = ParsedRequest::new(view);
    let fires = |emit: &&Arc<Emit>| match &emit.trigger {
        Trigger::Answer { when, status } => status.is_none_or(|status| status == answered) && when.holds(&request),
        _ => false,
    };
    emits.into_iter().filter(fires).cloned().collect()
}

pub fn emit_named<'e>(emits: impl IntoIterator<Item = &'e Arc<Emit>>, name: &str) -> Option<Arc<Emit>> {
    emits.into_iter().find(|emit| emit.name.as_deref() == Some(name)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Seed;
    use crate::scenario::valid;

    const COMPLETED: &str = "event = 'workflow.completed'\n";

    fn emits(triggers: &[&str]) -> Vec<Arc<Emit>> {
        let text: String = triggers.iter().map(|lines| ["[[emit]]\n", COMPLETED, lines, "\n"].concat()).collect();
        valid(&text).emits
    }

    /// The emissions due at a time if none has fired so far, and when to ask again, in milliseconds.
    fn check(triggers: &[&str], millis: u64, expected: &[(&str, u64)], next: Option<u64>) {
        let emits = emits(triggers);
        let found = due_emits(&emits, Duration::from_millis(millis), |_| 0);
        let due: Vec<_> = found.due.iter().map(|(emit, number)| (&*emit.label, *number)).collect();
        assert_eq!(
            (due.as_slice(), found.next),
            (expected, next.map(Duration::from_millis)),
            "{triggers:?} at {millis}"
        );
    }

    #[test]
    fn timed_emissions_are_due_in_order() {
        check(&["on = 'activation'\ntimes = 3\ninterval = '1s'"], 0, &[("emit 1", 0)], None);
        let (every, after) = ("on = { every = '2s' }\ntimes = 2", "on = { after = '3s' }");
        check(&[every, after], 1_999, &[], Some(2_000));
        check(&[every, after], 2_000, &[("emit 1", 0)], Some(3_000));
        check(&[every, after], 5_000, &[("emit 1", 0), ("emit 2", 0), ("emit 1", 1)], None);
        check(&["on = 'command'", "on = { operation = 'hello' }"], 9_000, &[], None);
    }

    #[test]
    fn plans_spread_delay_and_shuffle() {
        let plan = |lines: &str| {
            let plan = emits(&[lines])[0].plan(&mut Seed::from_number(1).source("test"));
            plan.iter().map(Duration::as_millis).collect::<Vec<_>>()
        };
        assert_eq!(plan("on = 'command'\ndelay = '250ms'"), [250]);
        assert_eq!(plan("on = 'activation'\ntimes = 3\ninterval = '1s'\ndelay = '1ms'"), [1, 1_001, 2_001]);
        assert_eq!(plan("on = { every = '1s' }\ntimes = 9"), [0]);
        let shuffled = plan("on = 'command'\ntimes = 2\ninterval = '1s'\ndelivery = { shuffle = true }");
        assert_eq!(shuffled, [1_000, 0], "never in order");
    }

    #[test]
    fn a_large_step_of_the_clock_is_worked_off_in_pieces() {
        let emits = emits(&["on = { every = '10ms' }", "on = { every = '10ms' }"]);
        let (mut fired, mut all) = (std::collections::BTreeMap::<u64, u64>::new(), 0);
        let now = Duration::from_mins(1);
        loop {
            let found = due_emits(&emits, now, |print| fired.get(&print).copied().unwrap_or_default());
            assert!(found.due.len() <= MAX_AT_A_TIME);
            for (emit, number) in &found.due {
                let count = fired.entry(emit.fingerprint).or_default();
                assert_eq!(number, count, "none is left out");
                *count += 1;
                all += 1;
            }
            if found.next.is_some_and(|next| next > now) {
                break;
            }
        }
        assert_eq!(all, 12_000);
    }
}
