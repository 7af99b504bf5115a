//! `[[rule]]`: when a rule applies and its action, from text to checked rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::Map;
use toml::Spanned;
use toml::de::DeValue;

use super::Fingerprints;
use super::declare::{KeyTable as _, Read, ReadKeys as _, read_names};
use super::kinds::{ANYTHING, ValueKind as Kind, escaped};
use super::reader::{Parser, Table};
use crate::contract::error::ErrorKind;
use crate::contract::reserved_headers::is_unscriptable;
use crate::scenario::action::{
    Action, Delay, Fault, FaultTable, MAX_BYTES, Outcome, Patch, ReplyBody, ScriptedReply, Spread, Step, fault_names,
};
use crate::scenario::rule::{NextStep, Rule, RuleTable, Sequence, Then};

/// How many requests a step lasts, its delay, and its action.
type Entry = (u64, Option<Delay>, Action);

impl Read for Vec<Arc<Rule>> {
    const KIND: Kind = Kind::Tables(RuleTable::table);

    fn read(parser: &mut Parser<'_>, file: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let tables = parser.tables(file, key);
        let mut fingerprints = Fingerprints::new(&parser.scenario, "rule");
        let mut rules = Vec::new();
        for (position, table) in (1..).zip(&tables) {
            let before = parser.errors;
            let rule = parser.rule(table, position, &mut fingerprints);
            rules.extend(rule.map(|rule| (table, rule, parser.errors == before)));
        }
        parser.check_names("rule", &tables);
        parser.warn_of_unreachable_steps(&rules);
        parser.warn_of_unreachable_rules(&rules);
        for entry in rules.iter().flat_map(|(_, rule, _)| &rule.sequence.entries) {
            if let Action::Reply(reply) = &entry.action {
                parser.scripted.insert(reply.status());
            }
        }
        Some(rules.into_iter().map(|(_, rule, _)| Arc::new(rule)).collect())
    }
}

impl Read for NextStep {
    const KIND: Kind = Kind::TextOr(Self::table);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        if let Some(step) = table.text(key) {
            return Some(Self { step: step.into(), status: None });
        }
        let next = parser.table(table, key)?;
        Self::read_keys(parser, &next)
    }
}

read_names!(Then);

impl Read for Arc<ScriptedReply> {
    const KIND: Kind = Kind::Table(ScriptedReply::table);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let table = parser.table(table, key)?;
        let reply = ScriptedReply::read_keys(parser, &table)?;
        parser.checked_reply(&table, reply).map(Arc::new)
    }
}

impl Read for ReplyBody {
    const KIND: Kind = ANYTHING;

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let body = table.get(key)?;
        Some(match body.get_ref() {
            DeValue::String(text) => Self::Text(text.to_string().into()),
            _ => Self::json(parser.json(body)?),
        })
    }
}

/// The `delay` of a rule, step or emission.
impl Read for Delay {
    const KIND: Kind = Kind::Delay(Spread::table);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        if let Some(delay) = table.duration(key) {
            return Some(Self::Fixed(delay));
        }
        let table = parser.table(table, key)?;
        let spread = Spread::read_keys(parser, &table)?;
        parser.checked_spread(&table, &spread)
    }
}

impl Read for Fault {
    const KIND: Kind = Kind::NameOr(fault_names, FaultTable::table);

    fn read(parser: &mut Parser<'_>, table: &Table<'_, '_>, key: &'static str) -> Option<Self> {
        let FaultTable { kind, bytes, duration, interval } = if let Some(kind) = table.text(key) {
            FaultTable { kind: kind.to_owned(), ..FaultTable::default() }
        } else {
            let table = parser.table(table, key)?;
            let fault = FaultTable::read_keys(parser, &table)?;
            if fault.bytes == Some(0) && matches!(fault.kind.as_str(), "garbage" | "drip") {
                let message = format!("`bytes` must be from 1 to {MAX_BYTES}, found 0");
                parser.error("scenario/bad-value", table.span_of("bytes"), message, table.meaning("bytes"));
            }
            fault
        };
        Some(match kind.as_str() {
            "reset" => Self::Reset,
            "empty" => Self::Empty,
            "truncate" => Self::Truncate { bytes },
            "garbage" => Self::Garbage { bytes: bytes.unwrap_or(64) },
            "stall" => Self::Stall { bytes: bytes.unwrap_or(0), duration },
            _ => Self::Drip { bytes: bytes.unwrap_or(1), interval: interval.unwrap_or(Duration::from_millis(100)) },
        })
    }
}

impl Parser<'_> {
    fn rule(&mut self, table: &Table<'_, '_>, position: usize, fingerprints: &mut Fingerprints) -> Option<Rule> {
        let before = self.errors;
        let RuleTable { rule, outcome, sequence, then } = RuleTable::read_keys(self, table)?;
        let sequence = self.sequence(table, outcome, sequence, then);
        let missing = self.missing_parts(Some(&rule.when));
        let rule = Rule {
            scenario: Arc::clone(&self.scenario),
            label: rule.name.clone().unwrap_or_else(|| format!("rule {position}").into()),
            line: self.line_of(&table.span),
            fingerprint: fingerprints.of(table.fields),
            story: fingerprints.story(),
            sequence: sequence?,
            ..rule
        };
        // What a rule with an error does is not known yet.
        if self.errors == before {
            self.warn_of_missing_parts(missing);
            self.warn_of_contradictory_counts(table, &rule);
            self.warn_of_nothing_to_change(table, &rule);
            self.warn_of_status_never_answered(table, &rule);
        }
        Some(rule)
    }

    /// Refuses names given twice: explanations could not distinguish the two.
    pub(super) fn check_names(&mut self, what: &str, tables: &[Table<'_, '_>]) {
        let mut lines = HashMap::new();
        for name in tables.iter().filter_map(|table| table.get("name")) {
            let Some(text) = name.get_ref().as_str() else { continue };
            let first = lines.entry(text).or_insert_with(|| name.span()).clone();
            if first != name.span() {
                let line = self.line_of(&first);
                let message = format!("another {what} is named \"{}\" already, on line {line}", escaped(text));
                self.error("scenario/duplicate-name", name.span(), message, "give each its own name");
            }
        }
    }

    fn sequence(&mut self, table: &Table<'_, '_>, outcome: Outcome, steps: Vec<Entry>, then: Then) -> Option<Sequence> {
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
    pub(crate) fn steps(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<Entry> {
        if table.is_empty_array(key) {
            let hint = "for example sequence = [{ error = \"rate_limit_exceeded\", times = 2 }, { pass = true }]";
            self.error("scenario/missing-key", table.span_of(key), "`sequence` has no steps", hint);
        }
        let tables = self.tables(table, key);
        tables.iter().filter_map(|table| self.step(table)).collect()
    }

    fn step(&mut self, table: &Table<'_, '_>) -> Option<Entry> {
        let Step { answer, mut outcome, times } = Step::read_keys(self, table)?;
        let is_written_out = ScriptedReply::KEYS.iter().any(|key| table.has(key.name));
        let (action, delay) = if is_written_out {
            let reply = self.checked_reply(table, answer)?;
            (Some(Action::Reply(Arc::new(reply))), outcome.delay.take())
        } else {
            self.delayed_action(table, outcome)?
        };
        if action.is_none() && !table.has("delay") {
            let hint = "say { pass = true } for the ordinary answer";
            let message = "the step does not say what happens";
            return self.refuse("scenario/missing-key", table.span.clone(), message, hint);
        }
        Some((times, delay, action.unwrap_or(Action::Pass)))
    }

    /// The action and the delay of a rule or step, if it has them; `None` if the action is wrong.
    fn delayed_action(&mut self, table: &Table<'_, '_>, outcome: Outcome) -> Option<(Option<Action>, Option<Delay>)> {
        let Outcome { reply, patch, remove, delay, fault, pass } = outcome;
        let Some(key) = table.first_of(&["reply", "fault", "pass", "patch", "remove"]) else {
            return (!table.has_unknown_key()).then_some((None, delay));
        };
        let action = match key {
            "reply" => Action::Reply(reply?),
            "fault" => Action::Fault(fault?),
            "pass" => pass.then_some(Action::Pass)?,
            _ => {
                let merge = if table.has("patch") { patch? } else { Map::new() };
                if merge.is_empty() && remove.is_empty() && !self.has_errors() {
                    self.warning(
                        "scenario/no-effect",
                        table.span_of(key),
                        "the patch changes nothing",
                        "name a field to change",
                    );
                }
                Action::Patch(Arc::new(Patch { merge, remove }))
            }
        };
        Some((Some(action), delay))
    }

    /// The reply, if it has contents.
    fn checked_reply(&mut self, table: &Table<'_, '_>, reply: ScriptedReply) -> Option<ScriptedReply> {
        if reply.templates {
            self.check_templates(table, &["message", "body"]);
        }
        let error = reply.error;
        let Some(status) = reply.status.or_else(|| error.map(ErrorKind::status)) else {
            if !table.has_unknown_key() && !table.has("status") && !table.has("error") {
                let hint = "for example error = \"unauthorized\", or status = 422";
                let message = "the reply needs an `error` or a `status`";
                self.error("scenario/missing-key", table.span.clone(), message, hint);
            }
            return None;
        };
        if let (Some(error), true, 200..400) = (error, table.has("status"), status) {
            let name = error.name();
            let message =
                format!("the error `{name}` is sent with status {status}, which clients do not see as an error");
            let hint = format!("leave `status` out to send {}, or leave `error` out", error.status());
            // An error in a redirect may be meant.
            if status < 300 {
                self.error("scenario/error-status", table.span_of("status"), message, hint);
            } else {
                self.warning("scenario/error-status", table.span_of("status"), message, hint);
            }
        }
        if error.is_none() && (200..400).contains(&status) && !matches!(status, 204 | 205 | 304) {
            let parts = [reply.message.is_some().then_some("message"), reply.code.is_some().then_some("code")];
            for key in parts.into_iter().flatten() {
                let why =
                    format!("`{key}` is part of an error, but the status is {status}, which clients see as a success");
                let hint = "choose a status of 400 or more, or write the whole answer in `body`";
                self.error("scenario/error-status", table.span_of(key), why, hint);
            }
        }
        if matches!(status, 204 | 205 | 304) && ["body", "code", "message", "error"].iter().any(|key| table.has(key)) {
            let message = format!("an answer with status {status} has no body");
            let hint = "drop the body, or choose another status";
            self.error("scenario/clash", table.span_of("status"), message, hint);
        }
        self.warn_of_quota_never_sent(table, &reply);
        Some(reply)
    }

    pub(crate) fn headers(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let fields = table.fields_at(key).into_iter().flatten();
        fields.filter_map(|(name, value)| self.header(name, value)).collect()
    }

    fn header(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<(HeaderName, HeaderValue)> {
        let Ok(name) = HeaderName::from_bytes(key.get_ref().as_bytes()) else {
            let message = format!("`{}` is not a valid header name", escaped(key.get_ref()));
            return self.refuse("scenario/bad-value", key.span(), message, "for example Retry-After = \"5\"");
        };
        if is_unscriptable(&name) {
            let message = format!("the header `{name}` cannot be scripted");
            let hint = "to break the connection, use `fault`";
            return self.refuse("scenario/bad-value", key.span(), message, hint);
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                self.wrong_type(name.as_str(), "a string", value, "");
                return None;
            }
        };
        if text.contains("{{") || text.contains("{%") {
            let message = "templates are not rendered in headers";
            let hint = "use them in `body` or `message`";
            return self.refuse("scenario/bad-template", value.span(), message, hint);
        }
        let Ok(text) = HeaderValue::from_str(&text) else {
            let message = format!("the value of the header `{name}` holds characters that no header may hold");
            return self.refuse("scenario/bad-value", value.span(), message, "use visible ASCII characters");
        };
        Some((name, text))
    }

    /// JSON pointers, one or several.
    pub(crate) fn pointers(&mut self, table: &Table<'_, '_>, key: &'static str) -> Vec<String> {
        let mut pointers = Vec::new();
        for (span, pointer) in self.texts(table, key, "an array of JSON pointers") {
            if pointer.starts_with('/') {
                pointers.push(pointer.to_owned());
                continue;
            }
            let message = format!("expected a JSON pointer, found \"{}\"", escaped(pointer));
            let right = escaped(&pointer.replace('.', "/"));
            let hint = format!("write \"/{right}\": a pointer begins with a slash");
            self.error("scenario/bad-pointer", span, message, hint);
        }
        pointers
    }

    fn checked_spread(&mut self, table: &Table<'_, '_>, spread: &Spread) -> Option<Delay> {
        let pairs = [("min", "max"), ("median", "p99")];
        let Some((low, high)) = pairs.into_iter().find(|(low, high)| table.has(low) && table.has(high)) else {
            let hint = "{ min = \"100ms\", max = \"2s\" } or { median = \"100ms\", p99 = \"2s\" }";
            let message = "a spread delay needs `min` and `max`, or `median` and `p99`";
            return self.refuse("scenario/missing-key", table.span.clone(), message, hint);
        };
        for other in ["min", "max", "median", "p99"].into_iter().filter(|key| *key != low && *key != high) {
            let message = format!("`{other}` excludes `{low}` and `{high}`");
            self.clash(table, other, message, "keep one pair");
        }
        let delay = match low {
            "min" => Delay::Range { min: spread.min?, max: spread.max? },
            _ => Delay::LogNormal { median: spread.median?, p99: spread.p99? },
        };
        if let Delay::Range { min: short, max: long } | Delay::LogNormal { median: short, p99: long } = delay
            && short > long
        {
            let message = format!("`{low}` is longer than `{high}`");
            self.error("scenario/bad-value", table.span.clone(), message, "swap the two");
        }
        Some(delay)
    }
}
