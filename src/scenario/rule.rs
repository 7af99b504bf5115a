//! One rule: when it matches, how often it applies, its action; and the progress of rules and stories. Counters are an argument;
//! nothing is kept here.
//!
//! A rule counts the requests that match it, at its step and in its time, and that no earlier rule decided. Of those it lets
//! `skip` through, then applies to one in `every` matches, with probability `chance`, at most `times` times.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::action::{Action, Delay};
use super::matcher::{Found, ParsedRequest, Subject, When};
use crate::clock::Random;
use crate::contract::named::named;
use crate::contract::routes::{Credential, Operation, ROUTES};
use crate::scenario::rule_counters::{RuleCounter, RuleCounters};
use crate::util::wording::{counted, ordinal};

/// The step at which every story begins.
pub const FIRST_STEP: &str = "start";

#[derive(Clone, Debug)]
pub struct Rule {
    pub name: Option<Arc<str>>,
    pub when: When,
    /// Matching requests let through first.
    pub skip: u64,
    /// How often the rule applies; without limit if absent.
    pub times: Option<u64>,
    /// Applies to each nth matching request.
    pub every: u64,
    /// Applies with this probability.
    pub chance: Option<f64>,
    /// Applies from this long after activation.
    pub from: Option<Duration>,
    /// Applies until this long after activation.
    pub to: Option<Duration>,
    /// The step that the story moves to once the rule is used up.
    pub next: Option<NextStep>,
    pub scenario: Arc<str>,
    pub label: Arc<str>,
    pub line: usize,
    /// Names the rule's counters: the same as long as the scenario's name and the rule's content are the same.
    pub fingerprint: u64,
    pub story: u64,
    pub sequence: Sequence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    pub step: Arc<str>,
    /// The status that the answer must have; an ordinary answer with another one does not count towards `times`.
    pub status: Option<u16>,
}

/// How many requests a step lasts (at least one), its delay, and its action.
pub(crate) type SequenceStep = (u64, Option<Delay>, Action);

#[derive(Clone, Debug, Default)]
pub struct Sequence {
    pub entries: Vec<SequenceEntry>,
    pub then: Then,
    /// True if the rule has a `sequence`; if not, its one entry lasts.
    pub spelled_out: bool,
}

#[derive(Clone, Debug)]
pub struct SequenceEntry {
    /// How many requests have been decided when the entry is over, counted from the sequence's start.
    until: u64,
    pub delay: Option<Delay>,
    pub action: Action,
    description: Arc<str>,
    has_templates: bool,
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Then {
        #[default]
        End = "end",
        Stay = "stay",
        Repeat = "repeat",
    }
}

impl Sequence {
    /// One entry that lasts.
    pub fn always(delay: Option<Delay>, action: Action) -> Self {
        Self { spelled_out: false, ..Self::of(vec![(1, delay, action)], Then::Stay) }
    }

    pub fn of(steps: Vec<SequenceStep>, then: Then) -> Self {
        let mut until = 0_u64;
        let entries = steps.into_iter().map(|(times, delay, action)| {
            until = until.saturating_add(times.max(1));
            let (description, has_templates) = (action.to_string().into(), action.has_templates());
            SequenceEntry { until, delay, action, description, has_templates }
        });
        Self { entries: entries.collect(), then, spelled_out: true }
    }

    pub fn length(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.until)
    }

    /// The entry for a rule that has applied this often before; `None` at the end.
    pub fn entry(&self, applied: u64) -> Option<&SequenceEntry> {
        let length = self.length();
        let at = match self.then {
            _ if applied < length => applied,
            Then::End => return None,
            Then::Stay => length.checked_sub(1)?,
            Then::Repeat => applied.checked_rem(length)?,
        };
        self.entries.get(self.entries.partition_point(|entry| entry.until <= at))
    }
}

#[derive(Clone, Debug)]
pub struct Decision {
    pub rule: Arc<Rule>,
    /// How often the rule has applied, this time included.
    pub turn: u64,
    pub delay: Option<Duration>,
    pub action: Action,
    pub description: Arc<str>,
    pub has_templates: bool,
}

impl Decision {
    /// True if there is nothing to wait for or render.
    pub fn is_immediate(&self) -> bool {
        self.delay.is_none() && !self.has_templates
    }
}

/// The reason why a rule did not decide a request, with the counters at that moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotApplied {
    /// A condition does not hold.
    Unmatched,
    TooEarly,
    TooLate,
    /// The story is at another step, this one unless it has not moved yet.
    Step(Option<Arc<str>>),
    /// It is the nth request that matches.
    Skip(u64),
    /// It has applied this often.
    Times(u64),
    Sequence,
    /// It is the nth of those that share one turn.
    Every(u64),
    Chance,
}

impl Rule {
    /// Applies the rule to one request: counts it, and returns the decision. On an error the next rules are tried.
    pub(crate) fn apply(
        self: &Arc<Self>,
        request: &ParsedRequest<'_>,
        counters: &mut RuleCounters,
        since_activation: Duration,
        random: &mut Random,
    ) -> Result<Decision, NotApplied> {
        if !self.when.holds(request) {
            return Err(NotApplied::Unmatched);
        }
        if self.from.is_some_and(|from| since_activation < from) {
            return Err(NotApplied::TooEarly);
        }
        if self.to.is_some_and(|to| since_activation >= to) {
            return Err(NotApplied::TooLate);
        }
        let entry = self.entry_to_apply(counters, random)?;
        let turn = counters.of(self.fingerprint);
        turn.applied = turn.applied.saturating_add(1);
        turn.unsettled += u64::from(self.depends_on_status());
        let turn = turn.applied;
        if let Some(next) = self.next.as_ref().filter(|next| next.status.is_none() && self.is_used_up(turn)) {
            counters.set_step(self.story, Arc::clone(&next.step));
        }
        Ok(Decision {
            rule: Arc::clone(self),
            turn,
            delay: entry.delay.map(|delay| delay.draw(random)),
            action: entry.action.clone(),
            description: Arc::clone(&entry.description),
            has_templates: entry.has_templates,
        })
    }

    /// Counts a request that matches, and returns the entry to apply.
    fn entry_to_apply(&self, counters: &mut RuleCounters, random: &mut Random) -> Result<&SequenceEntry, NotApplied> {
        if !self.is_at_its_step(counters) {
            return Err(NotApplied::Step(counters.step(self.story).cloned()));
        }
        let turn = counters.of(self.fingerprint);
        turn.matched = turn.matched.saturating_add(1);
        let RuleCounter { matched, applied, .. } = *turn;
        if matched <= self.skip {
            return Err(NotApplied::Skip(matched));
        }
        if self.times.is_some_and(|times| applied >= times) {
            return Err(NotApplied::Times(applied));
        }
        let entry = self.sequence.entry(applied).ok_or(NotApplied::Sequence)?;
        let nth = (matched - self.skip) % self.every;
        if nth != 0 {
            return Err(NotApplied::Every(nth));
        }
        if self.chance.is_some_and(|chance| random.random::<f64>() >= chance) {
            return Err(NotApplied::Chance);
        }
        Ok(entry)
    }

    /// True if it answers requests for a path that no endpoint has.
    pub(crate) fn answers_any_path(&self) -> bool {
        self.when.no_endpoint && self.sequence.entries.iter().any(|entry| !entry.action.is_ordinary())
    }

    /// True if it leaves some answer to the API: at a path without an endpoint, to the rules that name the path.
    pub(crate) fn leaves_an_answer(&self) -> bool {
        self.sequence.entries.iter().any(|entry| entry.action.is_ordinary())
    }

    /// True if its story depends on the status of the answer, which is to be given to [`Self::settle`].
    pub fn depends_on_status(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.status.is_some())
    }

    /// Settles a request that the rule decided with this action, by the status of its answer; 0 for none. An ordinary answer
    /// with another status than the story waits for gives its turn back, so that `times` counts the right ones alone; what
    /// the rule itself answered keeps it. The story moves on once the rule is used up and its last answer had that status.
    pub fn settle(&self, action: &Action, status: u16, counters: &mut RuleCounters) {
        let Some(NextStep { step, status: Some(expected) }) = &self.next else { return };
        let turn = counters.of(self.fingerprint);
        turn.unsettled = turn.unsettled.saturating_sub(1);
        if status != *expected {
            turn.applied = turn.applied.saturating_sub(u64::from(action.is_ordinary()));
            return;
        }
        let answered = turn.applied.saturating_sub(turn.unsettled);
        // Another rule may have moved the story meanwhile.
        let is_here = self.is_at_its_step(counters);
        if is_here && self.is_used_up(answered) {
            counters.set_step(self.story, Arc::clone(step));
        }
    }

    fn is_at_its_step(&self, counters: &RuleCounters) -> bool {
        self.when.step.as_ref().is_none_or(|step| **step == *counters.step(self.story).map_or(FIRST_STEP, |step| step))
    }

    /// How often the rule applies in all; `None` for one without end.
    pub fn turns_in_all(&self) -> Option<u64> {
        let by_sequence = (self.sequence.then == Then::End).then(|| self.sequence.length());
        match (self.times, by_sequence) {
            (Some(times), Some(length)) => Some(times.min(length)),
            (times, length) => times.or(length),
        }
    }

    /// The status with which the rule answers the first request that it sees, whatever is in it; `None` if it depends on more, or if the
    /// rule does something else.
    pub fn answers_first(&self) -> Option<u16> {
        let Self { when, skip: 0, every: 1, chance: None, from: None, to: None, .. } = self else { return None };
        let Action::Reply(reply) = &self.sequence.entry(0)?.action else { return None };
        (when.conditions.is_empty() && when.step.is_none()).then(|| reply.status())
    }

    /// True if the rule counts for this key; `None` means requests without a key.
    ///
    /// A rule that names neither operation nor key may match requests without a key as well; for those it counts only once it has
    /// matched one.
    pub fn counts_for(&self, key: Option<&str>, counters: &RuleCounters) -> bool {
        let meant = key.is_some() || !self.when.operations.is_empty() || counters.get(self.fingerprint).matched > 0;
        meant && self.may_match(key)
    }

    /// True if a request with this key, or without one, can match at all, as far as operations and conditions on the key
    /// show. Requests to operations without authentication count as requests without a key.
    fn may_match(&self, key: Option<&str>) -> bool {
        let credential = if key.is_some() { Credential::Bearer } else { Credential::None };
        let accepts = |operation: &Operation| {
            ROUTES.iter().any(|route| route.operation == *operation && route.credential == credential)
        };
        let found = key.map_or(Found::Absent, |key| Found::Text(Cow::Borrowed(key)));
        let on_key = self.when.conditions.iter().filter(|condition| condition.subject == Subject::Key);
        (self.when.operations.is_empty() || self.when.operations.iter().any(accepts))
            && on_key.flat_map(|condition| &condition.tests).all(|test| test.holds(&found))
    }

    /// True if the story moves on after the rule has applied this often.
    fn is_used_up(&self, applied: u64) -> bool {
        applied >= self.times.unwrap_or_else(|| self.sequence.length())
    }

    /// The reason why the rule did not decide a request, in words.
    pub(crate) fn held_text(
        &self,
        held: &NotApplied,
        request: &ParsedRequest<'_>,
        since_activation: Duration,
    ) -> String {
        let time = |when: &str, bound: Option<Duration>| {
            let bound = bound.unwrap_or_default();
            format!("applies {when} {bound:?} after activation; it was {since_activation:?}")
        };
        let requests = |count: u64| counted(count, "matching request");
        let limit = match held {
            NotApplied::Unmatched => return self.when.failure(request).unwrap_or_default(),
            NotApplied::TooEarly => return time("from", self.from),
            NotApplied::TooLate => return time("until", self.to),
            NotApplied::Step(step) => {
                let expected = self.when.step.as_deref().unwrap_or_default().escape_debug();
                let step = step.as_deref().unwrap_or(FIRST_STEP).escape_debug();
                format!("the story was at step \"{step}\", not at \"{expected}\"")
            }
            NotApplied::Skip(nth) => {
                format!("it lets {} through first; this was the {}", requests(self.skip), ordinal(*nth))
            }
            NotApplied::Times(applied) => {
                format!("it has been used {applied} of {}", counted(self.times.unwrap_or_default(), "time"))
            }
            NotApplied::Sequence => format!("its sequence is over after {}", requests(self.sequence.length())),
            NotApplied::Every(nth) => {
                format!("it applies to one in {}; this was the {}", requests(self.every), ordinal(*nth))
            }
            NotApplied::Chance => format!("it applies with a chance of {}", self.chance.unwrap_or_default()),
        };
        format!("matched, but did not apply: {limit}")
    }

    /// True if the rule applies to every request that it matches in its time, once it has let `skip` through.
    pub(crate) fn never_pauses(&self) -> bool {
        self.every == 1
            && self.chance.is_none_or(|chance| chance >= 1.0)
            && self.times.is_none()
            && self.sequence.then != Then::End
    }

    /// True if the rule begins as early as another and ends as late: the requests that it skips are too few for the other then.
    pub(crate) fn spans(&self, other: &Self) -> bool {
        self.skip <= other.skip
            && self.from.unwrap_or_default() <= other.from.unwrap_or_default()
            && self.to.unwrap_or(Duration::MAX) >= other.to.unwrap_or(Duration::MAX)
    }
}

/// How far the story of a scenario is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryProgress {
    pub step: Arc<str>,
    /// The steps from which no rule leads on.
    pub ends: Vec<Arc<str>>,
}

impl StoryProgress {
    /// The progress of the story that these rules tell; `None` without a story, and for one that has no end.
    pub fn of(rules: &[Arc<Rule>], counters: &RuleCounters) -> Option<Self> {
        let leading: Vec<(Option<&Arc<str>>, &Arc<str>)> =
            rules.iter().filter_map(|rule| Some((rule.when.step.as_ref(), &rule.next.as_ref()?.step))).collect();
        // A rule that names no step leads on from every step.
        let leads_on =
            |step: &Arc<str>| leading.iter().any(|(from, to)| from.is_none_or(|from| from == step) && *to != step);
        let ends: BTreeSet<&Arc<str>> = leading.iter().map(|(_, to)| *to).filter(|step| !leads_on(step)).collect();
        let story = rules.first().filter(|_| !ends.is_empty())?.story;
        let step = counters.step(story).cloned().unwrap_or_else(|| Arc::from(FIRST_STEP));
        Some(Self { step, ends: ends.into_iter().cloned().collect() })
    }

    pub fn is_over(&self) -> bool {
        self.ends.contains(&self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::valid;

    #[test]
    fn rules_have_as_many_turns_as_times_and_sequence_allow() {
        let steps = "sequence = [{ error = 'rate_limit_exceeded', times = 2 }, { pass = true }]";
        for (rule, turns) in [
            ("pass = true", None),
            ("times = 4\npass = true", Some(4)),
            (steps, Some(3)),
            (&format!("{steps}\nthen = 'stay'"), None),
            (&format!("{steps}\nthen = 'repeat'\ntimes = 7"), Some(7)),
            (&format!("{steps}\ntimes = 2"), Some(2)),
            (&format!("{steps}\ntimes = 5"), Some(3)),
        ] {
            assert_eq!(valid(&format!("[[rule]]\n{rule}\n")).rules[0].turns_in_all(), turns, "{rule}");
        }
    }

    #[test]
    fn a_rule_counts_for_whom_it_can_match() {
        for (when, matched, expected) in [
            ("operation = 'system.status'", 0, [true, true, false]),
            ("operation = 'hello'", 0, [false, false, true]),
            ("operation = ['hello', 'system.status']", 0, [true, true, true]),
            ("key = 'sk_test_a'", 0, [true, false, false]),
            ("operation = 'system.status', key = { not = 'sk_test_a' }", 0, [false, true, false]),
            ("method = 'GET'", 0, [true, true, false]),
            ("method = 'GET'", 1, [true, true, true]),
        ] {
            let rule = &valid(&format!("[[rule]]\nwhen = {{ {when} }}\npass = true\n")).rules[0];
            let mut counters = RuleCounters::default();
            counters.of(rule.fingerprint).matched = matched;
            let counts = [Some("sk_test_a"), Some("sk_test_b"), None].map(|key| rule.counts_for(key, &counters));
            assert_eq!(counts, expected, "{when}");
        }
    }

    #[test]
    fn the_status_of_a_first_answer_is_known_if_nothing_else_decides_it() {
        let reply = "reply = { status = 503 }";
        for (rule, expected) in [
            (reply.to_owned(), Some(503)),
            (format!("when.operation = 'hello'\n{reply}"), Some(503)),
            ("sequence = [{ error = 'unauthorized' }, { pass = true }]".to_owned(), Some(401)),
            (format!("when.query.a = '1'\n{reply}"), None),
            (format!("when.step = 'start'\n{reply}\nnext = 'gone'"), None),
            (format!("skip = 1\n{reply}"), None),
            ("pass = true".to_owned(), None),
        ] {
            assert_eq!(valid(&format!("[[rule]]\n{rule}\n")).rules[0].answers_first(), expected, "{rule}");
        }
    }

    #[test]
    fn a_story_ends_where_no_rule_leads_on() {
        let rule = |(step, next): &(&str, &str)| {
            let step = if step.is_empty() { String::new() } else { format!("when.step = '{step}'\n") };
            let next = if next.is_empty() { String::new() } else { format!("next = '{next}'\n") };
            format!("[[rule]]\n{step}{next}pass = true\n")
        };
        for (steps, expected) in [
            (&[("", "")][..], None),
            (&[("start", "a"), ("a", "b"), ("b", "")], Some("b")),
            (&[("start", "a"), ("start", "b")], Some("a b")),
            (&[("start", "a"), ("a", "start")], None),
            (&[("start", "a"), ("", "b")], Some("b")),
        ] {
            let rules = valid(&steps.iter().map(rule).collect::<String>()).rules;
            let story = StoryProgress::of(&rules, &RuleCounters::default());
            assert_eq!(story.map(|story| story.ends.join(" ")).as_deref(), expected, "{steps:?}");
        }
    }

    #[test]
    fn a_sequence_ends_stays_or_repeats() {
        for (then, last) in [(Then::End, [None, None]), (Then::Stay, [Some(3), Some(3)]), (Then::Repeat, [Some(2); 2])]
        {
            let sequence = Sequence::of(vec![(2, None, Action::Pass), (1, None, Action::Pass)], then);
            let played: Vec<_> = (0..5).map(|applied| sequence.entry(applied).map(|entry| entry.until)).collect();
            assert_eq!(played, [[Some(2); 2].as_slice(), &[Some(3)], &last].concat(), "{then:?}");
        }
    }

    #[test]
    fn answers_that_are_not_there_yet_do_not_move_a_story() {
        let rule = "[[rule]]\nwhen = { step = 'start' }\ntimes = 2\npass = true\nnext = { step = 'b', status = 200 }\n";
        let rule = Arc::clone(&valid(rule).rules[0]);
        // Two requests at a time, answered in either order; 0 is a client that left.
        for (answers, steps) in [
            ([200, 200], [false, true]),
            ([200, 422], [false, false]),
            ([422, 200], [false, false]),
            ([0, 200], [false, false]),
        ] {
            let mut counters = RuleCounters::default();
            *counters.of(rule.fingerprint) = RuleCounter { matched: 2, applied: 2, unsettled: 2 };
            for (status, is_moved) in answers.into_iter().zip(steps) {
                rule.settle(&Action::Pass, status, &mut counters);
                assert_eq!(counters.step(rule.story).is_some(), is_moved, "{answers:?} after {status}");
            }
            let right = answers.iter().filter(|status| **status == 200).count() as u64;
            assert_eq!(counters.get(rule.fingerprint), RuleCounter { matched: 2, applied: right, unsettled: 0 });
        }
        // Another rule moved the story while the answer was under way.
        let mut counters = RuleCounters::default();
        *counters.of(rule.fingerprint) = RuleCounter { matched: 2, applied: 2, unsettled: 1 };
        counters.set_step(rule.story, Arc::from("elsewhere"));
        rule.settle(&Action::Pass, 200, &mut counters);
        assert_eq!(counters.step(rule.story).map(AsRef::as_ref), Some("elsewhere"));
    }
}
