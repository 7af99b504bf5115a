//! `[[rule]]`: when a rule applies and its action, from text to checked rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::actions::{ANSWER, ONE_ANSWER, REPLY_RULES, RuleEffect, answer, outcome};
use super::keys::{KeyReader, TableKind};
use super::kinds::{ANY, KEEP_ONE, KeyRule, STATUS, TableKeys, ValueKind as Kind};
use super::reader::{Parser, Table};
use crate::scenario::action::Action;
use crate::scenario::rule::{NextStep, Rule, Sequence, SequenceStep, Then};
use crate::util::wording::quoted;

impl TableKind for Rule {
    const DEFINITION: &'static str = "rule";
    const PLACE: &'static str = "a `[[rule]]`";

    fn rules() -> Vec<KeyRule> {
        let mut rules = vec![
            KeyRule::Excludes(
                &["sequence"],
                &["reply", "patch", "remove", "fault", "pass", "delay"],
                "each step of the sequence has an action",
                KEEP_ONE,
            ),
            KeyRule::Needs("then", "sequence", "add `sequence`, or use `next` for a story's step"),
            KeyRule::AnyOf(&["reply", "patch", "remove", "delay", "fault", "sequence", "pass", "next"]),
        ];
        rules.extend(ONE_ANSWER);
        rules
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let name: Option<Arc<str>> = keys.name("name", "the rule's name in listings and explanations").map(Arc::from);
        let when = keys.table("when", "conditions for the request; every request if left out").unwrap_or_default();
        let skip = keys.integer("skip", 0..=ANY, "matching requests let through first").unwrap_or(0);
        let times = keys.integer("times", 1..=ANY, "how often the rule applies; without limit if left out");
        let every = keys.integer("every", 1..=ANY, "apply to each nth matching request").unwrap_or(1);
        let chance = keys.optional(
            "chance",
            Kind::Chance,
            "apply with this probability, greater than 0 and at most 1; fixed by --seed",
            |_, table, key| table.number(key),
        );
        let from = keys.duration("from", "apply from this long after activation");
        let to = keys.duration("to", "apply until this long after activation");
        let next = keys.optional(
            "next",
            Kind::TextOr(TableKeys::of::<NextStep>),
            "the step that the story moves to once the rule is used up; with { step = …, status = … }, only after an answer with this status",
            Parser::next_step,
        );
        let outcome = outcome(keys);
        let steps = keys.optional(
            "sequence",
            Kind::Steps(TableKeys::of::<SequenceStep>),
            "steps played one after the other, request by request",
            |parser, table, key| Some(parser.steps(table, key)),
        );
        let then = keys.one_of(
            "then",
            || Then::ALL.map(Then::name).to_vec(),
            "after the sequence: end (the default), stay at its last step, or repeat it",
            Then::from_name,
        );

        let (parser, table) = keys.input()?;
        let sequence = parser.sequence(table, outcome, steps.unwrap_or_default(), then.unwrap_or_default())?;
        Some(Self {
            scenario: Arc::clone(&parser.scenario),
            label: name.clone().unwrap_or_else(|| format!("rule {}", table.position).into()),
            line: parser.line_of(&table.span),
            fingerprint: parser.rule_prints.of(table.fields),
            story: parser.rule_prints.story(),
            name,
            when,
            skip,
            times,
            every,
            chance,
            from,
            to,
            next,
            sequence,
        })
    }
}

impl TableKind for NextStep {
    const DEFINITION: &'static str = "next";
    const PLACE: &'static str = "`next`";

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let step = keys.required("step", Kind::Name, "the step that the story moves to", |_, table, key| {
            table.text(key).map(Arc::from)
        });
        let status = keys.integer(
            "status",
            STATUS,
            "the status that the answer must have; an ordinary answer with another one does not count towards `times`",
        );
        Some(Self { step: step?, status })
    }
}

impl TableKind for SequenceStep {
    const DEFINITION: &'static str = "step";
    const PLACE: &'static str = "a sequence step";

    fn rules() -> Vec<KeyRule> {
        let mut rules = vec![
            KeyRule::Excludes(
                &ANSWER,
                &["reply", "fault", "pass", "patch", "remove"],
                "the step's answer is written out already",
                KEEP_ONE,
            ),
            KeyRule::AnyOf(&["error", "status", "reply", "patch", "remove", "delay", "fault", "pass"]),
        ];
        rules.extend_from_slice(REPLY_RULES);
        rules.extend(ONE_ANSWER);
        rules
    }

    fn from_keys(keys: &mut KeyReader<'_, '_>) -> Option<Self> {
        let answer = answer(keys);
        let mut outcome = outcome(keys);
        let times = keys.integer("times", 1..=ANY, "how many requests the step lasts; 1 if left out");

        let (parser, table) = keys.input()?;
        let is_written_out = ANSWER.iter().any(|key| table.has(key));
        let (action, delay) = if is_written_out {
            let reply = parser.checked_reply(table, answer)?;
            (Some(Action::Reply(Arc::new(reply))), outcome.delay.take())
        } else {
            parser.delayed_action(table, outcome)?
        };
        if action.is_none() && !table.has("delay") {
            let hint = "say { pass = true } for the ordinary answer";
            let message = "the step does not say what happens";
            return parser.refuse("scenario/missing-key", table.span.clone(), message, hint);
        }
        Some((times.unwrap_or(1), delay, action.unwrap_or(Action::Pass)))
    }
}

impl Parser<'_> {
    pub(super) fn rules(&mut self, file: &Table<'_, '_>, key: &'static str) -> Vec<Arc<Rule>> {
        let tables = self.open_tables::<Rule>(file, key);
        // Each with whether it is right: what a rule with an error does is not known yet.
        let mut rules = Vec::new();
        for table in &tables {
            let before = self.errors;
            let rule = self.read_table::<Rule>(table);
            let paths = self.take_request_paths();
            let Some(rule) = rule else { continue };
            let is_valid = self.errors == before;
            if is_valid {
                self.warn_of_missing_parts(Some(&rule.when), paths);
                self.warn_of_contradictory_counts(table, &rule);
                self.warn_of_nothing_to_change(table, &rule);
                self.warn_of_status_never_answered(table, &rule);
            }
            rules.push((table, rule, is_valid));
        }
        self.check_names("rule", &tables);
        self.warn_of_unreachable_steps(&rules);
        self.warn_of_unreachable_rules(&rules);
        for entry in rules.iter().flat_map(|(_, rule, _)| &rule.sequence.entries) {
            if let Action::Reply(reply) = &entry.action {
                self.scripted.insert(reply.status());
            }
        }
        rules.into_iter().map(|(_, rule, _)| Arc::new(rule)).collect()
    }

    /// The step at `next`: its name, or a table.
    fn next_step(&mut self, table: &Table<'_, '_>, key: &'static str) -> Option<NextStep> {
        match table.text(key) {
            Some(step) => Some(NextStep { step: step.into(), status: None }),
            None => self.table_at(table, key),
        }
    }

    /// Refuses names given twice: explanations could not distinguish the two.
    pub(super) fn check_names(&mut self, what: &str, tables: &[Table<'_, '_>]) {
        let mut lines = HashMap::new();
        for name in tables.iter().filter_map(|table| table.get("name")) {
            let Some(text) = name.get_ref().as_str() else { continue };
            let first = lines.entry(text).or_insert_with(|| name.span()).clone();
            if first != name.span() {
                let line = self.line_of(&first);
                let message = format!("another {what} is named \"{}\" already, on line {line}", quoted(text));
                self.error("scenario/duplicate-name", name.span(), message, "give each its own name");
            }
        }
    }

    fn sequence(
        &mut self,
        table: &Table<'_, '_>,
        outcome: RuleEffect,
        steps: Vec<SequenceStep>,
        then: Then,
    ) -> Option<Sequence> {
        if table.has("sequence") {
            return (!steps.is_empty()).then(|| Sequence::of(steps, then));
        }
        let (action, delay) = self.delayed_action(table, outcome)?;
        if action.is_none() && !table.has("delay") && !table.has("next") {
            let hint = "add reply, patch, remove, delay, fault, sequence, or pass = true";
            let message = "the rule has no action";
            return self.refuse("scenario/missing-key", table.span.clone(), message, hint);
        }
        Some(Sequence::always(delay, action.unwrap_or(Action::Pass)))
    }

    /// The steps of a sequence.
    fn steps(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<SequenceStep> {
        if table.is_empty_array(key) {
            let hint = "for example sequence = [{ error = \"rate_limit_exceeded\", times = 2 }, { pass = true }]";
            self.error("scenario/missing-key", table.span_of(key), "`sequence` has no steps", hint);
        }
        let tables = self.open_tables::<SequenceStep>(table, key);
        tables.iter().filter_map(|table| self.read_table(table)).collect()
    }
}
