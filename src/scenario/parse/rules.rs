//! `[[rule]]`: text to checked rules, and warnings about rules that can never apply.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::reader::shown;
use super::words;
use super::{Parser, Prints};
use crate::contract::routes::Operation;
use crate::scenario::action::Action;
use crate::scenario::matcher::When;
use crate::scenario::rule::{FIRST_STEP, NextStep, Rule, Sequence, Then};

/// Rules with more conditions than this are compared by a few combinations of them only.
const MOST_COMBINED: usize = 6;

impl Parser<'_> {
    /// The rules of a file.
    pub(super) fn rules(&mut self, file: &DeTable<'_>, scenario: &Arc<str>) -> Vec<Arc<Rule>> {
        let Some(value) = file.get("rule") else { return Vec::new() };
        let tables = self.problems.tables("rule", value, &words::RULE);
        let mut prints = Prints::new(scenario, "rule");
        let mut rules = Vec::new();
        // Lines are counted from rule to rule, not each time from the start, as a file may have thousands of rules.
        let (mut line, mut counted) = (1, 0);
        for (at, (span, table)) in tables.iter().enumerate() {
            line += self.problems.line_ends(counted..span.start);
            counted = counted.max(span.start);
            if let Some(rule) = self.rule(table, span.clone(), (at + 1, line), scenario, &mut prints) {
                rules.push((span.clone(), *table, rule));
            }
        }
        self.check_names("rule", tables.iter().map(|(_, table)| *table));
        self.warn_of_unreachable_steps(&rules);
        self.warn_of_unreachable_rules(&rules);
        for step in rules.iter().flat_map(|(_, _, rule)| rule.sequence.steps()) {
            if let Action::Reply(reply) = &step.action {
                self.scripted.insert(reply.status);
            }
        }
        rules.into_iter().map(|(_, _, rule)| Arc::new(rule)).collect()
    }

    fn rule(
        &mut self,
        table: &DeTable<'_>,
        span: Range<usize>,
        (position, line): (usize, usize),
        scenario: &Arc<str>,
        prints: &mut Prints,
    ) -> Option<Rule> {
        let name = self.problems.filled_text(table, "name");
        let when = table.get("when").and_then(|when| self.problems.table("when", when, &words::WHEN));
        let step = when.and_then(|when| self.step_name(when, "step"));
        let when = when.map(|when| self.conditions(when)).unwrap_or_default();
        let skip = self.problems.number(table, &words::RULE, "skip").unwrap_or(0);
        let times = self.problems.number(table, &words::RULE, "times");
        let every = self.problems.number(table, &words::RULE, "every").unwrap_or(1);
        let chance = self.chance(table);
        let (from, to) = (self.problems.duration(table, "from"), self.problems.duration(table, "to"));
        if from.unwrap_or_default() >= to.unwrap_or(std::time::Duration::MAX) {
            let span = table.get("to").map_or(0..0, Spanned::span);
            let message = "this never holds: `to` is not later than `from`";
            self.problems.warning("scenario/never-matches", span, message, "both count from activation");
        }
        let next = self.next(table);
        let sequence = self.rule_actions(table, span);
        self.warn_of_missing_parts(Some(&when));
        let sequence = sequence?;
        self.warn_of_status_never_answered(table, &when, next.as_ref(), &sequence);
        self.warn_of_clashing_times(table, times, &sequence);
        Some(Rule {
            scenario: Arc::clone(scenario),
            label: name.map_or_else(|| format!("rule {position}").into(), Arc::from),
            line,
            fingerprint: prints.print(table),
            story: prints.story(),
            when,
            step,
            from,
            to,
            skip,
            times,
            every,
            chance,
            next,
            sequence,
        })
    }

    /// The `next` of a rule: a step, or a table with the status that the answer must have.
    fn next(&mut self, table: &DeTable<'_>) -> Option<NextStep> {
        let value = table.get("next")?;
        let DeValue::Table(fields) = value.get_ref() else {
            return self.step_name(table, "next").map(|step| NextStep { step, status: None });
        };
        self.problems.check_keys(fields, &words::NEXT);
        if !fields.contains_key("step") {
            let hint = "for example next = { step = \"subscribed\", status = 200 }";
            self.problems.error("scenario/missing-key", value.span(), "`next` needs a `step`", hint);
        }
        let status = self.status(fields, &words::NEXT);
        Some(NextStep { step: self.step_name(fields, "step")?, status })
    }

    /// Warns of a story that waits for a status with which neither the operation nor the rule answers.
    fn warn_of_status_never_answered(
        &mut self,
        table: &DeTable<'_>,
        when: &When,
        next: Option<&NextStep>,
        sequence: &Sequence,
    ) {
        let Some(expected) = next.and_then(|next| next.status) else { return };
        let ends = sequence.then() == Then::End;
        let last = if ends { sequence.steps().len().saturating_sub(1) } else { 0 };
        let can = |action: &Action| match action {
            Action::Reply(reply) => reply.status == expected,
            Action::Fault(_) => false,
            Action::Pass | Action::Patch(_) => self.can_answer(&when.operations, expected),
        };
        if sequence.steps()[last..].iter().any(|step| can(&step.action)) {
            return;
        }
        let place = table.get("next").and_then(|next| next.get_ref().as_table()?.get("status"));
        let message = format!("the story never moves on: the last answer of this rule never has the status {expected}");
        let hint = "name a status that the rule, or the operation, answers";
        self.problems.warning("scenario/never-matches", place.map_or(0..0, Spanned::span), message, hint);
    }

    fn chance(&mut self, table: &DeTable<'_>) -> Option<f64> {
        let value = table.get("chance")?;
        let chance = self.problems.float_of("chance", value)?;
        if chance > 0.0 && chance <= 1.0 {
            return Some(chance);
        }
        let message = format!("`chance` must be greater than 0 and at most 1, found {chance}");
        self.problems.refuse("scenario/bad-value", value.span(), message, "0.25 is one request in four")
    }

    fn warn_of_clashing_times(&mut self, table: &DeTable<'_>, times: Option<u64>, sequence: &Sequence) {
        let (Some(times), true, Some(value)) = (times, sequence.is_spelled_out(), table.get("times")) else { return };
        let length = sequence.length();
        if times < length {
            let message = format!("the rule applies {times} times, but its sequence takes {length} requests");
            let hint = "the later steps are never played; drop `times`, or shorten the sequence";
            self.problems.warning("scenario/clashing-times", value.span(), message, hint);
        } else if times > length && sequence.then() == Then::End {
            let message = format!("the sequence ends after {length} requests, so the rule never applies {times} times");
            let hint = "add then = \"stay\" or then = \"repeat\", or drop `times`";
            self.problems.warning("scenario/clashing-times", value.span(), message, hint);
        }
    }

    /// Refuses names given twice: explanations could not distinguish the two.
    pub(super) fn check_names<'t, 'i: 't>(&mut self, what: &str, tables: impl Iterator<Item = &'t DeTable<'i>>) {
        let mut seen = HashSet::new();
        for name in tables.filter_map(|table| table.get("name")) {
            if let DeValue::String(text) = name.get_ref()
                && !seen.insert(text.clone())
            {
                let message = format!("another {what} is named \"{}\" already", shown(text));
                self.problems.error("scenario/duplicate-name", name.span(), message, "give each a name of its own");
            }
        }
    }

    fn warn_of_unreachable_steps(&mut self, rules: &[(Range<usize>, &DeTable<'_>, Rule)]) {
        let mut reached: HashSet<&str> =
            rules.iter().filter_map(|(_, _, rule)| Some(&*rule.next.as_ref()?.step)).collect();
        reached.insert(FIRST_STEP);
        for (_, table, rule) in rules {
            let Some(step) = rule.step.as_deref().filter(|step| !reached.contains(step)) else { continue };
            let span =
                table.get("when").and_then(|when| when.get_ref().as_table()?.get("step")).map_or(0..0, Spanned::span);
            let message = format!("no rule leads to the step \"{}\"", shown(step));
            let hint = match crate::contract::nearest(step, reached.iter().copied()) {
                Some(near) => format!("did you mean \"{}\"?", shown(near)),
                None => format!("add next = \"{}\" to a rule; the story begins at \"{FIRST_STEP}\"", shown(step)),
            };
            self.problems.warning("scenario/unreachable-step", span, message, hint);
        }
    }

    /// Warns of rules after one that decides everything they match: a blanket. Blankets are looked up by their set of
    /// conditions, so that checking ten thousand rules takes no longer than reading them.
    fn warn_of_unreachable_rules(&mut self, rules: &[(Range<usize>, &DeTable<'_>, Rule)]) {
        let mut blankets: HashMap<String, Vec<(&[Operation], &Rule)>> = HashMap::new();
        for (span, _, rule) in rules {
            let mut conditions: Vec<String> = rule.when.conditions.iter().map(|known| format!("{known:?}")).collect();
            conditions.sort_unstable();
            conditions.dedup();
            let steps = [None, rule.step.as_deref()];
            let keys = combinations(&conditions);
            let covering = keys
                .iter()
                .flat_map(|key| steps.iter().map(move |step| blanket_key(*step, key)))
                .filter_map(|key| blankets.get(&key))
                .flatten()
                .find(|(operations, _)| covers(operations, &rule.when.operations));
            if let Some((_, earlier)) = covering {
                let message =
                    format!("this rule never applies: \"{}\" decides all that it matches", shown(&earlier.label));
                let hint = "move it up, or give the earlier rule `times`";
                self.problems.warning("scenario/unreachable-rule", span.clone(), message, hint);
            } else if rule.is_blanket() {
                let all: Vec<&str> = conditions.iter().map(String::as_str).collect();
                let key = blanket_key(rule.step.as_deref(), &all);
                blankets.entry(key).or_default().push((&rule.when.operations, rule));
            }
        }
    }
}

/// The sets of conditions under which to look up a blanket that covers a rule with these conditions.
fn combinations(conditions: &[String]) -> Vec<Vec<&str>> {
    if conditions.len() > MOST_COMBINED {
        let singles = conditions.iter().map(|condition| vec![condition.as_str()]);
        let all = conditions.iter().map(String::as_str).collect();
        return singles.chain([Vec::new(), all]).collect();
    }
    (0..1_u32 << conditions.len())
        .map(|mask| {
            let chosen = conditions.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
            chosen.map(|(_, condition)| condition.as_str()).collect()
        })
        .collect()
}

fn blanket_key(step: Option<&str>, conditions: &[&str]) -> String {
    format!("{step:?} {conditions:?}")
}

fn covers(earlier: &[Operation], later: &[Operation]) -> bool {
    earlier.is_empty() || (!later.is_empty() && later.iter().all(|operation| earlier.contains(operation)))
}
