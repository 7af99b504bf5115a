//! The rest of a scenario in one workspace: how often its rules still apply, and how far its story is from an end.
//!
//! Counters are an argument, switched to the activation in question. A rule without end has nothing left, and a story that
//! goes round for ever has no end. Knows no workspaces and no requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scenario;
use super::rule::{FIRST_STEP, Rule};
use crate::scenario::rule_counters::RuleCounters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTurns {
    pub applied: u64,
    pub turns: u64,
}

impl RuleTurns {
    pub fn left(self) -> u64 {
        self.turns.saturating_sub(self.applied)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryProgress {
    pub step: Arc<str>,
    /// The steps from which no rule leads on.
    pub ends: Vec<Arc<str>>,
}

impl StoryProgress {
    pub fn is_over(&self) -> bool {
        self.ends.contains(&self.step)
    }
}

/// Whether a rule counts for these keys; `None` means requests without a key.
///
/// A rule that names neither operation nor key may match requests without a key as well; for those it counts only once it has matched one.
pub fn counts_for(rule: &Rule, keys: &[Option<&str>], counters: &RuleCounters) -> bool {
    keys.iter().any(|key| {
        let meant = key.is_some() || !rule.when.operations.is_empty() || counters.get(rule.fingerprint).matched > 0;
        meant && rule.may_match(*key)
    })
}

/// The progress of a rule; `None` for one without end.
pub fn rule_turns(rule: &Rule, counters: &RuleCounters) -> Option<RuleTurns> {
    Some(RuleTurns { applied: counters.get(rule.fingerprint).applied, turns: rule.turns_in_all()? })
}

/// The progress of a scenario's story; `None` without a story, and for one that has no end.
pub fn story_progress(scenario: &Scenario, counters: &RuleCounters) -> Option<StoryProgress> {
    let leading: Vec<(Option<&Arc<str>>, &Arc<str>)> =
        scenario.rules.iter().filter_map(|rule| Some((rule.step.as_ref(), &rule.next.as_ref()?.step))).collect();
    // A rule that names no step leads on from every step.
    let leads_on =
        |step: &Arc<str>| leading.iter().any(|(from, to)| from.is_none_or(|from| from == step) && *to != step);
    let ends: BTreeSet<&Arc<str>> = leading.iter().map(|(_, to)| *to).filter(|step| !leads_on(step)).collect();
    let story = scenario.rules.first().filter(|_| !ends.is_empty())?.story;
    let step = counters.step(story).cloned().unwrap_or_else(|| Arc::from(FIRST_STEP));
    Some(StoryProgress { step, ends: ends.into_iter().cloned().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::check_text;

    fn scenario(text: &str) -> Scenario {
        let (scenario, problems) = check_text("test", text);
        scenario.unwrap_or_else(|| panic!("{text}\n{problems:?}"))
    }

    #[test]
    fn rules_have_as_many_turns_as_times_and_sequence_allow() {
        let steps = "sequence = [{ error = 'rate_limit_exceeded', times = 2 }, { pass = true }]";
        for (rule, turns) in [
            ("reply = { status = 500 }", None),
            ("times = 4\nreply = { status = 500 }", Some(4)),
            (steps, Some(3)),
            (&format!("{steps}\nthen = 'stay'"), None),
            (&format!("{steps}\nthen = 'repeat'"), None),
            (&format!("{steps}\nthen = 'repeat'\ntimes = 7"), Some(7)),
            (&format!("{steps}\ntimes = 2"), Some(2)),
            (&format!("{steps}\ntimes = 5"), Some(3)),
        ] {
            let scenario = scenario(&format!("[[rule]]\n{rule}\n"));
            let mut counters = RuleCounters::default();
            counters.of(scenario.rules[0].fingerprint).applied = 2;
            let progress = rule_turns(&scenario.rules[0], &counters);
            assert_eq!(progress.map(|progress| progress.turns), turns, "{rule}");
            assert_eq!(progress.map(RuleTurns::left), turns.map(|turns| turns - 2), "{rule}");
        }
    }

    #[test]
    fn a_rule_counts_for_whom_it_can_match() {
        let (keyed, other, none) = (Some("sk_test_a"), Some("sk_test_b"), None);
        for (when, expected) in [
            ("{ operation = 'system.status' }", [true, true, false]),
            ("{ operation = 'hello' }", [false, false, true]),
            ("{ operation = ['hello', 'system.status'] }", [true, true, true]),
            ("{ key = 'sk_test_a' }", [true, false, false]),
            ("{ operation = 'system.status', key = { not = { equals = 'sk_test_a' } } }", [false, true, false]),
            ("{ method = 'GET' }", [true, true, false]),
        ] {
            let scenario = scenario(&format!("[[rule]]\nwhen = {when}\nreply = {{ status = 500 }}\n"));
            let counts =
                [keyed, other, none].map(|key| counts_for(&scenario.rules[0], &[key], &RuleCounters::default()));
            assert_eq!(counts, expected, "{when}");
        }
        let scenario = scenario("[[rule]]\nreply = { status = 500 }\n");
        let mut counters = RuleCounters::default();
        assert!(!counts_for(&scenario.rules[0], &[None], &counters));
        counters.of(scenario.rules[0].fingerprint).matched = 1;
        assert!(counts_for(&scenario.rules[0], &[None], &counters));
    }

    #[test]
    fn a_story_ends_where_no_rule_leads_on() {
        let rule = |step: &str, next: &str| {
            let step = if step.is_empty() { String::new() } else { format!("when = {{ step = '{step}' }}\n") };
            let next = if next.is_empty() { String::new() } else { format!("next = '{next}'\n") };
            format!("[[rule]]\n{step}{next}reply = {{ status = 500 }}\n")
        };
        for (rules, ends) in [
            (&[("", "")][..], None),
            (&[("start", "a"), ("a", "b")], Some(&["b"][..])),
            (&[("start", "a"), ("a", "b"), ("b", "")], Some(&["b"])),
            (&[("start", "a"), ("start", "b")], Some(&["a", "b"])),
            (&[("start", "a"), ("a", "start")], None),
            (&[("start", "a"), ("", "b")], Some(&["b"])),
        ] {
            let scenario = scenario(&rules.iter().map(|(step, next)| rule(step, next)).collect::<String>());
            let mut counters = RuleCounters::default();
            let found = story_progress(&scenario, &counters);
            let ended = found.as_ref().map(|story| story.ends.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
            assert_eq!(ended.as_deref(), ends, "{rules:?}");
            let Some(story) = found else { continue };
            assert!(&*story.step == FIRST_STEP && !story.is_over(), "{rules:?}");
            counters.set_step(scenario.rules[0].story, Arc::clone(&story.ends[0]));
            assert!(story_progress(&scenario, &counters).is_some_and(|story| story.is_over()), "{rules:?}");
        }
    }
}
