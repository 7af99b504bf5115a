//! `[[rule]]`: when a rule applies and what it does, from text to checked rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::Map;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Fingerprints;
use super::keys;
use super::kinds::escaped;
use super::reader::{Parser, Table};
use crate::contract::error::ErrorKind;
use crate::scenario::action::{Action, Delay, Fault, Patch, ReplyBody, ScriptedReply};
use crate::scenario::rule::{NextStep, Rule, Sequence, Then};

impl Parser<'_> {
    pub(super) fn rules(&mut self, file: &Table<'_, '_>, scenario: &Arc<str>) -> Vec<Arc<Rule>> {
        let tables = self.tables(file, "rule");
        let mut fingerprints = Fingerprints::new(scenario, "rule");
        let mut rules = Vec::new();
        for (position, table) in (1..).zip(&tables) {
            let rule = self.rule(table, position, scenario, &mut fingerprints);
            rules.extend(rule.map(|rule| (table, rule)));
        }
        self.check_names("rule", &tables);
        self.warn_of_unreachable_steps(&rules);
        self.warn_of_unreachable_rules(&rules);
        for entry in rules.iter().flat_map(|(_, rule)| &rule.sequence.entries) {
            if let Action::Reply(reply) = &entry.action {
                self.scripted.insert(reply.status);
            }
        }
        rules.into_iter().map(|(_, rule)| Arc::new(rule)).collect()
    }

    fn rule(
        &mut self,
        table: &Table<'_, '_>,
        position: usize,
        scenario: &Arc<str>,
        fingerprints: &mut Fingerprints,
    ) -> Option<Rule> {
        let name = table.text("name");
        let when = self.table(table, "when");
        let step = when.as_ref().and_then(|when| when.text("step")).map(Arc::from);
        let when = when.map(|when| self.conditions(&when)).unwrap_or_default();
        let skip = table.integer("skip").unwrap_or(0);
        let times = table.integer("times");
        let every = table.integer("every").unwrap_or(1);
        let (from, to) = (table.duration("from"), table.duration("to"));
        let next = self.next(table);
        let sequence = self.sequence(table);
        self.warn_of_missing_parts(Some(&when));
        let rule = Rule {
            scenario: Arc::clone(scenario),
            label: name.map_or_else(|| format!("rule {position}").into(), Arc::from),
            line: self.line_of(&table.span),
            fingerprint: fingerprints.of(table.fields),
            story: fingerprints.story(),
            when,
            step,
            from,
            to,
            skip,
            times,
            every,
            chance: table.number("chance"),
            next,
            sequence: sequence?,
        };
        self.warn_of_contradictory_counts(table, &rule);
        self.warn_of_status_never_answered(table, &rule);
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

    fn next(&mut self, table: &Table<'_, '_>) -> Option<NextStep> {
        if let Some(step) = table.text("next") {
            return Some(NextStep { step: step.into(), status: None });
        }
        let next = self.table(table, "next")?;
        Some(NextStep { step: next.text("step")?.into(), status: next.status() })
    }

    fn sequence(&mut self, table: &Table<'_, '_>) -> Option<Sequence> {
        if !table.has("sequence") {
            let (action, delay) = self.delayed_action(table)?;
            if action.is_none() && !table.has("delay") && !table.has("next") {
                let hint = "add reply, patch, remove, delay, fault, sequence, or pass = true";
                let message = "the rule does not say what it does";
                return self.refuse("scenario/missing-key", table.span.clone(), message, hint);
            }
            return Some(Sequence::always(delay, action.unwrap_or(Action::Pass)));
        }
        let then = match table.text("then") {
            Some("stay") => Then::Stay,
            Some("repeat") => Then::Repeat,
            _ => Then::End,
        };
        if table.is_empty_array("sequence") {
            let hint = "for example sequence = [{ error = \"rate_limit_exceeded\", times = 2 }, { pass = true }]";
            self.error("scenario/missing-key", table.span_of("sequence"), "`sequence` has no steps", hint);
        }
        let tables = self.tables(table, "sequence");
        let entries: Vec<_> = tables.iter().filter_map(|entry| self.entry(entry)).collect();
        (!entries.is_empty()).then(|| Sequence::of(entries, then))
    }

    fn entry(&mut self, table: &Table<'_, '_>) -> Option<(u64, Option<Delay>, Action)> {
        let times = table.integer("times").unwrap_or(1);
        let is_written_out = table.first_of(&keys::REPLY.names()).is_some();
        let (action, delay) = if is_written_out {
            let (reply, delay) = (self.reply(table), self.delay(table));
            (Some(Action::Reply(Arc::new(reply?))), delay)
        } else {
            self.delayed_action(table)?
        };
        if action.is_none() && !table.has("delay") {
            let hint = "say { pass = true } for the ordinary answer";
            let message = "the step does not say what happens";
            return self.refuse("scenario/missing-key", table.span.clone(), message, hint);
        }
        Some((times, delay, action.unwrap_or(Action::Pass)))
    }

    /// The action and the delay of a rule or sequence entry, if it has them; `None` if the action is wrong. Both are read before either is given
    /// up, so that the problems of each are reported.
    fn delayed_action(&mut self, table: &Table<'_, '_>) -> Option<(Option<Action>, Option<Delay>)> {
        let key = table.first_of(&["reply", "fault", "pass", "patch", "remove"]);
        let action = key.and_then(|key| self.action(table, key));
        let delay = self.delay(table);
        let is_wrong = if key.is_some() { action.is_none() } else { table.has_unknown_key() };
        (!is_wrong).then_some((action, delay))
    }

    fn action(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Action> {
        Some(match key {
            "reply" => {
                let reply = self.table(table, "reply")?;
                Action::Reply(Arc::new(self.reply(&reply)?))
            }
            "fault" => Action::Fault(self.fault(table)?),
            "pass" => table.flag("pass").map(|_| Action::Pass)?,
            _ => Action::Patch(Arc::new(self.patch(table)?)),
        })
    }

    fn reply(&mut self, table: &Table<'_, '_>) -> Option<ScriptedReply> {
        let error = table.text("error").and_then(ErrorKind::from_name);
        let status = table.status();
        let code = table.text("code").map(str::to_owned);
        let message = table.text("message").map(str::to_owned);
        let is_literal = table.flag("templates") == Some(false);
        if !is_literal {
            self.check_templates(table, &["message", "body"]);
        }
        let headers = self.headers(table);
        let body = table.get("body").and_then(|body| {
            Some(match body.get_ref() {
                DeValue::String(text) => ReplyBody::Text(text.to_string().into()),
                _ => ReplyBody::json(self.json(body)?),
            })
        });
        let Some(status) = status.or_else(|| error.map(ErrorKind::status)) else {
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
                format!("the error `{name}` is sent with status {status}, which clients do not take for an error");
            let hint = format!("leave `status` out to send {}, or leave `error` out", error.status());
            // An error in a redirect may be meant.
            if status < 300 {
                self.error("scenario/error-status", table.span_of("status"), message, hint);
            } else {
                self.warning("scenario/error-status", table.span_of("status"), message, hint);
            }
        }
        if error.is_none() && (200..400).contains(&status) && !matches!(status, 204 | 205 | 304) {
            for key in [message.is_some().then_some("message"), code.is_some().then_some("code")].into_iter().flatten()
            {
                let why = format!(
                    "`{key}` is part of an error, but the status is {status}, which clients take for a success"
                );
                let hint = "choose a status of 400 or more, or write the whole answer in `body`";
                self.error("scenario/error-status", table.span_of(key), why, hint);
            }
        }
        if matches!(status, 204 | 205 | 304) && ["body", "code", "message", "error"].iter().any(|key| table.has(key)) {
            let message = format!("an answer with status {status} has no body");
            let hint = "drop the body, or choose another status";
            self.error("scenario/clash", table.span_of("status"), message, hint);
        }
        Some(ScriptedReply { error, status, code, message, headers, body, is_literal })
    }

    fn headers(&mut self, table: &Table<'_, '_>) -> Vec<(HeaderName, HeaderValue)> {
        let fields = table.fields_at("headers");
        fields.into_iter().flatten().filter_map(|(name, value)| self.header(name, value)).collect()
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
        if keys::FRAMING.contains(&name.as_str()) || name.as_str().starts_with(keys::OWN_PREFIX) {
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

    fn patch(&mut self, table: &Table<'_, '_>) -> Option<Patch> {
        let merge = if table.has("patch") { self.json_fields(table, "patch")? } else { Map::new() };
        let mut remove = Vec::new();
        for (span, pointer) in self.texts(table, "remove", "an array of JSON pointers") {
            if pointer.starts_with('/') {
                remove.push(pointer.to_owned());
                continue;
            }
            let message = format!("expected a JSON pointer, found \"{}\"", escaped(pointer));
            let right = escaped(&pointer.replace('.', "/"));
            let hint = format!("write \"/{right}\": a pointer begins with a slash");
            self.error("scenario/bad-pointer", span, message, hint);
        }
        if merge.is_empty() && remove.is_empty() && !self.has_errors() {
            let span = table.span_of(if table.has("patch") { "patch" } else { "remove" });
            self.warning("scenario/no-effect", span, "the patch changes nothing", "name a field to change");
        }
        Some(Patch { merge, remove })
    }

    /// The `delay` of a rule, sequence entry or emission.
    pub(super) fn delay(&mut self, table: &Table<'_, '_>) -> Option<Delay> {
        if let Some(delay) = table.duration("delay") {
            return Some(Delay::Fixed(delay));
        }
        let spread = self.table(table, "delay")?;
        let pairs = [("min", "max"), ("median", "p99")];
        let Some((low, high)) = pairs.into_iter().find(|(low, high)| spread.has(low) && spread.has(high)) else {
            let hint = "{ min = \"100ms\", max = \"2s\" } or { median = \"100ms\", p99 = \"2s\" }";
            let message = "a spread delay needs `min` and `max`, or `median` and `p99`";
            return self.refuse("scenario/missing-key", spread.span, message, hint);
        };
        for other in ["min", "max", "median", "p99"].into_iter().filter(|key| *key != low && *key != high) {
            let message = format!("`{other}` excludes `{low}` and `{high}`");
            self.clash(&spread, other, message, "keep one pair");
        }
        let (shortest, longest) = (spread.duration(low), spread.duration(high));
        let (shortest, longest) = (shortest?, longest?);
        if shortest > longest {
            let message = format!("`{low}` is longer than `{high}`");
            self.error("scenario/bad-value", spread.span, message, "swap the two");
        }
        Some(match low {
            "min" => Delay::Range { min: shortest, max: longest },
            _ => Delay::LogNormal { median: shortest, p99: longest },
        })
    }

    fn fault(&mut self, table: &Table<'_, '_>) -> Option<Fault> {
        let no_keys = DeTable::new();
        let fault = if table.text("fault").is_some() {
            Table::unchecked(&no_keys, &keys::FAULT, table.span_of("fault"))
        } else {
            self.table(table, "fault")?
        };
        let kind = table.text("fault").or_else(|| fault.text("kind"))?;
        let (bytes, duration, interval) =
            (fault.integer("bytes"), fault.duration("duration"), fault.duration("interval"));
        if bytes == Some(0) && matches!(kind, "garbage" | "drip") {
            let message = format!("`bytes` must be from 1 to {}, found 0", keys::MAX_BYTES);
            self.error("scenario/bad-value", fault.span_of("bytes"), message, fault.meaning("bytes"));
        }
        Some(match kind {
            "reset" => Fault::Reset,
            "empty" => Fault::Empty,
            "truncate" => Fault::Truncate { bytes },
            "garbage" => Fault::Garbage { bytes: bytes.unwrap_or(64) },
            "stall" => Fault::Stall { bytes: bytes.unwrap_or(0), duration },
            _ => Fault::Drip { bytes: bytes.unwrap_or(1), interval: interval.unwrap_or(Duration::from_millis(100)) },
        })
    }
}
